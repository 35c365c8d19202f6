"""The contract of brokers: queues, results, lost workers, cancels and inboxes."""

import asyncio
from collections.abc import Sequence

from msgspec import Raw

from tests.contracts.conftest import SetClock
from windlass.core.artifacts import TaskArtifact
from windlass.core.changes import SinkSpec, Task
from windlass.core.messages import Continue, Message, Submitted, Succeeded, TaskFinished, TaskLost
from windlass.ports.broker import ALL_QUEUES, Broker, TaskClaim, TaskReport

QUEUES = ("default",)
WORKER_TIMEOUT_SECONDS = 15.0
WORKER_RETENTION_SECONDS = 300.0


def task(
    task_id: str,
    *,
    queue: str = "default",
    priority: int = 0,
    shard: int = 0,
    handler: str = "echo",
    workflow: str = "flow",
) -> Task:
    return Task(
        task_id,
        "j1",
        task_id,
        1,
        handler,
        b"{}",
        queue=queue,
        priority=priority,
        shard=shard,
        workflow_id=workflow,
    )


def report(done: Task, worker_id: str = "w1") -> TaskReport:
    message = TaskFinished(
        done.job_id, done.node_id, done.attempt, worker_id, 1, 2, Succeeded(Raw(b"1"))
    )
    return TaskReport(done.task_id, done.shard, message)


def ids(claims: Sequence[TaskClaim]) -> list[str]:
    return [claim.task.task_id for claim in claims]


async def taken(broker: Broker, worker_id: str = "w1", limit: int = 100) -> list[str]:
    return ids(await broker.claim(worker_id, QUEUES, limit, 0.0))


def nodes(messages: Sequence[Message]) -> list[str]:
    return [message.node_id for message in messages if isinstance(message, TaskFinished | TaskLost)]


# Queues


async def test_published_task_is_claimed_unchanged(broker: Broker) -> None:
    sink = SinkSpec("postgres", b'{"table":"t"}', ("data", "rows"), "run")
    published = Task(
        "t",
        "j",
        "n",
        3,
        "http",
        b'{"x":1}\xff',
        "default",
        9.5,
        7,
        0,
        4,
        2,
        "key",
        sink,
        (
            TaskArtifact("k1"),
            TaskArtifact("k2", ("rows", 3), "a.output", ("list", 0, "x"), b'{"page":2}'),
        ),
        "flow",
    )
    await broker.publish([published])

    assert list(await broker.claim("w1", QUEUES, 1, 0.0)) == [TaskClaim(published, 1)]


async def test_queued_task_published_again_is_delivered_once(broker: Broker) -> None:
    await broker.publish([task("a"), task("a")])
    await broker.publish([task("a")])

    assert await taken(broker) == ["a"]


async def test_held_task_published_again_is_not_delivered_again(broker: Broker) -> None:
    await broker.publish([task("a")])
    await taken(broker)
    await broker.publish([task("a")])

    assert await taken(broker, "w2") == []


async def test_finished_task_can_be_published_again(broker: Broker) -> None:
    await broker.publish([task("a")])
    await taken(broker)
    await broker.finish("w1", [report(task("a"))])
    await broker.publish([task("a")])

    assert await taken(broker) == ["a"]


async def test_tasks_are_ordered_by_priority_then_age(broker: Broker) -> None:
    await broker.publish(
        [task("a"), task("b", priority=5), task("c"), task("d", priority=-1), task("e", priority=5)]
    )

    assert await taken(broker) == ["b", "e", "a", "c", "d"]


async def test_claim_respects_its_limit(broker: Broker) -> None:
    await broker.publish([task(name) for name in "abc"])

    assert (await taken(broker, limit=2), await taken(broker, limit=2)) == (["a", "b"], ["c"])


async def test_worker_gets_only_tasks_of_its_queues(broker: Broker) -> None:
    await broker.publish([task("a"), task("b", queue="gpu"), task("c", queue="other")])

    assert ids(await broker.claim("w1", ("gpu", "default"), 10, 0.0)) == ["b", "a"]


async def test_waiting_worker_is_woken_by_the_first_task(broker: Broker) -> None:
    waiting = asyncio.ensure_future(broker.claim("w1", QUEUES, 10, 30.0))
    await asyncio.sleep(0)
    await broker.publish([task("a")])

    assert ids(await asyncio.wait_for(waiting, 5.0)) == ["a"]


