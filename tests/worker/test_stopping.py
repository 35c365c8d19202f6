"""A worker that stops waits for its reports, but not for a duty that has ended."""

import asyncio
from collections.abc import Sequence

from worker_harness import Bench, registry, task

from windlass.ports.broker import TaskReport
from windlass.ports.handler_declaration import handler

STOPS_SECONDS_MAX = 3.0


@handler("quick")
async def quick() -> str:
    return "done"


async def test_a_stop_does_not_wait_for_reports_that_nobody_sends_any_more() -> None:
    bench = Bench(registry(quick))
    reporting = asyncio.Event()

    async def finish(worker_id: str, reports: Sequence[TaskReport]) -> None:
        reporting.set()
        await asyncio.Event().wait()

    bench.broker.finish = finish
    run = asyncio.create_task(bench.worker.run())
    await bench.broker.publish([task("quick")])
    await reporting.wait()
    [report] = [one for one in asyncio.all_tasks() if one.get_name() == "report"]
    stopping = asyncio.create_task(bench.worker.stop(0.0))
    await asyncio.wait([stopping], timeout=0.2)
    assert not stopping.done()

    report.cancel()

    async with asyncio.timeout(STOPS_SECONDS_MAX):
        await stopping
        await run
