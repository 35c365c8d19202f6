"""The `windlass` command: finds the sub-command, and turns errors into messages and exit codes.

Sub-commands are imported when they are called, so that `windlass --version` costs nothing.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import click

from windlass import __version__
from windlass.core.errors import CommitUnknown, StaleLease, WindlassError

COMPLETED = 0
FAILED = 1
UNUSABLE = 2
INTERRUPTED = 130

# Each is `command` in the module of its name.
COMMANDS = {
    "bench": "Measure this machine: jobs and tasks a second, latency.",
    "completion": "Print the completion script of a shell.",
    "config": "Show the settings in force and where each comes from.",
    "db": "Bring a database up to date, or move to PostgreSQL.",
    "deliveries": "See what became of webhooks, and deliver them once more.",
    "deploy": "Store workflows on a server.",
    "dev": "Start everything in one process, with the workflows of a folder.",
    "engine": "Drive jobs on a shared database, beside other engines.",
    "graph": "Draw a workflow as text, Mermaid or DOT.",
    "jobs": "Look into jobs, stop them and run them again.",
    "run": "Run a workflow here, to its end.",
    "runs": "Look at runs, and stop them.",
    "schedules": "See, pause and trigger what starts by itself.",
    "server": "Serve the API, with the engine and a worker behind it.",
    "trigger": "Start a job on a server.",
    "validate": "Check workflow documents and list every problem.",
    "worker": "Run tasks of queues, beside other workers.",
    "workers": "List the workers of a server.",
}

# Nothing was wrong with what the caller asked for.
OPERATIONAL = (CommitUnknown, StaleLease)


class LazyGroup(click.Group):
    """A group that imports a sub-command when it is called; its help needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return import_module(f"windlass.cli.commands.{cmd_name}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


def print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        click.echo(f"windlass {__version__}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=print_version, help="Show it.")
def cli() -> None:
    """Windlass: workflows that finish correctly whatever crashes."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave the process with its exit code."""
    code = call(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of a pipe left early; the interpreter's own flush at exit must not complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def call(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; its exit code."""
    try:
        outcome = cli.main(args=arguments, prog_name="windlass", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return UNUSABLE
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        return FAILED
    except WindlassError as error:
        click.echo(f"error: {error}", err=True)
        return FAILED if isinstance(error, OPERATIONAL) else UNUSABLE
    except Exception as error:
        click.echo(f"error: this is a defect of Windlass, please report it: {error!r}", err=True)
        # Only here, and only for a report: the frames that led to the defect.
        import traceback

        traceback.print_exc()
        return FAILED
    return outcome if isinstance(outcome, int) else COMPLETED
