"""`windlass db`: brings a database's schema up to date, and moves an embedded installation to PostgreSQL."""

import click

from windlass.cli.output.tables import print_json
from windlass.cli.runner import run_async
from windlass.maintenance import copy_to_postgres, migrate_database
from windlass.settings import load_settings, mask_secrets

SHARDS_MAX = 1_000


@click.group()
def command() -> None:
    """Bring a database up to date, or move to another one."""


@command.command("migrate")
@click.option("--database", metavar="URL", help="Which one (default: database_url of the settings).")
def migrate(database: str | None) -> int:
    """Bring the tables of a database up to date.

    Engines and servers do so themselves when they start; do it beforehand where they may not make tables.
    """
    settings = load_settings({} if database is None else {"database_url": database}).settings
    steps = run_async(migrate_database(settings))
    done = f"{steps} migration{'s' if steps != 1 else ''} applied" if steps else "nothing to do"
    click.echo(f"{mask_secrets(settings.database_url)}: {done}")
    return 0


@command.command("copy")
@click.argument("source", metavar="SQLITE_URL")
@click.argument("target", metavar="POSTGRES_URL")
@click.option("--shards", type=click.IntRange(1, SHARDS_MAX), help="Over how many to spread the jobs (engine.shards).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def copy(source: str, target: str, shards: int | None, as_json: bool) -> int:
    """Move an embedded installation to an empty PostgreSQL database: definitions, history, unfinished jobs.

    Nothing may work on either database meanwhile. Everything arrives, checked row by row, or nothing does; the source
    stays as it is. Large values stay in their artifact store: let artifacts.url of the new installation name it.
    """
    flags = {"database_url": source} | ({} if shards is None else {"engine.shards": shards})
    settings = load_settings(flags).settings
    copied = run_async(copy_to_postgres(settings, target))
    if as_json:
        print_json({"tables": copied, "shards": settings.engine.shards})
        return 0
    name_width, row_width = max(len(one.name) for one in copied), max(len(f"{one.rows:,}") for one in copied)
    for one in copied:
        click.echo(f"{one.name:<{name_width}}  {one.rows:>{row_width},}  {one.checksum}")
    click.echo(
        f"all rows arrived, and the same on both sides; the jobs are spread over {settings.engine.shards} shards"
    )
    return 0
