"""The servers that tests use."""

import os
import select
import subprocess
import sys
from pathlib import Path

import asyncpg

from tests.servers import Server, send_redis

PATIENCE_SECONDS = 30.0
PROGRAM = """
import os, sys
from pathlib import Path
from tests.servers import start_postgres, start_redis
servers = [start_postgres(Path(sys.argv[1])), start_redis(Path(sys.argv[1]))]
print(*(server.process.pid for server in servers), flush=True)
sys.stdin.readline()
"""


async def test_each_test_gets_an_empty_database(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    tables = await connection.fetch(
        "select 1 from pg_class where relnamespace = 'public'::regnamespace"
    )
    await connection.close()

    assert tables == []


async def test_databases_are_not_reused(postgres_url: str, postgres_server: Server) -> None:
    assert postgres_url.rpartition("/")[2] != postgres_server.url.rpartition("/")[2]


def test_redis_answers(redis_url: str) -> None:
    send_redis(redis_url, b"PING")


def test_servers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    ) as starter:
        assert starter.stdout is not None
        servers = [os.pidfd_open(int(number)) for number in starter.stdout.readline().split()]
        assert len(servers) == 2

        starter.kill()

    for server in servers:
        ended, _, _ = select.select([server], [], [], PATIENCE_SECONDS)
        os.close(server)
        assert ended
