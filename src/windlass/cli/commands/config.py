"""`windlass config`: the effective settings and their origins."""

import click
import msgspec

from windlass.cli.options import AS_JSON
from windlass.cli.output.console import print_json
from windlass.settings import load_settings, mask_secrets


@click.command()
@AS_JSON
def command(as_json: bool) -> int:
    """Show the effective settings and their origins.

    Sources, later ones override earlier ones: defaults, windlass.toml in the current directory, environment variables
    (WINDLASS_WORKER__THREADS sets worker.threads), flags of a command. Passwords and secrets are shown as ***.
    """
    settings = load_settings().effective
    values = {setting.key: mask_secrets(setting.value, setting.key) for setting in settings}
    if as_json:
        print_json({one.key: {"value": values[one.key], "origin": one.origin} for one in settings})
        return 0
    texts = {key: msgspec.json.encode(value).decode() for key, value in values.items()}
    key_width = max(map(len, texts))
    value_width = max(map(len, texts.values()))
    for setting in settings:
        click.echo(f"{setting.key:<{key_width}}  {texts[setting.key]:<{value_width}}  {setting.origin}")
    return 0
