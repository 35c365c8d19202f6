"""What goes wrong in simulations: processes that die, calls that fail, are delayed, repeated or reordered."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context, ContextVar, copy_context
from enum import Enum, unique
from functools import partial
from random import Random
from typing import Any, Protocol

from windlass.core.changes import Task
from windlass.core.errors import BrokerUnavailable, CommitUnknown, RetryableError, StaleLease, StoreUnavailable

DELAY_SECONDS_MAX = 3.0
LATENCY_SECONDS_MAX = 0.02
STOP_SECONDS = (1.0, 8.0)
# A call seen by its caller as failed may have been lost on the way there or on the way back.
WRITES = frozenset({
    "workflows.put", "jobs.insert", "jobs.put_request", "jobs.prune", "runs.put_request", "commit",
    "leases.take", "leases.claim", "leases.release", "leases.renew", "leases.deregister",
})  # fmt: skip
# Ports within a port; their calls are named `part.call`.
PARTS = frozenset({"workflows", "jobs", "leases", "logs", "runs", "overview"})
# Calls that nobody waits for.
HINTS = frozenset({"tell_done", "hear_done"})
REPEATABLE = frozenset({"send", "publish", "finish", "cancel", "consume"})


@unique
class Fault(Enum):
    """What becomes of one call to a port."""

    FAIL_BEFORE = "the call fails and does nothing"
    FAIL_AFTER = "the call takes effect, and the caller is told that it failed"
    KILL_BEFORE = "the process dies before the call"
    KILL_AFTER = "the process dies after the call took effect"
    DELAY = "the call takes long"
    REPEAT = "the call takes effect twice"
    SHUFFLE = "what the call returns comes in another order"
    STOP = "the process is stopped once the call took effect, and goes on long afterwards"


class Life:
    """A process of the simulation: everything that runs in it ends with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.refused = False
        # Ports and calls that fail whatever the chooser says: a network that is cut, a heartbeat that gets lost.
        self.cut: set[str] = set()
        self.tasks: list[asyncio.Task[Any]] = []
        self.died = asyncio.Event()
        self._awake = asyncio.Event()
        self._awake.set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run something inside the process; whatever it starts belongs to the process too."""
        context = copy_context()
        context.run(_LIFE.set, self)
        return asyncio.get_running_loop().create_task(work, context=context)

    def kill(self) -> None:
        """End at once: no call of this process reaches anything from now on."""
        if self.dead:
            return
        self.dead = True
        self._awake.set()
        self.died.set()
        for task in self.tasks:
            if not task.done():
                task.cancel()

    def pause(self) -> None:
        """Stop the process in its tracks, as a debugger or a suspended machine does."""
        self._awake.clear()

    @property
    def is_paused(self) -> bool:
        """Whether the process is stopped in its tracks."""
        return not self._awake.is_set()

    def resume(self) -> None:
        """Let a paused process go on, unaware."""
        self._awake.set()

    async def alive(self) -> None:
        """Return when the process may go on; a dead one never does."""
        if not self._awake.is_set():
            await self._awake.wait()
        if self.dead:
            raise asyncio.CancelledError(f"{self.name} is dead")


_LIFE: ContextVar[Life | None] = ContextVar("life", default=None)


def current_life() -> Life | None:
    """The simulated process that the running code belongs to."""
    return _LIFE.get()


def adopt_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Have every task of the loop belong to the simulated process that starts it."""

    def make(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> "asyncio.Task[Any]":
        task = asyncio.Task(work, loop=loop, **options)
        context = options.get("context")
        life = _LIFE.get() if context is None else context.get(_LIFE)
        if life is not None:
            life.tasks.append(task)
            if life.dead:
                task.cancel()
        return task

    loop.set_task_factory(make)


class Chooser(Protocol):
    """Decides what becomes of each call."""

    def choose(self, life: Life, port: str, call: str) -> Fault | None:
        """The fault of the call that is about to be made."""
        ...

    def seconds(self) -> float:
        """How long an ordinary call takes."""
        ...

    def delay(self) -> float:
        """How long a delayed call takes."""
        ...

    def stop(self) -> float:
        """How long a process is stopped."""
        ...

    def shuffle(self, things: list[Any]) -> None:
        """Bring things into another order."""
        ...


class Calm:
    """Nothing goes wrong."""

    def choose(self, life: Life, port: str, call: str) -> Fault | None:
        """No fault."""
        return None

    def seconds(self) -> float:
        """Calls take no time."""
        return 0.0

    def delay(self) -> float:
        """Delays do not happen."""
        return 0.0

    def stop(self) -> float:
        """Longer than any lease."""
        return STOP_SECONDS[1]

    def shuffle(self, things: list[Any]) -> None:
        """The order stays."""


class FaultAt(Calm):
    """One fault, at the call with the given number; without one it only counts."""

    def __init__(self, number: int = -1, fault: Fault | None = None) -> None:
        self.number = number
        self.fault = fault
        self.calls: list[str] = []
        # What else happens just before that call.
        self.disaster: Callable[[], None] | None = None

    def choose(self, life: Life, port: str, call: str) -> Fault | None:
        """The fault, when its turn has come."""
        self.calls.append(f"{port}.{call}")
        if len(self.calls) - 1 != self.number:
            return None
        if self.disaster is not None:
            self.disaster()
        return self.fault


class RandomFaults:
    """Faults by chance, at rates that differ from seed to seed, until they are stopped."""

    def __init__(self, chance: Random, rates: Mapping[Fault, float], latency: float) -> None:
        self.active = True
        self._chance = chance
        self._rates = [(fault, rate) for fault, rate in rates.items() if rate > 0]
        self._total = sum(rate for _, rate in self._rates)
        self._latency = latency

    def choose(self, life: Life, port: str, call: str) -> Fault | None:
        """A fault, rarely."""
        if not self.active or not self._rates:
            return None
        roll = self._chance.random()
        if roll >= self._total:
            return None
        for fault, rate in self._rates:
            roll -= rate
            if roll < 0:
                return fault if can_happen(fault, call) else None
        return None

    def seconds(self) -> float:
        """Nothing at all, or a little."""
        return self._chance.random() * self._latency if self._latency else 0.0

    def delay(self) -> float:
        """Up to the bound."""
        return self._chance.random() * DELAY_SECONDS_MAX

    def stop(self) -> float:
        """Shorter or longer than a lease."""
        return self._chance.uniform(*STOP_SECONDS)

    def shuffle(self, things: list[Any]) -> None:
        """Any order."""
        self._chance.shuffle(things)


def can_happen(fault: Fault, call: str) -> bool:
    """Whether a call can meet a fault at all."""
    if fault is Fault.REPEAT:
        return call in REPEATABLE
    if fault is Fault.SHUFFLE:
        return call == "gather"
    # A worker that never hears of what it was handed holds it until it dies: brokers must not lose that answer.
    return not (fault is Fault.FAIL_AFTER and call == "consume")


class Watch(Protocol):
    """Is told of every call."""

    def begun(self, process: str, call: str, arguments: tuple[Any, ...]) -> None:
        """A process is about to make a call."""
        ...

    def done(self, process: str, call: str, arguments: tuple[Any, ...], answer: Any) -> None:
        """A call took effect, whatever the caller hears of it."""
        ...


class Wire:
    """A port as one simulated process sees it. Attributes are the port's methods, with faults in between."""

    def __init__(
        self, name: str, port: Callable[[], object], life: Life, chooser: Chooser, watch: Watch | None = None
    ) -> None:
        self.name = name
        self.life = life
        # Calls under way, by name.
        self.active: Counter[str] = Counter()
        # Those of them that have reached the port and wait there.
        self.inside: Counter[str] = Counter()
        # Calls whose last answer was a failure, each with the shard that it was about, where that is known.
        self.failed: set[tuple[str, int | None]] = set()
        self.calls = 0
        self._port = port
        # What precedes the names of calls: the name of the part that this is.
        self._prefix = ""
        self._chooser = chooser
        self._watch = watch
        self._delivered: list[Any] = []

    def __getattr__(self, call: str) -> Any:
        if self.name == "store" and not self._prefix and call in PARTS:
            part = Wire(self.name, lambda: getattr(self._port(), call), self.life, self._chooser, self._watch)
            part.active, part.inside, part.failed = self.active, self.inside, self.failed
            part._prefix = f"{call}."
            setattr(self, call, part)
            return part
        if call in HINTS:
            return partial(self._hint, call)

        name = self._prefix + call

        async def through(*arguments: Any, **options: Any) -> Any:
            self.active[name] += 1
            self.calls += 1
            place = (name, _shard(arguments))
            self.failed.add(place)
            try:
                answer = await self._through(name, arguments, options)
                self.failed.discard(place)
                return answer
            finally:
                self.active[name] -= 1

        setattr(self, call, through)
        return through

    def _hint(self, call: str, *arguments: Any) -> None:
        # What is lost is as if it had never been said: there is no fault to choose.
        if not self.life.dead and self.life.cut.isdisjoint((self.name, call)):
            getattr(self._port(), call)(*arguments)

    async def _through(self, call: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if self._watch is not None:
            self._watch.begun(self.life.name, call, arguments)
        await self.life.alive()
        fault = self._chooser.choose(self.life, self.name, call)
        if fault is Fault.FAIL_BEFORE or not self.life.cut.isdisjoint((self.name, call)):
            raise self._failure(call)
        if fault is Fault.KILL_BEFORE:
            self._kill()
        seconds = self._chooser.delay() if fault is Fault.DELAY else self._chooser.seconds()
        if seconds:
            await asyncio.sleep(seconds)
            await self.life.alive()
        if call == "leases.take" and self.life.refused:
            raise AssertionError(f"{self.life.name} takes a lease again that it was told it had lost")
        self.inside[call] += 1
        try:
            answer = await self._effect(call, arguments, options)
            if fault is Fault.REPEAT:
                answer = await self._repeat(call, arguments, options, answer)
        except StaleLease:
            self.life.refused = True
            raise
        finally:
            self.inside[call] -= 1
        if fault is Fault.FAIL_AFTER:
            raise self._failure(call)
        if fault is Fault.KILL_AFTER:
            self._kill()
        if fault is Fault.SHUFFLE:
            answer = list(answer)
            self._chooser.shuffle(answer)
        if fault is Fault.STOP:
            self.life.pause()
            asyncio.get_running_loop().call_later(self._chooser.stop(), self.life.resume)
        await self.life.alive()
        return answer

    async def _effect(self, call: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        answer = await getattr(self._port(), call.removeprefix(self._prefix))(*arguments, **options)
        if self._watch is not None:
            self._watch.done(self.life.name, call, arguments, answer)
        return answer

    async def _repeat(self, call: str, arguments: tuple[Any, ...], options: dict[str, Any], answer: Any) -> Any:
        if call != "consume":
            await self._effect(call, arguments, options)
            # And once more when it is long outdated. That copy is on its way whatever becomes of its sender.
            Context().run(asyncio.ensure_future, self._later(call, arguments, options))
            return answer
        self._delivered.extend(answer)
        return [*answer, *self._delivered[-1:]]

    async def _later(self, call: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        await asyncio.sleep(self._chooser.delay())
        await self._effect(call, arguments, options)

    def _kill(self) -> None:
        self.life.kill()
        raise asyncio.CancelledError(f"{self.life.name} is dead")

    def _failure(self, call: str) -> Exception:
        if self.name == "broker":
            return BrokerUnavailable(f"simulated failure of {call}")
        if self.name == "sink":
            return RetryableError(f"simulated failure of {call}")
        return CommitUnknown("simulated failure") if call in WRITES else StoreUnavailable("simulated failure")


def _shard(arguments: tuple[Any, ...]) -> int | None:
    """The shard that a call is about: its number comes first, or in the first of what is published."""
    match arguments:
        case [int(number), *_]:
            return number
        case [[Task(shard=number), *_], *_]:
            return number
        case _:
            return None
