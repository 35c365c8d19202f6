"""Measures the embedded engine: durable, events on, one process, no-op `echo` nodes through the ordinary path."""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Raw, Struct, structs

from windlass.cli.runner import run_async
from windlass.process import Embedded, open_embedded
from windlass.settings import Settings
from windlass.spec import definition_json, read_definition

REPEATS = 5
IDLE_SECONDS = 5.0
LARGE_LANES, LARGE_DEPTH = 1_000, 100
SMALL_LANES, SMALL_DEPTH = 100, 10
LOOP_WINDOW, LOOP_FAN, LOOP_SMALL = 1_000, 10_000, 1_000
# Items that fit into the input of a job.
LOOP_INPUT_MAX = 100_000

Document = dict[str, Any]
T = TypeVar("T")
NO_INPUT: Document = {}


class Figure(Struct, frozen=True):
    """One measured number: the median of the repeats, and the best."""

    workload: str
    unit: str
    median: float
    best: float
    repeats: int
    goal: str = ""


def chain(length: int) -> Document:
    """Nodes one after another."""
    nodes: Document = {"n0": {"handler": "echo"}}
    for number in range(1, length):
        nodes[f"n{number}"] = {"handler": "echo", "dependencies": [f"n{number - 1}"]}
    return {"workflow_id": f"chain_{length}", "nodes": nodes}


def fan(width: int) -> Document:
    """One node, then many side by side, then one."""
    nodes: Document = {"first": {"handler": "echo"}}
    for number in range(width):
        nodes[f"n{number}"] = {"handler": "echo", "dependencies": ["first"]}
    nodes["last"] = {"handler": "echo", "dependencies": [f"n{number}" for number in range(width)]}
    return {"workflow_id": f"fan_{width}", "nodes": nodes}


def lanes(count: int, depth: int) -> Document:
    """Chains side by side, from one node to one node."""
    nodes: Document = {"first": {"handler": "echo"}}
    for lane in range(count):
        for step in range(depth):
            before = "first" if step == 0 else f"n{lane}_{step - 1}"
            nodes[f"n{lane}_{step}"] = {"handler": "echo", "dependencies": [before]}
    nodes["last"] = {"handler": "echo", "dependencies": [f"n{lane}_{depth - 1}" for lane in range(count)]}
    return {"workflow_id": f"lanes_{count}_{depth}", "nodes": nodes}


async def deployed(engine: Embedded, document: Document) -> str:
    """Deploy a document; its workflow id."""
    definition, _ = read_definition(document)
    return (await engine.deploy(definition)).workflow_id


async def run_once(engine: Embedded, workflow_id: str, nodes: int) -> float:
    """Seconds for one job, from the submit to its durable end."""
    began = time.perf_counter()
    job = await engine.submit(workflow_id, {})
    ended = await engine.wait(job.spec.job_id)
    seconds = time.perf_counter() - began
    assert ended.state.status == "completed", ended
    assert len(await engine.store.jobs.nodes(job.spec.job_id)) == nodes
    return seconds


async def run_jobs(engine: Embedded, workflow_id: str, count: int) -> float:
    """Seconds for many jobs, from the submits to the last durable end."""
    began = time.perf_counter()
    jobs = await engine.submit_all(workflow_id, [NO_INPUT] * count)
    for job in jobs:
        await engine.wait_end(job.spec.job_id)
    return time.perf_counter() - began


