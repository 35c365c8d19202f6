"""The child's side of process isolation: runs the attempts that a worker sends over a socket, one at a time."""

import asyncio
import ctypes
import faulthandler
import importlib
import inspect
import io
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, TypeVar, cast

import msgspec

from windlass.core.errors import HandlerInvalid
from windlass.core.messages import Failed, Succeeded
from windlass.ports.handler import Handler
from windlass.ports.handler_declaration import declared
from windlass.worker.child_protocol import (
    HEADER,
    ChildReady,
    LogWritten,
    RunAttempt,
    encode_outcome,
    frame,
)
from windlass.worker.outcomes import call_handler, failed, succeeded

PR_SET_PDEATHSIG = 1
Built = TypeVar("Built")


class ChildContext:
    """The Context of a handler in a child process."""

    def __init__(self, run: RunAttempt, connection: socket.socket) -> None:
        self.job_id = run.job_id
        self.node_id = run.node_id
        self.index = run.index
        self.attempt = run.attempt
        self.task_id = run.task_id
        self.idempotency_key = run.idempotency_key
        self.worker_id = run.worker_id
        self.timeout_seconds = run.timeout_seconds
        self.meta: dict[str, Any] = {}
        self._connection = connection
        self._stopped = False
        self._built: dict[str, Any] = {}

    @property
    def cancelled(self) -> bool:
        """Whether the worker has terminated this process."""
        return self._stopped

    @property
    def handed_back(self) -> bool:
        """False: what this process started ends with it, so no other worker can continue it."""
        return False

    def stops_within(self, seconds: float) -> None:
        """Do nothing: a child process has the worker's grace period."""

    def started(self) -> None:
        """Do nothing: the worker reports the start when it begins to use this process."""

    def stop(self) -> None:
        """Mark the attempt as cancelled."""
        self._stopped = True

    def log(self, message: str, level: str = "info") -> None:
        """Write a line to the attempt's log."""
        text = str(message).encode("utf-8", "backslashreplace").decode()
        self._connection.sendall(frame(LogWritten(str(level), text)))

    def resource(self, key: str, build: Callable[[], Built]) -> Built:
        """Return an object of this attempt: a child process shares nothing with others."""
        if key not in self._built:
            self._built[key] = build()
        return self._built[key]

    def adopt(self, process_group: int) -> None:
        """Raise HandlerInvalid: processes that this one starts stay in its group and end with it."""
        raise HandlerInvalid(
            f"process group {process_group} not adopted: mode='process' kills its own group; do not start a new session"
        )


def serve(connection: socket.socket) -> None:
    """Run attempts until the worker closes the connection."""
    home = os.getcwd()
    connection.sendall(frame(ChildReady()))
    while (run := _receive(connection)) is not None:
        outcome = _run(run, connection)
        _flush()
        connection.sendall(frame(encode_outcome(outcome, _is_dirty(home))))


def _run(run: RunAttempt, connection: socket.socket) -> Succeeded | Failed:
    context = ChildContext(run, connection)

    def stop(number: int, at: FrameType | None) -> None:
        context.stop()
        # Raised inside the handler, so that its `finally` blocks run.
        raise SystemExit(128 + number)

    try:
        signal.signal(signal.SIGTERM, stop)
        handler = _find(run.module, run.function)
        output = call_handler(handler, run.params, context)
        if inspect.iscoroutine(output):
            output = asyncio.run(output)
        return succeeded(output, context.meta, run.output_bytes_max)
    except (
        BaseException
    ) as error:  # user code: sys.exit() in it is an error of the attempt, not of the process
        if context.cancelled:
            raise
        return failed(error, context.meta)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        # The handler may have closed or replaced it.
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


def _find(module: str, function: str) -> Handler:
    found: Any = importlib.import_module(module)
    for part in function.split("."):
        found = getattr(found, part)
    return declared(found)


def _is_dirty(home: str) -> bool:
    """Whether the handler left something that could affect the next attempt: threads, processes, another directory."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        has_children = True
    except ChildProcessError:
        has_children = False
    try:
        has_moved = os.getcwd() != home
    except FileNotFoundError:
        has_moved = True
    return has_children or has_moved or threading.active_count() > 1


def _receive(connection: socket.socket) -> RunAttempt | None:
    header = _read(connection, HEADER.size)
    if header is None:
        return None
    (size,) = HEADER.unpack(header)
    body = _read(connection, size)
    if body is None:
        return None
    return msgspec.msgpack.decode(body, type=RunAttempt)


def _read(connection: socket.socket, size: int) -> bytes | None:
    parts: list[bytes] = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _die_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # the parent died before prctl was called


def main(descriptor: int, parent: int) -> None:
    """Run a child process."""
    _die_with_parent(parent)
    faulthandler.enable()
    # Lines are logged as they are written, even if the process is killed.
    cast("io.TextIOWrapper", sys.stdout).reconfigure(line_buffering=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = socket.socket(fileno=descriptor)
    connection.set_inheritable(False)
    with suppress(BrokenPipeError, ConnectionResetError, SystemExit):
        serve(connection)
    _flush()
    # Threads that a handler left behind must not keep the process alive.
    os._exit(0)
