"""The `windlass` command: selects the sub-command, and turns errors into messages and exit codes.

Sub-commands are imported when they are called, so that `windlass --version` is fast.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import click

from windlass import __version__
from windlass.cli.exit_codes import COMPLETED, FAILED, INTERRUPTED, INVALID
from windlass.core.errors import CommitUnknown, StaleLease, WindlassError

# Each is `command` in the module of its name.
COMMANDS = {
    "bench": "Measure the performance of the engine on this machine.",
    "completion": "Print the completion script of a shell.",
    "config": "Show the effective settings and their origins.",
    "db": "Migrate a database, or copy it to PostgreSQL.",
    "deliveries": "List webhook deliveries, and repeat them.",
    "deploy": "Deploy workflows to a server.",
    "dev": "Start everything in one process, with the workflows of a directory.",
    "engine": "Start an engine on a shared database.",
    "graph": "Draw a workflow as text, Mermaid or DOT.",
    "jobs": "List, show, cancel and retry jobs.",
    "run": "Run a workflow in this process until it finishes.",
    "runs": "List, show and cancel runs.",
    "schedules": "List, pause and trigger schedules.",
    "server": "Start the API server.",
    "trigger": "Start a job on a server.",
    "validate": "Check workflow files and list all problems.",
    "worker": "Start a worker on a shared database.",
    "workers": "List the workers of a server.",
}

# Errors that the caller's arguments did not cause.
INTERNAL_ERRORS = (CommitUnknown, StaleLease)


class LazyGroup(click.Group):
    """A group that imports a sub-command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return import_module(f"windlass.cli.commands.{cmd_name}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


def print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    """Print the version and exit."""
    if value:
        click.echo(f"windlass {__version__}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Windlass is a durable workflow engine."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code."""
    code = call(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the pipe closed it. Without this, the interpreter's flush at exit would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def call(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    try:
        outcome = cli.main(args=arguments, prog_name="windlass", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return INVALID
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        return FAILED
    except WindlassError as error:
        click.echo(f"error: {error}", err=True)
        return FAILED if isinstance(error, INTERNAL_ERRORS) else INVALID
    except Exception as error:
        click.echo(f"error: internal error, please report it: {error!r}", err=True)
        # Only bug reports need it.
        import traceback

        traceback.print_exc()
        return FAILED
    return outcome if isinstance(outcome, int) else COMPLETED