async def with_engine(act: Callable[[Embedded], Awaitable[T]]) -> T:
    """Run on a new database in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        async with open_embedded(Settings(database_url=f"sqlite:///{folder}/bench.db")) as engine:
            await run_once(engine, await deployed(engine, chain(20)), 20)
            return await act(engine)


async def figure(name: str, document: Document, repeats: int, *, per_node: bool, goal: str) -> Figure:
    """Milliseconds a node, or nodes a second, of one job of the document."""
    nodes = len(document["nodes"])

    async def act(engine: Embedded) -> list[float]:
        workflow_id = await deployed(engine, document)
        return [await run_once(engine, workflow_id, nodes) for _ in range(repeats)]

    seconds = await with_engine(act)
    if per_node:
        values = [one / nodes * 1000 for one in seconds]
        return Figure(name, "ms/node", statistics.median(values), min(values), repeats, goal)
    values = [nodes / one for one in seconds]
    return Figure(name, "nodes/s", statistics.median(values), max(values), repeats, goal)


async def jobs_figure(count: int, repeats: int) -> Figure:
    """Nodes a second over many small jobs."""

    async def act(engine: Embedded) -> list[float]:
        workflow_id = await deployed(engine, chain(3))
        return [3 * count / await run_jobs(engine, workflow_id, count) for _ in range(repeats)]

    values = await with_engine(act)
    return Figure(
        f"jobs: {count} jobs of 3 nodes", "nodes/s", statistics.median(values), max(values), repeats, ">= 20,000"
    )


def checked(file: Path) -> tuple[float, int, str, Raw]:
    """The seconds that the definition in a file takes to validate, its nodes, its id, and itself, encoded."""
    text = file.read_text("utf-8")
    began = time.perf_counter()
    definition, _ = read_definition(text, format="json")
    seconds = time.perf_counter() - began
    return seconds, len(definition.nodes), definition.workflow_id, definition_json(definition)


async def large(file: Path) -> None:
    """A large workflow beside a small one, for `--large-child`."""
    validate_seconds, nodes, large_id, encoded = checked(file)
    small = lanes(SMALL_LANES, SMALL_DEPTH)
    small_nodes = len(small["nodes"])

    async def act(engine: Embedded) -> None:
        small_id = await deployed(engine, small)
        await engine.deploy_encoded(large_id, encoded)
        costs: list[float] = []

        async def compare() -> None:
            costs.extend([await run_once(engine, small_id, small_nodes) / small_nodes for _ in range(REPEATS)])

        # Before and after: a machine that others use is not equally fast all the time.
        await compare()
        seconds = await run_once(engine, large_id, nodes)
        peak = peak_mb()
        await compare()
        told = {"validate": validate_seconds, "speed": nodes / seconds, "peak_mb": peak}
        print(json.dumps({**told, "growth": seconds / nodes / statistics.median(costs)}))

    await with_engine(act)


def large_figures() -> list[Figure]:
    """A workflow of 100,000 nodes, in a process of its own: its validation, its run, its cost against one of 1,000."""
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        file = Path(folder) / "large.json"
        file.write_text(json.dumps(lanes(LARGE_LANES, LARGE_DEPTH)), "utf-8")
        told = in_child("--large-child", str(file))
    name = f"{LARGE_LANES * LARGE_DEPTH:,} nodes"
    return [
        Figure(f"{name}: validate (JSON)", "s", told["validate"], told["validate"], 1, "< 3"),
        Figure(f"{name}: run", "nodes/s", told["speed"], told["speed"], 1),
        Figure(f"{name}: cost a node, against 1,000", "x", told["growth"], told["growth"], 1, "<= 1.2"),
        Figure(f"{name}: peak memory", "MB", told["peak_mb"], told["peak_mb"], 1, "< 400"),
    ]


def loop(window: int) -> Document:
    """One node that loops over the input's items."""
    looping = {"collection": "{{ input.items }}", "element": "item", "concurrency": window}
    return {
        "workflow_id": "loop",
        "nodes": {"each": {"handler": "echo", "loop": looping, "params": {"item": "{{ item }}"}}},
    }


def made_loop(window: int) -> Document:
    """The same over what a node before it makes: no input is as large as a million items."""
    code = "def main(count):\n    return list(range(count))"
    looping = loop(window)
    looping["workflow_id"] = "made_loop"
    each = looping["nodes"]["each"]
    each["loop"]["collection"], each["dependencies"] = "{{ make.output }}", ["make"]
    looping["nodes"]["make"] = {"handler": "python", "params": {"code": code, "count": "{{ input.items }}"}}
    return looping


