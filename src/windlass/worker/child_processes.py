"""Runs attempts in reusable child processes, one attempt at a time each; a cancel kills the whole process group."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from windlass.core.messages import Failed, Succeeded, TaskError
from windlass.ports.handler import ENVIRONMENT_PASSED
from windlass.worker.child_protocol import (
    FRAME_ROOM_BYTES,
    HEADER,
    AttemptEnded,
    ChildReady,
    LogWritten,
    RunAttempt,
    decode_outcome,
    frame,
)
from windlass.worker.context import AttemptLog
from windlass.worker.process_reaper import ProcessReaper
from windlass.worker.running_attempt import RunningAttempt

# A process is replaced after this many attempts, so that leaks of handlers do not accumulate.
ATTEMPTS_PER_CHILD_MAX = 500
READ_BYTES = 65_536
READS_PER_CALL_MAX = 64
LINE_BYTES_MAX = 8192
TAIL_BYTES_MAX = 2048
START_SECONDS_MAX = 60.0
EXIT_CHECK_SECONDS = 0.1
LAST_MESSAGE_SECONDS = 0.05
RETIRE_SECONDS_MAX = 1.0
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[3]); "
    "from windlass.worker.child import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)
_decode = msgspec.msgpack.Decoder(ChildReady | LogWritten | AttemptEnded).decode


class ChildProcessLost(Exception):
    """The process ended during an attempt."""


class OutputPump:
    """Writes the lines of one standard stream of a child to the log of the current attempt."""

    def __init__(self, descriptor: int, level: str) -> None:
        self.log: AttemptLog | None = None
        self.tail = b""
        self._descriptor = descriptor
        self._level = level
        self._partial = b""
        self._open = True
        os.set_blocking(descriptor, False)
        asyncio.get_running_loop().add_reader(descriptor, self.drain)

    def drain(self) -> None:
        """Read what is available, up to a limit."""
        for _ in range(READS_PER_CALL_MAX):
            if not self._open:
                return
            try:
                part = os.read(self._descriptor, READ_BYTES)
            except BlockingIOError:
                return
            if not part:
                self.close()
                return
            self.tail = (self.tail + part)[-TAIL_BYTES_MAX:]
            *lines, self._partial = (self._partial + part).split(b"\n")
            for line in lines:
                self._write(line)
            if len(self._partial) > LINE_BYTES_MAX:
                self.end_line()

    def end_line(self) -> None:
        """Write a last line without a line end."""
        if self._partial:
            self._write(self._partial)
            self._partial = b""

    def close(self) -> None:
        """Stop reading."""
        if self._open:
            self._open = False
            asyncio.get_running_loop().remove_reader(self._descriptor)

    def _write(self, line: bytes) -> None:
        if self.log is not None:
            self.log.write(line.decode("utf-8", "backslashreplace"), self._level)


class ChildProcess:
    """One child process, the leader of its own session and process group."""

    def __init__(
        self, process: subprocess.Popen[bytes], connection: socket.socket, frame_bytes_max: int
    ) -> None:
        self.process = process
        self._frame_bytes_max = frame_bytes_max
        self._socket = connection
        self.attempts_run = 0
        self.is_dirty = False
        self._exited_event = asyncio.Event()
        self._pidfd: int | None = None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        assert process.stdout is not None
        assert process.stderr is not None
        self._pipes = (process.stdout, process.stderr)
        self._pumps = (
            OutputPump(process.stdout.fileno(), "info"),
            OutputPump(process.stderr.fileno(), "error"),
        )
        self._watch()

    async def ready(self) -> None:
        """Wait until the process has started; this does not count against the timeout of an attempt."""
        if self._streams is not None:
            return
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                self._streams = await asyncio.open_unix_connection(sock=self._socket)
                await self._receive()
        except TimeoutError:
            raise ChildProcessLost(f"did not start within {START_SECONDS_MAX:g} s") from None

    async def run(self, message: RunAttempt, log: AttemptLog | None) -> AttemptEnded:
        """Run one attempt; raise ChildProcessLost if the process ends first."""
        self.attempts_run += 1
        for pump in self._pumps:
            pump.log, pump.tail = log, b""
        try:
            ended = await self._exchange(message, log)
        finally:
            for pump in self._pumps:
                # The child flushes before it responds, so everything that the handler wrote is in the pipe.
                pump.drain()
                pump.end_line()
                pump.log = None
        self.is_dirty = ended.is_dirty
        return ended

    async def _exchange(self, message: RunAttempt, log: AttemptLog | None) -> AttemptEnded:
        if self._streams is None:
            raise ChildProcessLost("was never connected")
        self._streams[1].write(frame(message))
        while not isinstance(received := await self._receive(), AttemptEnded):
            if isinstance(received, LogWritten) and log is not None:
                log.write(received.message, received.level)
        return received

    async def _receive(self) -> ChildReady | LogWritten | AttemptEnded:
        if self._streams is None:
            raise ChildProcessLost("was never connected")
        reader, writer = self._streams
        try:
            await writer.drain()
            (size,) = HEADER.unpack(await reader.readexactly(HEADER.size))
            if size > self._frame_bytes_max:
                raise ChildProcessLost(
                    f"sent a message of {size} bytes, at most {self._frame_bytes_max} are allowed"
                )
            return _decode(await reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.DecodeError) as error:
            raise ChildProcessLost("closed the connection") from error

    async def kill(self, grace_seconds: float) -> None:
        """Terminate the process group; kill what is left of it after the grace period."""
        try:
            self._signal(signal.SIGTERM)
            await self._exited(grace_seconds)
        finally:
            self.destroy()

    async def retire(self) -> None:
        """Close the connection, at which an idle child exits; kill it if it does not."""
        self._close_connection()
        await self.kill(RETIRE_SECONDS_MAX)

    def destroy(self) -> None:
        """Kill the process group now."""
        self._signal(signal.SIGKILL)
        self._unwatch()
        self._close_connection()
        for pump, stream in zip(self._pumps, self._pipes, strict=True):
            pump.close()
            stream.close()
        # It was killed: this takes only as long as the kernel needs.
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(RETIRE_SECONDS_MAX)

    async def describe_exit(self, lost: Exception) -> str:
        """Describe how the process ended, with the end of its standard error."""
        await self._exited(EXIT_CHECK_SECONDS)
        self._pumps[1].drain()
        code = self.process.poll()
        if code is None:
            how = str(lost)
        elif code == -signal.SIGKILL:
            how = "was killed by SIGKILL (out of memory?)"
        elif code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        else:
            how = f"exited with code {code}"
        message = f"the process of the handler {how}"
        if stderr := self._pumps[1].tail.decode("utf-8", "backslashreplace").strip():
            message += f"; end of stderr: {stderr}"
        return message

    def _watch(self) -> None:
        """Watch for the exit of the process; the socket may stay open in a fork of the handler."""
        loop = asyncio.get_running_loop()
        if sys.platform == "linux":
            self._pidfd = os.pidfd_open(self.process.pid)
            loop.add_reader(self._pidfd, self._on_exit)
        else:
            loop.call_later(EXIT_CHECK_SECONDS, self._poll)

    def _poll(self) -> None:
        if self.process.poll() is None:
            asyncio.get_running_loop().call_later(EXIT_CHECK_SECONDS, self._poll)
        else:
            self._on_exit()

    def _on_exit(self) -> None:
        self._unwatch()
        self._exited_event.set()
        # Its last message may still be in the socket.
        asyncio.get_running_loop().call_later(LAST_MESSAGE_SECONDS, self._close_connection)

    def _close_connection(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
        else:
            self._socket.close()

    def _unwatch(self) -> None:
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    async def _exited(self, seconds_max: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._exited_event.wait(), seconds_max)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


class ChildProcesses:
    """The child processes of a worker, started on demand."""

    def __init__(
        self,
        limit: int,
        *,
        grace_seconds: float,
        worker_id: str,
        environment: Mapping[str, str],
        output_bytes_max: int,
    ) -> None:
        self._slots = asyncio.Semaphore(limit)
        self._grace_seconds = grace_seconds
        self._worker_id = worker_id
        self._output_bytes_max = output_bytes_max
        self._environment = {
            name: environment[name] for name in ENVIRONMENT_PASSED if name in environment
        }
        self._idle: list[ChildProcess] = []
        self._all: set[ChildProcess] = set()
        self._retiring: set[asyncio.Task[None]] = set()
        self._reaper = ProcessReaper()

    def _take_child(self) -> ChildProcess:
        if self._idle:
            return self._idle.pop()
        return self._start()

    async def run(self, attempt: RunningAttempt, begin: Callable[[], None]) -> Succeeded | Failed:
        """Run the attempt in a child process. Cancelling this kills the child and everything it started."""
        async with self._slots:
            child = self._take_child()
            try:
                await child.ready()
                begin()
                message = _run_message(attempt, self._worker_id, self._output_bytes_max)
                ended = await child.run(message, attempt.log)
            except (ChildProcessLost, OSError) as lost:
                reason = await child.describe_exit(lost)
                child.destroy()
                self._forget(child)
                return Failed(TaskError(TaskError.WORKER_LOST, reason))
            except asyncio.CancelledError:
                try:
                    await child.kill(self._grace_seconds)
                finally:
                    self._forget(child)
                raise
            if child.is_dirty or child.attempts_run >= ATTEMPTS_PER_CHILD_MAX:
                self._retire(child)
            else:
                self._idle.append(child)
            return decode_outcome(ended)

    def adopt(self, process_group: int) -> None:
        """Have the process group killed when this worker dies."""
        self._reaper.watch(process_group)

    def disown(self, process_group: int) -> None:
        """Kill what is left of the process group and forget it."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process_group, signal.SIGKILL)
        self._reaper.forget(process_group)

    def kill(self) -> None:
        """Kill all child processes now."""
        for child in list(self._all):
            child.destroy()
            self._forget(child)
        self._idle.clear()
        self._reaper.close()

    async def aclose(self) -> None:
        """End all child processes."""
        for child in self._idle:
            self._retire(child)
        self._idle.clear()
        if self._retiring:
            await asyncio.wait(self._retiring)
        self.kill()

    def _start(self) -> ChildProcess:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = _spawn(theirs.fileno(), self._environment)
            except OSError:
                ours.close()
                raise
        ours.setblocking(False)
        child = ChildProcess(process, ours, self._output_bytes_max + FRAME_ROOM_BYTES)
        self._all.add(child)
        self._reaper.watch(process.pid)
        return child

    def _retire(self, child: ChildProcess) -> None:
        retiring = asyncio.create_task(child.retire())
        self._retiring.add(retiring)
        retiring.add_done_callback(lambda done: (self._retiring.discard(done), self._forget(child)))

    def _forget(self, child: ChildProcess) -> None:
        if child in self._all:
            self._all.discard(child)
            self._reaper.forget(child.process.pid)


def _spawn(descriptor: int, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    path = [os.path.abspath(entry) for entry in sys.path]
    return subprocess.Popen(
        [sys.executable, "-c", _BOOT, str(descriptor), str(os.getpid()), json.dumps(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        pass_fds=(descriptor,),
        start_new_session=True,
        env=environment,
    )


def _run_message(attempt: RunningAttempt, worker_id: str, output_bytes_max: int) -> RunAttempt:
    task, call = attempt.task, attempt.handler.call
    return RunAttempt(
        module=call.__module__,
        function=getattr(call, "__qualname__", ""),
        params=task.params,
        job_id=task.job_id,
        node_id=task.node_id,
        index=task.index,
        attempt=task.attempt,
        task_id=task.task_id,
        idempotency_key=task.idempotency_key or task.task_id,
        worker_id=worker_id,
        timeout_seconds=task.timeout_seconds,
        output_bytes_max=output_bytes_max,
    )
