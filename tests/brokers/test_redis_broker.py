"""The Redis broker when its server is flushed, restarted, unresponsive or unavailable."""

import asyncio
import gc
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.contracts.done_listener import subscribed
from tests.contracts.test_broker import QUEUES, ids, nodes, report, task
from tests.servers import Server, free_port, send_redis, start_redis
from windlass.brokers.redis import connection
from windlass.brokers.redis.broker import PREFIX, RedisBroker
from windlass.core.errors import BrokerUnavailable
from windlass.core.messages import Submitted
from windlass.ports.message_codec import encode_message

BOUND_SECONDS = 0.5


class Restartable:
    """A server that can be stopped and started again at its address."""

    def __init__(self, folder: Path) -> None:
        self._server = start_redis(folder)
        self.url = self._server.url

    def signal(self, number: signal.Signals) -> None:
        self._server.process.send_signal(number)

    def kill(self) -> None:
        self._server.process.kill()
        self._server.process.wait()

    async def start_again(self) -> None:
        process = await asyncio.to_thread(
            subprocess.Popen, self._server.process.args, stdout=subprocess.DEVNULL
        )
        self._server = Server(self.url, process, signal.SIGTERM)
        async with asyncio.timeout(10.0):
            while True:
                try:
                    return send_redis(self.url, b"PING")
                except OSError:
                    await asyncio.sleep(0.01)

    def stop(self) -> None:
        self._server.stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Restartable]:
    running = Restartable(tmp_path)
    yield running
    running.stop()


@pytest.fixture
async def broker(redis_url: str) -> AsyncIterator[RedisBroker]:
    opened = await RedisBroker.open(redis_url)
    yield opened
    await opened.close()


@pytest.fixture
async def restarted(server: Restartable) -> AsyncIterator[RedisBroker]:
    opened = await RedisBroker.open(server.url)
    yield opened
    await opened.close()


async def test_tasks_can_be_published_again_after_a_flush(
    broker: RedisBroker, redis_url: str
) -> None:
    await broker.publish([task("queued"), task("held", priority=1)])
    await broker.claim("w1", QUEUES, 1, 0.0)
    send_redis(redis_url, b"FLUSHALL")

    assert list(await broker.missing(["queued", "held"])) == ["queued", "held"]
    assert list(await broker.extend("w1", ["held"])) == ["held"]
    await broker.publish([task("queued"), task("held", priority=1)])
    assert ids(await broker.claim("w2", QUEUES, 10, 0.0)) == ["held", "queued"]


async def test_messages_sent_after_a_flush_are_received(
    broker: RedisBroker, redis_url: str
) -> None:
    await broker.send(0, [Submitted("a")])
    await broker.receive(0, 10, 0.0)
    send_redis(redis_url, b"FLUSHALL")
    await broker.send(0, [Submitted("b")])

    assert list(await broker.receive(0, 10, 0.0)) == [Submitted("b")]


async def test_flush_restart_and_older_contents_change_the_incarnation(
    restarted: RedisBroker, server: Restartable
) -> None:
    with redis.Redis.from_url(server.url) as client:
        seen = [await restarted.incarnation(), await restarted.incarnation()]
        client.save()
        older = {key: client.dump(key) or b"" for key in client.scan_iter()}
        await restarted.publish([task("a")])
        seen.append(await restarted.incarnation())
        assert len(set(seen)) == 1

        client.flushall()
        seen.append(await restarted.incarnation())
        assert await restarted.incarnation() == seen[-1]
        # In place, as a replica gets the contents of another server.
        for key, value in older.items():
            client.restore(key, 0, value, replace=True)
        seen.append(await restarted.incarnation())
        for key, value in older.items():
            client.restore(key, 0, value, replace=True)
        seen.append(await restarted.incarnation())
    server.kill()
    await server.start_again()
    seen.append(await restarted.incarnation())

    assert len(set(seen)) == 5
    assert await restarted.incarnation() == seen[-1]


LOST = {
    "bodies": "bodies",
    "leases": "leases",
    "queues": "queues",
    "the names of a queue": "lines:default",
    "the tasks of a queue": "tasks:default:0:echo",
    "turns": "turns:default:0",
    "heartbeats": "heartbeats",
    "losses": "losses",
    "workers": "workers",
    "capabilities": "worker_capabilities",
    "epochs": "epochs",
}


