"""Several brokers on one server: nothing is lost or delivered twice, and waiting processes do not poll."""

import asyncio
import time
from random import Random

from tests.brokers.conftest import ServerBroker, Site
from tests.contracts.done_listener import DoneListener, subscribed
from tests.contracts.test_broker import QUEUES, ids, nodes, report, task
from windlass.core.messages import Submitted, TaskLost

WORKER_TIMEOUT_SECONDS = 15.0
WAKE_SECONDS_MAX = 0.02


async def all_taken(broker: ServerBroker, worker_id: str = "last") -> list[str]:
    found: list[str] = []
    while taken := ids(await broker.claim(worker_id, QUEUES, 500, 0.0)):
        found += taken
    return found


async def test_tasks_published_by_several_processes_are_delivered_once(site: Site) -> None:
    brokers = [await site.open() for _ in range(4)]
    tasks = [task(f"t{number}") for number in range(300)]
    await asyncio.gather(*(broker.publish(tasks) for broker in brokers))

    assert sorted(await all_taken(brokers[0])) == sorted(one.task_id for one in tasks)


async def test_two_processes_that_reclaim_at_once_find_each_task_once(site: Site) -> None:
    brokers = [await site.open() for _ in range(2)]
    names = sorted(f"t{number}" for number in range(700))
    await brokers[0].publish([task(name) for name in names])
    await all_taken(brokers[0], "dead")
    await site.age(WORKER_TIMEOUT_SECONDS + 1)

    counts = await asyncio.gather(*(broker.reclaim(WORKER_TIMEOUT_SECONDS) for broker in brokers))

    assert sum(counts) == len(names)
    assert sorted(await all_taken(brokers[1])) == names
    lost = [*await brokers[0].receive(0, 500, 0.0), *await brokers[0].receive(0, 500, 0.0)]
    assert sorted(nodes(lost)) == names
    assert {message.losses for message in lost if isinstance(message, TaskLost)} == {1}


async def test_claim_cancelled_at_any_moment_loses_no_task(site: Site) -> None:
    broker, publisher = await site.open(), await site.open()
    chance = Random(5)
    found: list[str] = []
    for number in range(200):
        claiming = asyncio.ensure_future(broker.claim("w1", QUEUES, 3, 5.0))
        await asyncio.sleep(chance.choice([0.0, chance.uniform(0.0, 0.003)]))
        publishing = asyncio.ensure_future(publisher.publish([task(f"t{number}")]))
        await asyncio.sleep(chance.uniform(0.0, 0.004))
        claiming.cancel()
        await asyncio.wait([claiming, publishing])
        if not claiming.cancelled():
            found += ids(claiming.result())

    found += await all_taken(broker)
    assert sorted(found) == sorted(f"t{number}" for number in range(200))


async def test_former_owner_that_keeps_reading_removes_nothing(site: Site) -> None:
    former, owner, sender = [await site.open() for _ in range(3)]
    await sender.send(0, [Submitted("a"), Submitted("b")])
    await former.receive(0, 10, 0.0)
    await owner.rewind(0)
    await owner.receive(0, 1, 0.0)
    await sender.send(0, [Submitted("c")])
    await former.receive(0, 10, 0.0)
    await owner.acknowledge(0, 1)
    await owner.rewind(0)

    assert list(await owner.receive(0, 10, 0.0)) == [Submitted("b"), Submitted("c")]


async def test_owner_acknowledges_only_what_it_received(site: Site) -> None:
    owner, sender = await site.open(), await site.open()
    await sender.send(0, [Submitted("a")])
    await owner.receive(0, 10, 0.0)
    await sender.send(0, [Submitted("b")])
    await owner.acknowledge(0, 5)

    assert list(await owner.receive(0, 10, 0.0)) == [Submitted("b")]
    assert list(await sender.receive(0, 10, 0.0)) == [Submitted("b")]


async def work(broker: ServerBroker, worker_id: str, seen: list[str], wanted: int) -> None:
    while len(seen) < wanted:
        taken = await broker.claim(worker_id, QUEUES, 200, 0.2)
        seen += ids(taken)
        await broker.finish(worker_id, [report(delivery.task, worker_id) for delivery in taken])


