"""Messages that come with their notification: the next ones are taken as they come, all others are read."""

from windlass.brokers.redis.inbox import PUSHED_MAX, InboxPosition


def notification(before: str, *messages: tuple[str, str]) -> bytes:
    head = " ".join([before, *(f"{place} {len(body)}" for place, body in messages)])
    return f"{head}\n{''.join(body for _, body in messages)}".encode()


def read_to(place: str) -> InboxPosition:
    """An inbox that was read to a place."""
    inbox = InboxPosition()
    inbox.begin_fetch()
    inbox.end_fetch(place.encode())
    return inbox


def test_the_next_messages_are_taken_as_they_come() -> None:
    inbox = read_to("5-0")

    inbox.push(notification("5-0", ("6-0", "one"), ("6-1", "two")))
    inbox.push(notification("6-1", ("7-0", "")))

    assert not inbox.is_fetch_needed
    assert list(inbox.take_pushed(10)) == [(b"6-0", b"one"), (b"6-1", b"two"), (b"7-0", b"")]
    assert inbox.last == b"7-0"


def test_a_message_whose_predecessor_was_not_read_is_not_taken() -> None:
    inbox = read_to("5-0")

    inbox.push(notification("5-9", ("6-0", "one")))

    assert inbox.is_fetch_needed
    assert not inbox.pushed


def test_places_are_compared_as_numbers() -> None:
    inbox = read_to("10-2")

    inbox.push(notification("9-11", ("10-10", "one")))

    assert list(inbox.take_pushed(10)) == [(b"10-10", b"one")]


def test_an_inbox_that_was_empty_has_no_predecessor_to_miss() -> None:
    inbox = read_to("5-0")

    inbox.push(notification("0-0", ("6-0", "one")))

    assert list(inbox.take_pushed(10)) == [(b"6-0", b"one")]


def test_what_was_read_before_its_notification_came_is_not_taken_twice() -> None:
    inbox = read_to("6-0")

    inbox.push(notification("5-0", ("6-0", "one"), ("6-1", "two")))

    assert list(inbox.take_pushed(10)) == [(b"6-1", b"two")]


def test_before_the_first_read_nothing_is_taken() -> None:
    inbox = InboxPosition()

    inbox.push(notification("0-0", ("1-0", "one")))

    assert inbox.is_fetch_needed
    assert not inbox.pushed


def test_a_notification_during_a_read_makes_for_another_read() -> None:
    inbox = read_to("5-0")
    inbox.begin_fetch()

    inbox.push(notification("5-0", ("6-0", "one")))
    inbox.end_fetch(None)

    assert inbox.is_fetch_needed
    assert not inbox.pushed


def test_a_notification_without_messages_makes_for_a_read() -> None:
    inbox = read_to("5-0")

    inbox.push(b"")

    assert inbox.is_fetch_needed


def test_a_notification_that_can_not_be_read_makes_for_a_read() -> None:
    inbox = read_to("5-0")

    inbox.push(b"no place at all\nx")

    assert inbox.is_fetch_needed


def test_once_behind_all_is_read_from_where_the_last_was_handed_on() -> None:
    inbox = read_to("5-0")
    inbox.push(notification("5-0", ("6-0", "one"), ("6-1", "two")))
    inbox.take_pushed(1)

    inbox.push(b"")
    inbox.begin_fetch()

    assert inbox.last == b"6-0"
    assert not inbox.pushed


def test_what_nobody_takes_is_not_kept_for_good() -> None:
    inbox = read_to("5-0")
    for number in range(PUSHED_MAX + 1):
        inbox.push(notification(f"{5 + number}-0", (f"{6 + number}-0", "one")))

    assert inbox.is_fetch_needed
    assert not inbox.pushed
    assert inbox.last == b"5-0"


def test_after_a_rewind_nothing_is_taken_before_a_read() -> None:
    inbox = read_to("5-0")
    inbox.push(notification("5-0", ("6-0", "one")))

    inbox.rewind()
    inbox.push(notification("6-0", ("7-0", "two")))

    assert inbox.is_fetch_needed
    assert not inbox.pushed
