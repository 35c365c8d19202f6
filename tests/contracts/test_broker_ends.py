"""What every broker does with the news that jobs have ended."""

from tests.contracts.ends import Listener, listening
from windlass.core.messages import Submitted
from windlass.ports.broker import Broker


async def test_whoever_listens_hears_of_ends(broker: Broker) -> None:
    listener = await listening(broker, broker)

    broker.notify_done(["a", "b-1"])

    await listener.until_heard(["a", "b-1"])
    assert set(listener.heard) == {"first", "a", "b-1"}


async def test_all_who_listen_hear_of_ends(broker: Broker) -> None:
    one, two = await listening(broker, broker), await listening(broker, broker)

    broker.notify_done(["a"])

    await one.until_heard(["a"])
    await two.until_heard(["a"])


async def test_many_ends_are_all_heard(broker: Broker) -> None:
    listener = await listening(broker, broker)
    job_ids = [f"{number:024}-{number:08x}" for number in range(2_000)]

    broker.notify_done(job_ids)

    await listener.until_heard(job_ids)
    assert set(listener.heard) == {"first", *job_ids}


async def test_ends_that_nobody_listens_to_are_no_matter(broker: Broker) -> None:
    broker.notify_done([])
    broker.notify_done(["a"])
    await broker.send(0, [Submitted("b")])

    assert list(await broker.receive(0, 10, 1.0)) == [Submitted("b")]


async def test_who_begins_to_listen_hears_of_no_job_by_that(broker: Broker) -> None:
    listener = Listener(broker)
    broker.notify_done([])

    # What was told before it is heard before it.
    await listener.until(lambda: broker.notify_done(["a"]), ["a"])
    assert set(listener.heard) == {"a"}
