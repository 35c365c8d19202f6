"""Requests to start a job: their digests, and reruns."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw, structs

from windlass.core.ids import JobId, WorkflowId
from windlass.core.jobs import JobSpec
from windlass.core.submit_request import SubmitRequest, rerun_request

REQUEST = SubmitRequest("report", {"a": 1, "b": 2}, "stable", "key-1", "2030-01-01T12:00:00Z", 5)


@pytest.mark.parametrize("name", SubmitRequest.__struct_fields__)
def test_every_field_but_the_key_changes_the_digest(name: str) -> None:
    # A text that is valid for every field that is parsed.
    changed = structs.replace(REQUEST, **{name: "2030-01-01T12:00:01Z"})

    assert (changed.digest == REQUEST.digest) == (name == "idempotency_key")


@pytest.mark.parametrize(
    "same",
    [
        {"scheduled_at": "2030-01-01T13:00:00+01:00"},
        {"scheduled_at": "2030-01-01T12:00:00.000Z"},
        {"input_data": {"b": 2, "a": 1}},
    ],
)
def test_another_notation_of_the_same_request_has_the_same_digest(same: dict[str, Any]) -> None:
    assert structs.replace(REQUEST, **same).digest == REQUEST.digest


def test_a_default_that_is_written_out_does_not_change_the_digest() -> None:
    short = msgspec.convert({"workflow_id": "report"}, SubmitRequest)
    full = {
        "workflow_id": "report",
        "input_data": {},
        "version": None,
        "scheduled_at": None,
        "priority": 0,
    }

    assert msgspec.convert(full, SubmitRequest).digest == short.digest


def test_a_rerun_repeats_the_request_without_its_key_and_its_time() -> None:
    spec = JobSpec(
        job_id=JobId("j1"),
        workflow_id=WorkflowId("report"),
        version=3,
        input=Raw(b'{"a":1}'),
        created_at=1,
        priority=5,
        idempotency_key="key-1",
        scheduled_at=2,
    )

    assert rerun_request(spec) == SubmitRequest("report", {"a": 1}, version=3, priority=5)
