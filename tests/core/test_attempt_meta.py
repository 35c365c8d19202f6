"""What the events of an attempt's end say besides their data, and the metadata of nodes and iterations with pages."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw, structs

from simulation.plans import plan_of
from tests.core.loop_harness import SECOND, LoopHarness
from tests.core.test_pagination import page, paginating
from windlass.core.changes import Changes
from windlass.core.events import Event
from windlass.core.messages import (
    Failed,
    JobMessage,
    Succeeded,
    TaskError,
    TaskLost,
    TimerDue,
    TimerKind,
)
from windlass.core.plan import Collect, LoopPlan, NodePlan, RetryOnError, SinkPlan
from windlass.core.templates.template import compile_template

ONE = LoopPlan(compile_template([1]), mode="async")
SINK = {"tool": "sqlite", "rows": 2, "skipped": False}
WORKER_META = {"status_code": 200, "sink": SINK}
KINDS = pytest.mark.parametrize("loop", [None, ONE], ids=["node", "iteration"])


class MetaHarness(LoopHarness):
    """Reports results with a duration and metadata, and reloads the job before each message if wanted."""

    def __init__(self, node: NodePlan, *, is_reloaded: bool = False) -> None:
        super().__init__(plan_of({node.id: []}, {node.id: node}), b'{"url": "u"}')
        self.node = node.id
        self.is_reloaded = is_reloaded
        self.begin()

    def apply(self, *messages: JobMessage) -> Changes:
        if self.is_reloaded:
            self.reload()
        return super().apply(*messages)

    def report(
        self, outcome: Succeeded | Failed, *, milliseconds: int | None = 250, **fields: Any
    ) -> Changes:
        self.now += SECOND
        message = self.finished(self.node, 0, outcome, None)
        started_at = None if milliseconds is None else self.now - milliseconds * 1000
        return self.apply(structs.replace(message, started_at=started_at, **fields))

    def succeed(self, output: bytes = b"1", meta: object = WORKER_META, **fields: Any) -> Changes:
        encoded = None if meta is None else Raw(msgspec.json.encode(meta))
        return self.report(Succeeded(Raw(output), encoded), **fields)

    def metas(self, kind: str) -> list[Any]:
        """Return the metadata of the events of a kind, of nodes or iterations."""
        return [meta_of(event) for event in self.store.log("job") if event.type.endswith(kind)]

    def meta_of_unit(self) -> Any:
        """Return the metadata of the node, or of its only iteration."""
        if self.plan.nodes[0].loop is None:
            return self.meta(self.node)
        [row] = self.rows(self.node).values()
        assert row.meta is not None
        return msgspec.json.decode(row.meta)


def meta_of(event: Event) -> Any:
    return None if event.meta is None else msgspec.json.decode(event.meta)


def with_sink(loop: LoopPlan | None) -> NodePlan:
    return NodePlan("a", loop=loop, sink=SinkPlan("table", compile_template({"table": "t"})))


# What workers report


@KINDS
def test_the_end_of_an_attempt_says_what_its_sink_wrote(loop: LoopPlan | None) -> None:
    harness = MetaHarness(with_sink(loop))

    harness.succeed()

    [ended] = harness.metas("_completed")[: 1 if loop is None else None]
    assert ended == {"execution": {"duration_seconds": 0.25}, "sink": SINK}
    assert harness.meta_of_unit() == WORKER_META


@KINDS
@pytest.mark.parametrize("is_reloaded", [False, True], ids=["in memory", "reloaded"])
@pytest.mark.parametrize("collect", list(Collect))
def test_the_metadata_of_the_last_page_is_that_of_the_node(
    loop: LoopPlan | None, collect: Collect, is_reloaded: bool
) -> None:
    harness = MetaHarness(paginating(collect, loop=loop, sink=True), is_reloaded=is_reloaded)

    harness.succeed(page(1), {"status_code": 201})
    harness.succeed(page(2, more=False))
    harness.merge_outputs()

    assert harness.meta_of_unit() == {
        **WORKER_META,
        "retry": {
            "retry_type": "on_success",
            "pages": 2,
            "max_attempts": 100,
            "is_exhausted": False,
        },
    }


# Pages


@KINDS
@pytest.mark.parametrize("is_reloaded", [False, True], ids=["in memory", "reloaded"])
@pytest.mark.parametrize("collect", list(Collect))
def test_the_end_of_each_page_has_its_duration_its_sink_and_what_follows(
    loop: LoopPlan | None, collect: Collect, is_reloaded: bool
) -> None:
    harness = MetaHarness(paginating(collect, loop=loop, sink=True), is_reloaded=is_reloaded)

    harness.succeed(page(1), milliseconds=500)
    harness.succeed(page(2, more=False))
    harness.merge_outputs()

    retry = {"has_config": True, "max_attempts": 100, "retry_type": "on_success"}
    assert harness.metas("_retrying") == [
        {
            "execution": {"duration_seconds": 0.5},
            "retry": {
                **retry,
                "attempt_number": 1,
                "will_retry": True,
                "page": 1,
                "continuation": "pagination",
            },
            "sink": SINK,
        }
    ]
    kind = "node_completed" if loop is None else "iteration_completed"
    assert harness.metas(kind) == [
        {
            "execution": {"duration_seconds": 0.25},
            "retry": {**retry, "attempt_number": 2, "will_retry": False, "page": 2},
            "sink": SINK,
        }
    ]
    assert harness.metas("retry_sequence_completed") == [None]


@KINDS
@pytest.mark.parametrize("collect", list(Collect))
def test_too_many_pages_that_fail_a_node_are_counted_like_others(
    loop: LoopPlan | None, collect: Collect
) -> None:
    node = paginating(collect, loop=loop, sink=True, calls_max=2, on_exhausted="fail")
    harness = MetaHarness(node)

    harness.succeed(page(1))
    harness.succeed(page(2))

    [end, *_] = [e for e in harness.store.log("job") if e.type.endswith("_failed")]
    assert meta_of(end) == {
        "execution": {"duration_seconds": 0.25},
        "retry": {
            "has_config": True,
            "attempt_number": 2,
            "max_attempts": 2,
            "retry_type": "on_success",
            "will_retry": False,
            "page": 2,
        },
        "sink": SINK,
    }
    [sequence] = [e.data for e in harness.store.log("job") if e.type == "retry_sequence_completed"]
    assert sequence is not None
    assert msgspec.json.decode(sequence) == {
        "total_attempts": 2,
        "collect": collect.value,
        "is_exhausted": True,
    }
    assert harness.meta_of_unit() == {
        **WORKER_META,
        "retry": {
            "retry_type": "on_success",
            "pages": 2,
            "max_attempts": 2,
            "is_exhausted": True,
        },
    }


@pytest.mark.parametrize("output", [b"null", b'{"more": false, "data": 7}'])
def test_a_page_that_the_rule_refuses_has_its_duration(output: bytes) -> None:
    harness = MetaHarness(paginating())

    harness.succeed(output, None)

    [failed] = harness.metas("node_failed")
    assert failed["execution"] == {"duration_seconds": 0.25}
    assert (failed["retry"]["retry_type"], failed["retry"]["will_retry"]) == ("on_success", False)


@pytest.mark.parametrize("collect", list(Collect))
def test_a_loop_counts_the_iterations_whose_pages_were_cut(collect: Collect) -> None:
    loop = LoopPlan(compile_template([1, 2, 3]), window=3, mode="async")
    node = paginating(collect, loop=loop, calls_max=2)
    harness = LoopHarness(plan_of({"fetch": []}, {"fetch": node}), b'{"url": "u"}')
    harness.begin()
    for index in (0, 2):
        harness.finish("fetch", index, page(1))
        harness.finish("fetch", index, page(2))
    harness.finish("fetch", 1, page(1, more=False))
    harness.reload()
    harness.merge_outputs()
    harness.merge_outputs()

    assert harness.meta("fetch") == {
        "total": 3,
        "succeeded": 3,
        "failed": 0,
        "success_rate": 1.0,
        "exhausted": 2,
    }
    [ended] = [one for one in harness.store.log("job") if one.type == "iterator_completed"]
    assert msgspec.json.decode(ended.data or b"{}")["exhausted"] == 2


# Failures


@KINDS
def test_the_numbers_of_attempts_in_events_are_those_of_their_attempts(
    loop: LoopPlan | None,
) -> None:
    harness = MetaHarness(paginating(loop=loop, on_error=3))

    harness.succeed(page(1))
    harness.report(Failed(TaskError("ValueError", "no")))
    harness.fire_retry("fetch")
    harness.succeed(page(2))
    harness.succeed(page(3, more=False))
    harness.merge_outputs()

    ends = [*harness.metas("_retrying"), *harness.metas("_completed")]
    stated = [meta["retry"]["attempt_number"] for meta in ends if meta and "retry" in meta]
    assert stated == [1, 2, 3, 4]


@KINDS
def test_an_attempt_without_a_report_says_what_its_retry_rules_decide(
    loop: LoopPlan | None,
) -> None:
    rule = RetryOnError(attempts_max=2)
    harness = MetaHarness(NodePlan("a", timeout_seconds=10.0, on_error=rule, loop=loop))

    for _ in range(2):
        harness.start("a")
        harness.now += 40 * SECOND
        harness.apply(TimerDue("job", TimerKind.NODE_TIMEOUT, "a", harness.attempt("a")))
        if harness.status == "running":
            harness.fire_retry("a")

    retry = {"has_config": True, "max_attempts": 2, "retry_type": "on_error"}
    assert harness.metas("_retrying") == [
        {"retry": {**retry, "attempt_number": 1, "will_retry": True}}
    ]
    assert harness.metas("_failed")[0] == {
        "retry": {**retry, "attempt_number": 2, "will_retry": False}
    }


def test_a_rate_limited_attempt_of_a_node_without_rules_says_so() -> None:
    harness = MetaHarness(NodePlan("a"))

    harness.report(Failed(TaskError("rate_limited", "slow down")))

    [waiting] = harness.metas("node_retrying")
    assert waiting["retry"] == {
        "has_config": False,
        "attempt_number": 1,
        "max_attempts": 1,
        "retry_type": "on_error",
        "will_retry": True,
    }


# Durations


@KINDS
@pytest.mark.parametrize("has_pages", [False, True])
def test_the_duration_of_a_worker_that_states_none_counts_from_its_claim(
    loop: LoopPlan | None, has_pages: bool
) -> None:
    harness = MetaHarness(paginating(loop=loop) if has_pages else NodePlan("a", loop=loop))
    harness.start(harness.node)
    harness.now += 2 * SECOND

    harness.succeed(page(1, more=False), milliseconds=None, result_id="r")

    kind = "node_completed" if loop is None else "iteration_completed"
    [ended] = harness.metas(kind)
    assert ended["execution"] == {"duration_seconds": 3.0}


@pytest.mark.parametrize("node", [NodePlan("a"), with_sink(None)], ids=["plain", "sink"])
def test_an_unknown_duration_is_left_out(node: NodePlan) -> None:
    harness = MetaHarness(node)
    harness.start("a")
    harness.apply(TaskLost("job", "a", 1, "w1", 1))
    harness.start("a", worker_id="w2")

    harness.succeed(milliseconds=None, result_id="r")

    [ended] = harness.metas("node_completed")
    assert "execution" not in (ended or {})
