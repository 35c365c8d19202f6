"""What all parts of an engine use."""

from collections.abc import Callable

from msgspec import Raw, Struct

from windlass.engine.duties.contents_watch import ContentsWatch
from windlass.engine.ids import Ids
from windlass.engine.plan_cache import Plans
from windlass.ports.broker import Broker
from windlass.ports.clock import Clock
from windlass.ports.store import Store

# Checks an input against a workflow's schema and returns it with its defaults, as JSON. InputInvalid.
CheckInput = Callable[[Raw | None, object], Raw]


class EngineContext(Struct, frozen=True, kw_only=True):
    """The ports of an engine, and what its parts share."""

    store: Store
    broker: Broker
    clock: Clock
    plans: Plans
    ids: Ids
    contents: ContentsWatch
    check_input: CheckInput
