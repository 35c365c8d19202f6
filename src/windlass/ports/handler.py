"""Handlers: the code that workers run for tasks."""

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum, unique
from typing import Any, Protocol, TypeVar

from msgspec import UNSET, Struct

Built = TypeVar("Built")

# The only environment variables of the worker that user code may see: the others may contain secrets.
ENVIRONMENT_PASSED = (
    "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "PYTHONPATH",
    "PYTHONHASHSEED", "SHELL", "SSL_CERT_DIR", "SSL_CERT_FILE", "TEMP", "TMP", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV",
)  # fmt: skip


@unique
class Mode(Enum):
    """Where a handler's code runs."""

    ASYNC = "async"  # on the worker's event loop; must not block
    THREAD = "thread"  # in a thread; abandoned on a timeout
    PROCESS = "process"  # in a child process; killed on a timeout


class LogLine(Struct, frozen=True):
    """One line that an attempt wrote with `ctx.log` or to the standard streams of its process."""

    job_id: str
    node_id: str
    index: int
    attempt: int
    at: int
    level: str
    message: str


class Context(Protocol):
    """The attempt that a handler runs, as the handler sees it."""

    job_id: str
    node_id: str
    index: int
    attempt: int
    task_id: str
    idempotency_key: str
    worker_id: str
    timeout_seconds: float
    # A JSON object stored beside the output; templates read it as `{{ node.meta }}`.
    meta: dict[str, Any]

    @property
    def cancelled(self) -> bool:
        """Whether the attempt was cancelled; code in a thread should check it regularly."""
        ...

    @property
    def handed_back(self) -> bool:
        """Whether another worker continues this attempt; leave external resources that it can find in place."""
        ...

    def stops_within(self, seconds: float) -> None:
        """Have this long to stop beside the worker's grace period; until then a stopped attempt is not reported."""
        ...

    def started(self) -> None:
        """Report that the work begins now; for handlers declared with `reports_start`."""
        ...

    def log(self, message: str, level: str = "info") -> None:
        """Write a line to the attempt's log."""
        ...

    def resource(self, key: str, build: Callable[[], Built]) -> Built:
        """Return an object shared by all attempts of this worker.

        It is built on first use and closed (`aclose`) when the worker stops.
        """
        ...

    def adopt(self, process_group: int) -> None:
        """Have a process group killed when this attempt ends, including by the death of the worker."""
        ...


class Injected:
    """Base class of what a worker passes to a handler besides the context; never part of a task's params."""


class HandlerParam(Struct, frozen=True):
    """One declared param of a handler; without a default (UNSET) it is required."""

    name: str
    type: Any
    default: Any = UNSET
    description: str = ""


class Handler(Struct, frozen=True):
    """A declared handler. `call` takes the context and the checked params."""

    name: str
    call: Callable[..., Awaitable[Any] | Any]
    mode: Mode
    # Converts a JSON object to keyword arguments; raises ParamsInvalid when it does not match the signature.
    check: Callable[[bytes], dict[str, Any]]
    takes_context: bool
    description: str = ""
    aliases: tuple[str, ...] = ()
    params: tuple[HandlerParam, ...] = ()
    # False for a coroutine function without `await`, which runs to its end in one step.
    suspends: bool = True
    # The handler itself reports when its work begins, for example after a container has started.
    reports_start: bool = False
    # Parameters that `inject` fills in, with their types.
    injected: tuple[tuple[str, type[Injected]], ...] = ()

    @property
    def summary(self) -> str:
        """The first line of the description."""
        return self.description.partition("\n")[0]


Registry = Mapping[str, Handler]
