"""The health of a deployment: its shards, its engines, and what is wrong with them."""

from collections.abc import Collection

from msgspec import Struct

from windlass.ports.store.leases import LeaseRow, Ownership
from windlass.wire import ShardView, instant

# Shards that a problem names; the rest is counted.
SHARDS_NAMED_MAX = 10


class EnginesView(Struct, frozen=True):
    """The shards and their owners, the engines that are alive, and what is wrong."""

    shards: list[ShardView]
    engines: list[str]
    problems: list[str]


def engines_view(ownership: Ownership, shards: Collection[int], *, is_shared: bool) -> EnginesView:
    """Return the view of all shards, those without an owner included."""
    rows = {row.shard: row for row in ownership.leases}
    views = [_shard_view(shard, rows.get(shard)) for shard in sorted(shards)]
    unowned = [view.shard for view in views if view.owner is None or view.expired]
    if is_shared:
        engines = [engine.owner for engine in ownership.engines]
    else:
        # The only engine renews no lease.
        engines = sorted({view.owner for view in views if view.owner is not None})
    return EnginesView(views, engines, _problems(engines, unowned, len(views)))


def _problems(engines: list[str], unowned: list[int], total: int) -> list[str]:
    if not engines:
        return ["no engine is running: jobs do not advance"]
    if not unowned:
        return []
    names = ", ".join(str(shard) for shard in unowned[:SHARDS_NAMED_MAX])
    if len(unowned) > SHARDS_NAMED_MAX:
        names += ", …"
    return [
        f"{len(unowned)} of {total} shards have no owner, and their jobs do not advance: {names}"
    ]


def _shard_view(shard: int, row: LeaseRow | None) -> ShardView:
    if row is None:
        return ShardView(shard, None, 0)
    return ShardView(row.shard, row.owner, row.epoch, row.expired, instant(row.expires_at))
