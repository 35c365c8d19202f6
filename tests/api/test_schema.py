"""The description of the API holds: what it allows is understood, what it forbids is refused, nothing breaks."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from random import Random
from typing import Any

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.api.harness import System
from windlass.api.app import create_app
from windlass.api.state import ApiState

EXAMPLES_MAX = 12
STARTS_SECONDS = 20.0
ANSWERS_SECONDS = 10.0
# A schema can not say all that makes a workflow, a cursor or an instant one: what fits it may still be refused.
NOT_CHECKED = [positive_data_acceptance]


class Served:
    """A server on loopback in its own thread, with a job that ran to its end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.up: Future[str] = Future()
        self.job_id = ""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()

    async def _run(self) -> None:
        async with System.running(self._folder) as system:
            await system.deploy()
            self.job_id = await system.submit()
            await system.ended(self.job_id)
            config = uvicorn.Config(system.app, port=0, log_level="error", lifespan="off", access_log=False)
            self._server = uvicorn.Server(config)
            serving = asyncio.create_task(self._server.serve())
            while not self._server.started and not serving.done():
                await asyncio.sleep(0.01)
            port = self._server.servers[0].sockets[0].getsockname()[1]
            self.up.set_result(f"http://127.0.0.1:{port}")
            await serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    server = Served(tmp_path_factory.mktemp("schema"))
    server.start()
    server.up.result(STARTS_SECONDS)
    yield server
    server.stop()


def description() -> dict[str, Any]:
    """Routes are described without anything that runs behind them."""
    nothing: Any = None
    return create_app(ApiState(nothing, nothing, nothing, nothing, (), Random(1), "0.0.0")).openapi()


schema = schemathesis.openapi.from_dict(description())


@schema.parametrize()
@settings(
    max_examples=EXAMPLES_MAX,
    suppress_health_check=list(HealthCheck),
    database=None,
)
def test_every_request_gets_an_answer_as_described(case: Case, served: Served) -> None:
    if case.path == "/api/v1/tasks/claim" and isinstance(case.body, dict) and "wait" in case.body:
        case.body["wait"] = 0
    if isinstance(case.path_parameters, dict) and len(case.path_parameters.get("job_id", "")) % 2:
        case.path_parameters["job_id"] = served.job_id

    case.call_and_validate(served.up.result(), excluded_checks=NOT_CHECKED, timeout=ANSWERS_SECONDS)