async def test_claim_without_tasks_times_out(broker: Broker) -> None:
    assert list(await asyncio.wait_for(broker.claim("w1", QUEUES, 10, 0.01), 5.0)) == []


async def test_task_goes_to_one_of_many_waiting_workers(broker: Broker) -> None:
    waiting = {asyncio.ensure_future(broker.claim(f"w{n}", QUEUES, 1, 30.0)) for n in range(5)}
    await asyncio.sleep(0)
    await broker.publish([task("a"), task("b")])

    found: list[str] = []
    while len(found) < 2:
        done, waiting = await asyncio.wait(
            waiting, timeout=5.0, return_when=asyncio.FIRST_COMPLETED
        )
        found += [task_id for one in done for task_id in ids(one.result())]
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert sorted(found) == ["a", "b"]


async def test_cancelled_claim_loses_no_task(broker: Broker) -> None:
    waiting = asyncio.ensure_future(broker.claim("w1", QUEUES, 10, 30.0))
    await asyncio.sleep(0)
    await broker.publish([task("a")])
    waiting.cancel()
    await asyncio.wait([waiting])

    assert await taken(broker, "w2") == ["a"]


# Workflows take turns


async def test_small_workflow_does_not_wait_for_the_tasks_of_a_large_one(broker: Broker) -> None:
    await broker.publish([task(f"large{number}") for number in range(1_000)])
    await taken(broker, limit=10)
    await broker.publish([task("small", workflow="other")])

    assert "small" in await taken(broker, limit=2)


async def test_workflows_take_turns_and_keep_the_order_of_their_tasks(broker: Broker) -> None:
    await broker.publish([task(f"a{number}", workflow="a") for number in range(4)])
    await broker.publish([task(f"b{number}", workflow="b") for number in range(2)])

    claimed = await taken(broker)

    assert sorted(claimed[:4]) == ["a0", "a1", "b0", "b1"]
    assert [name for name in claimed if name.startswith("a")] == ["a0", "a1", "a2", "a3"]
    assert [name for name in claimed if name.startswith("b")] == ["b0", "b1"]


async def test_a_priority_precedes_the_turns_of_workflows(broker: Broker) -> None:
    await broker.publish([task("a0", workflow="a"), task("a1", priority=1, workflow="a")])
    await broker.publish([task("b0", workflow="b"), task("a2", priority=1, workflow="a")])

    assert (await taken(broker))[:2] == ["a1", "a2"]


async def test_workflow_that_was_served_often_is_not_behind_a_new_one(broker: Broker) -> None:
    await broker.publish([task(f"a{number}", workflow="a") for number in range(100)])
    await taken(broker, limit=90)
    await broker.publish([task(f"b{number}", workflow="b") for number in range(100)])

    claimed = await taken(broker, limit=20)

    assert sum(name.startswith("a") for name in claimed) in {9, 10}


async def test_returned_task_precedes_the_tasks_of_all_workflows(broker: Broker) -> None:
    await broker.publish([task("a0", workflow="a"), task("a1", workflow="a")])
    await taken(broker, limit=2)
    await broker.publish([task("b0", workflow="b"), task("b1", workflow="b")])
    await broker.return_tasks("w1", ["a0"])

    assert "a0" in await taken(broker, limit=2)


# Handlers


async def test_worker_claims_only_tasks_of_its_handlers(broker: Broker) -> None:
    await broker.publish([task("a", handler="old"), task("b", handler="new"), task("c")])

    assert ids(await broker.claim("w1", QUEUES, 10, 0.0, handlers=["echo", "new"])) == ["b", "c"]
    assert ids(await broker.claim("w2", QUEUES, 10, 0.0, handlers=["echo", "new"])) == []
    assert ids(await broker.claim("w3", QUEUES, 10, 0.0, handlers=["old"])) == ["a"]


async def test_tasks_of_several_handlers_keep_their_order(broker: Broker) -> None:
    await broker.publish([task("a"), task("b", handler="http"), task("c"), task("d", priority=1)])

    assert ids(await broker.claim("w1", QUEUES, 3, 0.0, handlers=["http", "echo"])) == [
        "d",
        "a",
        "b",
    ]
    assert ids(await broker.claim("w1", QUEUES, 3, 0.0)) == ["c"]


