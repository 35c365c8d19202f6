"""`windlass bench`: measures the engine on this machine."""

import click


@click.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> int:
    """Measure the engine on this machine; the arguments are those of windlass.cli.measurements."""
    # The benchmarks bring engines, stores and workers with them; the help of this command needs none of it.
    from windlass.cli.measurements import main

    return main(arguments)
