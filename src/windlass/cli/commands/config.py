"""`windlass config`: the effective settings and their origins."""

from collections.abc import Mapping, Sequence

import click
import msgspec

from windlass.cli.exit_codes import COMPLETED, INVALID
from windlass.cli.options import AS_JSON
from windlass.cli.output.console import print_json
from windlass.settings_loader import EffectiveSetting, mask_secrets, read_settings
from windlass.settings_rules import contradictions


@click.command()
@AS_JSON
def command(as_json: bool) -> int:
    """Show the effective settings and their origins.

    Sources, later ones override earlier ones: defaults, windlass.toml in the current directory, environment variables
    (WINDLASS_WORKER__THREADS sets worker.threads), flags of a command. Passwords and secrets are shown as ***.
    Problems are listed last; the exit code is then 2.
    """
    loaded = read_settings()
    settings = loaded.effective
    values = {setting.key: mask_secrets(setting.value, setting.key) for setting in settings}
    if as_json:
        print_json({one.key: {"value": values[one.key], "origin": one.origin} for one in settings})
    else:
        _print_table(settings, values)
    problems = (*loaded.problems, *contradictions(loaded.settings))
    for problem in problems:
        click.echo(f"error: {problem}", err=True)
    return INVALID if problems else COMPLETED


def _print_table(settings: Sequence[EffectiveSetting], values: Mapping[str, object]) -> None:
    texts = {key: msgspec.json.encode(value).decode() for key, value in values.items()}
    key_width = max(map(len, texts))
    value_width = max(map(len, texts.values()))
    for setting in settings:
        click.echo(
            f"{setting.key:<{key_width}}  {texts[setting.key]:<{value_width}}  {setting.origin}"
        )
