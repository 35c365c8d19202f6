"""`windlass db`: migrates a database, and copies an embedded one to PostgreSQL."""

import click

from windlass.cli.options import AS_JSON, DATABASE
from windlass.cli.output.console import print_json
from windlass.cli.output.text import plural
from windlass.cli.runner import run_async
from windlass.maintenance import copy_to_postgres, migrate_database
from windlass.settings_loader import load_settings, mask_secrets


@click.group()
def command() -> None:
    """Migrate a database, or copy it to PostgreSQL."""


@command.command("migrate")
@DATABASE
def migrate(database: str | None) -> int:
    """Migrate the tables of a database to this version.

    Engines and servers migrate when they start. Run this command beforehand if their role may not create tables.
    """
    settings = load_settings({"database_url": database}).settings
    count = run_async(migrate_database(settings))
    outcome = "up to date"
    if count:
        outcome = f"{plural(count, 'migration')} applied"
    click.echo(f"{mask_secrets(settings.database_url)}: {outcome}")
    return 0


@command.command("copy")
@click.argument("source", metavar="SQLITE_URL")
@click.argument("target", metavar="POSTGRES_URL")
@click.option(
    "--shards", type=int, help="Number of shards of the copy (default: the setting engine.shards)."
)
@AS_JSON
def copy(source: str, target: str, shards: int | None, as_json: bool) -> int:
    """Copy an embedded database to an empty PostgreSQL database.

    Stop all processes that use either database first. The copy is one transaction: row counts and checksums of all
    tables are compared before it commits. The source does not change. Artifacts are not copied: set artifacts.url of
    the new installation to the existing artifact store.
    """
    settings = load_settings({"database_url": source, "engine.shards": shards}).settings
    tables = run_async(copy_to_postgres(settings, target))
    if as_json:
        print_json({"tables": tables, "shards": settings.engine.shards})
        return 0
    name_width = max(len(table.name) for table in tables)
    count_width = max(len(f"{table.rows:,}") for table in tables)
    for table in tables:
        click.echo(f"{table.name:<{name_width}}  {table.rows:>{count_width},}  {table.checksum}")
    click.echo(
        f"copied: all rows verified, jobs distributed over {plural(settings.engine.shards, 'shard')}"
    )
    return 0
