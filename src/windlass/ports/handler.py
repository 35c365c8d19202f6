"""Handlers: the code that workers run for tasks, and how it is declared."""

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum, unique
from typing import Any, Protocol, TypeVar

from msgspec import Struct

Built = TypeVar("Built")

# All of the worker's environment that user code may see: the rest holds addresses and secrets.
ENVIRONMENT_PASSED = (
    "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "PYTHONPATH",
    "PYTHONHASHSEED", "SHELL", "SSL_CERT_DIR", "SSL_CERT_FILE", "TEMP", "TMP", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV",
)  # fmt: skip


@unique
class Mode(Enum):
    """Where a handler's code runs."""

    ASYNC = "async"  # on the worker's loop; must not block
    THREAD = "thread"  # in a thread; a timeout abandons it
    PROCESS = "process"  # in a child process; a timeout kills it


class LogLine(Struct, frozen=True):
    """One line that an attempt wrote: by `ctx.log`, or to the standard streams of its process."""

    job_id: str
    node_id: str
    index: int
    attempt: int
    at: int
    level: str
    message: str


class Context(Protocol):
    """What a handler may know and do about the attempt it runs."""

    job_id: str
    node_id: str
    index: int
    attempt: int
    task_id: str
    idempotency_key: str
    worker_id: str
    timeout_seconds: float
    # A JSON object stored beside the output and readable as `{{ node.meta }}`.
    meta: dict[str, Any]

    @property
    def cancelled(self) -> bool:
        """Whether the job no longer wants this attempt (a thread should look from time to time)."""
        ...

    @property
    def handed_back(self) -> bool:
        """Whether another worker goes on with this attempt: what it can find again should be left as it is."""
        ...

    def started(self) -> None:
        """Tell that the work begins only now; for handlers that are declared with `tells_start`."""
        ...

    def log(self, message: str, level: str = "info") -> None:
        """Write a line to the attempt's log."""
        ...

    def resource(self, key: str, build: Callable[[], Built]) -> Built:
        """A thing shared by all attempts of this worker, built at its first use; closed (`aclose`) when it stops."""
        ...

    def adopt(self, process_group: int) -> None:
        """Have a process group killed when this attempt ends, however it ends, the worker's own death included."""
        ...


class Handler(Struct, frozen=True):
    """A declared handler. `call` takes the context and the checked params."""

    name: str
    call: Callable[..., Awaitable[Any] | Any]
    mode: Mode
    # Checks a JSON object against the signature and returns keyword arguments; ParamsInvalid says what is wrong.
    check: Callable[[bytes], dict[str, Any]]
    takes_context: bool
    description: str = ""
    # An async def without any await runs in one step and needs no task of the loop.
    suspends: bool = True
    # It says itself when its work begins: a machine must be found first, or an image loaded.
    reports_start: bool = False


Registry = Mapping[str, Handler]
