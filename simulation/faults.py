"""Faults of simulations: processes that crash or stop, and calls that fail, are delayed, repeated or reordered."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context, ContextVar, copy_context
from enum import Enum, unique
from functools import partial
from random import Random
from typing import Any, Protocol

from windlass.core.changes import Task
from windlass.core.errors import (
    BrokerUnavailable,
    CommitUnknown,
    RetryableError,
    StaleLease,
    StoreUnavailable,
)

DELAY_SECONDS_MAX = 3.0
LATENCY_SECONDS_MAX = 0.02
STOP_SECONDS = (1.0, 8.0)
# Calls whose caller cannot know after a failure whether they took effect.
WRITES = frozenset({
    "workflows.put", "jobs.insert", "jobs.put_request", "jobs.prune", "runs.put_request", "commit",
    "leases.take", "leases.claim", "leases.release", "leases.renew", "leases.deregister",
})  # fmt: skip
# Parts of the store, which are ports of their own; their calls are named `part.call`.
PARTS = frozenset({"workflows", "jobs", "leases", "logs", "runs", "overview"})
# Calls without a response.
HINTS = frozenset({"notify_done", "subscribe_done"})
REPEATABLE = frozenset({"send", "publish", "finish", "cancel", "claim"})


@unique
class Fault(Enum):
    """What happens to one call to a port."""

    FAIL_BEFORE = "the call fails and does nothing"
    FAIL_AFTER = "the call takes effect, but the caller gets an error"
    KILL_BEFORE = "the process dies before the call"
    KILL_AFTER = "the process dies after the call took effect"
    DELAY = "the call takes long"
    REPEAT = "the call takes effect twice"
    SHUFFLE = "the result of the call is in another order"
    STOP = "the process is stopped after the call took effect and continues much later"


class SimulatedProcess:
    """A process of the simulation: everything that runs in it ends with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        # Whether the store refused a call because the lease was lost.
        self.has_lost_lease = False
        # Ports and calls that fail regardless of the fault plan: a cut network, lost heartbeats.
        self.unreachable: set[str] = set()
        self.tasks: list[asyncio.Task[Any]] = []
        self.died = asyncio.Event()
        self._running = asyncio.Event()
        self._running.set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run a coroutine inside the process; the tasks it starts belong to the process too."""
        context = copy_context()
        context.run(_PROCESS.set, self)
        return asyncio.get_running_loop().create_task(work, context=context)

    def kill(self) -> None:
        """End the process at once: no call of it reaches a port from now on."""
        if self.is_dead:
            return
        self.is_dead = True
        self._running.set()
        self.died.set()
        for task in self.tasks:
            if not task.done():
                task.cancel()

    def pause(self) -> None:
        """Stop the process, as a debugger or a suspended machine does."""
        self._running.clear()

    @property
    def is_paused(self) -> bool:
        """Whether the process is stopped."""
        return not self._running.is_set()

    def resume(self) -> None:
        """Let a paused process continue."""
        self._running.set()

    async def wait_until_running(self) -> None:
        """Wait while the process is paused. Raises CancelledError if it is dead."""
        if not self._running.is_set():
            await self._running.wait()
        if self.is_dead:
            raise asyncio.CancelledError(f"{self.name} is dead")


_PROCESS: ContextVar[SimulatedProcess | None] = ContextVar("process", default=None)


def current_process() -> SimulatedProcess | None:
    """Return the simulated process that runs the calling code."""
    return _PROCESS.get()


def adopt_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Assign every task of the loop to the simulated process that starts it."""

    def make(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> "asyncio.Task[Any]":
        task = asyncio.Task(work, loop=loop, **options)
        context = options.get("context")
        process = _PROCESS.get() if context is None else context.get(_PROCESS)
        if process is not None:
            process.tasks.append(task)
            if process.is_dead:
                task.cancel()
        return task

    loop.set_task_factory(make)


class FaultPlan(Protocol):
    """Decides what happens to each call."""

    def choose(self, process: SimulatedProcess, port: str, call: str) -> Fault | None:
        """Return the fault of the next call."""
        ...

    def latency_seconds(self) -> float:
        """Return how long an ordinary call takes."""
        ...

    def delay_seconds(self) -> float:
        """Return how long a delayed call takes."""
        ...

    def stop_seconds(self) -> float:
        """Return how long a process is stopped."""
        ...

    def shuffle(self, items: list[Any]) -> None:
        """Bring items into another order."""
        ...


class NoFaults:
    """A fault plan without faults."""

    def choose(self, process: SimulatedProcess, port: str, call: str) -> Fault | None:
        """Return no fault."""
        return None

    def latency_seconds(self) -> float:
        """Return zero."""
        return 0.0

    def delay_seconds(self) -> float:
        """Return zero."""
        return 0.0

    def stop_seconds(self) -> float:
        """Return longer than any lease."""
        return STOP_SECONDS[1]

    def shuffle(self, items: list[Any]) -> None:
        """Keep the order."""


class FaultAtCall(NoFaults):
    """One fault at the call with the given number. Without a number it only records the calls."""

    def __init__(self, number: int = -1, fault: Fault | None = None) -> None:
        self.number = number
        self.fault = fault
        self.calls: list[str] = []
        # Called just before that call.
        self.disruption: Callable[[], None] | None = None

    def choose(self, process: SimulatedProcess, port: str, call: str) -> Fault | None:
        """Return the fault if this is its call."""
        self.calls.append(f"{port}.{call}")
        if len(self.calls) - 1 != self.number:
            return None
        if self.disruption is not None:
            self.disruption()
        return self.fault


class RandomFaults:
    """Random faults at given rates, while `active`."""

    def __init__(self, random: Random, rates: Mapping[Fault, float], latency: float) -> None:
        self.active = True
        self._random = random
        self._rates = [(fault, rate) for fault, rate in rates.items() if rate > 0]
        self._total = sum(rate for _, rate in self._rates)
        self._latency = latency

    def choose(self, process: SimulatedProcess, port: str, call: str) -> Fault | None:
        """Return a random fault, or none."""
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

    def latency_seconds(self) -> float:
        """Return a random latency."""
        if not self._latency:
            return 0.0
        return self._random.random() * self._latency

    def delay_seconds(self) -> float:
        """Return a random delay."""
        return self._random.random() * DELAY_SECONDS_MAX

    def stop_seconds(self) -> float:
        """Return a random time, shorter or longer than a lease."""
        return self._random.uniform(*STOP_SECONDS)

    def shuffle(self, items: list[Any]) -> None:
        """Shuffle randomly."""
        self._random.shuffle(items)


def can_happen(fault: Fault, call: str) -> bool:
    """Return whether a fault applies to a call."""
    if fault is Fault.REPEAT:
        return call in REPEATABLE
    if fault is Fault.SHUFFLE:
        return call == "receive"
    # A claim whose response is lost is held by a worker that did not receive it; brokers must return it.
    return not (fault is Fault.FAIL_AFTER and call == "claim")


class CallListener(Protocol):
    """Is notified of every call."""

    def call_started(self, process: str, call: str, arguments: tuple[Any, ...]) -> None:
        """A process is about to make a call."""
        ...

    def call_finished(
        self, process: str, call: str, arguments: tuple[Any, ...], answer: Any
    ) -> None:
        """A call took effect, even if its caller gets an error."""
        ...


class FaultyConnection:
    """A port as one simulated process sees it: its attributes are the port's methods, with faults in between."""

    def __init__(
        self,
        name: str,
        port: Callable[[], object],
        process: SimulatedProcess,
        fault_plan: FaultPlan,
        listener: CallListener | None = None,
    ) -> None:
        self.name = name
        self.process = process
        # Unfinished calls, by name.
        self.active: Counter[str] = Counter()
        # Those of them that have reached the port.
        self.inside: Counter[str] = Counter()
        # Calls whose last try failed, with their shard if it is known.
        self.failed: set[tuple[str, int | None]] = set()
        self.calls = 0
        self._port = port
        # What precedes the names of calls: the part of the store that this is.
        self._prefix = ""
        self._fault_plan = fault_plan
        self._listener = listener
        self._claimed: list[Any] = []

    def __getattr__(self, call: str) -> Any:
        if self.name == "store" and not self._prefix and call in PARTS:
            part = FaultyConnection(
                self.name,
                lambda: getattr(self._port(), call),
                self.process,
                self._fault_plan,
                self._listener,
            )
            part.active, part.inside, part.failed = self.active, self.inside, self.failed
            part._prefix = f"{call}."
            setattr(self, call, part)
            return part
        if call in HINTS:
            return partial(self._hint, call)

        name = self._prefix + call

        async def method(*arguments: Any, **options: Any) -> Any:
            self.active[name] += 1
            self.calls += 1
            key = (name, _shard(arguments))
            self.failed.add(key)
            try:
                answer = await self._call(name, arguments, options)
                self.failed.discard(key)
                return answer
            finally:
                self.active[name] -= 1

        setattr(self, call, method)
        return method

    def _is_unreachable(self, call: str) -> bool:
        return not self.process.unreachable.isdisjoint((self.name, call))

    def _hint(self, call: str, *arguments: Any) -> None:
        # No fault is chosen: a lost hint is the same as one that was never sent.
        if not self.process.is_dead and not self._is_unreachable(call):
            getattr(self._port(), call)(*arguments)

    async def _call(self, call: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if self._listener is not None:
            self._listener.call_started(self.process.name, call, arguments)
        await self.process.wait_until_running()
        fault = self._fault_plan.choose(self.process, self.name, call)
        if fault is Fault.FAIL_BEFORE or self._is_unreachable(call):
            raise self._failure(call)
        if fault is Fault.KILL_BEFORE:
            self._kill()
        await self._travel(fault)
        if call == "leases.take" and self.process.has_lost_lease:
            raise AssertionError(f"{self.process.name} takes a lease again after it lost it")
        answer = await self._enter(call, arguments, options, fault)
        answer = self._apply_after(fault, call, answer)
        await self.process.wait_until_running()
        return answer

    async def _travel(self, fault: Fault | None) -> None:
        """Wait for the latency of the call."""
        plan = self._fault_plan
        seconds = plan.delay_seconds() if fault is Fault.DELAY else plan.latency_seconds()
        if seconds:
            await asyncio.sleep(seconds)
            await self.process.wait_until_running()

    async def _enter(
        self, call: str, arguments: tuple[Any, ...], options: dict[str, Any], fault: Fault | None
    ) -> Any:
        """Execute the call on the port, twice if the fault says so."""
        self.inside[call] += 1
        try:
            answer = await self._execute(call, arguments, options)
            if fault is Fault.REPEAT:
                answer = await self._repeat(call, arguments, options, answer)
        except StaleLease:
            self.process.has_lost_lease = True
            raise
        finally:
            self.inside[call] -= 1
        return answer

    def _apply_after(self, fault: Fault | None, call: str, answer: Any) -> Any:
        """Apply a fault that happens after the call took effect; return the answer for the caller."""
        match fault:
            case Fault.FAIL_AFTER:
                raise self._failure(call)
            case Fault.KILL_AFTER:
                self._kill()
            case Fault.SHUFFLE:
                answer = list(answer)
                self._fault_plan.shuffle(answer)
            case Fault.STOP:
                self.process.pause()
                asyncio.get_running_loop().call_later(
                    self._fault_plan.stop_seconds(), self.process.resume
                )
            case _:
                pass
        return answer

    async def _execute(self, call: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        answer = await getattr(self._port(), call.removeprefix(self._prefix))(*arguments, **options)
        if self._listener is not None:
            self._listener.call_finished(self.process.name, call, arguments, answer)
        return answer

    async def _repeat(
        self, call: str, arguments: tuple[Any, ...], options: dict[str, Any], answer: Any
    ) -> Any:
        if call != "claim":
            await self._execute(call, arguments, options)
            # And a third time much later. The copy is under way even if its sender dies.
            Context().run(asyncio.ensure_future, self._execute_later(call, arguments, options))
            return answer
        self._claimed.extend(answer)
        return [*answer, *self._claimed[-1:]]

    async def _execute_later(
        self, call: str, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        await asyncio.sleep(self._fault_plan.delay_seconds())
        await self._execute(call, arguments, options)

    def _kill(self) -> None:
        self.process.kill()
        raise asyncio.CancelledError(f"{self.process.name} is dead")

    def _failure(self, call: str) -> Exception:
        if self.name == "broker":
            return BrokerUnavailable(f"simulated failure of {call}")
        if self.name == "sink":
            return RetryableError(f"simulated failure of {call}")
        if call in WRITES:
            return CommitUnknown("simulated failure")
        return StoreUnavailable("simulated failure")


def _shard(arguments: tuple[Any, ...]) -> int | None:
    """Return the shard of a call: its first argument, or the shard of the first published task."""
    match arguments:
        case [int(number), *_]:
            return number
        case [[Task(shard=number), *_], *_]:
            return number
        case _:
            return None