async def run_loop(engine: Embedded, workflow_id: str, items: int) -> tuple[str, float]:
    """Run a loop over so many items: the job, and the seconds for each item."""
    began = time.perf_counter()
    job = await engine.submit(workflow_id, {"items": list(range(items)) if items <= LOOP_INPUT_MAX else items})
    await engine.wait_end(job.spec.job_id)
    return job.spec.job_id, (time.perf_counter() - began) / items


async def check_loop(engine: Embedded, job_id: str, items: int) -> None:
    """All results of a loop are there, in order, and so are its events."""
    results = json.loads(bytes((await engine.result(job_id, bytes_max=1 << 30)).result_data))["each"]
    assert [one["echoed_params"]["item"] for one in results] == list(range(items))
    # Three for each item; the others tell of the job, its loop and its one or two nodes.
    assert (await engine.store.jobs.get(job_id)).seq == 3 * items + (9 if items <= LOOP_INPUT_MAX else 13)


async def loops(items: int) -> None:
    """One large loop beside a fan-out and a small loop, for `--loop-child`."""

    async def act(engine: Embedded) -> None:
        workflow_id = await deployed(engine, loop(LOOP_WINDOW))
        fan_id = await deployed(engine, fan(LOOP_FAN))
        fans: list[float] = []
        small: list[float] = []

        async def compare() -> None:
            for _ in range(REPEATS):
                fans.append(LOOP_FAN / await run_once(engine, fan_id, LOOP_FAN + 2))
                small.append((await run_loop(engine, workflow_id, LOOP_SMALL))[1])

        # Before and after: a machine that others use is not equally fast all the time.
        await compare()
        large_id = workflow_id if items <= LOOP_INPUT_MAX else await deployed(engine, made_loop(LOOP_WINDOW))
        job_id, large = await run_loop(engine, large_id, items)
        peak = peak_mb()
        await compare()
        await check_loop(engine, job_id, items)
        told = {"fan": statistics.median(fans), "small": statistics.median(small), "large": large, "peak_mb": peak}
        print(json.dumps(told))

    await with_engine(act)


def loop_figures(items: int, *, with_goals: bool) -> list[Figure]:
    """A large loop, measured in a process of its own: beside a fan-out, against a small loop, and its memory."""
    told = in_child("--loop-child", str(items))
    name = f"loop of {items:,}"
    speed, share, growth = 1 / told["large"], 1 / told["large"] / told["fan"] * 100, told["large"] / told["small"]
    goals = (">= 60", "<= 1.2", "< 400") if with_goals else ("", "", "")
    return [
        Figure(f"{name}: run", "items/s", speed, speed, 1),
        Figure(f"{name}: of the speed of a fan of {LOOP_FAN:,}", "%", share, share, 1, goals[0]),
        Figure(f"{name}: cost an item, against {LOOP_SMALL:,}", "x", growth, growth, 1, goals[1]),
        Figure(f"{name}: peak memory", "MB", told["peak_mb"], told["peak_mb"], 1, goals[2]),
    ]


async def idle() -> None:
    """An engine with nothing to do, for `--idle-child`: tells its CPU time over a few seconds and its memory."""

    async def act(engine: Embedded) -> None:
        await asyncio.sleep(1.0)
        before, began = time.process_time(), time.perf_counter()
        await asyncio.sleep(IDLE_SECONDS)
        share = (time.process_time() - before) / (time.perf_counter() - began) * 100
        print(json.dumps({"cpu_percent": share, "memory_mb": resident_mb()}))

    await with_engine(act)


