"""Requests generated from the OpenAPI document: every response matches it."""

import asyncio
import re
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.api.harness import System, listening
from tests.api.openapi_document import described_api

EXAMPLES_MAX = 12
STARTS_SECONDS = 20.0
ANSWERS_SECONDS = 10.0
WAIT_SECONDS_MAX = 60
WAIT = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?(ms|s|m)?")
# A schema cannot describe all rules of workflows, cursors and instants, so a valid request may be refused.
NOT_CHECKED = [positive_data_acceptance]


class Served:
    """A server on loopback in its own thread, with a finished job."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.up: Future[str] = Future()
        self.job_id = ""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    async def _run(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        async with System.running(self._folder) as system:
            await system.deploy()
            self.job_id = await system.submit()
            await system.ended(self.job_id)
            async with listening(system.app) as url:
                self.up.set_result(url)
                await self._stopped.wait()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    server = Served(tmp_path_factory.mktemp("schema"))
    server.start()
    server.up.result(STARTS_SECONDS)
    yield server
    server.stop()


def is_wait(value: object) -> bool:
    """Return whether a value is a valid wait, which the test shortens because no task will arrive."""
    if isinstance(value, str):
        return WAIT.fullmatch(value) is not None
    return type(value) in (int, float) and 0 <= float(str(value)) <= WAIT_SECONDS_MAX


schema = schemathesis.openapi.from_dict(described_api())


@schema.parametrize()
@settings(
    max_examples=EXAMPLES_MAX,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
    ],
    database=None,
)
def test_every_response_matches_the_openapi_document(case: Case, served: Served) -> None:
    if isinstance(case.body, dict) and is_wait(case.body.get("wait")):
        case.body["wait"] = 0
    if isinstance(case.path_parameters, dict) and len(case.path_parameters.get("job_id", "")) % 2:
        case.path_parameters["job_id"] = served.job_id

    case.call_and_validate(served.up.result(), excluded_checks=NOT_CHECKED, timeout=ANSWERS_SECONDS)
