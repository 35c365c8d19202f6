"""Measurements that run in a process of their own: `python -m windlass.cli.bench.child NAME [ARGUMENT]`."""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Raw, Struct

from windlass.cli.bench.engine import (
    LOOP_INPUT_MAX,
    check_loop,
    deploy,
    run_job,
    run_loop,
    with_engine,
)
from windlass.cli.bench.measurement import peak_mb, resident_mb
from windlass.cli.bench.workflows import SMALL_DEPTH, SMALL_LANES, fan, generated_loop, lanes, loop
from windlass.cli.runner import run_async
from windlass.embedded import Embedded
from windlass.spec import definition_json, read_definition

IDLE_SECONDS = 5.0
REPEATS = 5
LOOP_CONCURRENCY, LOOP_FAN, LOOP_SMALL = 1_000, 10_000, 1_000


async def measure_idle(_: str) -> dict[str, float]:
    """Measure the CPU time and the memory of an engine without work."""

    async def measure(engine: Embedded) -> dict[str, float]:
        await asyncio.sleep(1.0)
        cpu_before, started = time.process_time(), time.perf_counter()
        await asyncio.sleep(IDLE_SECONDS)
        share = (time.process_time() - cpu_before) / (time.perf_counter() - started)
        return {"cpu_percent": share * 100, "memory_mb": resident_mb()}

    return await with_engine(measure)


class _LargeWorkflow(Struct, frozen=True):
    """A validated workflow, encoded: a Definition would count as memory of the run."""

    workflow_id: str
    nodes: int
    encoded: Raw
    validate_seconds: float


def _validate(file: Path) -> _LargeWorkflow:
    text = file.read_text("utf-8")
    started = time.perf_counter()
    definition, _ = read_definition(text, format="json")
    seconds = time.perf_counter() - started
    return _LargeWorkflow(
        definition.workflow_id, len(definition.nodes), definition_json(definition), seconds
    )


async def measure_large(file: str) -> dict[str, float]:
    """Measure the large workflow in a file, and its cost per node compared with a small one."""
    large = _validate(Path(file))
    small = lanes(SMALL_LANES, SMALL_DEPTH)
    small_nodes = len(small["nodes"])

    async def measure(engine: Embedded) -> dict[str, float]:
        small_id = await deploy(engine, small)
        await engine.deploy_encoded(large.workflow_id, large.encoded)
        small_costs: list[float] = []

        async def measure_small() -> None:
            for _ in range(REPEATS):
                seconds = await run_job(engine, small_id, small_nodes)
                small_costs.append(seconds / small_nodes)

        # Before and after, since the speed of a shared machine varies.
        await measure_small()
        seconds = await run_job(engine, large.workflow_id, large.nodes)
        peak = peak_mb()
        await measure_small()
        return {
            "validate": large.validate_seconds,
            "speed": large.nodes / seconds,
            "peak_mb": peak,
            "growth": seconds / large.nodes / statistics.median(small_costs),
        }

    return await with_engine(measure)


async def measure_loop(argument: str) -> dict[str, float]:
    """Measure a large loop, compared with a fan-out and with a small loop."""
    items = int(argument)

    async def measure(engine: Embedded) -> dict[str, float]:
        loop_id = await deploy(engine, loop(LOOP_CONCURRENCY))
        fan_id = await deploy(engine, fan(LOOP_FAN))
        fan_speeds: list[float] = []
        small_costs: list[float] = []

        async def measure_others() -> None:
            for _ in range(REPEATS):
                fan_speeds.append(LOOP_FAN / await run_job(engine, fan_id, LOOP_FAN + 2))
                _, seconds = await run_loop(engine, loop_id, LOOP_SMALL)
                small_costs.append(seconds)

        # Before and after, since the speed of a shared machine varies.
        await measure_others()
        large_id = loop_id
        if items > LOOP_INPUT_MAX:
            large_id = await deploy(engine, generated_loop(LOOP_CONCURRENCY))
        job_id, large_cost = await run_loop(engine, large_id, items)
        peak = peak_mb()
        await measure_others()
        await check_loop(engine, job_id, items)
        return {
            "fan": statistics.median(fan_speeds),
            "small": statistics.median(small_costs),
            "large": large_cost,
            "peak_mb": peak,
        }

    return await with_engine(measure)


MEASUREMENTS: dict[str, Callable[[str], Awaitable[dict[str, float]]]] = {
    "idle": measure_idle,
    "large": measure_large,
    "loop": measure_loop,
}


async def main(name: str, argument: str) -> None:
    """Print what a measurement returns as JSON."""
    print(json.dumps(await MEASUREMENTS[name](argument)))


if __name__ == "__main__":
    run_async(main(sys.argv[1], sys.argv[2]))
