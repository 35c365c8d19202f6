"""Workflows with runs, and functions that wait for runs, for tests of the API and the commands."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.api.harness import API, System

ENDS_SECONDS = 30.0
# Slots are far away, so that no run starts by itself during a test.
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


async def found(system: System, path: str, condition: Callable[[Any], bool], **params: Any) -> Any:
    """Poll a path until its response satisfies a condition, and return it."""
    async with asyncio.timeout(ENDS_SECONDS):
        while True:
            response = await system.client.get(f"{API}{path}", params=params)
            # The run of a job is stored shortly after the job.
            assert response.status_code in (200, 404), response.text
            if response.status_code == 200 and condition(response.json()):
                return response.json()
            # There are no notifications about runs.
            await asyncio.sleep(0.02)
