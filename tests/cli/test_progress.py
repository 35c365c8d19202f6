"""The progress of a job as counts, plain lines and on a terminal."""

import io

import msgspec
import pytest
from rich.console import Console

from tests.cli.test_drawing import DIAMOND, plan_of
from windlass.cli.output.live import LiveDisplay
from windlass.cli.output.plain import PlainDisplay
from windlass.cli.output.progress import JobProgress
from windlass.cli.output.text import one_line
from windlass.cli.output.times import format_seconds
from windlass.core.events import Event

T0 = 1_800_000_000_000_000
SECOND = 1_000_000


def event(
    seq: int, kind: str, node_id: str | None = None, seconds: float = 0, **data: object
) -> Event:
    body = msgspec.Raw(msgspec.json.encode(data)) if data else None
    return Event(seq, kind, node_id, None, T0 + round(seconds * SECOND), body)


def running_diamond() -> list[Event]:
    return [
        event(1, "job_created"),
        event(2, "node_ready", "left"),
        event(3, "node_dispatched", "left", attempt_number=1),
        event(4, "job_started"),
        event(5, "node_started", "left", 0.5, attempt_number=1),
        event(
            6,
            "node_retrying",
            "left",
            1,
            attempt_number=1,
            delay_seconds=2.0,
            error={"type": "busy", "message": "no"},
        ),
        event(7, "node_dispatched", "left", 3, attempt_number=2),
        event(8, "node_started", "left", 3, attempt_number=2),
        event(9, "node_completed", "left", 4, attempt_number=2),
        event(10, "node_started", "right", 4, attempt_number=1),
    ]


def picture(progress: JobProgress, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(LiveDisplay(progress, console).render())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_events_change_the_counts() -> None:
    progress = JobProgress(plan_of(DIAMOND))

    for one in running_diamond():
        progress.apply(one)

    assert (progress.finished, progress.total, progress.status) == (1, 3, "running")
    assert list(progress.active) == ["right"]
    assert progress.nodes["left"].seconds(T0) == 3.5


def test_start_and_end_are_not_counted() -> None:
    progress = JobProgress(plan_of(DIAMOND))

    progress.apply(event(1, "node_ready", "end"))

    assert progress.counts == {"pending": 3}


def test_plain_lines_contain_retries_and_completions(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainDisplay(JobProgress(plan_of(DIAMOND)))

    for one in running_diamond():
        view.show(one)

    lines = [line[14:] for line in capsys.readouterr().out.splitlines()]
    assert lines[2] == "left   retrying: busy: no, next attempt in 2.00 s"
    assert lines[4] == "left   completed in 3.50 s (attempt 2)"


def test_a_lost_worker_has_a_plain_line_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    progress = JobProgress(plan_of(DIAMOND))
    view = PlainDisplay(progress)
    error = {"type": "worker_lost", "message": "the process was killed"}

    view.show(event(1, "node_started", "left", attempt_number=1))
    view.show(
        event(2, "worker_lost", "left", 1, attempt_number=1, worker_id="w", losses=1, error=error)
    )

    lines = [line[14:] for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == "left   lost its worker: worker_lost: the process was killed"
    assert progress.nodes["left"].status == "dispatched"


def test_plain_lines_of_a_large_job_are_counts_and_failures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fan = {f"work_{number}": [] for number in range(1_000)}
    view = PlainDisplay(JobProgress(plan_of(fan)))

    for number in range(999):
        view.show(event(number, "node_completed", f"work_{number}", number / 1_000))
    view.show(event(999, "node_failed", "work_999", 1, error={"type": "boom", "message": "gone"}))

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("1 of 1,000 nodes finished")
    assert lines[1].endswith("work_999  failed: boom: gone")


def test_a_long_message_does_not_shorten_the_other_columns() -> None:
    progress = JobProgress(plan_of(DIAMOND))
    error = {"type": "boom", "message": "a long message " * 20}
    progress.apply(event(1, "node_failed", "right", error=error))

    lines = picture(progress, 60).splitlines()

    assert len(lines) == 4
    assert any(line.split()[1:4] == ["right", "echo", "failed"] for line in lines)


def test_a_retry_of_the_job_resets_its_nodes() -> None:
    progress = JobProgress(plan_of(DIAMOND))
    for one in running_diamond():
        progress.apply(one)
    failed = event(11, "node_failed", "right", 5, error={"type": "boom", "message": "gone"})
    progress.apply(failed)
    progress.apply(event(12, "job_failed", seconds=5))

    progress.apply(event(13, "job_retried", seconds=60, round=1, nodes=["right", "join"]))

    assert (progress.status, progress.finished, list(progress.failed)) == ("running", 1, [])
    right = progress.nodes["right"]
    assert (right.status, right.message, right.seconds(T0 + 61 * SECOND)) == ("pending", "", None)
    progress.apply(event(14, "node_started", "right", 61, attempt_number=2))
    assert right.seconds(T0 + 62 * SECOND) == 1.0


def test_a_further_call_has_a_plain_line_without_a_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = PlainDisplay(JobProgress(plan_of(DIAMOND)))

    view.show(event(1, "node_retrying", "left", attempt_number=1, delay_seconds=2.0, calls=1))

    [line] = [line[14:] for line in capsys.readouterr().out.splitlines()]
    assert line == "left   call 1 succeeded, calling again in 2.00 s"


def test_the_live_display_lists_every_node_of_a_small_graph() -> None:
    progress = JobProgress(plan_of(DIAMOND))
    for one in running_diamond():
        progress.apply(one)

    shown = picture(progress)

    assert "1 of 3 nodes" in shown
    assert all(node_id in shown for node_id in ("left", "right", "join"))
    assert "✓" in shown
    assert "attempt 2" in shown


def test_the_live_display_of_a_large_graph_lists_active_and_failed_nodes() -> None:
    progress = JobProgress(plan_of({f"work_{number}": [] for number in range(2_000)}))
    for number in range(1_000):
        progress.apply(event(number, "node_started", f"work_{number}"))
    progress.apply(
        event(1_000, "node_failed", "work_1500", error={"type": "boom", "message": "gone"})
    )

    shown = picture(progress)

    assert "1,000 running" in shown
    assert "and 992 more" in shown
    assert "work_1500" in shown
    assert len(shown.splitlines()) < 20


def test_untrusted_text_cannot_control_the_terminal() -> None:
    assert one_line("a\x1b[2Jb\nc\r") == "a\N{REPLACEMENT CHARACTER}[2Jb c"


@pytest.mark.parametrize(
    ("seconds", "spelled"),
    [
        (0.034, "34 ms"),
        (1.234, "1.23 s"),
        (12.34, "12.3 s"),
        (61, "1 min 01 s"),
        (3_720, "1 h 02 min"),
    ],
)
def test_durations_have_a_suitable_precision(seconds: float, spelled: str) -> None:
    assert format_seconds(seconds) == spelled
