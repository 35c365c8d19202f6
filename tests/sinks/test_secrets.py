"""Passwords of connections are in no output, no log and no row of the engine's database."""

import os
import subprocess
import sys
from pathlib import Path

from tests.servers import free_port

CANARY = "hush-hush-Zoe"
WORKFLOW = """
workflow_id: secretive
on_failure: continue
nodes:
  sunk: {handler: echo, params: {n: 1}, sink: {tool: postgres, connection: main_db, table: t}}
  query: {handler: postgres, params: {connection: main_db, query: select 1}}
  unknown: {handler: echo, params: {n: 1}, sink: {tool: postgres, connection: other, table: t}}
"""


def test_the_password_is_in_no_error_of_a_connection(tmp_path: Path) -> None:
    (tmp_path / "secretive.yaml").write_text(WORKFLOW)
    environment = {
        **os.environ,
        "WINDLASS_CONNECTIONS__MAIN_DB": f"postgresql://me:{CANARY}@127.0.0.1:{free_port()}/x",
    }

    done = subprocess.run(
        [sys.executable, "-m", "windlass", "run", "secretive.yaml", "--json"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=False,
    )

    assert done.returncode == 1, done.stderr
    assert b"sink_failed.connection_failed" in done.stdout
    stored = [path.read_bytes() for path in (tmp_path / ".windlass").rglob("*") if path.is_file()]
    assert stored
    assert not any(CANARY.encode() in content for content in [done.stdout, done.stderr, *stored])
