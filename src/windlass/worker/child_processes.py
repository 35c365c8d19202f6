"""Runs attempts in child processes: warm ones, one attempt at a time each, killed with all they started when asked."""

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
from windlass.worker.child_protocol import FRAME_ROOM_BYTES, HEADER, Ended, Ready, Run, Said, frame, outcome_of
from windlass.worker.context import AttemptLog
from windlass.worker.executor import RunningAttempt
from windlass.worker.process_reaper import ProcessReaper

# A new process after so many attempts: what handlers leak does not add up.
ATTEMPTS_PER_CHILD_MAX = 500
READ_BYTES = 65_536
READS_AT_ONCE_MAX = 64
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
_decode = msgspec.msgpack.Decoder(Ready | Said | Ended).decode


class ChildLost(Exception):
    """The process ended under its attempt."""


class Pump:
    """Reads one standard stream of a child and writes its lines to the log of the attempt that runs."""

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
        """Read what is there, up to a bound."""
        for _ in range(READS_AT_ONCE_MAX):
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
        """Write a last line that has no end."""
        if self._partial:
            self._write(self._partial)
            self._partial = b""

    def close(self) -> None:
        """Read no more."""
        if self._open:
            self._open = False
            asyncio.get_running_loop().remove_reader(self._descriptor)

    def _write(self, line: bytes) -> None:
        if self.log is not None:
            self.log.write(line.decode("utf-8", "backslashreplace"), self._level)


class Child:
    """One child process, the leader of its own session and group."""

    def __init__(self, process: subprocess.Popen[bytes], line: socket.socket, frame_bytes_max: int) -> None:
        self.process = process
        self._frame_bytes_max = frame_bytes_max
        self._socket = line
        self.served = 0
        self.spoiled = False
        self._gone = asyncio.Event()
        self._pidfd: int | None = None
        self._line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        assert process.stdout is not None
        assert process.stderr is not None
        self._streams = (process.stdout, process.stderr)
        self._pumps = (Pump(process.stdout.fileno(), "info"), Pump(process.stderr.fileno(), "error"))
        self._watch()

    async def ready(self) -> None:
        """Wait until the process has started; that takes no time of an attempt."""
        if self._line is not None:
            return
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                self._line = await asyncio.open_unix_connection(sock=self._socket)
                await self._receive()
        except TimeoutError:
            raise ChildLost(f"did not start within {START_SECONDS_MAX:g} s") from None

    async def run(self, message: Run, log: AttemptLog | None) -> Ended:
        """Run one attempt; ChildLost when the process ends first."""
        self.served += 1
        for pump in self._pumps:
            pump.log, pump.tail = log, b""
        try:
            answer = await self._converse(message, log)
        finally:
            for pump in self._pumps:
                # What the handler wrote is in the pipe by now: the child flushes before it answers.
                pump.drain()
                pump.end_line()
                pump.log = None
        self.spoiled = answer.spoiled
        return answer

    async def _converse(self, message: Run, log: AttemptLog | None) -> Ended:
        if self._line is None:
            raise ChildLost("was never connected")
        self._line[1].write(frame(message))
        while not isinstance(answer := await self._receive(), Ended):
            if isinstance(answer, Said) and log is not None:
                log.write(answer.message, answer.level)
        return answer

    async def _receive(self) -> Ready | Said | Ended:
        if self._line is None:
            raise ChildLost("was never connected")
        reader, writer = self._line
        try:
            await writer.drain()
            (size,) = HEADER.unpack(await reader.readexactly(HEADER.size))
            if size > self._frame_bytes_max:
                raise ChildLost(f"sent {size} bytes at once, {self._frame_bytes_max} is the most")
            return _decode(await reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.DecodeError) as error:
            raise ChildLost("broke off the conversation") from error

    async def kill(self, grace_seconds: float) -> None:
        """Ask the whole group to end, and kill what is left of it after the grace."""
        try:
            self._signal(signal.SIGTERM)
            await self._exited(grace_seconds)
        finally:
            self.destroy()

    async def retire(self) -> None:
        """Close the line, at which an idle child ends by itself."""
        self._hang_up()
        await self.kill(RETIRE_SECONDS_MAX)

    def destroy(self) -> None:
        """Kill the whole group now."""
        self._signal(signal.SIGKILL)
        self._unwatch()
        self._hang_up()
        for pump, stream in zip(self._pumps, self._streams, strict=True):
            pump.close()
            stream.close()
        # It was killed: this takes as long as the kernel needs to take it down.
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(RETIRE_SECONDS_MAX)

    async def epitaph(self, lost: Exception) -> str:
        """How the process ended, with the last words of its standard error."""
        await self._exited(EXIT_CHECK_SECONDS)
        self._pumps[1].drain()
        code = self.process.poll()
        if code is None:
            how = str(lost)
        elif code < 0:
            hint = " (out of memory?)" if -code == signal.SIGKILL else ""
            how = f"was killed by {signal.Signals(-code).name}{hint}"
        else:
            how = f"exited with code {code}"
        last = self._pumps[1].tail.decode("utf-8", "backslashreplace").strip()
        return f"the process of the handler {how}" + (f"; its last words: {last}" if last else "")

    def _watch(self) -> None:
        """Notice the end of the process: the socket's end is no proof, a fork of the handler may hold it open."""
        loop = asyncio.get_running_loop()
        if sys.platform == "linux":
            self._pidfd = os.pidfd_open(self.process.pid)
            loop.add_reader(self._pidfd, self._ended)
        else:
            loop.call_later(EXIT_CHECK_SECONDS, self._look)

    def _look(self) -> None:
        if self.process.poll() is None:
            asyncio.get_running_loop().call_later(EXIT_CHECK_SECONDS, self._look)
        else:
            self._ended()

    def _ended(self) -> None:
        self._unwatch()
        self._gone.set()
        # Its last message may still be in the socket.
        asyncio.get_running_loop().call_later(LAST_MESSAGE_SECONDS, self._hang_up)

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line[1].transport.abort()
        else:
            self._socket.close()

    def _unwatch(self) -> None:
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    async def _exited(self, seconds_max: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._gone.wait(), seconds_max)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


