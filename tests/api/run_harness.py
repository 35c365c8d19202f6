"""Workflows with runs, and functions that wait for runs, for tests of the API and the commands."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.api.harness import API, System

ENDS_SECONDS = 30.0
# Far from any slot: nothing starts by itself while a test looks.
YEARLY = """
workflow_id: yearly
input: {type: object, properties: {n: {type: integer, default: 1}}}
schedule: {cron: "0 3 1 1 *", timezone: Europe/Paris, input: {m: 2}}
nodes: {a: {handler: echo}}
"""
HOURLY = """
workflow_id: hourly
schedule: {every: 1h, anchor: "2026-01-01T00:30:00Z"}
nodes: {a: {handler: echo}}
"""
SINGLE = """
workflow_id: single
constraints: {max_concurrent_runs: 1}
nodes: {a: {handler: sleep, params: {seconds: 60}}}
"""


async def found(system: System, path: str, wanted: Callable[[Any], bool], **params: Any) -> Any:
    """What a list or a thing is once it is as wanted."""
    async with asyncio.timeout(ENDS_SECONDS):
        while True:
            response = await system.client.get(f"{API}{path}", params=params)
            # The run of a job is there a moment after the job.
            assert response.status_code in (200, 404), response.text
            if response.status_code == 200 and wanted(response.json()):
                return response.json()
            # The rows of runs have no news of their own; the engine commits many times a second.
            await asyncio.sleep(0.02)
