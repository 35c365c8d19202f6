"""The states of jobs and nodes, and the tables of legal moves between them.

A move that a table does not list raises IllegalMove. Final states are those that no ordinary move leaves.
"""

from enum import Enum, IntEnum, StrEnum, unique

from windlass.core.errors import IllegalMove


@unique
class NodeStatus(IntEnum):
    """The status of a node. Jobs keep the numbers in a bytearray; rows hold the names."""

    PENDING = 0
    READY = 1
    DISPATCHED = 2
    RUNNING = 3
    WAITING = 4
    COMPLETED = 5
    FAILED = 6
    SKIPPED = 7
    CANCELLED = 8

    @property
    def label(self) -> str:
        """Return the name in rows, events and the API."""
        return self.name.lower()


@unique
class JobStatus(StrEnum):
    """The status of a job, as in rows, events and the API."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


N = NodeStatus
J = JobStatus
_UNFINISHED = frozenset({N.PENDING, N.READY, N.DISPATCHED, N.RUNNING, N.WAITING})


@unique
class NodeMove(Enum):
    """Every transition of a node."""

    # fmt: off
    #            from                                                        to
    READY     = (frozenset({N.PENDING, N.WAITING}),                          N.READY)
    DISPATCH  = (frozenset({N.READY}),                                       N.DISPATCHED)
    START     = (frozenset({N.DISPATCHED}),                                  N.RUNNING)
    # The worker was lost: the broker delivers the same attempt again.
    REDELIVER = (frozenset({N.DISPATCHED, N.RUNNING}),                       N.DISPATCHED)
    BACK_OFF  = (frozenset({N.DISPATCHED, N.RUNNING}),                       N.WAITING)
    COMPLETE  = (frozenset({N.READY, N.DISPATCHED, N.RUNNING, N.WAITING}),   N.COMPLETED)
    FAIL      = (_UNFINISHED,                                                N.FAILED)
    SKIP      = (frozenset({N.PENDING}),                                     N.SKIPPED)
    CANCEL    = (_UNFINISHED,                                                N.CANCELLED)
    # The retry of a job is the only way out of a final state; the round of the job counts it.
    RESET     = (frozenset({N.COMPLETED, N.FAILED, N.SKIPPED, N.CANCELLED}), N.PENDING)
    # fmt: on

    def __init__(self, sources: frozenset[NodeStatus], target: NodeStatus) -> None:
        self.sources = sources
        self.target = target
        # The target by the number of the source, or -1: a lookup instead of a search in a set of enums.
        self.after = tuple(int(target) if state in sources else -1 for state in NodeStatus)


@unique
class JobMove(Enum):
    """Every transition of a job."""

    # fmt: off
    #            from                                              to
    START     = (frozenset({J.PENDING}),                           J.RUNNING)
    COMPLETE  = (frozenset({J.RUNNING}),                           J.COMPLETED)
    FAIL      = (frozenset({J.PENDING, J.RUNNING}),                J.FAILED)
    CANCEL    = (frozenset({J.PENDING, J.RUNNING}),                J.CANCELLED)
    RETRY     = (frozenset({J.COMPLETED, J.FAILED, J.CANCELLED}),  J.RUNNING)
    # fmt: on

    def __init__(self, sources: frozenset[JobStatus], target: JobStatus) -> None:
        self.sources = sources
        self.target = target


OPERATOR_MOVES = frozenset({NodeMove.RESET, JobMove.RETRY})
NODE_FINAL = frozenset(N) - frozenset().union(
    *(m.sources for m in NodeMove if m not in OPERATOR_MOVES)
)
JOB_FINAL = frozenset(J) - frozenset().union(
    *(m.sources for m in JobMove if m not in OPERATOR_MOVES)
)

# The labels of all final states: those of a node include those of a job.
FINAL_LABELS = frozenset(state.label for state in NODE_FINAL)
NODE_LABELS = [state.label for state in NodeStatus]
NODE_STATES = {state.label: state for state in NodeStatus}


def node_after(state: int, move: NodeMove) -> int:
    """Return the state after a move. IllegalMove."""
    target = move.after[state]
    if target < 0:
        raise illegal_move(state, move)
    return target


def illegal_move(state: int, move: NodeMove) -> IllegalMove:
    """Return the error of a move that the table does not list."""
    return IllegalMove(f"a node that is {NODE_LABELS[state]} cannot {move.name.lower()}")


def job_after(state: JobStatus, move: JobMove) -> JobStatus:
    """Return the status after a move. IllegalMove."""
    if state not in move.sources:
        raise IllegalMove(f"a job that is {state} cannot {move.name.lower()}")
    return move.target
