"""Probes at the root: does the process live, can it serve, and what is it made of."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from windlass.api.operations import Call, Operation, answer, declare
from windlass.api.policy import Policy
from windlass.api.requests import no_query
from windlass.api.routes.workers import workers_seen
from windlass.api.state import ApiState
from windlass.core.errors import StoreUnavailable
from windlass.ports.store.leases import LeaseRow
from windlass.ports.store.workflows import WorkflowFilter
from windlass.wire import Health, ShardSeen, instant

TAG = "health"


def _shard(row: LeaseRow) -> ShardSeen:
    return ShardSeen(row.shard, row.owner, row.epoch, row.expired, instant(row.expires_at))


def router(state: ApiState) -> APIRouter:
    """`/livez`, `/readyz` and `/health`."""
    routes = APIRouter()

    async def health() -> Health:
        own = frozenset(state.control.shards)
        shards = [ShardSeen(shard, None, 0) for shard in sorted(own)]
        # A server beside engines serves without a shard of its own: what it takes is durable before they see it.
        serves = state.control.is_shared or bool(own)
        try:
            await state.store.workflows.list(WorkflowFilter(limit=1))
            leases = (await state.store.leases.ownership()).leases
            # A database that is not shared may remember shards of an earlier process.
            shards = [_shard(row) for row in leases if state.control.is_shared or row.shard in own]
        except StoreUnavailable:
            serves = False
        serves = serves and not state.closing.is_set()
        return Health("ok" if serves else "degraded", state.version, shards, await workers_seen(state))

    async def live(request: Request) -> Response:
        no_query(request)
        return answer(Health("ok", state.version, [], []))

    async def ready(request: Request) -> Response:
        no_query(request)
        found = await health()
        return answer(Health(found.status, state.version, [], []), 200 if found.status == "ok" else 503)

    async def both(request: Request) -> Response:
        no_query(request)
        return answer(await health())

    probes: tuple[tuple[str, Call, str, tuple[int, ...]], ...] = (
        ("/livez", live, "Does the process live?", (200,)),
        ("/readyz", ready, "Can it serve: does it run its shards, and does the database answer?", (200, 503)),
        ("/health", both, "Both, with its shards and workers", (200,)),
    )
    for path, call, summary, statuses in probes:
        # Workers and shards are told to those who may read; the two probes tell anybody one word.
        policy = Policy.READ if call is both else Policy.PUBLIC
        answers: dict[int, Any] = dict.fromkeys(statuses, Health)
        declare(routes, "GET", path, call, Operation(
            policy=policy, tag=TAG, summary=summary, answers=answers, refusals=(422,),
        ))  # fmt: skip
    return routes
