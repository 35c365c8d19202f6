"""`windlass bench`: measures the engine on this machine."""

import click
import msgspec

REPEATS = 5
BENCHMARKS = ("chain", "fan", "jobs", "bigfan", "idle", "cold", "large", "loop", "million")
# A loop of a million items takes minutes.
DEFAULT_BENCHMARKS = tuple(name for name in BENCHMARKS if name != "million")


@click.command()
@click.argument("benchmarks", nargs=-1, type=click.Choice(BENCHMARKS), metavar="[BENCHMARK]...")
@click.option(
    "--repeats",
    type=click.IntRange(1),
    default=REPEATS,
    show_default=True,
    help="Repeats of short benchmarks.",
)
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
def command(benchmarks: tuple[str, ...], repeats: int, as_json: bool) -> int:
    """Measure an embedded engine on this machine: durable commits, events on, one process.

    \b
    chain    100 nodes in sequence
    fan      1,000 parallel nodes
    jobs     1,000 jobs of 3 nodes
    bigfan   10,000 parallel nodes
    idle     CPU time and memory without work
    cold     the start of `windlass run`
    large    a workflow of 100,000 nodes
    loop     a loop over 100,000 elements
    million  a loop over 1,000,000 elements; only if named

    Prints a table, then the same as JSON.
    """
    # The suite imports engines and stores, which the help does not need.
    from windlass.cli.bench.measurement import format_table
    from windlass.cli.bench.suite import run_benchmarks

    measurements = run_benchmarks(benchmarks or DEFAULT_BENCHMARKS, repeats)
    if not as_json:
        click.echo(format_table(measurements))
    click.echo(msgspec.json.encode(measurements))
    return 0
