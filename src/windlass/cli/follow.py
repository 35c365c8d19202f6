"""Follows a job of a server to its end, with the views that `windlass run` has."""

from collections.abc import AsyncIterator

from windlass.cli.job_sources import with_outputs
from windlass.cli.output.job_view import follow, print_outcome, viewing
from windlass.cli.output.progress import Progress
from windlass.cli.output.shapes import told_event
from windlass.client import Client
from windlass.core.events import Event
from windlass.core.plan import Plan
from windlass.core.runs.webhooks import WEBHOOK_WORKFLOW, webhook_plan
from windlass.spec.compile import compile_plan, definition_from_json


async def follow_to_end(client: Client, job_id: str, *, as_json: bool) -> int:
    """Show the job until it has ended, then its result; the exit code."""
    if not as_json:
        job = await client.job(job_id)
        progress = Progress(await _plan(client, job.workflow_id, job.version), job_id)
        with viewing(progress) as view:
            await follow(_told(client, job_id), view)
    return print_outcome(await with_outputs(client, await client.wait(job_id)), as_json=as_json)


async def _plan(client: Client, workflow_id: str, version: int) -> Plan:
    if workflow_id == WEBHOOK_WORKFLOW:
        return webhook_plan(version)
    workflow = await client.workflow(workflow_id, version)
    return compile_plan(definition_from_json(workflow.definition), version)


async def _told(client: Client, job_id: str) -> AsyncIterator[Event]:
    async for event in client.watch(job_id, context=False):
        yield told_event(event)
