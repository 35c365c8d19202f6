"""The contract of brokers: notifications of ended jobs."""

from tests.contracts.done_listener import DoneListener, subscribed
from windlass.core.messages import Submitted
from windlass.ports.broker import Broker


async def test_subscriber_is_notified_of_ended_jobs(broker: Broker) -> None:
    listener = await subscribed(broker, broker)

    broker.notify_done(["a", "b-1"])

    await listener.until_received(["a", "b-1"])
    assert set(listener.received) == {"first", "a", "b-1"}


async def test_all_subscribers_are_notified_of_ended_jobs(broker: Broker) -> None:
    one, two = await subscribed(broker, broker), await subscribed(broker, broker)

    broker.notify_done(["a"])

    await one.until_received(["a"])
    await two.until_received(["a"])


async def test_subscriber_is_notified_of_many_ended_jobs(broker: Broker) -> None:
    listener = await subscribed(broker, broker)
    job_ids = [f"{number:024}-{number:08x}" for number in range(2_000)]

    broker.notify_done(job_ids)

    await listener.until_received(job_ids)
    assert set(listener.received) == {"first", *job_ids}


async def test_notifications_without_subscribers_are_ignored(broker: Broker) -> None:
    broker.notify_done([])
    broker.notify_done(["a"])
    await broker.send(0, [Submitted("b")])

    assert list(await broker.receive(0, 10, 1.0)) == [Submitted("b")]


async def test_subscribing_alone_notifies_of_no_job(broker: Broker) -> None:
    listener = DoneListener(broker)
    broker.notify_done([])

    # Earlier notifications arrive earlier.
    await listener.until(lambda: broker.notify_done(["a"]), ["a"])
    assert set(listener.received) == {"a"}
