"""Runs and deliveries as text on a narrow terminal."""

import pytest

from windlass.cli.output.run_tables import print_deliveries, print_run
from windlass.wire import DeliveryView, RunActionView, RunView

COLUMNS = 80
AT = "2026-05-01T00:30:00.000000Z"
JOB = "1m7r3ep47wwsb2zcee7qmwyb"
ERROR = "workflow not found: missing; deploy it first"


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    # A terminal without colors has 80 columns.
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= COLUMNS
    return lines


def test_the_actions_of_a_run_fit_a_narrow_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    run = RunView(
        run_id=f"flow:{JOB}",
        workflow_id="flow",
        version=1,
        scheduled_at=AT,
        state="failed",
        previous_state=None,
        job_id=JOB,
        attempt=0,
        transitions=[],
        violations=[],
        metrics={},
        origin="submit",
        created_at=AT,
        actions=[
            RunActionView("on_constraint_violation", "trigger_job", AT, None, ERROR),
            RunActionView("on_failure", "trigger_job", AT, JOB),
        ],
    )

    print_run(run)

    lines = printed(capsys)
    [failed] = [number for number, line in enumerate(lines) if "constraint_violation" in line]
    shown = " ".join(line[38:].strip() for line in lines[failed : failed + 3])
    assert ERROR in shown
    assert any(line.rstrip().endswith(f"job {JOB}") for line in lines)


def test_deliveries_on_a_narrow_terminal_say_why_they_failed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failed = DeliveryView(
        delivery_id=f"{JOB}_deliver_1",
        job_id=JOB,
        workflow_id="flow",
        node_id="deliver",
        attempt=1,
        url="https://example.test/hook",
        outcome="failed",
        sent_at=AT,
        duration_seconds=0.1,
        error="POST https://example.test/hook: no response",
    )

    print_deliveries([failed])

    assert "response" in " ".join(printed(capsys))