class Children:
    """The child processes of a worker. None is started before the first attempt needs it."""

    def __init__(
        self,
        limit: int,
        grace_seconds: float,
        worker_id: str,
        environment: Mapping[str, str],
        output_bytes_max: int,
    ) -> None:
        self._seats = asyncio.Semaphore(limit)
        self._grace_seconds = grace_seconds
        self._worker_id = worker_id
        self._output_bytes_max = output_bytes_max
        self._environment = {name: environment[name] for name in ENVIRONMENT_PASSED if name in environment}
        self._idle: list[Child] = []
        self._all: set[Child] = set()
        self._retiring: set[asyncio.Task[None]] = set()
        self._warden = ProcessReaper()

    async def run(self, attempt: RunningAttempt, begin: Callable[[], None]) -> Succeeded | Failed:
        """Run the attempt in a child process. Cancelling this kills the child and everything it started."""
        async with self._seats:
            child = self._idle.pop() if self._idle else self._start()
            try:
                await child.ready()
                begin()
                answer = await child.run(_message(attempt, self._worker_id, self._output_bytes_max), attempt.log)
            except (ChildLost, OSError) as lost:
                message = await child.epitaph(lost)
                child.destroy()
                self._forget(child)
                return Failed(TaskError(TaskError.WORKER_LOST, message))
            except asyncio.CancelledError:
                try:
                    await child.kill(self._grace_seconds)
                finally:
                    self._forget(child)
                raise
            if child.spoiled or child.served >= ATTEMPTS_PER_CHILD_MAX:
                self._retire(child)
            else:
                self._idle.append(child)
            return outcome_of(answer)

    def adopt(self, process_group: int) -> None:
        """Have the group killed when this worker dies."""
        self._warden.watch(process_group)

    def disown(self, process_group: int) -> None:
        """Kill what is left of the group and forget it."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process_group, signal.SIGKILL)
        self._warden.forget(process_group)

    def kill(self) -> None:
        """Kill all child processes now."""
        for child in list(self._all):
            child.destroy()
            self._forget(child)
        self._idle.clear()
        self._warden.close()

    async def aclose(self) -> None:
        """End all child processes."""
        for child in self._idle:
            self._retire(child)
        self._idle.clear()
        if self._retiring:
            await asyncio.wait(self._retiring)
        self.kill()

    def _start(self) -> Child:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = _spawn(theirs.fileno(), self._environment)
            except OSError:
                ours.close()
                raise
        ours.setblocking(False)
        child = Child(process, ours, self._output_bytes_max + FRAME_ROOM_BYTES)
        self._all.add(child)
        self._warden.watch(process.pid)
        return child

    def _retire(self, child: Child) -> None:
        retiring = asyncio.create_task(child.retire())
        self._retiring.add(retiring)
        retiring.add_done_callback(lambda done: (self._retiring.discard(done), self._forget(child)))

    def _forget(self, child: Child) -> None:
        if child in self._all:
            self._all.discard(child)
            self._warden.forget(child.process.pid)


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


def _message(attempt: RunningAttempt, worker_id: str, output_bytes_max: int) -> Run:
    task, call = attempt.task, attempt.handler.call
    return Run(
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
