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
    "put_workflow", "submit", "request", "commit", "prune",
    "take_lease", "claim_lease", "release_lease", "beat", "leave",
})  # fmt: skip
# Ports within a port.
PARTS = frozenset({"runs", "overview"})
# Calls that nobody waits for.
HINTS = frozenset({"notify_done", "subscribe_done"})
REPEATABLE = frozenset({"send", "publish", "finish", "cancel", "claim"})


@unique
class Fault(Enum):
    """What becomes of one call to a port."""

    FAIL_BEFORE = "the call fails and does nothing"
    FAIL_AFTER = "the call takes effect, and the caller is describe that it failed"
    KILL_BEFORE = "the process dies before the call"
    KILL_AFTER = "the process dies after the call took effect"
    DELAY = "the call takes long"
    REPEAT = "the call takes effect twice"
    SHUFFLE = "what the call returns comes in another order"
    STOP = "the process is stopped once the call took effect, and goes on long afterwards"


class SimulatedProcess:
    """A process of the simulation: everything that runs in it ends with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.refused = False
        # Ports and calls that fail whatever the fault_plan says: a network that is cut, a heartbeat that gets lost.
        self.cut: set[str] = set()
        self.tasks: list[asyncio.Task[Any]] = []
        self.died = asyncio.Event()
        self._awake = asyncio.Event()
        self._awake.set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run something inside the process; whatever it starts belongs to the process too."""
        context = copy_context()
        context.run(_PROCESS.set, self)
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


_PROCESS: ContextVar[SimulatedProcess | None] = ContextVar("process", default=None)


def current_process() -> SimulatedProcess | None:
    """The simulated process that the running code belongs to."""
    return _PROCESS.get()


