"""Follows a job on a server until it finishes, with the displays of `windlass run`."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from windlass.cli.job_sources import fetch_outputs
from windlass.cli.output.display import open_display, show_events
from windlass.cli.output.event_data import from_wire
from windlass.cli.output.progress import JobProgress
from windlass.cli.output.results import print_result
from windlass.client import Client
from windlass.core.events import Event
from windlass.core.plan import Plan
from windlass.core.runs.webhooks import WEBHOOK_WORKFLOW, webhook_plan
from windlass.spec import compile_plan, definition_from_json


async def follow_job(client: Client, job_id: str, *, as_json: bool) -> int:
    """Display the job until it finishes, then print its result; return the exit code."""
    if not as_json:
        job = await client.jobs.get(job_id)
        plan = await _fetch_plan(client, job.workflow_id, job.version)
        with open_display(JobProgress(plan, job_id)) as display:
            await show_events(_events(client, job_id), display)
    return print_result(
        await fetch_outputs(client, await client.jobs.wait(job_id)), as_json=as_json
    )


async def _fetch_plan(client: Client, workflow_id: str, version: int) -> Plan:
    if workflow_id == WEBHOOK_WORKFLOW:
        return webhook_plan(version)
    workflow = await client.workflows.get(workflow_id, version)
    return compile_plan(definition_from_json(workflow.definition), version)


async def _events(client: Client, job_id: str) -> AsyncGenerator[Event, None]:
    async with aclosing(client.jobs.watch(job_id, context=False)) as events:
        async for event in events:
            yield from_wire(event)