def in_child(*options: str) -> dict[str, float]:
    """What a process of its own tells of a measurement."""
    command = [sys.executable, "-m", "windlass.cli.measurements", *options]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def memory_mb(field: str) -> float:
    """A line of what the kernel says of this process. Not getrusage: a child's peak is there at least its parent's."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise LookupError(field)


def resident_mb() -> float:
    """The memory of this process now."""
    return memory_mb("VmRSS")


def peak_mb() -> float:
    """The most memory that this process has had."""
    return memory_mb("VmHWM")


def idle_figures() -> list[Figure]:
    """What an idle engine costs, measured in a process of its own."""
    told = in_child("--idle-child")
    return [
        Figure("idle: CPU", "% of a core", told["cpu_percent"], told["cpu_percent"], 1, "< 0.5"),
        Figure("idle: memory", "MB", told["memory_mb"], told["memory_mb"], 1, "< 100"),
    ]


def cold_start_figure(repeats: int) -> Figure:
    """Seconds of `windlass run` on a new database: from nothing to the first finished workflow."""
    document = {"workflow_id": "cold", "nodes": {"only": {"handler": "echo"}}}
    values: list[float] = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
            file = Path(folder) / "cold.json"
            file.write_text(json.dumps(document), "utf-8")
            command = [sys.executable, "-m", "windlass", "run", str(file), "--json"]
            began = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, cwd=folder)
            values.append(time.perf_counter() - began)
    return Figure(
        "cold start to the first finished workflow", "s", statistics.median(values), min(values), repeats, "< 1"
    )


def measure(names: Sequence[str], repeats: int) -> list[Figure]:
    """The figures of the named groups, in their order."""
    makers: dict[str, Callable[[], list[Figure]]] = {
        "chain": lambda: [
            run_async(figure("chain: 100 nodes one after another", chain(100), repeats, per_node=True, goal="<= 0.6"))
        ],
        "fan": lambda: [
            run_async(figure("fan: 1 -> 1,000 -> 1", fan(1_000), repeats, per_node=False, goal=">= 20,000"))
        ],
        "jobs": lambda: [run_async(jobs_figure(1_000, repeats))],
        "bigfan": lambda: [
            run_async(figure("big fan: 1 -> 10,000 -> 1", fan(10_000), repeats, per_node=False, goal=">= 25,000"))
        ],
        "idle": idle_figures,
        "cold": lambda: [cold_start_figure(repeats)],
        "large": large_figures,
        "loop": lambda: loop_figures(100_000, with_goals=True),
        "million": lambda: loop_figures(1_000_000, with_goals=False),
    }
    # A loop of a million takes minutes: only for those who ask for it.
    chosen = names or [name for name in makers if name != "million"]
    return [one for name, make in makers.items() if name in chosen for one in make()]


def table(figures: Sequence[Figure]) -> str:
    """The figures for people."""
    width = max(len(one.workload) for one in figures)
    lines = [f"{'workload':<{width}}  {'median':>10}  {'best':>10}  {'unit':<11}  goal"]
    lines += [
        f"{one.workload:<{width}}  {one.median:>10,.2f}  {one.best:>10,.2f}  {one.unit:<11}  {one.goal}"
        for one in figures
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is asked for; a table for people, then the same as JSON."""
    parser = argparse.ArgumentParser(prog="windlass bench", description=__doc__)
    parser.add_argument("groups", nargs="*", help="chain, fan, jobs, bigfan, idle, cold, large, loop; all by default")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--json", action="store_true", help="print only the JSON")
    parser.add_argument("--idle-child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--loop-child", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--large-child", type=Path, help=argparse.SUPPRESS)
    wanted = parser.parse_args(arguments)
    if wanted.idle_child:
        run_async(idle())
        return 0
    if wanted.large_child:
        run_async(large(wanted.large_child))
        return 0
    if wanted.loop_child:
        run_async(loops(wanted.loop_child))
        return 0
    figures = measure(wanted.groups, wanted.repeats)
    if not wanted.json:
        print(table(figures))
    print(json.dumps([structs.asdict(one) for one in figures]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
