"""Kills the process groups that a worker started when the worker itself dies, by whatever cause.

The warden is a small process at the other end of a pipe: it learns the groups, and acts when the pipe ends. This file
is also what it runs, without the rest of the package, so it imports the standard library only.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress

CLOSE_SECONDS_MAX = 2.0


class ProcessReaper:
    """The worker's end. Nothing is started until the first group is watched."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def watch(self, group: int) -> None:
        """Have the group killed if this process dies."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                start_new_session=True,
            )
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        """The group is gone."""
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """End the warden; it kills what was not forgotten."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            try:
                self._process.wait(CLOSE_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def _tell(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            # A warden that was killed cannot be told; the next group gets a new one.
            with suppress(BrokenPipeError):
                os.write(self._process.stdin.fileno(), line.encode())


def guard() -> None:
    """Learn groups until the pipe ends, then kill those that are left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        groups.add(group) if line[0] == "+" else groups.discard(group)
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    guard()