@pytest.mark.parametrize("key", LOST.values(), ids=LOST.keys())
async def test_losing_one_structure_loses_no_task(
    broker: RedisBroker, redis_url: str, key: str
) -> None:
    await broker.register_owner(0, 1)
    tasks = [task(name) for name in ("held", "queued", "waiting")]
    await broker.publish(tasks, 1)
    await broker.claim("w1", QUEUES, 1, 0.0)
    await broker.extend("w1", ["held"])
    with redis.Redis.from_url(redis_url) as client:
        client.delete(PREFIX + key)

    unknown = set(await broker.missing([one.task_id for one in tasks]))
    await broker.publish([one for one in tasks if one.task_id in unknown], 1)

    held = set() if "held" in unknown else {"held"}
    claimed = ids(await broker.claim("w2", QUEUES, 10, 0.0))
    assert held.union(claimed) == {"held", "queued", "waiting"}
    assert len(claimed) == len(set(claimed))


async def test_late_acknowledgement_does_not_remove_new_messages_after_a_loss(
    restarted: RedisBroker, server: Restartable
) -> None:
    await restarted.send(0, [Submitted("before")])
    await restarted.receive(0, 10, 0.0)
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
        # The clock of the new server is behind.
        client.xadd(f"{PREFIX}inbox:0", {"m": encode_message(Submitted("after"))}, id="5-0")
        client.client_kill_filter(_type="normal", skipme=True)
        assert list(await restarted.receive(0, 10, 5.0)) == [Submitted("after")]
        await restarted.acknowledge(0, 1)
        await restarted.missing([])
        assert client.xlen(f"{PREFIX}inbox:0") == 1


