"""A workflow of a hundred thousand nodes completes in limited memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from windlass.cli.bench.workflows import LARGE_DEPTH, LARGE_LANES, lanes

PEAK_MB_MAX = 350

# VmHWM is the peak of this program alone; getrusage includes the parent before the fork.
RUN = """
import atexit, runpy, sys
from pathlib import Path

def record_peak() -> None:
    lines = Path("/proc/self/status").read_text().splitlines()
    Path("peak_kb").write_text(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))

atexit.register(record_peak)
sys.argv = ["windlass", "run", "large.json", "--json"]
runpy.run_module("windlass", run_name="__main__")
"""


@pytest.mark.prove
def test_hundred_thousand_nodes_run_in_limited_memory(tmp_path: Path) -> None:
    (tmp_path / "large.json").write_text(json.dumps(lanes(LARGE_LANES, LARGE_DEPTH)))

    ended = subprocess.run(
        [sys.executable, "-c", RUN], cwd=tmp_path, stdout=subprocess.PIPE, timeout=120, check=False
    )

    job = json.loads(ended.stdout)
    assert (ended.returncode, job["status"]) == (0, "completed")
    assert len(job["nodes"]) == LARGE_LANES * LARGE_DEPTH + 2
    assert int((tmp_path / "peak_kb").read_text()) / 1024 < PEAK_MB_MAX
