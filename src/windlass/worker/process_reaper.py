"""Kills the process groups of a worker when the worker dies, whatever the cause.

The reaper is a small process at the other end of a pipe: it receives the process groups and kills them when the pipe
is closed. It runs this file without the rest of the package, so only the standard library is imported.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress

CLOSE_SECONDS_MAX = 2.0


class ProcessReaper:
    """The worker's side. The reaper is started with the first process group."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def watch(self, group: int) -> None:
        """Have the process group killed if this process dies."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                start_new_session=True,
            )
        self._send(f"+{group}\n")

    def forget(self, group: int) -> None:
        """Remove a process group that has ended."""
        self._send(f"-{group}\n")

    def close(self) -> None:
        """End the reaper; it kills the groups that were not removed."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            try:
                self._process.wait(CLOSE_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def _send(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            # A reaper that was killed is replaced with the next group.
            with suppress(BrokenPipeError):
                os.write(self._process.stdin.fileno(), line.encode())


def reap() -> None:
    """Read process groups until the pipe is closed, then kill those that are left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        if line[0] == "+":
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    reap()
