"""The contract of brokers: lists of queues, workers and held tasks."""

from tests.contracts.conftest import SetClock
from tests.contracts.test_broker import QUEUES, WORKER_TIMEOUT_SECONDS, report, taken, task
from windlass.ports.broker import HELD_SHOWN_MAX, Broker, QueueInfo

# Servers have their own clocks, which advance while a test runs.
SLACK_SECONDS = 5.0


async def counts(broker: Broker) -> list[tuple[str, int, int]]:
    return [(one.queue, one.depth, one.running) for one in await broker.queues()]


async def waits(broker: Broker, queue: str = "default") -> float | None:
    [found] = [one for one in await broker.queues() if one.queue == queue]
    return found.oldest_seconds


async def test_broker_without_tasks_has_no_queues(broker: Broker) -> None:
    assert list(await broker.queues()) == []


async def test_queues_show_waiting_and_running_tasks(broker: Broker) -> None:
    await broker.publish(
        [
            task("a"),
            task("b", priority=5),
            task("c"),
            task("d", queue="gpu"),
            task("e", queue="cpu"),
        ]
    )
    await broker.claim("w1", QUEUES, 2, 0.0)
    await broker.claim("w2", ["gpu"], 9, 0.0)

    assert await counts(broker) == [("cpu", 1, 0), ("default", 1, 2), ("gpu", 0, 1)]


async def test_counts_follow_the_tasks(broker: Broker, clock: SetClock) -> None:
    await broker.publish([task(name) for name in "abcdef"])
    await broker.publish([task("a")])
    assert await counts(broker) == [("default", 6, 0)]
    assert await taken(broker, limit=4) == ["a", "b", "c", "d"]
    await broker.return_tasks("w1", ["a"])
    assert await counts(broker) == [("default", 3, 3)]
    await broker.cancel(["b", "e"])
    assert await counts(broker) == [("default", 2, 2)]
    await broker.finish("w1", [report(task("c"))])
    assert await counts(broker) == [("default", 2, 1)]
    await clock.sleep(WORKER_TIMEOUT_SECONDS + 1)
    assert await broker.reclaim(WORKER_TIMEOUT_SECONDS) == 1
    assert await counts(broker) == [("default", 3, 0)]
    assert sorted(await taken(broker, "w2")) == ["a", "d", "f"]
    await broker.finish("w2", [report(task(name), "w2") for name in "adf"])
    assert await counts(broker) == []


async def test_late_result_reduces_the_depth_of_a_queue(broker: Broker, clock: SetClock) -> None:
    await broker.publish([task("a"), task("b")])
    await taken(broker, limit=1)
    await clock.sleep(WORKER_TIMEOUT_SECONDS + 1)
    await broker.reclaim(WORKER_TIMEOUT_SECONDS)
    await broker.finish("w1", [report(task("a"))])

    assert await counts(broker) == [("default", 1, 0)]


async def test_queue_shows_the_age_of_its_oldest_task(broker: Broker, clock: SetClock) -> None:
    await broker.publish([task("old", priority=-1)])
    await clock.sleep(40.0)
    await broker.publish([task("new", priority=1), task("alone", queue="gpu")])

    assert abs((await waits(broker) or 0.0) - 40.0) < SLACK_SECONDS
    assert 0.0 <= (await waits(broker, "gpu") or 0.0) < SLACK_SECONDS


async def test_claimed_and_cancelled_tasks_do_not_count_as_waiting(
    broker: Broker, clock: SetClock
) -> None:
    await broker.publish([task("first"), task("second")])
    await clock.sleep(40.0)
    await broker.publish([task("third")])
    await broker.cancel(["first"])
    assert await taken(broker, limit=1) == ["second"]

    assert (await waits(broker) or 0.0) < SLACK_SECONDS
    await taken(broker)
    assert list(await broker.queues()) == [QueueInfo("default", 0, 2)]


async def test_returned_task_keeps_its_publication_time(broker: Broker, clock: SetClock) -> None:
    await broker.publish([task("a")])
    await clock.sleep(40.0)
    await taken(broker)
    await broker.return_tasks("w1", ["a"])

    assert (await waits(broker) or 0.0) > 40.0 - SLACK_SECONDS


async def test_worker_is_listed_with_held_tasks_and_their_times(broker: Broker) -> None:
    await broker.publish([task("a"), task("b"), task("c", queue="gpu")])
    await taken(broker, "w1", limit=1)
    await taken(broker, "w1", limit=1)
    await broker.claim("w2", ["gpu"], 1, 0.0)
    await broker.extend("w1", ["a", "b"])

    first, second = await broker.workers()

    assert sorted(one.task_id for one in first.tasks) == ["a", "b"]
    assert [one.task_id for one in second.tasks] == ["c"]
    gaps = [worker.seen_at - one.claimed_at for worker in (first, second) for one in worker.tasks]
    assert all(abs(gap) < SLACK_SECONDS * 1e6 for gap in gaps)


async def test_worker_is_not_listed_with_tasks_it_no_longer_holds(broker: Broker) -> None:
    await broker.publish([task(name) for name in "abc"])
    await taken(broker)
    await broker.finish("w1", [report(task("a"))])
    await broker.return_tasks("w1", ["b"])

    [worker] = await broker.workers()
    assert [one.task_id for one in worker.tasks] == ["c"]


async def test_number_of_listed_tasks_is_limited(broker: Broker) -> None:
    await broker.publish([task(f"t{number}") for number in range(HELD_SHOWN_MAX + 20)])
    await taken(broker, limit=HELD_SHOWN_MAX + 20)

    [worker] = await broker.workers()
    assert (worker.held, len(worker.tasks)) == (HELD_SHOWN_MAX + 20, HELD_SHOWN_MAX)


async def test_queue_names_may_be_long(broker: Broker) -> None:
    name = "q" * 64
    await broker.publish([task("a", queue=name), task("b", queue=name)])
    await broker.claim("w1", [name], 1, 0.0)
    assert await counts(broker) == [(name, 1, 1)]
    assert list(await broker.extend("w1", ["a", "b"])) == ["b"]
    await broker.finish("w1", [report(task("a", queue=name))])

    assert await counts(broker) == [(name, 1, 0)]
