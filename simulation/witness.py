"""Watches every call that reaches a simulated store or broker: who owns what, who may write, who holds which task.

It keeps books of its own, so that it notices when those of the store or the broker are wrong.
"""

from typing import Any

from simulation.history import Violation
from windlass.core.changes import Task
from windlass.ports.broker import Delivery, Report
from windlass.ports.store.leases import Lease


class Witness:
    """What must be true of leases and deliveries at every moment."""

    def __init__(self, *, is_shared: bool, has_one_broker: bool) -> None:
        self.violations: list[Violation] = []
        self._is_shared = is_shared
        # A broker that dies with its engine takes its deliveries along.
        self._has_one_broker = has_one_broker
        # The newest epoch of each shard, who has it, and whether it was given back.
        self._epochs: dict[int, int] = {}
        self._owners: dict[int, str] = {}
        self._given_back: dict[int, int] = {}
        # Who holds a task, and the number of that delivery.
        self._held: dict[str, tuple[str, int]] = {}

    def begun(self, process: str, call: str, arguments: tuple[Any, ...]) -> None:
        """A process is about to make a call."""
        if call == "publish" and self._is_shared:
            tasks: list[Task] = arguments[0]
            for task in tasks:
                owner = self._owners.get(task.shard)
                if owner != process:
                    self._blame(task.job_id, f"{task.task_id} is released by {process}, its shard is {owner}'s")

    def done(self, process: str, call: str, arguments: tuple[Any, ...], answer: Any) -> None:
        """A call took effect."""
        match call:
            case "leases.take" | "leases.claim":
                self._leased(process, arguments[0], answer)
            case "leases.release":
                self._given_back[arguments[0]] = arguments[1]
            case "commit":
                self._committed(process, *arguments[:2])
            case "consume" if self._has_one_broker:
                for delivery in answer:
                    self._delivered(process, delivery)
            case "finish":
                reports: list[Report] = arguments[1]
                self._let_go([report.task_id for report in reports])
            case "give_back":
                self._let_go(arguments[1])
            case "cancel":
                self._let_go(arguments[0])
            case _:
                pass

    def lost_everything(self) -> None:
        """The broker knows of no delivery any more."""
        self._held.clear()

    def _leased(self, process: str, shard: int, lease: Lease | None) -> None:
        if lease is None:
            return
        known = self._epochs.get(shard, 0)
        if lease.epoch <= known:
            told = f"{process} has shard {shard} under epoch {lease.epoch}, {self._owners[shard]} under {known}"
            self._blame("-", f"an epoch has one owner: {told}")
        self._epochs[shard] = lease.epoch
        self._owners[shard] = process

    def _committed(self, process: str, shard: int, epoch: int) -> None:
        newest, owner = self._epochs.get(shard), self._owners.get(shard)
        if (epoch, process) != (newest, owner):
            told = f"epoch {newest} of {owner}"
            self._blame("-", f"{process} stored something under epoch {epoch} of shard {shard}, which is at {told}")
        if self._given_back.get(shard) == epoch:
            self._blame("-", f"{process} stored something in shard {shard} after it had given it back")

    def _delivered(self, worker: str, delivery: Delivery) -> None:
        task_id = delivery.task.task_id
        holder, number = self._held.get(task_id, ("", 0))
        # A higher number is a delivery after a loss.
        if delivery.number <= number:
            told = f"{task_id} is handed to {worker} while {holder} holds it"
            self.violations.append(Violation("I4", delivery.task.job_id, told))
        self._held[task_id] = (worker, delivery.number)

    def _let_go(self, task_ids: list[str]) -> None:
        for task_id in task_ids:
            self._held.pop(task_id, None)

    def _blame(self, job_id: str, evidence: str) -> None:
        self.violations.append(Violation("I5", job_id, evidence))
