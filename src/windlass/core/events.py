"""Events: every transition that is recorded, declared once.

The web UI's types, the words of the command line and the reference page are generated or derived from this list.
"""

from enum import StrEnum, unique
from typing import Self

from msgspec import Raw, Struct


@unique
class Subject(StrEnum):
    """What an event is about."""

    JOB = "job"
    NODE = "node"
    LOOP = "loop"
    ITERATION = "iteration"
    RUN = "run"
    SCHEDULE = "schedule"


JOB, NODE, LOOP, ITERATION, RUN, SCHEDULE = Subject


@unique
class EventType(StrEnum):
    """The closed list of event types; members are the strings that are stored and sent."""

    subject: Subject
    # The status of the subject after the event; None where the event does not change it.
    status: str | None
    # What happened, after the subject's name: "node fetch completed".
    words: str
    # The keys that `data` may have.
    data: tuple[str, ...]

    def __new__(
        cls,
        value: str,
        subject: Subject,
        status: str | None,
        words: str,
        data: tuple[str, ...] = (),
    ) -> Self:
        """Build a member from one line of the table."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.subject = subject
        member.status = status
        member.words = words
        member.data = data
        return member

    @property
    def label(self) -> str:
        """The event as a short phrase: "Node completed"."""
        return f"{self.subject.value.capitalize()} {self.words}"

    # fmt: off
    #                      type, subject, status, words, keys of data
    JOB_CREATED          = ("job_created", JOB, "pending", "created", ("workflow_id", "version"))
    JOB_STARTED          = ("job_started", JOB, "running", "started")
    JOB_RETRIED          = ("job_retried", JOB, "running", "retried", ("round", "nodes", "from_node"))
    JOB_COMPLETED        = ("job_completed", JOB, "completed", "completed", ("failures",))
    JOB_FAILED           = ("job_failed", JOB, "failed", "failed", ("error",))
    JOB_CANCELLED        = ("job_cancelled", JOB, "cancelled", "cancelled", ("reason",))

    NODE_READY           = ("node_ready", NODE, "ready", "ready")
    NODE_DISPATCHED      = ("node_dispatched", NODE, "dispatched", "dispatched", ("attempt_number", "queue"))
    NODE_STARTED         = ("node_started", NODE, "running", "started", ("attempt_number", "worker_id"))
    NODE_RETRYING        = ("node_retrying", NODE, "waiting", "retrying",
                            ("attempt_number", "next_attempt", "delay_seconds", "worker_id", "error", "calls"))
    NODE_COMPLETED       = ("node_completed", NODE, "completed", "completed", ("attempt_number", "worker_id"))
    NODE_FAILED          = ("node_failed", NODE, "failed", "failed", ("attempt_number", "worker_id", "error"))
    NODE_SKIPPED         = ("node_skipped", NODE, "skipped", "skipped", ("reason",))
    NODE_CANCELLED       = ("node_cancelled", NODE, "cancelled", "cancelled", ("reason",))
    # These four are about an iteration when they carry its index.
    WORKER_LOST          = ("worker_lost", NODE, "dispatched", "lost its worker",
                            ("attempt_number", "worker_id", "losses", "error"))
    # A worker handed the attempt back, and another one started it.
    TASK_REDELIVERED     = ("task_redelivered", NODE, "dispatched", "handed back by its worker",
                            ("attempt_number", "worker_id"))
    CALLS_COMPLETED      = ("retry_sequence_completed", NODE, "waiting", "finished its calls",
                            ("total_attempts", "collect", "is_exhausted"))
    RESULT_IGNORED       = ("result_ignored", NODE, None, "result ignored",
                            ("attempt_number", "worker_id", "outcome"))

    LOOP_STARTED         = ("iterator_started", LOOP, None, "started",
                            ("attempt_number", "iterator_name", "collection_size", "total_iterations",
                             "mode", "concurrency", "chunk_size", "left"))
    LOOP_COMPLETED       = ("iterator_completed", LOOP, None, "completed",
                            ("total_iterations", "successful", "failed", "skipped", "success_rate", "exhausted"))

    ITERATION_DISPATCHED = ("iteration_dispatched", ITERATION, "dispatched", "dispatched",
                            ("attempt_number", "queue"))
    ITERATION_STARTED    = ("iteration_started", ITERATION, "running", "started", ("attempt_number", "worker_id"))
    ITERATION_RETRYING   = ("iteration_retrying", ITERATION, "waiting", "retrying",
                            ("attempt_number", "next_attempt", "delay_seconds", "worker_id", "error", "calls"))
    ITERATION_COMPLETED  = ("iteration_completed", ITERATION, "completed", "completed", ("attempt_number", "worker_id"))
    ITERATION_FAILED     = ("iteration_failed", ITERATION, "failed", "failed", ("attempt_number", "worker_id", "error"))
    ITERATION_SKIPPED    = ("iteration_skipped", ITERATION, "skipped", "skipped")
    ITERATION_CANCELLED  = ("iteration_cancelled", ITERATION, "cancelled", "cancelled", ("reason",))

    RUN_CREATED          = ("run_created", RUN, "pre_run", "created",
                            ("workflow_id", "version", "origin", "scheduled_at", "is_catch_up"))
    # The new state is in the data.
    RUN_STATE_CHANGED    = ("run_state_changed", RUN, None, "changed state",
                            ("state", "previous_state", "attempt", "reason"))
    CONSTRAINT_VIOLATED  = ("constraint_violated", RUN, None, "violated a constraint", ("constraint", "message"))
    CHECK_FAILED         = ("check_failed", RUN, None, "could not check a constraint",
                            ("constraint", "error", "decision"))
    ACTION_STARTED       = ("action_started", RUN, None, "started an action", ("action",))
    # The job that makes the call, or that the action started.
    ACTION_COMPLETED     = ("action_completed", RUN, None, "completed an action", ("action", "on", "started_job_id"))
    ACTION_FAILED        = ("action_failed", RUN, None, "failed an action",
                            ("action", "on", "started_job_id", "error"))
    CALL_STARTED         = ("call_started", RUN, None, "started a call", ("for", "started_job_id", "url"))

    SCHEDULE_STOPPED     = ("schedule_stopped", SCHEDULE, None, "stopped", ("is_paused", "planned"))
    SCHEDULE_CHANGED     = ("schedule_changed", SCHEDULE, None, "changed", ("version", "planned"))
    SLOTS_MISSED         = ("slots_missed", SCHEDULE, None, "missed slots",
                            ("first", "last", "count", "is_count_complete", "catch_up", "slots"))
    # fmt: on


class Event(Struct, frozen=True, array_like=True, gc=False):
    """One transition, as a compact array inside a page of events of its job, run or schedule."""

    seq: int
    # The value of an EventType.
    type: str
    node_id: str | None
    index: int | None
    at: int
    data: Raw | None = None
    meta: Raw | None = None
    context: Raw | None = None
    parent_seq: int | None = None
