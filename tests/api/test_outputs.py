"""Large outputs: shown up to a limit, as a marker beyond, whole on request."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from tests.api.harness import API, System
from windlass.core.artifacts import INLINE_BYTES_MAX, reference
from windlass.core.errors import StoreUnavailable
from windlass.stores.memory.artifacts import MemoryArtifacts
from windlass.views import outputs
from windlass.views.outputs import VALUE_BYTES_MAX, OutputReader

TEXTS = """
workflow_id: texts
nodes:
  make: {{handler: python, params: {{code: "def main(): return ['x' * {length}]"}}}}
  look: {{handler: echo, dependencies: [make], params: {{count: "{{{{ make.output | length }}}}"}}}}
"""
LOOP = """
workflow_id: loop
nodes:
  each:
    handler: python
    loop: {{collection: [{length}, 3], element: n}}
    params: {{code: "def main(n): return 'y' * n", n: "{{{{ n }}}}"}}
"""


async def ran(system: System, document: str, length: int) -> str:
    deployed = await system.deploy_text(document.format(length=length))
    job_id = await system.submit(deployed["workflow_id"])
    job = await system.ended(job_id)
    assert job["status"] == "completed", job
    return job_id


async def get(system: System, path: str) -> Any:
    response = await system.client.get(f"{API}/jobs/{path}")
    assert response.status_code == 200, response.text
    return response.json()


async def shown(system: System, job_id: str) -> list[Any]:
    """The output of the first node, everywhere that it is shown."""
    job = await get(system, f"{job_id}?nodes=true")
    listed = await get(system, f"{job_id}/nodes")
    node = await get(system, f"{job_id}/nodes/make")
    return [
        job["result_data"]["make"],
        job["nodes"][0]["output"],
        listed["items"][0]["output"],
        node["output"],
    ]


# The API


async def test_an_output_in_the_artifact_store_is_shown(system: System) -> None:
    length = INLINE_BYTES_MAX + 1
    job_id = await ran(system, TEXTS, length)

    assert system.artifacts.kept
    assert await shown(system, job_id) == [["x" * length]] * 4


async def test_an_output_over_the_limit_is_shown_as_a_marker(system: System) -> None:
    job_id = await ran(system, TEXTS, VALUE_BYTES_MAX)

    assert await shown(system, job_id) == [{"_truncated": True, "_size": VALUE_BYTES_MAX + 4}] * 4


async def test_a_large_output_can_be_read_completely(system: System) -> None:
    job_id = await ran(system, TEXTS, VALUE_BYTES_MAX)

    response = await system.client.get(f"{API}/jobs/{job_id}/nodes/make/output")

    assert response.headers["content-type"] == "application/json"
    assert response.json() == ["x" * VALUE_BYTES_MAX]


async def test_a_large_output_of_an_iteration_is_shown(system: System) -> None:
    job_id = await ran(system, LOOP, VALUE_BYTES_MAX)

    tasks = (await get(system, f"{job_id}/nodes/each/iterations"))["items"]
    whole = await system.client.get(f"{API}/jobs/{job_id}/nodes/each/output", params={"index": 0})

    assert [task["output"] for task in tasks] == [
        {"_truncated": True, "_size": VALUE_BYTES_MAX + 2},
        "yyy",
    ]
    assert whole.json() == "y" * VALUE_BYTES_MAX


async def test_a_missing_artifact_is_shown_as_missing(system: System) -> None:
    job_id = await ran(system, TEXTS, INLINE_BYTES_MAX + 1)
    system.artifacts.kept.clear()

    marker = {"_truncated": True, "_size": INLINE_BYTES_MAX + 5, "_missing": True}
    assert await shown(system, job_id) == [marker] * 4


async def test_a_missing_artifact_is_not_found(system: System) -> None:
    job_id = await ran(system, TEXTS, INLINE_BYTES_MAX + 1)
    system.artifacts.kept.clear()

    response = await system.client.get(f"{API}/jobs/{job_id}/nodes/make/output")

    assert response.status_code == 404


# Limits


class UnavailableArtifacts(MemoryArtifacts):
    """An unavailable store that counts the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    async def get(self, key: str) -> bytes:
        self.calls += 1
        raise StoreUnavailable(f"unavailable: {key}")


def raw(value: object) -> Raw:
    return Raw(msgspec.json.encode(value))


def decoded(values: list[Raw]) -> list[object]:
    return [msgspec.json.decode(value) for value in values]


async def test_values_share_one_limit_and_small_ones_have_precedence() -> None:
    values = [raw("x" * 60), raw("y" * 50), raw([1]), None]

    found = await OutputReader(MemoryArtifacts(), 100, 80).read(values)

    assert decoded(found) == [{"_truncated": True, "_size": 62}, "y" * 50, [1], None]


async def test_the_limit_applies_to_several_reads() -> None:
    wanted = OutputReader(MemoryArtifacts(), 100, 100)

    first = await wanted.read([raw("x" * 60)])
    second = await wanted.read([raw("y" * 60), raw(1)])

    assert decoded(first + second) == ["x" * 60, {"_truncated": True, "_size": 62}, 1]


async def test_an_unavailable_artifact_store_is_tried_once() -> None:
    unavailable = UnavailableArtifacts()
    values = [reference(f"job/{number}", 10) for number in range(20)]

    found = await OutputReader(unavailable).read([*values, raw("small")])

    assert decoded(found) == [{"_truncated": True, "_size": 10, "_unavailable": True}] * 20 + [
        "small"
    ]
    assert unavailable.calls <= outputs.FETCHES_AT_ONCE_MAX


async def test_too_many_reads_of_large_outputs_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.api.routes.nodes.OUTPUTS_READ_MAX", 0)
    async with System.running(tmp_path) as system:
        job_id = await ran(system, TEXTS, INLINE_BYTES_MAX + 1)

        response = await system.client.get(f"{API}/jobs/{job_id}/nodes/make/output")

    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
