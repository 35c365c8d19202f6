"""Checks every call that reaches a simulated store or broker: who owns a shard, who may write, who holds a task.

It keeps its own records, so that it notices errors in those of the store and the broker.
"""

from typing import Any

from simulation.history import Violation
from windlass.core.changes import Task
from windlass.ports.broker import TaskClaim, TaskReport
from windlass.ports.store.leases import Lease


class CallObserver:
    """The rules for leases and claims that hold at every moment."""

    def __init__(self, *, is_shared: bool, has_one_broker: bool) -> None:
        self.violations: list[Violation] = []
        self._is_shared = is_shared
        # False if each engine has its own broker, whose claims are lost with the engine.
        self._has_one_broker = has_one_broker
        # The newest epoch of each shard, its owner, and the epoch that was released.
        self._epochs: dict[int, int] = {}
        self._owners: dict[int, str] = {}
        self._released: dict[int, int] = {}
        # The holder of a task and its delivery count.
        self._held: dict[str, tuple[str, int]] = {}

    def call_started(self, process: str, call: str, arguments: tuple[Any, ...]) -> None:
        """Check a call before it is made."""
        if call == "publish" and self._is_shared:
            tasks: list[Task] = arguments[0]
            for task in tasks:
                owner = self._owners.get(task.shard)
                if owner != process:
                    self._report(
                        task.job_id,
                        f"{task.task_id} is published by {process}, its shard is owned by {owner}",
                    )

    def call_finished(
        self, process: str, call: str, arguments: tuple[Any, ...], answer: Any
    ) -> None:
        """Check a call that took effect."""
        match call:
            case "leases.take" | "leases.claim":
                self._leased(process, arguments[0], answer)
            case "leases.release":
                self._released[arguments[0]] = arguments[1]
            case "commit":
                self._committed(process, *arguments[:2])
            case "claim" if self._has_one_broker:
                for claim in answer:
                    self._claimed(process, claim)
            case "finish":
                reports: list[TaskReport] = arguments[1]
                self._forget([report.task_id for report in reports])
            case "return_tasks":
                self._forget(arguments[1])
            case "cancel":
                self._forget(arguments[0])
            case _:
                pass

    def broker_flushed(self) -> None:
        """Forget all claims: the broker has lost them."""
        self._held.clear()

    def _leased(self, process: str, shard: int, lease: Lease | None) -> None:
        if lease is None:
            return
        newest = self._epochs.get(shard, 0)
        if lease.epoch <= newest:
            other = f"{self._owners[shard]} has epoch {newest}"
            self._report(
                "-",
                f"two owners of an epoch: {process} got shard {shard} with epoch {lease.epoch}, {other}",
            )
        self._epochs[shard] = lease.epoch
        self._owners[shard] = process

    def _committed(self, process: str, shard: int, epoch: int) -> None:
        newest, owner = self._epochs.get(shard), self._owners.get(shard)
        if (epoch, process) != (newest, owner):
            current = f"epoch {newest} of {owner}"
            self._report(
                "-",
                f"{process} committed with epoch {epoch} to shard {shard}, which is at {current}",
            )
        if self._released.get(shard) == epoch:
            self._report("-", f"{process} committed to shard {shard} after it released the lease")

    def _claimed(self, worker: str, claim: TaskClaim) -> None:
        task_id = claim.task.task_id
        holder, count = self._held.get(task_id, ("", 0))
        # A higher count is a delivery after a loss.
        if claim.delivery_count <= count:
            evidence = f"{task_id} is claimed by {worker} while {holder} holds it"
            self.violations.append(Violation("I4", claim.task.job_id, evidence))
        self._held[task_id] = (worker, claim.delivery_count)

    def _forget(self, task_ids: list[str]) -> None:
        for task_id in task_ids:
            self._held.pop(task_id, None)

    def _report(self, job_id: str, evidence: str) -> None:
        self.violations.append(Violation("I5", job_id, evidence))