async def test_task_without_a_worker_waits_for_one(broker: Broker) -> None:
    await broker.publish([task("a", handler="gpu")])
    assert ids(await broker.claim("w1", QUEUES, 10, 0.0, handlers=["echo"])) == []

    assert list(await broker.missing(["a"])) == []
    assert ids(await broker.claim("w2", (ALL_QUEUES,), 10, 0.0, handlers=["gpu"])) == ["a"]


async def test_returned_task_is_claimed_only_by_a_worker_with_its_handler(broker: Broker) -> None:
    await broker.publish([task("a", handler="gpu")])
    await taken(broker)
    await broker.return_tasks("w1", ["a"])

    assert ids(await broker.claim("w2", QUEUES, 10, 0.0, handlers=["echo"])) == []
    assert ids(await broker.claim("w3", QUEUES, 10, 0.0, handlers=["gpu"])) == ["a"]


# Owners


async def test_task_of_an_earlier_owner_is_ignored(broker: Broker) -> None:
    await broker.register_owner(0, 2)
    await broker.register_owner(1, 7)
    await broker.publish([task("late")], epoch=1)
    await broker.publish([task("current")], epoch=2)

    assert await taken(broker) == ["current"]
    await broker.publish([task("other", shard=1)], epoch=7)
    assert await taken(broker) == ["other"]


async def test_tasks_of_a_shard_are_listed(broker: Broker) -> None:
    await broker.publish([task("a"), task("b")])
    await broker.publish([task("c", shard=3)])
    await taken(broker, limit=1)

    assert sorted(await broker.tasks_of(0)) == ["a", "b"]
    assert list(await broker.tasks_of(3)) == ["c"]
    assert list(await broker.tasks_of(1)) == []


async def test_incarnation_is_the_same_while_nothing_is_lost(broker: Broker) -> None:
    first = await broker.incarnation()
    await broker.publish([task("a")])

    assert await broker.incarnation() == first


# Results


async def test_result_reaches_the_inbox_of_its_shard(broker: Broker) -> None:
    await broker.publish([task("a", shard=0), task("b", shard=1)])
    await taken(broker)
    await broker.finish("w1", [report(task("a", shard=0)), report(task("b", shard=1))])

    assert nodes(await broker.receive(0, 10, 0.0)) == ["a"]
    assert nodes(await broker.receive(1, 10, 0.0)) == ["b"]


async def test_finished_task_is_removed(broker: Broker) -> None:
    await broker.publish([task("a"), task("b")])
    await taken(broker)
    await broker.finish("w1", [report(task("a"))])

    assert list(await broker.missing(["a", "b", "c"])) == ["a", "c"]
    assert list(await broker.extend("w1", ["a", "b"])) == ["a"]


async def test_second_report_does_not_bring_a_task_back(broker: Broker) -> None:
    await broker.publish([task("a")])
    await taken(broker)
    for _ in range(2):
        await broker.finish("w1", [report(task("a"))])

    assert await taken(broker) == []
    assert set(nodes(await broker.receive(0, 10, 0.0))) == {"a"}


async def test_returned_tasks_are_first_in_their_queue_in_order(broker: Broker) -> None:
    await broker.publish([task(name) for name in "abcd"])
    await taken(broker, limit=3)
    await broker.return_tasks("w1", ["a", "b", "c"])

    second = await broker.claim("w2", QUEUES, 10, 0.0)

    assert ids(second) == ["a", "b", "c", "d"]
    assert {claim.delivery_count for claim in second} == {1}


async def test_only_held_tasks_can_be_returned(broker: Broker) -> None:
    await broker.publish([task("a")])
    await taken(broker)
    await broker.return_tasks("w2", ["a", "nothing"])

    assert await taken(broker, "w3") == []


# Lost workers