def adopt_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Have every task of the loop belong to the simulated process that starts it."""

    def make(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> "asyncio.Task[Any]":
        task = asyncio.Task(work, loop=loop, **options)
        context = options.get("context")
        process = _PROCESS.get() if context is None else context.get(_PROCESS)
        if process is not None:
            process.tasks.append(task)
            if process.dead:
                task.cancel()
        return task

    loop.set_task_factory(make)


class FaultPlan(Protocol):
    """Decides what becomes of each call."""

    def choose(self, process: SimulatedProcess, port: str, call: str) -> Fault | None:
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


class NoFaults:
    """Nothing goes wrong."""

    def choose(self, process: SimulatedProcess, port: str, call: str) -> Fault | None:
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


class FaultAtCall(NoFaults):
    """One fault, at the call with the given number; without one it only counts."""

    def __init__(self, number: int = -1, fault: Fault | None = None) -> None:
        self.number = number
        self.fault = fault
        self.calls: list[str] = []
        # What else happens just before that call.
        self.disruption: Callable[[], None] | None = None

    def choose(self, process: SimulatedProcess, port: str, call: str) -> Fault | None:
        """The fault, when its turn has come."""
        self.calls.append(f"{port}.{call}")
        if len(self.calls) - 1 != self.number:
            return None
        if self.disruption is not None:
            self.disruption()
        return self.fault


class RandomFaults:
    """Faults by random, at rates that differ from seed to seed, until they are stopped."""

    def __init__(self, random: Random, rates: Mapping[Fault, float], latency: float) -> None:
        self.active = True
        self._random = random
        self._rates = [(fault, rate) for fault, rate in rates.items() if rate > 0]
        self._total = sum(rate for _, rate in self._rates)
        self._latency = latency

    def choose(self, process: SimulatedProcess, port: str, call: str) -> Fault | None:
        """A fault, rarely."""
        if not self.active or not self._rates:
            return None
        roll = self._random.random()
        if roll >= self._total:
            return None
        for fault, rate in self._rates:
            roll -= rate
            if roll < 0:
                return fault if can_happen(fault, call) else None
        return None

    def seconds(self) -> float:
        """Nothing at all, or a little."""
        return self._random.random() * self._latency if self._latency else 0.0

    def delay(self) -> float:
        """Up to the bound."""
        return self._random.random() * DELAY_SECONDS_MAX

    def stop(self) -> float:
        """Shorter or longer than a lease."""
        return self._random.uniform(*STOP_SECONDS)

    def shuffle(self, things: list[Any]) -> None:
        """Any order."""
        self._random.shuffle(things)


def can_happen(fault: Fault, call: str) -> bool:
    """Whether a call can meet a fault at all."""
    if fault is Fault.REPEAT:
        return call in REPEATABLE
    if fault is Fault.SHUFFLE:
        return call == "receive"
    # A worker that never hears of what it was handed holds it until it dies: brokers must not lose that answer.
    return not (fault is Fault.FAIL_AFTER and call == "claim")


class CallListener(Protocol):
    """Is describe of every call."""

    def begun(self, process: str, call: str, arguments: tuple[Any, ...]) -> None:
        """A process is about to make a call."""
        ...

    def done(self, process: str, call: str, arguments: tuple[Any, ...], answer: Any) -> None:
        """A call took effect, whatever the caller hears of it."""
        ...


class FaultyConnection:
    """A port as one simulated process sees it. Attributes are the port's methods, with faults in between."""

    def __init__(
        self,
        name: str,
        port: Callable[[], object],
        process: SimulatedProcess,
        fault_plan: FaultPlan,
        watch: CallListener | None = None,
    ) -> None:
        self.name = name
        self.process = process
        # Calls under way, by name.
        self.active: Counter[str] = Counter()
        # Those of them that have reached the port and wait there.
        self.inside: Counter[str] = Counter()
        # Calls whose last answer was a failure, each with the shard that it was about, where that is known.
        self.failed: set[tuple[str, int | None]] = set()
        self.calls = 0
        self._port = port
        self._fault_plan = fault_plan
        self._listener = watch
        self._delivered: list[Any] = []

    def __getattr__(self, call: str) -> Any:
        if call in PARTS:
            part = FaultyConnection(
                self.name, lambda: getattr(self._port(), call), self.process, self._fault_plan, self._listener
            )
            part.active, part.inside, part.failed = self.active, self.inside, self.failed
            setattr(self, call, part)
            return part
        if call in HINTS:
            return partial(self._hint, call)

        async def through(*arguments: Any, **options: Any) -> Any:
            self.active[call] += 1
            self.calls += 1
            place = (call, _shard(arguments))
            self.failed.add(place)
            try:
                answer = await self._through(call, arguments, options)
                self.failed.discard(place)
                return answer
            finally:
                self.active[call] -= 1

        setattr(self, call, through)
        return through

    def _hint(self, call: str, *arguments: Any) -> None:
        # What is lost is as if it had never been said: there is no fault to choose.
        if not self.process.dead and self.process.cut.isdisjoint((self.name, call)):
            getattr(self._port(), call)(*arguments)

    async def _through(self, call: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if self._listener is not None:
            self._listener.begun(self.process.name, call, arguments)
        await self.process.alive()
        fault = self._fault_plan.choose(self.process, self.name, call)
        if fault is Fault.FAIL_BEFORE or not self.process.cut.isdisjoint((self.name, call)):
            raise self._failure(call)
        if fault is Fault.KILL_BEFORE:
            self._kill()
        seconds = self._fault_plan.delay() if fault is Fault.DELAY else self._fault_plan.seconds()
        if seconds:
            await asyncio.sleep(seconds)
            await self.process.alive()
        if call == "take_lease" and self.process.refused:
            raise AssertionError(f"{self.process.name} takes a lease again that it was describe it had lost")
        self.inside[call] += 1
        try:
            answer = await self._effect(call, arguments, options)
            if fault is Fault.REPEAT:
                answer = await self._repeat(call, arguments, options, answer)
        except StaleLease:
            self.process.refused = True
            raise
        finally:
            self.inside[call] -= 1
        if fault is Fault.FAIL_AFTER:
            raise self._failure(call)
        if fault is Fault.KILL_AFTER:
            self._kill()
        if fault is Fault.SHUFFLE:
            answer = list(answer)
            self._fault_plan.shuffle(answer)
        if fault is Fault.STOP:
            self.process.pause()
            asyncio.get_running_loop().call_later(self._fault_plan.stop(), self.process.resume)
        await self.process.alive()
        return answer

    async def _effect(self, call: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        answer = await getattr(self._port(), call)(*arguments, **options)
        if self._listener is not None:
            self._listener.done(self.process.name, call, arguments, answer)
        return answer

    async def _repeat(self, call: str, arguments: tuple[Any, ...], options: dict[str, Any], answer: Any) -> Any:
        if call != "claim":
            await self._effect(call, arguments, options)
            # And once more when it is long outdated. That copy is on its way whatever becomes of its sender.
            Context().run(asyncio.ensure_future, self._later(call, arguments, options))
            return answer
        self._delivered.extend(answer)
        return [*answer, *self._delivered[-1:]]

    async def _later(self, call: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        await asyncio.sleep(self._fault_plan.delay())
        await self._effect(call, arguments, options)

    def _kill(self) -> None:
        self.process.kill()
        raise asyncio.CancelledError(f"{self.process.name} is dead")

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