async def test_ten_thousand_tasks_run_once_on_two_workers(site: Site) -> None:
    engine, first, second = [await site.open() for _ in range(3)]
    names = [f"t{number}" for number in range(10_000)]
    seen: list[str] = []
    working = [
        asyncio.ensure_future(work(one, f"w{id(one)}", seen, len(names))) for one in (first, second)
    ]
    for start in range(0, len(names), 500):
        await engine.publish([task(name) for name in names[start : start + 500]])
    results: list[str] = []
    while len(results) < len(names):
        messages = await engine.receive(0, 500, 5.0)
        results += nodes(messages)
        await engine.acknowledge(0, len(messages))
    await asyncio.gather(*working)

    assert sorted(seen) == sorted(results) == sorted(names)
    assert list(await engine.missing(names)) == names
    assert list(await engine.receive(0, 10, 0.0)) == []


async def wake_seconds(publisher: ServerBroker, worker: ServerBroker, number: int) -> float:
    waiting = asyncio.ensure_future(worker.claim("w1", QUEUES, 1, 30.0))
    await asyncio.sleep(0.02)
    begun = time.perf_counter()
    await publisher.publish([task(f"t{number}")])
    assert ids(await waiting) == [f"t{number}"]
    return time.perf_counter() - begun


async def test_idle_worker_is_woken_at_once_by_another_process(site: Site) -> None:
    publisher, worker = await site.open(), await site.open()

    times = [await wake_seconds(publisher, worker, number) for number in range(20)]

    # The fastest one, because the machine may be busy. Polling would never be this fast.
    assert min(times) < WAKE_SECONDS_MAX


async def test_task_published_while_a_worker_subscribes_is_found_at_once(site: Site) -> None:
    publisher, worker = await site.open(), await site.open()
    # From now on the worker is notified and does not poll.
    await wake_seconds(publisher, worker, 0)
    for number in range(100):
        queue = f"q{number}"
        waiting = asyncio.ensure_future(worker.claim("w1", (queue,), 1, 30.0))
        for _ in range(number % 10):
            await asyncio.sleep(0)
        await publisher.publish([task("a", queue=queue)])
        async with asyncio.timeout(5.0):
            [delivery] = await waiting
        await worker.finish("w1", [report(delivery.task)])


async def test_idle_owner_is_woken_by_a_message_from_another_process(site: Site) -> None:
    owner, sender = await site.open(), await site.open()
    waiting = asyncio.ensure_future(owner.receive(3, 10, 30.0))
    await asyncio.sleep(0.05)
    await sender.send(3, [Submitted("a")])

    async with asyncio.timeout(5.0):
        assert list(await waiting) == [Submitted("a")]


async def test_holder_is_notified_of_a_cancellation_by_another_process(site: Site) -> None:
    worker, engine = await site.open(), await site.open()
    await engine.publish([task("a")])
    await worker.claim("w1", QUEUES, 1, 0.0)
    waiting = asyncio.ensure_future(worker.receive_cancellations("w1", 30.0))
    await asyncio.sleep(0.05)
    await engine.cancel(["a"])

    async with asyncio.timeout(5.0):
        assert list(await waiting) == ["a"]


async def notify_seconds(sender: ServerBroker, listener: DoneListener, job_id: str) -> float:
    begun = time.perf_counter()
    sender.notify_done([job_id])
    await listener.until_received([job_id])
    return time.perf_counter() - begun


async def test_every_process_is_notified_at_once_that_a_job_ended(site: Site) -> None:
    sender, *others = [await site.open() for _ in range(4)]
    listeners = [await subscribed(broker, sender) for broker in others]

    times = [await notify_seconds(sender, listeners[0], f"j{number}") for number in range(20)]

    assert min(times) < WAKE_SECONDS_MAX
    for listener in listeners:
        await listener.until_received([f"j{number}" for number in range(20)])


async def test_notifications_of_many_ended_jobs_reach_another_process(site: Site) -> None:
    sender, other = await site.open(), await site.open()
    listener = await subscribed(other, sender)
    job_ids = [f"{number:024}" for number in range(2_000)]

    sender.notify_done(job_ids)

    await listener.until_received(job_ids)
    assert set(listener.received) == {"first", *job_ids}
