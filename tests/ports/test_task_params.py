"""The params of tasks with the values of their artifacts."""

import asyncio

import msgspec

from windlass.core.changes import Task
from windlass.core.errors import StoreUnavailable
from windlass.core.messages import Failed, TaskError
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
    params = msgspec.json.encode({"all": [{"$artifact": key} for key in keys]})
    return Task("j_n_1", "j", "n", 1, "take", params, artifacts=keys)


async def fetch(store: Artifacts, *keys: str, seconds_max: float = 20.0) -> bytes | Failed:
    return await fetch_params(
        store, task_with(*keys), output_bytes_max=BYTES_MAX, seconds_max=seconds_max
    )


async def error(store: Artifacts, *keys: str, seconds_max: float = 20.0) -> TaskError:
    outcome = await fetch(store, *keys, seconds_max=seconds_max)
    assert isinstance(outcome, Failed)
    return outcome.error


async def test_artifacts_are_replaced_by_their_values() -> None:
    store = MemoryArtifacts()
    keys = [await store.put("j", body) for body in (b'"a"', b"[1,2]")]

    assert await fetch(store, *keys) == b'{"all":["a",[1,2]]}'


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
