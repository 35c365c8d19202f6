"""Messages that are pushed with their notification: the next ones are used, all others are fetched."""

from windlass.brokers.redis.inbox import PUSHED_MAX, InboxPosition


def notification(before: str, *messages: tuple[str, str]) -> bytes:
    head = " ".join([before, *(f"{place} {len(body)}" for place, body in messages)])
    return f"{head}\n{''.join(body for _, body in messages)}".encode()


def read_to(place: str) -> InboxPosition:
    """Return the position of an inbox that was read up to an id."""
    inbox = InboxPosition()
    inbox.begin_fetch()
    inbox.end_fetch(place.encode())
    return inbox


def test_next_messages_are_pushed() -> None:
    inbox = read_to("5-0")

    inbox.push(notification("5-0", ("6-0", "one"), ("6-1", "two")))
    inbox.push(notification("6-1", ("7-0", "")))

    assert not inbox.is_fetch_needed
    assert list(inbox.take_pushed(10)) == [(b"6-0", b"one"), (b"6-1", b"two"), (b"7-0", b"")]
    assert inbox.last == b"7-0"


def test_message_after_a_gap_requires_a_fetch() -> None:
    inbox = read_to("5-0")

    inbox.push(notification("5-9", ("6-0", "one")))

    assert inbox.is_fetch_needed
    assert not inbox.pushed


def test_ids_are_compared_as_numbers() -> None:
    inbox = read_to("10-2")

    inbox.push(notification("9-11", ("10-10", "one")))

    assert list(inbox.take_pushed(10)) == [(b"10-10", b"one")]


def test_first_message_of_an_empty_inbox_is_pushed() -> None:
    inbox = read_to("5-0")

    inbox.push(notification("0-0", ("6-0", "one")))

    assert list(inbox.take_pushed(10)) == [(b"6-0", b"one")]


def test_message_fetched_before_its_notification_is_not_repeated() -> None:
    inbox = read_to("6-0")

    inbox.push(notification("5-0", ("6-0", "one"), ("6-1", "two")))

    assert list(inbox.take_pushed(10)) == [(b"6-1", b"two")]


def test_nothing_is_pushed_before_the_first_fetch() -> None:
    inbox = InboxPosition()

    inbox.push(notification("0-0", ("1-0", "one")))

    assert inbox.is_fetch_needed
    assert not inbox.pushed


def test_notification_during_a_fetch_requires_another_fetch() -> None:
    inbox = read_to("5-0")
    inbox.begin_fetch()

    inbox.push(notification("5-0", ("6-0", "one")))
    inbox.end_fetch(None)

    assert inbox.is_fetch_needed
    assert not inbox.pushed


def test_notification_without_messages_requires_a_fetch() -> None:
    inbox = read_to("5-0")

    inbox.push(b"")

    assert inbox.is_fetch_needed


def test_invalid_notification_requires_a_fetch() -> None:
    inbox = read_to("5-0")

    inbox.push(b"no place at all\nx")

    assert inbox.is_fetch_needed


def test_fetch_starts_after_the_last_returned_message() -> None:
    inbox = read_to("5-0")
    inbox.push(notification("5-0", ("6-0", "one"), ("6-1", "two")))
    inbox.take_pushed(1)

    inbox.push(b"")
    inbox.begin_fetch()

    assert inbox.last == b"6-0"
    assert not inbox.pushed


def test_number_of_pushed_messages_is_limited() -> None:
    inbox = read_to("5-0")
    for number in range(PUSHED_MAX + 1):
        inbox.push(notification(f"{5 + number}-0", (f"{6 + number}-0", "one")))

    assert inbox.is_fetch_needed
    assert not inbox.pushed
    assert inbox.last == b"5-0"


def test_nothing_is_pushed_between_a_rewind_and_a_fetch() -> None:
    inbox = read_to("5-0")
    inbox.push(notification("5-0", ("6-0", "one")))

    inbox.rewind()
    inbox.push(notification("6-0", ("7-0", "two")))

    assert inbox.is_fetch_needed
    assert not inbox.pushed
