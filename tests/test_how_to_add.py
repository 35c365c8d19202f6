"""The places that a new field of a job needs are complete: "How to add" in CONTRIBUTING.md lists them."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from msgspec import Raw, structs

from tests.engine.harness import Process, opened, plan
from windlass.api.routes.jobs import JobsQuery
from windlass.cli.commands import jobs as jobs_command
from windlass.cli.commands import trigger as trigger_command
from windlass.client.jobs import Jobs
from windlass.core.ids import JobId, WorkflowId
from windlass.core.jobs import JobRecord, JobSelection, JobSpec, JobState
from windlass.core.states import JobStatus
from windlass.core.submit_request import NOT_REPEATED, SubmitRequest, rerun_request
from windlass.stores.columns import COLUMNS
from windlass.stores.queries import POSTGRES, SQLITE, Dialect, queries
from windlass.views.jobs import job_view
from windlass.wire import JobView

# Fields of a job that the API does not show by the same name, and why.
NOT_SHOWN = {
    "input": "shown as input_data, as in the request",
    "shard": "depends on the number of shards, which users do not see",
    "ignored": "the events of the job show them",
    "shard_key": "decides about the shard only",
    "request_digest": "compares requests with the same key",
    "round": "counts retries for the rules; the events show them",
    "deadline_at": "follows from started_at and the timeout of the workflow",
}
# Fields of a request without an option of `windlass trigger`, and why.
NOT_AN_OPTION = {
    "workflow_id": "the argument",
    "input_data": "given by -i and --input",
    "scheduled_at": "schedules and programs start jobs later; the command starts one now",
}
# Fields of a request that become another value of the job.
RESOLVED = {"workflow_id", "input_data", "version", "scheduled_at"}
JOB_FIELDS = (*JobSpec.__struct_fields__, *JobState.__struct_fields__)


def sample(declared: msgspec.inspect.Field) -> Any:
    """Return a value that differs from the default of a field."""
    options = [declared.type]
    if isinstance(declared.type, msgspec.inspect.UnionType):
        options = [*declared.type.types]
    if any(isinstance(option, msgspec.inspect.IntType) for option in options):
        return 7
    return "text"


def fields_of(struct: type[msgspec.Struct]) -> dict[str, msgspec.inspect.Field]:
    described = msgspec.inspect.type_info(struct)
    assert isinstance(described, msgspec.inspect.StructType)
    return {field.name: field for field in described.fields}


def parameters_of(method: Callable[..., Any]) -> set[str]:
    return {*inspect.signature(method).parameters} - {"self"}


def options_of(command: click.Command) -> set[str | None]:
    return {parameter.name for parameter in command.params}


@pytest.mark.parametrize("name", JOB_FIELDS)
def test_every_field_of_a_job_is_shown_or_has_a_reason_not_to_be(name: str) -> None:
    assert (name in JobView.__struct_fields__) != (name in NOT_SHOWN)


def test_a_view_has_the_values_and_the_types_that_it_declares() -> None:
    spec = JobSpec(JobId("j1"), WorkflowId("report"), 3, Raw(b'{"a":1}'), 1)
    shown_of_spec = fields_of(JobSpec).keys() & fields_of(JobView).keys() - {
        "job_id",
        "workflow_id",
    }
    spec = structs.replace(
        spec, **{name: sample(fields_of(JobSpec)[name]) for name in shown_of_spec}
    )
    state = JobState(JobStatus.FAILED, started_at=7, completed_at=7, error=Raw(b'{"type":"x"}'))

    view = job_view(JobRecord(spec, state))

    shown = msgspec.json.decode(msgspec.json.encode(view), type=JobView)
    for name in shown_of_spec:
        if name.endswith("_at"):
            assert getattr(shown, name) == "1970-01-01T00:00:00.000007Z"
        else:
            assert getattr(shown, name) == getattr(spec, name)
    assert (shown.status, shown.started_at, bytes(shown.error)) == (
        "failed",
        shown.created_at,
        bytes(view.error),
    )


async def test_a_job_has_every_field_of_its_request(tmp_path: Path) -> None:
    declared = fields_of(SubmitRequest)
    values = {name: sample(field) for name, field in declared.items() if name not in RESOLVED}
    request = SubmitRequest("test", {"n": 1}, scheduled_at="2030-01-01T00:00:00Z", **values)
    async with opened(tmp_path) as store:
        process = Process(store, plan({"a": []}))
        await process.start()
        result = await process.engine.jobs.submit(request)
        stored = await store.jobs.get(result.job.spec.job_id)
        await process.stop()

    assert {name: getattr(stored.spec, name) for name in values} == values
    assert stored.spec.scheduled_at == request.scheduled_microseconds
    repeated = rerun_request(stored.spec)
    assert {name: getattr(repeated, name) for name in values.keys() - NOT_REPEATED} == {
        name: values[name] for name in values.keys() - NOT_REPEATED
    }


def test_the_client_and_the_command_take_every_field_of_a_request() -> None:
    fields = {*SubmitRequest.__struct_fields__}

    assert parameters_of(Jobs.submit) == fields
    assert fields - options_of(trigger_command.command) == NOT_AN_OPTION.keys() - {"workflow_id"}


@pytest.mark.parametrize("name", JobSelection.__struct_fields__)
def test_every_field_of_the_selection_is_a_column_and_an_option(name: str) -> None:
    assert name in JOB_FIELDS
    assert name in {column.name for column in COLUMNS["job"]}
    assert name in options_of(jobs_command.list_jobs)


@pytest.mark.parametrize("dialect", [SQLITE, POSTGRES], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("query", ["job_list", "job_list_of_workflow", "job_search"])
def test_every_list_of_jobs_has_the_parameters_of_the_selection(
    dialect: Dialect, query: str
) -> None:
    wanted = {*JobSelection.__struct_fields__}
    if query == "job_list":
        wanted.remove("workflow_id")

    assert wanted <= {*queries(dialect)[query].parameters}


def test_the_api_takes_the_selection_and_the_client_every_other_parameter_of_the_list() -> None:
    assert issubclass(JobsQuery, JobSelection)
    assert parameters_of(Jobs.page) - {"selection"} == {*JobsQuery.__struct_fields__} - {
        *JobSelection.__struct_fields__
    }
