"""Containers through engine, broker, worker and cluster, also when some of them are killed."""

import asyncio
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from tests.defaults import worker_options
from tests.engine.harness import CLOCK, Process, events_of, opened, output_of, plan_from, until
from tests.kubernetes.api_server import ApiServer
from tests.kubernetes.conftest import Place
from windlass.handlers import builtin_handlers
from windlass.handlers.config import HandlerConfig
from windlass.ports.handler import Handler
from windlass.worker.worker import Worker

NODE = {"image": "busybox:1", "command": ["sh", "-c", "true"]}


def handlers_of(place: Place) -> dict[str, Handler]:
    return {"container": builtin_handlers(HandlerConfig(container=place.defaults))["container"]}


def workflow(**node: Any) -> dict[str, Any]:
    return {"nodes": {"work": {"handler": "container", "params": NODE, **node}}}


async def test_the_pod_of_a_killed_worker_is_adopted_by_another(
    any_place: Place, tmp_path: Path
) -> None:
    cluster, handlers = any_place.cluster, handlers_of(any_place)
    async with opened(tmp_path) as store:
        process = Process(store, plan_from(workflow()), handlers=handlers)
        await process.engine.start()
        doomed = Worker(
            process.broker,
            handlers,
            CLOCK,
            worker_id="doomed",
            random=Random(1),
            **worker_options(),
        )
        dying = asyncio.create_task(doomed.run())
        job = await process.submit()
        pod = await cluster.started()
        await _event(process, job.spec.job_id, "node_started")
        doomed.abort()
        await asyncio.gather(dying, return_exceptions=True)
        lines: list[str] = []
        other = Worker(
            process.broker,
            handlers,
            CLOCK,
            worker_id="other",
            random=Random(2),
            log_sink=lambda line: lines.append(line.message),
            **worker_options(heartbeat_seconds=0.01),
        )
        working = asyncio.create_task(other.run())

        async def is_adopted() -> bool:
            await process.broker.reclaim(0.5)
            return any("adopted Job" in line for line in lines)

        await until(process, job.spec.job_id, is_adopted, every_seconds=0.1)
        await cluster.end(pod, message='{"rows": 3}')
        container_end = await process.ended(job.spec.job_id)
        output: Any = await output_of(process, job.spec.job_id, "work")
        events = await events_of(store, job.spec.job_id)
        await other.stop(1.0)
        await working
        await process.engine.stop()

    assert container_end.state.status == "completed"
    assert (output["result"], output["pod_name"]) == ({"rows": 3}, pod["metadata"]["name"])
    assert events.count("node_dispatched") == 1
    assert [len(names) for names in cluster.created.values()] == [1]
    await cluster.expire()
    assert await cluster.jobs() == []


async def test_an_eviction_does_not_use_up_an_attempt(any_place: Place, tmp_path: Path) -> None:
    cluster = any_place.cluster
    async with opened(tmp_path) as store:
        process = Process(store, plan_from(workflow()), handlers=handlers_of(any_place))
        await process.start()
        job = await process.submit()
        await cluster.evict(await cluster.started())
        second = (await cluster.jobs_of(2))[-1]
        first = next(iter(cluster.created))
        (second,) = [one for one in await cluster.jobs() if one["metadata"]["name"] != first]
        pod = await cluster.make_pod(second)
        await cluster.start(pod)
        await cluster.end(pod, job=second)
        container_end = await process.ended(job.spec.job_id)
        events = await events_of(store, job.spec.job_id)
        await process.stop()

    assert container_end.state.status == "completed"
    assert events.count("node_retrying") == 1
    assert second["metadata"]["labels"]["windlass/attempt"] == "2"
    assert [len(names) for names in cluster.created.values()] == [1, 1]


async def test_a_cancelled_job_deletes_its_container(any_place: Place, tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        process = Process(store, plan_from(workflow()), handlers=handlers_of(any_place))
        await process.start()
        job = await process.submit()
        await any_place.cluster.started()
        await _event(process, job.spec.job_id, "node_started")
        labels = (await any_place.cluster.job())["metadata"]["labels"]
        await process.engine.jobs.cancel(job.spec.job_id)
        container_end = await process.ended(job.spec.job_id)
        await any_place.cluster.collected()
        await process.stop()

    assert container_end.state.status == "cancelled"
    slot = datetime.fromtimestamp(job.spec.created_at / 1e6, UTC).strftime("%Y-%m-%dT%H-%M-%S")
    assert labels["job-id"] == job.spec.job_id
    # The label of "test:<job id>", which is the id of the run of a submitted job.
    assert labels["run-id"] == f"test-{job.spec.job_id}"
    assert labels["scheduled-at"].startswith(slot)


async def test_a_node_starts_when_its_pod_runs(any_place: Place, tmp_path: Path) -> None:
    cluster = any_place.cluster
    async with opened(tmp_path) as store:
        process = Process(store, plan_from(workflow()), handlers=handlers_of(any_place))
        await process.start()
        job = await process.submit()
        pod = await cluster.make_pod()
        await cluster.hold(pod, "ContainerCreating")
        # A handler that runs this long counts as started.
        await asyncio.sleep(0.6)
        before = await events_of(store, job.spec.job_id)
        await cluster.start(pod)
        await _event(process, job.spec.job_id, "node_started")
        await cluster.end(pod)
        container_end = await process.ended(job.spec.job_id)
        await process.stop()

    assert "node_started" not in before
    assert container_end.state.status == "completed"


async def test_a_restarted_run_adopts_its_pod(
    place: Place, server: ApiServer, tmp_path: Path
) -> None:
    (tmp_path / "work.json").write_bytes(msgspec.json.encode({"workflow_id": "work", **workflow()}))
    cluster = place.cluster
    first = _spawn(place, tmp_path)
    pod = await cluster.started()
    # The worker follows the log, so it has seen that the container runs.
    async with asyncio.timeout(30):
        while "log" not in server.streams:  # noqa: ASYNC110  there is no event for what another process has seen
            await asyncio.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    await asyncio.to_thread(first.communicate)
    second = _spawn(place, tmp_path, "--resume")
    async with asyncio.timeout(30):
        while server.count("POST", "/jobs") < 2:  # noqa: ASYNC110  as above
            await asyncio.sleep(0.01)
    await cluster.end(pod, message='{"rows": 3}')
    out, said = await asyncio.to_thread(second.communicate, None, 60)

    assert second.returncode == 0, said.decode()
    result = msgspec.json.decode(out)["result_data"]["work"]
    assert (result["result"], result["pod_name"]) == ({"rows": 3}, pod["metadata"]["name"])
    assert [len(names) for names in cluster.created.values()] == [1]


def _spawn(place: Place, folder: Path, *more: str) -> "subprocess.Popen[bytes]":
    settings = {
        "WINDLASS_CONTAINER__RUNTIME": "kubernetes",
        "WINDLASS_KUBERNETES__KUBECONFIG": str(place.rules.kubeconfig),
    }
    command = [sys.executable, "-m", "windlass", "run", "work.json", "--json", *more]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=folder, env={**os.environ, **settings}, stdout=pipe, stderr=pipe
    )


async def _event(process: Process, job_id: str, kind: str) -> None:
    async def is_recorded() -> bool:
        return kind in await events_of(process.store, job_id)

    await until(process, job_id, is_recorded)
