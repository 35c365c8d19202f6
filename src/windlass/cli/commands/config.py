"""`windlass config`: the settings in force and where each comes from."""

import click
import msgspec

from windlass.settings import load_settings, mask_secrets


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object: setting -> {value, origin}.")
def command(as_json: bool) -> int:
    """Show the settings in force and where each comes from.

    Each comes from the defaults, windlass.toml in this folder, or a WINDLASS_* variable (WINDLASS_WORKER__THREADS sets
    worker.threads); the later of these wins, and flags of a command win over all of them. Passwords are not shown.
    """
    effective = load_settings().effective
    shown = {one.key: (mask_secrets(one.value, one.key), one.origin) for one in effective}
    if as_json:
        document = {key: {"value": value, "origin": origin} for key, (value, origin) in shown.items()}
        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))
        return 0
    values = {key: msgspec.json.encode(value).decode() for key, (value, _) in shown.items()}
    key_width, value_width = max(map(len, values)), max(map(len, values.values()))
    for key, (_, origin) in shown.items():
        click.echo(f"{key:<{key_width}}  {values[key]:<{value_width}}  {origin}")
    return 0
