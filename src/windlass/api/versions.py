"""Which version a submit gets: a number, an alias, or the newest one."""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random

from msgspec import Struct

from windlass.api.problems import invalid
from windlass.core.errors import WorkflowNotFound
from windlass.core.templates.json_values import nearest
from windlass.ports.store import Store
from windlass.ports.store.workflows import AliasTarget

LATEST = "latest"


class Live(Struct, frozen=True):
    """What a workflow that can be submitted has."""

    newest: int
    aliases: Mapping[str, Sequence[AliasTarget]]


# By workflow, and whether its aliases were wanted.
Seen = dict[tuple[str, bool], Live]


class Versions:
    """Chooses versions. Those who ask for the same workflow at the same time share a look at the store.

    Nothing is remembered. Each look begins after everybody who shares it has asked, so a version that was deployed
    or an alias that was moved before a submit, by whichever process, counts for it.
    """

    def __init__(self, store: Store, chance: Random) -> None:
        self._store = store
        self._chance = chance
        self._running: dict[tuple[str, bool], asyncio.Future[None]] = {}
        self._next: dict[tuple[str, bool], asyncio.Task[Live]] = {}

    async def chosen(self, workflow_id: str, wanted: int | str | None, seen: Seen) -> int:
        """The version to run; WorkflowNotFound when there is none such, or the workflow was deleted.

        `seen` holds what one request has looked up already.
        """
        key = (workflow_id, isinstance(wanted, str) and wanted != LATEST)
        live = seen.get(key)
        if live is None:
            live = seen[key] = await self._live(key)
        if wanted is None or wanted == LATEST:
            return live.newest
        if isinstance(wanted, int):
            if not 0 < wanted <= live.newest:
                raise WorkflowNotFound(
                    f"workflow {workflow_id} has no version {wanted}; its newest is version {live.newest}"
                )
            return wanted
        targets = live.aliases.get(wanted)
        if targets is None:
            raise _no_alias(workflow_id, wanted, live)
        if len(targets) == 1:
            return targets[0].version
        weights = [target.weight for target in targets]
        return self._chance.choices([target.version for target in targets], weights)[0]

    async def _live(self, key: tuple[str, bool]) -> Live:
        look = self._next.get(key)
        if look is None:
            before = self._running.get(key)
            if before is None:
                return await self._look(key)
            look = self._next[key] = asyncio.create_task(self._look_after(before, key))
        return await asyncio.shield(look)

    async def _look_after(self, before: "asyncio.Future[None]", key: tuple[str, bool]) -> Live:
        await asyncio.wait((before,))
        del self._next[key]
        return await self._look(key)

    async def _look(self, key: tuple[str, bool]) -> Live:
        workflow_id, with_aliases = key
        ended = self._running[key] = asyncio.get_running_loop().create_future()
        try:
            newest = (await self._store.workflows.get(workflow_id)).version
            return Live(newest, await self._store.workflows.aliases(workflow_id) if with_aliases else {})
        finally:
            del self._running[key]
            ended.set_result(None)


def _no_alias(workflow_id: str, alias: str, live: Live) -> WorkflowNotFound:
    known = [LATEST, *live.aliases]
    like = nearest(alias, known)
    hint = f"did you mean '{like}'?" if like else f"it has: {', '.join(known)}"
    return WorkflowNotFound(f"workflow {workflow_id} has no alias {alias!r}; {hint}")


def check_alias(alias: str) -> None:
    """Refuse names that would be taken for something else."""
    if alias == LATEST:
        raise invalid("alias", "`latest` is always the newest version and cannot be set", "choose another name")
    if alias.isdigit():
        raise invalid("alias", f"{alias} would be taken for a version", "choose a name with a letter")
