"""What a worker has to send to the broker."""

from collections.abc import Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Outbox(Generic[Item]):
    """Items in the order of their arrival. Items may be added while others are being sent."""

    def __init__(self) -> None:
        self.waiting: list[Item] = []
        # They stay here until the broker has accepted them, and are sent again after a failure.
        self.sending: list[Item] = []

    def __len__(self) -> int:
        return len(self.waiting) + len(self.sending)

    def next_batch(self) -> Sequence[Item]:
        """Return what to send: the batch that failed, otherwise everything that waits."""
        if not self.sending:
            self.sending, self.waiting = self.waiting, []
        return self.sending

    def sent(self) -> None:
        """Remove the batch, which the broker has accepted."""
        self.sending = []
