"""The params of tasks with the values of their artifacts."""

import asyncio

import msgspec

from windlass.core.artifacts import TaskArtifact
from windlass.core.changes import Task
from windlass.core.errors import StoreUnavailable
from windlass.core.messages import Failed, TaskError
from windlass.ports.artifact_reader import ArtifactReader
from windlass.ports.artifacts import Artifacts
from windlass.ports.task_params import PARAMS_OUTPUTS_MAX, fetch_params
from windlass.stores.memory.artifacts import MemoryArtifacts

BYTES_MAX = 1_000


class SilentArtifacts(MemoryArtifacts):
    async def get(self, key: str) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError("no value was expected")


class UnavailableArtifacts(MemoryArtifacts):
    async def get(self, key: str) -> bytes:
        raise StoreUnavailable("the disk is full")


def task_with(*keys: str) -> Task:
    artifacts = [TaskArtifact(key, place=("all", at)) for at, key in enumerate(keys)]
    params = msgspec.json.encode({"all": [None] * len(keys)})
    return Task("j_n_1", "j", "n", 1, "take", params, artifacts=tuple(artifacts))


async def fetch(store: Artifacts, *keys: str, seconds_max: float = 20.0) -> bytes | Failed:
    return await fetch_params(
        ArtifactReader(store), task_with(*keys), output_bytes_max=BYTES_MAX, seconds_max=seconds_max
    )


async def error(store: Artifacts, *keys: str, seconds_max: float = 20.0) -> TaskError:
    outcome = await fetch(store, *keys, seconds_max=seconds_max)
    assert isinstance(outcome, Failed)
    return outcome.error


async def test_artifacts_are_replaced_by_their_values() -> None:
    store = MemoryArtifacts()
    keys = [await store.put("j", body) for body in (b'"a"', b"[1,2]")]

    assert await fetch(store, *keys) == b'{"all":["a",[1,2]]}'


async def test_parts_of_artifacts_are_replaced_by_their_values() -> None:
    store = MemoryArtifacts()
    key = await store.put("j", b'{"rows":[[1],[2]],"n":null}')
    artifacts = (
        TaskArtifact(key, ("rows", 1), "a.output", ("x",)),
        TaskArtifact(key, ("rows",), "a.output", ("y", 0)),
        TaskArtifact(key, ("n",), "a.output", ("z",)),
        TaskArtifact(key, (), "a.output", ("all",)),
    )
    params = b'{"x":null,"y":[null],"z":null,"all":null}'
    task = Task("j_n_1", "j", "n", 1, "take", params, artifacts=artifacts)

    found = await fetch_params(
        ArtifactReader(store), task, output_bytes_max=BYTES_MAX, seconds_max=20.0
    )

    expected = b'{"x":[2],"y":[[[1],[2]]],"z":null,"all":{"rows":[[1],[2]],"n":null}}'
    assert found == expected


async def test_only_the_parts_of_artifacts_count_against_the_limit() -> None:
    store = MemoryArtifacts()
    keys = [
        await store.put("j", msgspec.json.encode({"n": n, "text": "x" * 900})) for n in range(40)
    ]
    artifacts = [TaskArtifact(key, ("n",), "a", ("all", at)) for at, key in enumerate(keys)]
    params = msgspec.json.encode({"all": [None] * 40})
    task = Task("j_n_1", "j", "n", 1, "take", params, artifacts=tuple(artifacts))

    found = await fetch_params(
        ArtifactReader(store), task, output_bytes_max=BYTES_MAX, seconds_max=20.0
    )

    assert found == msgspec.json.encode({"all": list(range(40))})


async def test_a_value_that_occurs_often_counts_each_time() -> None:
    store = MemoryArtifacts()
    key = await store.put("j", msgspec.json.encode("x" * (BYTES_MAX // 2)))

    found = await error(store, *[key] * (2 * PARAMS_OUTPUTS_MAX))

    assert found.type == "params_invalid"


async def test_a_missing_part_fails_permanently_with_what_there_is() -> None:
    store = MemoryArtifacts()
    key = await store.put("j", b'{"rows":[]}')
    artifact = TaskArtifact(key, ("row",), "a.output", ("x",))
    task = Task("j_n_1", "j", "n", 1, "take", b'{"x":null}', artifacts=(artifact,))

    outcome = await fetch_params(
        ArtifactReader(store), task, output_bytes_max=BYTES_MAX, seconds_max=20.0
    )

    assert isinstance(outcome, Failed)
    assert (outcome.error.type, outcome.error.retryable) == ("template_failed", False)
    assert outcome.error.message.startswith("params: a.output has no 'row'; available: rows")


async def test_params_are_limited_by_the_largest_output() -> None:
    store = MemoryArtifacts()
    body = msgspec.json.encode("x" * (BYTES_MAX - 2))
    keys = [await store.put("j", body.replace(b"x", bytes([letter]), 1)) for letter in b"abcd"]
    assert len(keys) == PARAMS_OUTPUTS_MAX

    found = await error(store, *keys)

    assert isinstance(await fetch(store, *keys[1:]), bytes)
    assert (found.type, found.retryable) == ("params_invalid", False)


async def test_a_missing_artifact_fails_permanently() -> None:
    found = await error(MemoryArtifacts(), "j/absent")

    assert (found.type, found.retryable) == ("artifact_not_found", False)


async def test_a_store_that_does_not_respond_or_fails_is_retryable() -> None:
    late = await error(SilentArtifacts(), "j/a", seconds_max=0.01)
    broken = await error(UnavailableArtifacts(), "j/a")

    assert (
        (late.type, late.retryable)
        == (broken.type, broken.retryable)
        == ("artifacts_unavailable", True)
    )
    assert "no response within 0.01 s" in late.message
    assert "the disk is full" in broken.message