async def test_tasks_of_a_lost_worker_are_reclaimed(broker: Broker, clock: SetClock) -> None:
    await broker.publish([task("a")])
    await taken(broker)
    await clock.sleep(WORKER_TIMEOUT_SECONDS + 1)

    assert await broker.reclaim(WORKER_TIMEOUT_SECONDS) == 1

    [again] = await broker.claim("w2", QUEUES, 10, 0.0)
    assert (again.task, again.delivery_count) == (task("a"), 2)
    assert list(await broker.receive(0, 10, 0.0)) == [TaskLost("j1", "a", 1, "w1", 1)]


async def test_large_numbers_of_tasks_are_reclaimed(broker: Broker, clock: SetClock) -> None:
    await broker.publish([task(f"t{number}") for number in range(1_600)])
    held = [task_id for _ in range(4) for task_id in await taken(broker, limit=400)]
    await clock.sleep(WORKER_TIMEOUT_SECONDS + 1)

    assert len(held) == 1_600
    assert await broker.reclaim(WORKER_TIMEOUT_SECONDS) == 1_600
    assert await broker.reclaim(WORKER_TIMEOUT_SECONDS) == 0
    assert sorted(
        [task_id for _ in range(4) for task_id in await taken(broker, "w2", 400)]
    ) == sorted(held)


async def test_losses_of_a_task_are_counted(broker: Broker, clock: SetClock) -> None:
    await broker.publish([task("a")])
    for worker_id in ("w1", "w2"):
        await taken(broker, worker_id)
        await clock.sleep(WORKER_TIMEOUT_SECONDS + 1)
        await broker.reclaim(WORKER_TIMEOUT_SECONDS)

    lost = await broker.receive(0, 10, 0.0)
    assert [
        (message.worker_id, message.losses) for message in lost if isinstance(message, TaskLost)
    ] == [
        ("w1", 1),
        ("w2", 2),
    ]


async def test_worker_that_extends_keeps_its_tasks(broker: Broker, clock: SetClock) -> None:
    await broker.publish([task("a")])
    await taken(broker)
    await clock.sleep(WORKER_TIMEOUT_SECONDS - 1)
    stopped = await broker.extend("w1", ["a"])
    await clock.sleep(WORKER_TIMEOUT_SECONDS - 1)

    assert list(stopped) == []
    assert await broker.reclaim(WORKER_TIMEOUT_SECONDS) == 0


async def test_task_that_a_live_worker_does_not_extend_is_reclaimed(
    broker: Broker, clock: SetClock
) -> None:
    await broker.publish([task("a"), task("b")])
    await taken(broker)
    await clock.sleep(WORKER_TIMEOUT_SECONDS - 1)
    await broker.extend("w1", ["b"])
    await clock.sleep(2)

    assert await broker.reclaim(WORKER_TIMEOUT_SECONDS) == 1
    assert await taken(broker, "w2") == ["a"]
    assert list(await broker.extend("w1", ["a", "b"])) == ["a"]


async def test_reclaimed_task_is_reported_to_its_former_holder(
    broker: Broker, clock: SetClock
) -> None:
    await broker.publish([task("a")])
    await taken(broker)
    await clock.sleep(WORKER_TIMEOUT_SECONDS + 1)
    await broker.reclaim(WORKER_TIMEOUT_SECONDS)

    assert list(await broker.extend("w1", ["a"])) == ["a"]


async def test_late_result_counts_and_cancels_the_other_delivery(
    broker: Broker, clock: SetClock
) -> None:
    await broker.publish([task("a")])
    await taken(broker)
    await clock.sleep(WORKER_TIMEOUT_SECONDS + 1)
    await broker.reclaim(WORKER_TIMEOUT_SECONDS)
    await taken(broker, "w2")
    await broker.finish("w1", [report(task("a"))])

    assert list(await broker.receive_cancellations("w2", 0.0)) == ["a"]
    assert list(await broker.missing(["a"])) == ["a"]
    assert nodes(await broker.receive(0, 10, 0.0)) == ["a", "a"]


async def test_late_result_removes_the_task_from_its_queue(broker: Broker, clock: SetClock) -> None:
    await broker.publish([task("a")])
    await taken(broker)
    await clock.sleep(WORKER_TIMEOUT_SECONDS + 1)
    await broker.reclaim(WORKER_TIMEOUT_SECONDS)
    await broker.finish("w1", [report(task("a"))])

    assert await taken(broker, "w2") == []


# Workers


