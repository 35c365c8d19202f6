"""The version of a workflow that a request names: a number or an alias, by default the workflow's, or the newest."""

import asyncio
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from zlib import crc32

from msgspec import Struct

from windlass.core.errors import WorkflowNotFound
from windlass.core.templates.json_values import nearest
from windlass.engine.plan_cache import Plans
from windlass.ports.store import Store
from windlass.ports.store.workflows import LATEST, AliasTarget

# Selects one of a number of equal shares of an alias: returns a number from 0 to below the given one.
Choice = Callable[[int], int]


class LiveVersions(Struct, frozen=True):
    """The newest version and the aliases of a workflow that is not deleted."""

    newest: int
    aliases: Mapping[str, Sequence[AliasTarget]]
    # The alias of requests that name no version, declared by the newest version.
    default_alias: str | None = None


# The workflow, and whether its aliases are needed.
VersionKey = tuple[str, bool]
VersionCache = dict[VersionKey, LiveVersions]


def stable_choice(key: str) -> Choice:
    """Return a choice that is always the same for the same key."""
    return lambda shares: crc32(key.encode()) % shares


class VersionResolver:
    """Resolves versions. Concurrent requests for the same workflow share a query.

    Nothing is cached. A query starts after all requests that share it, so a deployment or a moved alias that precedes
    a request always applies to it, also if another process made it.
    """

    def __init__(self, store: Store, plans: Plans) -> None:
        self._store = store
        self._plans = plans
        self._running: dict[VersionKey, asyncio.Future[None]] = {}
        self._next: dict[VersionKey, asyncio.Task[LiveVersions]] = {}

    async def resolve(
        self, workflow_id: str, wanted: int | str | None, choose: Choice, cache: VersionCache
    ) -> int:
        """Return the version to run; `choose` selects among the versions of a weighted alias. WorkflowNotFound.

        `cache` holds what the same request has read before.
        """
        is_alias = isinstance(wanted, str) and wanted != LATEST
        live = await self._read_cached((workflow_id, is_alias), cache)
        if wanted is None and live.default_alias is not None:
            live = await self._read_cached((workflow_id, True), cache)
            # Until the alias is set, the newest version runs.
            wanted = live.default_alias if live.default_alias in live.aliases else LATEST
        if wanted is None or wanted == LATEST:
            return live.newest
        if isinstance(wanted, int):
            return _existing_version(workflow_id, wanted, live.newest)
        targets = live.aliases.get(wanted)
        if not targets:
            raise _unknown_alias(workflow_id, wanted, live)
        return _weighted_version(targets, choose)

    def names_alias(self, workflow_id: str, wanted: int | str | None, cache: VersionCache) -> bool:
        """Whether a request that was resolved names an alias, by itself or because its workflow has a default."""
        if wanted is None:
            return cache[workflow_id, False].default_alias is not None
        return isinstance(wanted, str)

    async def _read_cached(self, key: VersionKey, cache: VersionCache) -> LiveVersions:
        live = cache.get(key)
        if live is None:
            live = cache[key] = await self._read_shared(key)
        return live

    async def _read_shared(self, key: VersionKey) -> LiveVersions:
        """Read now, or join the query that starts when the running one has finished."""
        query = self._next.get(key)
        if query is None:
            running = self._running.get(key)
            if running is None:
                return await self._read(key)
            query = self._next[key] = asyncio.create_task(self._read_after(running, key))
        return await asyncio.shield(query)

    async def _read_after(self, running: "asyncio.Future[None]", key: VersionKey) -> LiveVersions:
        await asyncio.wait((running,))
        del self._next[key]
        return await self._read(key)

    async def _read(self, key: VersionKey) -> LiveVersions:
        workflow_id, needs_aliases = key
        finished = self._running[key] = asyncio.get_running_loop().create_future()
        try:
            newest = (await self._store.workflows.get(workflow_id)).version
            aliases: Mapping[str, Sequence[AliasTarget]] = {}
            if needs_aliases:
                aliases = await self._store.workflows.aliases(workflow_id)
            default_alias = (await self._plans.get(workflow_id, newest)).default_alias
            return LiveVersions(newest, aliases, default_alias)
        finally:
            del self._running[key]
            finished.set_result(None)


def _existing_version(workflow_id: str, version: int, newest: int) -> int:
    if not 0 < version <= newest:
        raise WorkflowNotFound(
            f"workflow {workflow_id} has no version {version}; its newest is version {newest}"
        )
    return version


def _weighted_version(targets: Sequence[AliasTarget], choose: Choice) -> int:
    limits = list(accumulate(target.weight for target in targets))
    return targets[bisect(limits, choose(limits[-1]))].version


def _unknown_alias(workflow_id: str, alias: str, live: LiveVersions) -> WorkflowNotFound:
    known = [LATEST, *live.aliases]
    suggestion = nearest(alias, known)
    hint = f"known aliases: {', '.join(known)}"
    if suggestion:
        hint = f"did you mean '{suggestion}'?"
    return WorkflowNotFound(f"workflow {workflow_id} has no alias {alias!r}; {hint}")
