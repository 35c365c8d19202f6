"""The PostgreSQL broker when its server crashes, restarts or is unavailable."""

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.contracts.brokers import empty_postgres
from tests.contracts.done_listener import subscribed
from tests.contracts.test_broker import QUEUES, ids, report, task
from tests.servers import Server, free_port, start_postgres
from windlass.brokers.postgres import connection, notifications
from windlass.brokers.postgres.broker import PostgresBroker
from windlass.core.errors import BrokerUnavailable
from windlass.core.messages import Submitted
from windlass.ports.message_codec import encode_message

BOUND_SECONDS = 0.5


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = start_postgres(tmp_path)
    yield running
    running.stop()


@pytest.fixture
async def broker(broker_database: str) -> AsyncIterator[PostgresBroker]:
    opened = await PostgresBroker.open(broker_database)
    await empty_postgres(broker_database)
    yield opened
    await opened.close()


async def restart(server: Server) -> Server:
    """Crash the server and start it again at its address."""
    server.process.send_signal(signal.SIGQUIT)
    await asyncio.to_thread(server.process.wait)
    process = await asyncio.to_thread(
        subprocess.Popen,
        server.process.args,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
    )
    return Server(server.url, process, signal.SIGINT)


async def test_waiters_continue_after_a_server_crash_that_empties_the_queues(
    server: Server,
) -> None:
    broker = await PostgresBroker.open(server.url)
    await broker.publish([task("a", queue="other")])
    claiming = asyncio.ensure_future(broker.claim("w1", QUEUES, 10, 60.0))
    receiving = asyncio.ensure_future(broker.receive(0, 10, 60.0))
    running = await restart(server)
    try:
        assert list(await broker.missing(["a"])) == ["a"]
        await broker.publish([task("b")])
        await broker.send(0, [Submitted("c")])

        async with asyncio.timeout(20.0):
            assert ids(await claiming) == ["b"]
            assert list(await receiving) == [Submitted("c")]
    finally:
        await broker.close()
        running.stop()


async def test_notifications_while_the_server_is_down_are_lost(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How soon the listener notices the lost connection.
    monkeypatch.setattr(notifications, "PING_SECONDS", 0.1)
    broker = await PostgresBroker.open(server.url)
    listener = await subscribed(broker, broker)
    server.process.send_signal(signal.SIGQUIT)
    await asyncio.to_thread(server.process.wait)
    broker.notify_done(["lost"])
    running = await restart(server)
    try:
        await listener.until(lambda: broker.notify_done(["a"]), ["a"])
    finally:
        await broker.close()
        running.stop()


async def test_error_names_the_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CALL_SECONDS_MAX", BOUND_SECONDS)
    port = free_port()

    with pytest.raises(BrokerUnavailable, match=f"PostgreSQL at 127.0.0.1:{port}/none did not"):
        await PostgresBroker.open(f"postgresql://nobody@127.0.0.1:{port}/none")


async def test_processes_that_start_together_create_the_tables_once(postgres_url: str) -> None:
    brokers = await asyncio.gather(*(PostgresBroker.open(postgres_url) for _ in range(5)))

    await brokers[0].publish([task("a")])
    assert ids(await brokers[4].claim("w1", QUEUES, 1, 0.0)) == ["a"]
    for broker in brokers:
        await broker.close()


async def test_dropped_tables_are_created_again(postgres_url: str) -> None:
    broker = await PostgresBroker.open(postgres_url)
    other = await asyncpg.connect(postgres_url)
    await other.execute(
        "drop table broker_tasks, broker_inbox, broker_workers, broker_cancellations"
    )
    await other.close()
    await broker.publish([task("a")])

    assert ids(await broker.claim("w1", QUEUES, 1, 0.0)) == ["a"]
    await broker.close()


async def test_message_committed_late_is_received_after_later_ones(
    broker: PostgresBroker, broker_database: str
) -> None:
    other = await asyncpg.connect(broker_database)
    slow = other.transaction()
    await slow.start()
    late = encode_message(Submitted("late"))
    await other.execute("insert into broker_inbox values (0, nextval('broker_numbers'), $1)", late)
    await broker.send(0, [Submitted("early")])
    first = await broker.receive(0, 10, 0.0)
    await slow.commit()
    await other.close()

    second = await broker.receive(0, 10, 0.0)

    assert (list(first), list(second)) == ([Submitted("early")], [Submitted("late")])


async def test_worker_finds_a_task_whose_publisher_died_before_notifying(
    broker: PostgresBroker, broker_database: str
) -> None:
    await broker.publish([task("a")])
    await broker.claim("w1", QUEUES, 1, 0.0)
    waiting = asyncio.ensure_future(broker.claim("w2", QUEUES, 1, 30.0))
    other = await asyncpg.connect(broker_database)
    await other.execute("update broker_tasks set holder = null")
    await other.close()

    async with asyncio.timeout(10.0):
        assert ids(await waiting) == ["a"]


async def test_idle_tables_are_empty(broker: PostgresBroker, broker_database: str) -> None:
    names = [f"t{number}" for number in range(2_000)]
    await broker.publish(
        [
            task(name, queue=f"q{number % 7}", priority=number % 3)
            for number, name in enumerate(names)
        ]
    )
    await broker.cancel(names[1_800:])
    while taken := await broker.claim("w1", ("*",), 500, 0.0):
        await broker.finish("w1", [report(delivery.task) for delivery in taken])
        await broker.acknowledge(0, len(await broker.receive(0, 500, 0.0)))

    other = await asyncpg.connect(broker_database)
    tables = ("broker_tasks", "broker_inbox", "broker_cancellations")
    counts = [await other.fetchval(f"select count(*) from {table}") for table in tables]
    await other.close()
    assert counts == [0, 0, 0]


async def test_number_of_connections_is_limited(
    broker: PostgresBroker, broker_database: str
) -> None:
    await broker.publish([task(f"t{number}") for number in range(50)])
    await asyncio.gather(*(broker.claim(f"w{number}", QUEUES, 2, 1.0) for number in range(25)))

    other = await asyncpg.connect(broker_database)
    mine = await other.fetchval(
        "select count(*) from pg_stat_activity where datname = current_database()"
    )
    await other.close()
    # The pool, the listener, and the connection of this test.
    assert mine <= connection.POOL_MAX + 2


async def test_invalid_tasks_and_messages_are_skipped(
    broker: PostgresBroker, broker_database: str
) -> None:
    await broker.publish([task("bad"), task("good")])
    other = await asyncpg.connect(broker_database)
    await other.execute("update broker_tasks set body = 'forged' where task_id = 'bad'")
    await other.execute("insert into broker_inbox values (0, nextval('broker_numbers'), 'forged')")
    await broker.send(0, [Submitted("a")])

    assert ids(await broker.claim("w1", QUEUES, 10, 0.0)) == ["good"]
    assert list(await broker.receive(0, 10, 0.0)) == [Submitted("a")]
    await broker.acknowledge(0, 1)
    await broker.reclaim(-1.0)
    assert list(await broker.missing(["bad", "good"])) == ["bad"]
    assert await other.fetchval("select count(*) from broker_inbox") == 1
    await other.close()
