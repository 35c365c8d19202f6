"""Commands that use a server; its start and stop."""

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx2
import msgspec
import pytest

from tests.cli.conftest import ENDS_SECONDS, CommandResult

Windlass = Callable[..., CommandResult]
Spawn = Callable[..., "subprocess.Popen[str]"]

# The server waits longer for requests to finish than any test does.
LONG_DRAIN = "[server]\ndrain_seconds = 3600\n"


class StartedServer(NamedTuple):
    """A server, and what it printed until it was ready."""

    process: "subprocess.Popen[str]"
    url: str
    lines: list[str]


def up(process: "subprocess.Popen[str]") -> StartedServer:
    assert process.stdout is not None
    lines: list[str] = []
    url = ""
    for line in process.stdout:
        lines.append(line)
        url = url or next(
            (word.rstrip(",.") for word in line.split() if word.startswith("http://")), ""
        )
        if "Press Ctrl-C" in line or "is listening" in line:
            return StartedServer(process, url, lines)
    raise AssertionError(f"the server did not start: {process.communicate()[1]}")


def wait_for(process: "subprocess.Popen[str]", text: str) -> str:
    """Return the first line of a process that contains the text."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"no line contains {text!r}: {process.communicate()[1]}")


def stop(process: "subprocess.Popen[str]", number: int = signal.SIGTERM) -> str:
    process.send_signal(number)
    return process.communicate(timeout=ENDS_SECONDS)[1]


@pytest.fixture
def dev(spawn: Spawn) -> StartedServer:
    return up(spawn("dev", "--port", "0", "--import", "gates"))


@pytest.fixture
def windlass_on(
    dev: StartedServer, windlass: Windlass, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Windlass]:
    """The command with WINDLASS_SERVER set."""
    monkeypatch.setenv("WINDLASS_SERVER", dev.url)
    yield windlass
    stop(dev.process)


def test_workflows_are_deployed_before_the_first_request(
    windlass_on: Windlass, dev: StartedServer
) -> None:
    deployed = [line for line in dev.lines if line.startswith("deployed: ")]

    assert [line.split()[1] for line in deployed] == ["echo_test", "failing", "gated"]


def test_trigger_returns_the_job(windlass_on: Windlass) -> None:
    result = windlass_on("trigger", "echo_test", "-i", "n=1", "--json")

    assert result.code == 0
    assert result.json["status"] == "pending"


@pytest.mark.parametrize(
    "command", [("trigger", "gated", "--wait"), ("jobs", "watch"), ("jobs", "watch", "--json")]
)
def test_a_pipe_that_is_closed_while_a_job_is_followed_is_not_an_error(
    command: tuple[str, ...], windlass_on: Windlass, spawn: Spawn, folder: Path
) -> None:
    windlass_on("trigger", "gated", "--json")
    process = spawn(*command)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()

    process.stdout.close()
    (folder / "gate.open").touch()

    assert process.stderr.read() == ""


def test_trigger_with_wait_has_the_output_of_run(windlass_on: Windlass) -> None:
    result = windlass_on("trigger", "echo_test", "-i", "n=1", "--wait", "--json")

    assert result.code == 0
    assert result.json["result_data"] == {"echo_handler": {"echoed_params": {"n": 1}}}
    assert result.json["nodes"]["echo_handler"]["status"] == "completed"


def test_a_failed_job_ends_trigger_with_exit_code_1(windlass_on: Windlass) -> None:
    result = windlass_on("trigger", "failing", "--wait")

    assert result.code == 1
    assert "boom" in result.out
    assert "failed: node boom: broken: it is broken" in result.err


def test_an_unknown_workflow_is_reported(windlass_on: Windlass) -> None:
    result = windlass_on("trigger", "absent")

    assert result.code == 2
    assert "absent" in result.err


def test_the_same_key_returns_the_same_job(windlass_on: Windlass) -> None:
    first = windlass_on("trigger", "echo_test", "--key", "k", "--json").json

    assert (
        windlass_on("trigger", "echo_test", "--key", "k", "--json").json["job_id"]
        == first["job_id"]
    )


def test_jobs_of_a_server_are_listed_and_shown(windlass_on: Windlass) -> None:
    job_id = windlass_on("trigger", "failing", "--wait", "--json").json["job_id"]

    listed = windlass_on("jobs", "list", "--json", "--status", "failed").json
    shown = windlass_on("jobs", "show", job_id)
    events = windlass_on("jobs", "events", "--json", "--after", "1").json["items"]

    assert [job["job_id"] for job in listed["items"]] == [job_id]
    assert "error: node boom: broken: it is broken" in shown.out
    assert [event["seq"] for event in events][:2] == [2, 3]


def test_a_job_is_watched_cancelled_and_retried(windlass_on: Windlass, folder: Path) -> None:
    job_id = windlass_on("trigger", "gated", "--json").json["job_id"]
    while not (folder / "tally.txt").exists():
        pass

    cancelled = windlass_on("jobs", "cancel", job_id, "--reason", "late")
    (folder / "gate.open").touch()
    retried = windlass_on("jobs", "retry", job_id, "--wait", "--json")
    watched = windlass_on("jobs", "watch", job_id, "--json")

    assert cancelled.out == f"job {job_id} is cancelled\n"
    assert (retried.code, retried.json["status"]) == (0, "completed")
    seen = [msgspec.json.decode(line)["seq"] for line in watched.out.splitlines()]
    assert (watched.code, seen) == (0, list(range(1, len(seen) + 1)))
    assert (folder / "tally.txt").read_text() == "x"


def test_a_job_is_run_again_with_the_same_input(windlass_on: Windlass) -> None:
    first = windlass_on("trigger", "echo_test", "-i", "n=5", "--wait", "--json").json

    again = windlass_on("jobs", "rerun", first["job_id"], "--wait", "--json").json

    assert again["job_id"] != first["job_id"]
    assert again["result_data"] == first["result_data"]


def test_deploy_reports_the_outcome_of_each_file(windlass_on: Windlass, folder: Path) -> None:
    (folder / "new.json").write_text('{"workflow_id": "new", "nodes": {"a": {"handler": "echo"}}}')

    result = windlass_on("deploy", "new.json", "echo.yaml")

    assert result.code == 0
    assert "new.json: deployed: new version 1" in result.out
    assert "echo.yaml: unchanged: echo_test version 1" in result.out


def test_deploy_lists_problems_with_their_positions(windlass_on: Windlass, folder: Path) -> None:
    (folder / "bad.yml").write_text("workflow_id: bad\nnodes:\n  a: {handlr: echo}\n")

    result = windlass_on("deploy", "bad.yml")

    assert result.code == 2
    assert "bad.yml:3:" in result.err


def test_tasks_without_a_worker_are_listed_with_the_workers(
    windlass_on: Windlass, tmp_path: Path
) -> None:
    (tmp_path / "lonely.yaml").write_text(
        "workflow_id: lonely\nnodes: {a: {handler: nobody_has_this, params: {}}}\n"
    )
    windlass_on("deploy", str(tmp_path / "lonely.yaml"))
    job_id = windlass_on("trigger", "lonely", "--json").json["job_id"]

    shown = _shown_workers(windlass_on)
    windlass_on("jobs", "cancel", job_id)

    assert "no worker on queue default has the handler nobody_has_this: 1 waiting task" in shown


def _shown_workers(windlass_on: Windlass) -> str:
    """Return the list of workers once a task waits."""
    for _ in range(100):
        shown = windlass_on("workers").out
        if "waiting task" in shown:
            return shown
    raise AssertionError("no task waits for a worker")


def test_the_workers_of_a_server_are_listed(windlass_on: Windlass, dev: StartedServer) -> None:
    (worker,) = windlass_on("workers", "--json").json["items"]

    assert f":{dev.process.pid}:" in worker["worker_id"]
    assert "healthy" in windlass_on("workers").out


def test_a_missing_server_is_reported(windlass: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_SERVER__PORT", "1")

    for command in (
        ("trigger", "x"),
        ("jobs", "cancel", "x"),
        ("jobs", "watch", "x"),
        ("workers",),
    ):
        result = windlass(*command)
        assert result.code == 2
        assert (
            "no server answers at http://127.0.0.1:1: start one with `windlass dev`" in result.err
        )


def test_the_server_flag_overrides_the_variable(
    windlass: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_SERVER", "http://127.0.0.1:2")

    assert "http://127.0.0.1:1:" in windlass("jobs", "list", "--server", "http://127.0.0.1:1").err


def test_an_invalid_server_url_is_rejected(windlass: Windlass) -> None:
    result = windlass("workers", "--server", "localhost:8470")

    assert result.code == 2
    assert "localhost:8470" in result.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_jobs_continue_after_dev_is_stopped_and_started_again(
    spawn: Spawn, windlass: Windlass, number: int
) -> None:
    first = up(spawn("dev", "--port", "0", "--import", "gates"))
    job_id = windlass("trigger", "gated", "--server", first.url, "--json").json["job_id"]
    while not Path("tally.txt").exists():
        pass

    err = stop(first.process, number)

    assert first.process.returncode == 0, err
    assert "Traceback" not in err
    Path("gate.open").touch()
    second = up(spawn("dev", "--port", "0", "--import", "gates"))
    assert windlass("jobs", "watch", job_id, "--server", second.url).code == 0
    assert Path("tally.txt").read_text() == "x"


def test_a_second_process_on_the_same_database_is_rejected(
    windlass_on: Windlass, dev: StartedServer
) -> None:
    for command in (("dev", "--port", "0"), ("server", "--port", "0"), ("run", "echo.yaml")):
        result = windlass_on(*command)
        assert result.code == 2
        assert f"in use by another Windlass process (pid {dev.process.pid})" in result.err


def test_a_port_in_use_is_reported(windlass_on: Windlass, dev: StartedServer) -> None:
    port = dev.url.rpartition(":")[2]

    result = windlass_on("server", "--port", port, "--database", "sqlite:///other.db")

    assert result.code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in result.err


@pytest.mark.parametrize("command", ["server", "dev"])
def test_remote_access_must_be_allowed(windlass: Windlass, command: str) -> None:
    result = windlass(command, "--host", "0.0.0.0", "--port", "0")

    assert result.code == 2
    assert "server.allow_remote" in result.err


def test_the_server_logs_requests_as_json_lines(spawn: Spawn, windlass: Windlass) -> None:
    server = up(spawn("server", "--port", "0"))
    windlass("deploy", "echo.yaml", "--server", server.url)

    err = stop(server.process)

    assert server.process.returncode == 0, err
    lines = [msgspec.json.decode(line) for line in err.splitlines() if line.startswith("{")]
    assert [(line["method"], line["status"]) for line in lines] == [("POST", 201)]


def test_a_changed_workflow_is_deployed_again(spawn: Spawn, folder: Path) -> None:
    process = up(spawn("dev", "--port", "0", "--import", "gates")).process

    (folder / "echo.yaml").write_text(
        (folder / "echo.yaml").read_text().replace("echo_handler", "other")
    )

    assert wait_for(process, "echo_test") == "deployed: echo_test version 2 (echo.yaml)\n"


def test_a_changed_handler_is_used_by_the_next_job(
    spawn: Spawn, windlass: Windlass, folder: Path
) -> None:
    server = up(spawn("dev", "--port", "0", "--import", "gates"))
    (folder / "gate.open").touch()

    (folder / "gates.py").write_text(
        (folder / "gates.py").read_text().replace('"open": True', '"open": 42')
    )
    wait_for(server.process, "handlers reloaded")

    outcome = windlass("trigger", "gated", "--wait", "--json", "--server", server.url).json
    assert outcome["result_data"]["gate"] == {"open": 42}


def test_invalid_changes_are_reported_and_the_previous_version_stays(
    spawn: Spawn, windlass: Windlass, folder: Path
) -> None:
    server = up(spawn("dev", "--port", "0", "--import", "gates"))
    (folder / "gate.open").touch()
    (folder / "gates.py").write_text("def broken(:\n")
    (folder / "echo.yaml").write_text("workflow_id: echo_test\nnodes: {a: {handlr: echo}}\n")
    (folder / "zuletzt.yaml").write_text("workflow_id: zuletzt\nnodes: {a: {handler: echo}}\n")
    wait_for(server.process, "zuletzt")

    gated = windlass("trigger", "gated", "--wait", "--json", "--server", server.url)
    echoed = windlass("trigger", "echo_test", "--wait", "--json", "--server", server.url)
    err = stop(server.process)

    assert (gated.code, echoed.code) == (0, 0)
    assert "cannot import module gates" in err
    assert "echo.yaml:2:" in err


def test_dev_runs_a_job_after_the_start(spawn: Spawn) -> None:
    printed = "".join(
        up(spawn("dev", "--port", "0", "--import", "gates", "--run", "echo_test")).lines
    )

    assert "echo_handler  completed" in printed
    assert printed.index("job completed") < printed.index("is ready at")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_printed(windlass: Windlass, shell: str) -> None:
    result = windlass("completion", shell)

    assert result.code == 0
    assert "_WINDLASS_COMPLETE" in result.out


def test_commands_are_completed(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "_WINDLASS_COMPLETE", "bash_complete")
    monkeypatch.setitem(os.environ, "COMP_WORDS", "windlass jobs re")
    monkeypatch.setitem(os.environ, "COMP_CWORD", "2")

    out, _ = spawn().communicate(timeout=ENDS_SECONDS)

    assert out.split() == ["plain,rerun", "plain,retry"]


def test_an_open_stream_does_not_prevent_a_stop(
    spawn: Spawn, windlass: Windlass, folder: Path
) -> None:
    (folder / "windlass.toml").write_text(LONG_DRAIN)
    server = up(spawn("dev", "--port", "0", "--import", "gates"))
    windlass("trigger", "gated", "--server", server.url)
    watching = spawn("jobs", "watch", "--json", "--server", server.url)
    wait_for(watching, "node_started")

    err = stop(server.process)

    assert server.process.returncode == 0, err
    assert watching.poll() is None


def test_a_second_signal_ends_a_server_immediately(spawn: Spawn, folder: Path) -> None:
    (folder / "windlass.toml").write_text(LONG_DRAIN)
    server = up(spawn("dev", "--port", "0", "--import", "gates"))
    connection = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])))
    # The request never ends, so the server drains for as long as it may.
    connection.sendall(b"POST /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n")
    connection.sendall(b"content-type: application/json\r\n\r\n{")

    server.process.send_signal(signal.SIGTERM)
    assert server.process.stderr is not None
    for line in server.process.stderr:
        if "stopping" in line:
            break
    server.process.send_signal(signal.SIGTERM)

    server.process.communicate(timeout=ENDS_SECONDS)
    connection.close()
    assert server.process.returncode == -signal.SIGTERM


@pytest.mark.parametrize("command", [("trigger", "echo_test"), ("jobs", "rerun", "job1")])
def test_a_superscript_digit_is_not_a_version(
    windlass_on: Windlass, command: tuple[str, ...]
) -> None:
    result = windlass_on(*command, "--version", "²")

    assert result.code == 2
    assert "version" in result.err


def test_server_whose_database_was_deleted_accepts_nothing(
    dev: StartedServer, windlass_on: Windlass, folder: Path
) -> None:
    for file in (folder / ".windlass").glob("windlass.db*"):
        file.unlink()

    submitted = windlass_on("trigger", "echo_test")
    ready = httpx2.get(f"{dev.url}/readyz")

    assert submitted.code == 2
    assert "windlass.db; nothing is accepted any more" in submitted.err
    assert ready.status_code == 503
    assert "was deleted while it is in use" in ready.json()["problems"][0]