async def test_eviction_of_keys_is_logged(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.config_set("maxmemory", "100mb")
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            await (await RedisBroker.open(redis_url)).close()
        finally:
            client.config_set("maxmemory-policy", "noeviction")
            client.config_set("maxmemory", "0")
        await (await RedisBroker.open(redis_url)).close()

    [record] = caplog.records
    assert "maxmemory-policy noeviction" in record.getMessage()


async def test_installations_on_one_server_do_not_see_each_other(redis_url: str) -> None:
    one = await RedisBroker.open(redis_url, "windlass:one:")
    # Channels are shared by all database numbers of a server.
    other = await RedisBroker.open(redis_url.replace("/0", "/1"), "windlass:other:")
    try:
        claiming = asyncio.ensure_future(other.claim("w1", QUEUES, 10, 0.3))
        receiving = asyncio.ensure_future(other.receive(0, 10, 0.3))
        await one.publish([task("a")])
        await one.send(0, [Submitted("a")])

        assert list(await claiming) == []
        assert list(await receiving) == []
        assert ids(await one.claim("w1", QUEUES, 10, 0.0)) == ["a"]
    finally:
        await one.close()
        await other.close()


async def test_result_of_a_task_lost_in_a_flush_is_delivered(
    broker: RedisBroker, redis_url: str
) -> None:
    await broker.publish([task("a")])
    await broker.claim("w1", QUEUES, 1, 0.0)
    send_redis(redis_url, b"FLUSHALL")
    await broker.finish("w1", [report(task("a"))])

    assert nodes(await broker.receive(0, 10, 0.0)) == ["a"]


async def test_scripts_are_sent_again_after_a_script_flush(
    broker: RedisBroker, redis_url: str
) -> None:
    await broker.publish([task("a")])
    with redis.Redis.from_url(redis_url) as client:
        client.script_flush()
    await broker.publish([task("b")])

    assert ids(await broker.claim("w1", QUEUES, 10, 0.0)) == ["a", "b"]


async def test_waiters_continue_after_a_server_restart(
    restarted: RedisBroker, server: Restartable
) -> None:
    claiming = asyncio.ensure_future(restarted.claim("w1", QUEUES, 10, 30.0))
    receiving = asyncio.ensure_future(restarted.receive(0, 10, 30.0))
    await restarted.missing(["a"])
    server.kill()
    await server.start_again()
    await restarted.publish([task("a")])
    await restarted.send(0, [Submitted("b")])

    async with asyncio.timeout(10.0):
        assert ids(await claiming) == ["a"]
        assert list(await receiving) == [Submitted("b")]


async def test_call_during_a_server_restart_succeeds(
    restarted: RedisBroker, server: Restartable
) -> None:
    server.kill()
    await asyncio.gather(restarted.publish([task("a")]), server.start_again())

    assert list(await restarted.missing(["a"])) == []


async def test_new_inbox_below_the_last_read_id_is_read_from_its_start(
    restarted: RedisBroker, server: Restartable
) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.xadd(
            f"{PREFIX}inbox:0", {"m": b'{"type":"submitted","job_id":"a"}'}, id="9999999999999-1"
        )
    await restarted.receive(0, 10, 0.0)
    server.kill()
    await server.start_again()
    await restarted.send(0, [Submitted("b")])

    assert list(await restarted.receive(0, 10, 0.0)) == [Submitted("b")]


async def test_hanging_server_raises_in_time_and_works_again_later(
    restarted: RedisBroker, server: Restartable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CALL_SECONDS_MAX", BOUND_SECONDS)
    server.signal(signal.SIGSTOP)
    with pytest.raises(BrokerUnavailable, match="did not execute a command: no answer within"):
        await restarted.missing(["a"])
    server.signal(signal.SIGCONT)

    assert list(await restarted.missing(["a"])) == ["a"]


async def test_error_names_the_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CALL_SECONDS_MAX", BOUND_SECONDS)
    port = free_port()

    with pytest.raises(BrokerUnavailable, match=f"Redis at 127.0.0.1:{port} did not"):
        await RedisBroker.open(f"redis://127.0.0.1:{port}/0")


async def test_call_on_a_closed_broker_raises(redis_url: str) -> None:
    broker = await RedisBroker.open(redis_url)
    await broker.close()

    with pytest.raises(BrokerUnavailable, match="was closed"):
        await broker.publish([task("a")])


async def test_idle_server_stores_almost_nothing(broker: RedisBroker, redis_url: str) -> None:
    names = [f"t{number}" for number in range(10_000)]
    await broker.publish(
        [
            task(name, queue=f"q{number % 7}", priority=number % 3)
            for number, name in enumerate(names)
        ]
    )
    await broker.cancel(names[9_000:])
    while taken := await broker.claim("w1", ("*",), 500, 0.0):
        await broker.finish("w1", [report(delivery.task) for delivery in taken])
        await broker.acknowledge(0, len(await broker.receive(0, 500, 0.0)))

    with redis.Redis.from_url(redis_url) as client:
        sizes = {key: client.memory_usage(key) or 0 for key in client.keys("*")}
    assert sorted(sizes) == [
        f"{PREFIX}{name}".encode() for name in ("inbox:0", "worker_capabilities", "workers")
    ]
    assert sum(sizes.values()) < 20_000


async def test_broker_uses_two_connections(broker: RedisBroker, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        others = len(client.client_list())
        await broker.publish([task(f"t{number}") for number in range(50)])
        waiting: list[asyncio.Future[Any]] = []
        waiting += [asyncio.ensure_future(broker.receive(shard, 10, 30.0)) for shard in range(32)]
        waiting += [
            asyncio.ensure_future(broker.receive_cancellations(f"w{number}", 30.0))
            for number in range(8)
        ]
        await asyncio.gather(*(broker.claim(f"w{number}", QUEUES, 5, 1.0) for number in range(10)))
        seen = len(client.client_list())
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)

    assert seen <= others + 1


async def test_invalid_tasks_and_messages_are_skipped(broker: RedisBroker, redis_url: str) -> None:
    await broker.publish([task("bad"), task("good")])
    with redis.Redis.from_url(redis_url) as client:
        client.hset(f"{PREFIX}bodies", "bad", b"\x00 forged")
        client.xadd(f"{PREFIX}inbox:0", {"m": b"forged"})
    await broker.send(0, [Submitted("a")])

    assert ids(await broker.claim("w1", QUEUES, 10, 0.0)) == ["good"]
    assert list(await broker.receive(0, 10, 0.0)) == [Submitted("a")]
    await broker.acknowledge(0, 1)
    await broker.reclaim(-1.0)
    assert list(await broker.missing(["bad", "good"])) == ["bad"]
    with redis.Redis.from_url(redis_url) as client:
        assert client.xlen(f"{PREFIX}inbox:0") == 1


async def received(broker: RedisBroker, count: int) -> list[Submitted]:
    """Receive and acknowledge a number of messages of shard 0."""
    found: list[Any] = []
    async with asyncio.timeout(10.0):
        while len(found) < count:
            batch = await broker.receive(0, 500, 5.0)
            found += batch
            await broker.acknowledge(0, len(batch))
    return found


async def test_pushed_and_fetched_messages_arrive_once_and_in_order(
    broker: RedisBroker, redis_url: str
) -> None:
    sender = await RedisBroker.open(redis_url)
    # Small batches are pushed with their notification, large ones are fetched.
    batches = [[Submitted(f"{turn}-{n}") for n in range(1 + 97 * (turn % 4))] for turn in range(60)]
    messages = [one for batch in batches for one in batch]

    receiving = asyncio.ensure_future(received(broker, len(messages)))
    for batch in batches:
        await sender.send(0, batch)

    assert await receiving == messages
    await sender.close()


async def test_pushed_messages_are_not_fetched(broker: RedisBroker, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.config_resetstat()
        for number in range(20):
            await broker.send(0, [Submitted(f"{number}")])
            await received(broker, 1)
        asked: Any = client.info("commandstats")

    # The first one, and one when the subscription begins.
    assert asked["cmdstat_xread"]["calls"] <= 2


async def test_acknowledged_messages_are_removed_when_the_broker_closes(
    broker: RedisBroker, redis_url: str
) -> None:
    other = await RedisBroker.open(redis_url)
    await other.send(0, [Submitted("a")])
    await other.receive(0, 10, 0.0)
    await other.acknowledge(0, 1)

    await other.close()

    assert list(await broker.receive(0, 10, 0.0)) == []


async def test_acknowledgement_survives_a_lost_connection(
    broker: RedisBroker, redis_url: str
) -> None:
    await broker.send(0, [Submitted("a")])
    await broker.receive(0, 10, 0.0)
    await broker.acknowledge(0, 1)
    with redis.Redis.from_url(redis_url) as client:
        client.client_kill_filter(_type="normal", skipme=True)

    await broker.send(0, [Submitted("b")])
    await broker.rewind(0)

    assert list(await broker.receive(0, 10, 0.0)) == [Submitted("b")]


async def test_notifications_while_the_server_is_down_are_lost_silently(
    restarted: RedisBroker, server: Restartable, caplog: pytest.LogCaptureFixture
) -> None:
    listener = await subscribed(restarted, restarted)
    server.kill()
    for number in range(20):
        restarted.notify_done([f"lost-{number}"])
        await asyncio.sleep(0.005)
    await server.start_again()

    await listener.until(lambda: restarted.notify_done(["a"]), ["a"])
    gc.collect()
    # The lost connection is logged once, by the listener.
    assert {record.name for record in caplog.records} <= {"windlass.brokers"}
    assert not [record for record in caplog.records if "PUBLISH" in record.getMessage()]


async def test_closed_broker_ignores_notifications(
    redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await RedisBroker.open(redis_url)
    broker.notify_done(["a"])
    await broker.close()
    broker.notify_done(["b"])
    gc.collect()

    assert caplog.records == []


async def test_server_with_another_protocol_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Answer the driver's handshake, then send something that is not the Redis protocol.
        while (head := await reader.readline()).startswith(b"*"):
            words = [await reader.readline() for _ in range(2 * int(head[1:]))]
            writer.write(b"SSH-2.0-OpenSSH\r\n" if words[1] == b"INFO\r\n" else b"+OK\r\n")
        writer.close()

    monkeypatch.setattr(connection, "CALL_SECONDS_MAX", BOUND_SECONDS)
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]

        with pytest.raises(BrokerUnavailable, match="did not execute a command"):
            await RedisBroker.open(f"redis://127.0.0.1:{port}/0")