async def test_worker_is_listed_with_its_queues_and_held_tasks(broker: Broker) -> None:
    await broker.publish([task("a"), task("b", queue="gpu")])
    await broker.claim("w2", ("default", "gpu"), 10, 0.0)
    await broker.claim("w1", QUEUES, 10, 0.0)

    seen = await broker.workers()

    assert [(one.worker_id, one.queues, one.held) for one in seen] == [
        ("w1", ("default",), 0),
        ("w2", ("default", "gpu"), 2),
    ]


async def test_lost_worker_stays_listed_until_it_is_forgotten(
    broker: Broker, clock: SetClock
) -> None:
    await broker.publish([task("a")])
    await taken(broker, "dead")
    await clock.sleep(WORKER_TIMEOUT_SECONDS + 1)
    await broker.extend("alive", [])
    await broker.reclaim(WORKER_TIMEOUT_SECONDS)
    await broker.forget_workers(WORKER_RETENTION_SECONDS)

    alive, dead = await broker.workers()
    assert (alive.worker_id, dead.worker_id, dead.held) == ("alive", "dead", 0)
    assert alive.silent_seconds < WORKER_TIMEOUT_SECONDS < dead.silent_seconds

    await clock.sleep(WORKER_RETENTION_SECONDS - WORKER_TIMEOUT_SECONDS)
    await broker.extend("alive", [])
    await broker.forget_workers(WORKER_RETENTION_SECONDS)
    assert [one.worker_id for one in await broker.workers()] == ["alive"]


async def test_worker_with_tasks_is_not_forgotten(broker: Broker, clock: SetClock) -> None:
    await broker.publish([task("a")])
    await taken(broker, "w1")
    await clock.sleep(WORKER_RETENTION_SECONDS + 1)
    await broker.forget_workers(WORKER_RETENTION_SECONDS)

    assert [one.worker_id for one in await broker.workers()] == ["w1"]


async def test_stopped_worker_is_removed_at_once(broker: Broker) -> None:
    await taken(broker, "stopped")
    await taken(broker, "other")

    await broker.deregister("stopped")
    await broker.deregister("unknown")

    assert [one.worker_id for one in await broker.workers()] == ["other"]


async def test_stopped_worker_stays_listed_while_it_holds_tasks(
    broker: Broker, clock: SetClock
) -> None:
    await broker.publish([task("a")])
    await taken(broker, "w1")

    await broker.deregister("w1")

    assert [(one.worker_id, one.held) for one in await broker.workers()] == [("w1", 1)]
    await clock.sleep(WORKER_TIMEOUT_SECONDS + 1)
    assert await broker.reclaim(WORKER_TIMEOUT_SECONDS) == 1


async def test_stopped_worker_has_no_cancellations(broker: Broker) -> None:
    await broker.publish([task("a")])
    await taken(broker, "w1")
    await broker.cancel(["a"])

    await broker.deregister("w1")

    assert list(await broker.receive_cancellations("w1", 0.0)) == []


async def test_heartbeat_updates_the_time_of_a_worker(broker: Broker, clock: SetClock) -> None:
    await taken(broker)
    await clock.sleep(5.0)
    [before] = await broker.workers()
    await clock.sleep(5.0)
    await broker.extend("w1", [])
    [after] = await broker.workers()

    assert after.seen_at > before.seen_at
    assert after.queues == QUEUES


async def test_worker_for_all_queues_claims_from_each(broker: Broker) -> None:
    await broker.publish(
        [task("a", queue="one"), task("b", queue="two", priority=3), task("c", queue="one")]
    )

    assert sorted(ids(await broker.claim("w1", (ALL_QUEUES,), 10, 0.0))) == ["a", "b", "c"]


async def test_worker_for_all_queues_is_woken_by_a_task_of_a_new_queue(broker: Broker) -> None:
    waiting = asyncio.ensure_future(broker.claim("w1", (ALL_QUEUES,), 10, 30.0))
    await asyncio.sleep(0)
    await broker.publish([task("a", queue="new")])

    assert ids(await asyncio.wait_for(waiting, 5.0)) == ["a"]


# Cancels


async def test_cancelled_task_leaves_the_queue(broker: Broker) -> None:
    await broker.publish([task("a"), task("b")])
    await broker.cancel(["a", "nothing"])

    assert await taken(broker) == ["b"]


