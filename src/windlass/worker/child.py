"""The child's end of isolation: runs attempts one after the other, as a worker asks for them over a socket."""

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
from windlass.worker.child_protocol import HEADER, ChildReady, LogWritten, RunAttempt, ended, frame
from windlass.worker.outcomes import failed, succeeded

PR_SET_PDEATHSIG = 1
Built = TypeVar("Built")


class ChildContext:
    """The Context of a handler in a process of its own."""

    def __init__(self, run: RunAttempt, line: socket.socket) -> None:
        self.job_id = run.job_id
        self.node_id = run.node_id
        self.index = run.index
        self.attempt = run.attempt
        self.task_id = run.task_id
        self.idempotency_key = run.idempotency_key
        self.worker_id = run.worker_id
        self.timeout_seconds = run.timeout_seconds
        self.meta: dict[str, Any] = {}
        self._line = line
        self._stopped = False
        self._built: dict[str, Any] = {}

    @property
    def cancelled(self) -> bool:
        """Whether the worker asked this process to end."""
        return self._stopped

    @property
    def handed_back(self) -> bool:
        """False: nobody could take over what this process started, it ends with it."""
        return False

    def started(self) -> None:
        """Nothing: the worker tells of the start when it begins to use this process."""

    def stop(self) -> None:
        """Let the handler know that it should end."""
        self._stopped = True

    def log(self, message: str, level: str = "info") -> None:
        """Write a line to the attempt's log."""
        text = str(message).encode("utf-8", "backslashreplace").decode()
        self._line.sendall(frame(LogWritten(str(level), text)))

    def resource(self, key: str, build: Callable[[], Built]) -> Built:
        """A thing for this attempt: a child process shares nothing with others."""
        if key not in self._built:
            self._built[key] = build()
        return self._built[key]

    def adopt(self, process_group: int) -> None:
        """Refuse: what this process starts stays in its own group and ends with it."""
        raise HandlerInvalid(f"process group {process_group}: mode='process' kills all of its group; start no session")


def serve(line: socket.socket) -> None:
    """Run attempts until the worker closes the line."""
    home = os.getcwd()
    line.sendall(frame(ChildReady()))
    while (run := _receive(line)) is not None:
        outcome = _run(run, line)
        _flush()
        line.sendall(frame(ended(outcome, _is_spoiled(home))))


def _run(run: RunAttempt, line: socket.socket) -> Succeeded | Failed:
    context = ChildContext(run, line)

    def stop(number: int, at: FrameType | None) -> None:
        context.stop()
        # Raised inside the handler, so that its `finally` blocks run.
        raise SystemExit(128 + number)

    try:
        signal.signal(signal.SIGTERM, stop)
        handler = _find(run.module, run.function)
        params = handler.check(run.params)
        output = handler.call(context, **params) if handler.takes_context else handler.call(**params)
        if inspect.iscoroutine(output):
            output = asyncio.run(output)
        return succeeded(output, context.meta, run.output_bytes_max)
    except BaseException as error:  # user code: sys.exit() in it is an error of the attempt, not of the process
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


def _is_spoiled(home: str) -> bool:
    """Whether the handler left something that the next attempt could meet: threads, processes, another folder."""
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


def _receive(line: socket.socket) -> RunAttempt | None:
    header = _read(line, HEADER.size)
    if header is None:
        return None
    (size,) = HEADER.unpack(header)
    body = _read(line, size)
    return msgspec.msgpack.decode(body, type=RunAttempt) if body is not None else None


def _read(line: socket.socket, size: int) -> bytes | None:
    parts: list[bytes] = []
    while size:
        part = line.recv(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _die_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it died before we asked


def main(descriptor: int, parent: int) -> None:
    """Where a new child process begins."""
    _die_with_parent(parent)
    faulthandler.enable()
    # Lines are logged as they are written, and survive the death of the process.
    cast("io.TextIOWrapper", sys.stdout).reconfigure(line_buffering=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = socket.socket(fileno=descriptor)
    line.set_inheritable(False)
    with suppress(BrokenPipeError, ConnectionResetError, SystemExit):
        serve(line)
    _flush()
    # Threads that a handler left behind must not keep the process alive.
    os._exit(0)
