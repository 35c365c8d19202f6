"""Plain nodes skip guards that cannot apply to them; jobs and changes are the same as with the guards."""

from random import Random
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import force_setattr

from simulation.plans import plan_of
from tests.core.job_harness import T0
from windlass.core.advance import advance
from windlass.core.artifacts import reference
from windlass.core.changes import Changes, Task
from windlass.core.job import Job
from windlass.core.jobs import JobRecord, JobSpec
from windlass.core.messages import (
    CancelRequested,
    Continue,
    Failed,
    JobMessage,
    RetryRequested,
    Submitted,
    Succeeded,
    TaskError,
    TaskFinished,
    TaskLost,
    TaskStarted,
    TimerDue,
)
from windlass.core.plan import (
    NO_RETRY,
    LoopPlan,
    NodeKind,
    NodePlan,
    Plan,
    RetryOnError,
    RetryOnSuccess,
    SinkPlan,
)
from windlass.core.templates.template import compile_template
from windlass.core.webhooks import HANDLER as WEBHOOK

STEPS = 60
LARGE = {"x": 5}


def test_a_node_is_plain_if_no_rule_applies_to_it() -> None:
    template = compile_template("{{ input.x }}")

    assert NodePlan("a").is_plain
    assert NodePlan(
        "a", params=template, allow_failure=True, run_if_skipped=True, priority=3
    ).is_plain
    assert not NodePlan("a", kind=NodeKind.END).is_plain
    assert not NodePlan("a", when=template).is_plain
    assert not NodePlan("a", loop=LoopPlan(template)).is_plain
    assert not NodePlan("a", on_success=RetryOnSuccess(template)).is_plain
    assert not NodePlan("a", on_error=RetryOnError(attempts_max=2)).is_plain
    assert not NodePlan("a", sink=SinkPlan("file", template)).is_plain
    assert not NodePlan("a", handler=WEBHOOK).is_plain
    assert not NodePlan("a", handler="container").is_plain


@pytest.mark.parametrize("seed", range(120))
def test_skipping_guards_changes_neither_the_job_nor_its_changes(seed: int) -> None:
    chance = Random(seed)
    plain = _Run(_plan(Random(seed)))
    guarded = _Run(_plan(Random(seed), is_plain=False))

    for message in _messages(chance, plain):
        guarded.now = plain.now
        assert plain.apply(message) == guarded.apply(message), f"seed {seed}: {message}"
        assert _memory(plain.job) == _memory(guarded.job), f"seed {seed}: {message}"


class _Run:
    """A job, its tasks in flight and its timers."""

    def __init__(self, plan: Plan) -> None:
        self.now = T0
        self.out: list[Task] = []
        self.due: list[TimerDue] = []
        self.job = Job(
            plan, JobRecord(JobSpec("job", "w", 1, Raw(b'{"x": 1}'), T0, shard=3, priority=2))
        )

    def apply(self, message: JobMessage) -> list[object]:
        """Apply a message and return all changes."""
        changes = Changes()
        self.now += 1_000
        advance(self.job, message, self.now, changes)
        while self.job.wanted:
            self.job.values.update(dict.fromkeys(self.job.wanted, LARGE))
            self.job.wanted.clear()
            advance(self.job, Continue("job"), self.now, changes)
        self.out += changes.tasks
        self.due += [
            TimerDue("job", t.kind, t.node_id, t.attempt, t.index, t.round) for t in changes.timers
        ]
        self.job.values.clear()
        return [getattr(changes, name) for name in Changes.__slots__]


def _memory(job: Job) -> list[object]:
    return [getattr(job, name) for name in Job.__slots__ if name != "plan"]


def _plan(chance: Random, *, is_plain: bool = True) -> Plan:
    """Return a graph of plain and other nodes."""
    edges: dict[str, list[str]] = {}
    nodes: dict[str, NodePlan] = {}
    for number in range(chance.randint(2, 9)):
        node_id = f"n{number}"
        edges[node_id] = chance.sample(sorted(edges), min(len(edges), chance.choice([0, 1, 1, 2])))
        nodes[node_id] = _node(chance, node_id, edges[node_id])
    plan = plan_of(edges, nodes, fail_fast=chance.random() < 0.5)
    for node in plan.nodes:
        if not is_plain:
            force_setattr(node, "is_plain", False)
    return plan


def _node(chance: Random, node_id: str, parents: list[str]) -> NodePlan:
    settings: dict[str, Any] = {
        "queue": chance.choice(["default", "slow"]),
        "priority": chance.choice([0, 1]),
        "allow_failure": chance.random() < 0.2,
        "run_if_skipped": chance.random() < 0.2,
        "on_error": RetryOnError(attempts_max=3) if chance.random() < 0.2 else NO_RETRY,
        "when": compile_template(chance.choice(["{{ input.x > 1 }}", "{{ true }}"]))
        if chance.random() < 0.2
        else None,
    }
    if chance.random() < 0.6:
        # An output may lack the value that is read, or be an artifact.
        default = chance.choice(["", " | default(7)"])
        source = {
            "all": "{{ input.x }}",
            **{parent: f"{{{{ {parent}.output.x{default} }}}}" for parent in parents},
        }
        settings["params"] = compile_template({"same": 1} if chance.random() < 0.3 else source)
    return NodePlan(id=node_id, handler="echo", **settings)


def _messages(chance: Random, run: _Run) -> Any:
    """Yield messages about a job; most report success."""
    yield Submitted("job")
    for _ in range(STEPS):
        if run.job.is_final and chance.random() < 0.7:
            node = chance.choice([None, *run.job.plan.index])
            yield RetryRequested("job", f"r{run.now}", node)
        elif run.due and chance.random() < 0.4:
            run.now += 400_000_000
            yield run.due.pop(chance.randrange(len(run.due)))
        elif chance.random() < 0.02:
            yield CancelRequested("job", f"c{run.now}", None)
        elif run.out:
            yield _about(chance, run, chance.choice(run.out))


def _about(chance: Random, run: _Run, task: Task) -> JobMessage:
    kind = chance.random()
    if kind < 0.1:
        return TaskStarted(
            "job", task.node_id, task.attempt, "w2", run.now - chance.randint(-5_000, 5_000)
        )
    if kind < 0.15:
        return TaskLost("job", task.node_id, task.attempt, "w2", chance.randint(1, 2))
    # Some reports are repeated or late.
    if chance.random() < 0.8:
        run.out.remove(task)
    outcome: Succeeded | Failed = Failed(TaskError("ValueError", "no"))
    if chance.random() < 0.85:
        output = chance.choice(
            [Raw(b'{"x": 2}'), Raw(b'{"y": 3}'), Raw(b"null"), reference("large", 9)]
        )
        outcome = Succeeded(output, chance.choice([None, Raw(b'{"status": 200}')]))
    started_at = run.now - chance.randint(-5_000, 50_000)
    finished_at = started_at + chance.randint(-500, 3_000)
    attempt = task.attempt + chance.choice([0] * 9 + [1])
    context = chance.choice([None, Raw(b'{"trace": 1}')])
    return TaskFinished(
        "job", task.node_id, attempt, "w1", started_at, finished_at, outcome, 0, chance.getrandbits(32),
        context=context,
    )  # fmt: skip