async def test_holder_of_a_cancelled_task_is_notified(broker: Broker) -> None:
    await broker.publish([task("a"), task("b")])
    await taken(broker)
    await broker.cancel(["a"])

    assert list(await broker.receive_cancellations("w1", 0.0)) == ["a"]
    assert list(await broker.receive_cancellations("w1", 0.0)) == []
    assert list(await broker.extend("w1", ["a", "b"])) == ["a"]


async def test_waiting_holder_is_notified_at_once(broker: Broker) -> None:
    await broker.publish([task("a")])
    await taken(broker)
    waiting = asyncio.ensure_future(broker.receive_cancellations("w1", 30.0))
    await asyncio.sleep(0)
    await broker.cancel(["a"])

    assert list(await asyncio.wait_for(waiting, 5.0)) == ["a"]


async def test_cancelled_task_can_still_be_reported(broker: Broker) -> None:
    await broker.publish([task("a")])
    await taken(broker)
    await broker.cancel(["a"])
    await broker.finish("w1", [report(task("a"))])

    assert nodes(await broker.receive(0, 10, 0.0)) == ["a"]


async def test_missing_returns_tasks_that_are_neither_queued_nor_held(broker: Broker) -> None:
    await broker.publish([task("queued"), task("held", priority=1)])
    await taken(broker, limit=1)

    assert list(await broker.missing(["queued", "held", "unknown"])) == ["unknown"]


# Inboxes


async def test_messages_are_received_in_order_and_in_batches(broker: Broker) -> None:
    await broker.send(0, [Submitted("a"), Submitted("b")])
    await broker.send(0, [Continue("c")])

    assert list(await broker.receive(0, 2, 0.0)) == [Submitted("a"), Submitted("b")]
    assert list(await broker.receive(0, 2, 0.0)) == [Continue("c")]


async def test_shards_have_separate_inboxes(broker: Broker) -> None:
    await broker.send(1, [Submitted("a")])

    assert list(await broker.receive(0, 2, 0.0)) == []


async def test_waiting_owner_is_woken_by_a_message(broker: Broker) -> None:
    waiting = asyncio.ensure_future(broker.receive(0, 10, 30.0))
    await asyncio.sleep(0)
    await broker.send(0, [Submitted("a")])

    assert list(await asyncio.wait_for(waiting, 5.0)) == [Submitted("a")]


async def test_sending_nothing_wakes_a_waiting_owner(broker: Broker) -> None:
    waiting = asyncio.ensure_future(broker.receive(0, 10, 30.0))
    await asyncio.sleep(0)
    await broker.send(0, [])

    assert list(await asyncio.wait_for(waiting, 5.0)) == []


async def test_unacknowledged_messages_are_received_again_after_a_rewind(broker: Broker) -> None:
    await broker.send(0, [Submitted(name) for name in "abc"])
    await broker.receive(0, 2, 0.0)
    await broker.acknowledge(0, 1)
    await broker.rewind(0)

    assert list(await broker.receive(0, 10, 0.0)) == [Submitted("b"), Submitted("c")]


async def test_rewind_keeps_the_order_of_new_messages(broker: Broker) -> None:
    await broker.send(0, [Submitted("a")])
    await broker.receive(0, 10, 0.0)
    await broker.send(0, [Submitted("b")])
    await broker.rewind(0)

    assert list(await broker.receive(0, 10, 0.0)) == [Submitted("a"), Submitted("b")]


async def test_acknowledged_message_is_not_received_again(broker: Broker) -> None:
    await broker.send(0, [Submitted("a"), Submitted("b")])
    await broker.receive(0, 10, 0.0)
    await broker.acknowledge(0, 2)
    await broker.rewind(0)

    assert list(await broker.receive(0, 10, 0.0)) == []


async def test_cancelled_receive_loses_no_message(broker: Broker) -> None:
    waiting = asyncio.ensure_future(broker.receive(0, 10, 30.0))
    await asyncio.sleep(0)
    await broker.send(0, [Submitted("a")])
    waiting.cancel()
    await asyncio.wait([waiting])

    assert list(await broker.receive(0, 10, 0.0)) == [Submitted("a")]
