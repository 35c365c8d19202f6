"""Runs workflows on an embedded engine and measures the time."""

import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from windlass.cli.bench.workflows import Document, chain
from windlass.embedded import Embedded, open_embedded
from windlass.settings import Settings
from windlass.spec import read_definition

Result = TypeVar("Result")

NO_INPUT: Document = {}
WARM_UP_NODES = 20
# The largest collection that fits into the input of a job.
LOOP_INPUT_MAX = 100_000


async def with_engine(measure: Callable[[Embedded], Awaitable[Result]]) -> Result:
    """Call `measure` with an engine on a new database in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        async with open_embedded(Settings(database_url=f"sqlite:///{folder}/bench.db")) as engine:
            await run_job(engine, await deploy(engine, chain(WARM_UP_NODES)), WARM_UP_NODES)
            return await measure(engine)


async def deploy(engine: Embedded, document: Document) -> str:
    """Deploy a document; return its workflow id."""
    definition, _ = read_definition(document)
    return (await engine.deploy(definition)).workflow_id


async def run_job(engine: Embedded, workflow_id: str, nodes: int) -> float:
    """Return the seconds of one job, from the submit until its end is durable."""
    started = time.perf_counter()
    job = await engine.submit(workflow_id, {})
    finished = await engine.wait(job.spec.job_id)
    seconds = time.perf_counter() - started
    assert finished.state.status == "completed", finished
    assert len(await engine.store.nodes(job.spec.job_id)) == nodes
    return seconds


async def run_jobs(engine: Embedded, workflow_id: str, count: int) -> float:
    """Return the seconds of many jobs, from the submit until the last end is durable."""
    started = time.perf_counter()
    jobs = await engine.submit_all(workflow_id, [NO_INPUT] * count)
    for job in jobs:
        await engine.wait_end(job.spec.job_id)
    return time.perf_counter() - started


async def run_loop(engine: Embedded, workflow_id: str, items: int) -> tuple[str, float]:
    """Run a loop; return the job and the seconds per item."""
    given: object = items
    if items <= LOOP_INPUT_MAX:
        given = list(range(items))
    started = time.perf_counter()
    job = await engine.submit(workflow_id, {"items": given})
    await engine.wait_end(job.spec.job_id)
    return job.spec.job_id, (time.perf_counter() - started) / items


async def check_loop(engine: Embedded, job_id: str, items: int) -> None:
    """Check that all outputs of a loop are present in order, and the number of its events."""
    result = await engine.result(job_id, bytes_max=1 << 30)
    outputs = json.loads(bytes(result.result_data))["each"]
    assert [output["echoed_params"]["item"] for output in outputs] == list(range(items))
    # Three per item; the others are about the job, the loop and one or two nodes.
    other_events = 9 if items <= LOOP_INPUT_MAX else 13
    assert (await engine.store.job(job_id)).seq == 3 * items + other_events
