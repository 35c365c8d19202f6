"""Hooks and actions of runs, and scheduled slots."""

from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from tests.api.harness import System
from tests.api.run_harness import found
from tests.handlers.handler_harness import Request, Server, answer, serving
from windlass.connections.secrets import Secrets
from windlass.handlers import builtin_handlers
from windlass.handlers.config import HandlerConfig

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Receiver:
    """Responds to each path as a test has set."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}

    def __call__(self, request: Request) -> bytes:
        return self.answers.get(request.target, answer(200, "{}"))


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
async def server(receiver: Receiver) -> AsyncIterator[Server]:
    async with serving(receiver) as server:
        yield server


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[System]:
    handlers = builtin_handlers(
        HandlerConfig(allow_private=True, secrets=Secrets({"hook_key": KEY}))
    )
    async with System.running(tmp_path, handlers=handlers) as running:
        yield running


async def ended_run(system: System, job_id: str) -> dict[str, Any]:
    """Wait until the run of a job has ended and return it."""
    return await found(
        system, f"/runs/hooked:{job_id}", lambda run: run["completed_at"] is not None
    )


def received(server: Server, path: str) -> list[Any]:
    """Return the bodies sent to a path, after verifying their signatures."""
    return [
        Webhook(KEY).verify(one.body, one.headers) for one in server.requests if one.target == path
    ]


def hooked(server: Server, rules: str, node: str = "{handler: echo}") -> str:
    return f"workflow_id: hooked\nnodes: {{a: {node}}}\n{rules}\n".replace("URL", server.url)


BEFORE = "constraints: {pre_run_hook: {url: 'URL/before', secret: hook_key, max_attempts: 1}, on_check_error: CHOICE}"


async def test_a_hook_that_allows_a_run_starts_it(system: System, server: Server) -> None:
    await system.deploy_text(hooked(server, BEFORE.replace("CHOICE", "skip")))

    run = await ended_run(system, await system.submit("hooked"))

    assert (run["state"], run["skipped"]) == ("completed", False)
    [body] = received(server, "/before")
    assert (body["type"], body["data"]["run_id"]) == ("run.starting", run["run_id"])
    assert datetime.fromisoformat(body["data"]["scheduled_at"])


async def test_a_hook_that_forbids_a_run_is_a_violation(
    system: System, server: Server, receiver: Receiver
) -> None:
    receiver.answers["/before"] = answer(200, '{"allow": false, "reason": "stock-taking"}')
    await system.deploy_text(hooked(server, BEFORE.replace("CHOICE", "allow")))

    run = await ended_run(system, await system.submit("hooked"))

    assert run["skipped"]
    assert [(one["constraint"], one["message"]) for one in run["violations"]] == [
        ("pre_run_hook", "stock-taking")
    ]


@pytest.mark.parametrize(("choice", "skipped"), [("skip", True), ("allow", False)])
async def test_an_unreachable_hook_follows_the_fail_safe(
    system: System, server: Server, receiver: Receiver, choice: str, skipped: bool
) -> None:
    receiver.answers["/before"] = answer(500)
    await system.deploy_text(hooked(server, BEFORE.replace("CHOICE", choice)))

    run = await ended_run(system, await system.submit("hooked"))

    assert (run["state"], run["skipped"]) == ("completed", skipped)


async def test_a_finished_run_is_notified(system: System, server: Server) -> None:
    rules = """
constraints: {post_run_hook: {url: 'URL/after', secret: hook_key}}
actions: {on_success: {type: webhook, parameters: {url: 'URL/succeeded', secret: hook_key}}}
"""
    await system.deploy_text(hooked(server, rules))

    run = await ended_run(system, await system.submit("hooked"))

    assert run["state"] == "completed"
    assert [body["type"] for body in received(server, "/after")] == ["run.ended"]
    assert [(body["type"], body["data"]["outcome"]) for body in received(server, "/succeeded")] == [
        ("run.completed", "completed")
    ]


async def test_a_failed_run_is_notified(system: System, server: Server) -> None:
    rules = (
        "actions: {on_failure: {type: webhook, parameters: {url: 'URL/failed', secret: hook_key}}}"
    )
    await system.deploy_text(
        hooked(server, rules, "{handler: fail, params: {message: broken, retryable: false}}")
    )

    run = await ended_run(system, await system.submit("hooked"))

    assert run["state"] == "failed"
    [body] = received(server, "/failed")
    assert "broken" in body["data"]["reason"]


async def test_calls_of_a_run_are_recorded_under_its_workflow(
    system: System, server: Server
) -> None:
    await system.deploy_text(hooked(server, BEFORE.replace("CHOICE", "skip")))
    await ended_run(system, await system.submit("hooked"))

    page = await found(
        system, "/deliveries", lambda page: bool(page["items"]), workflow_id="hooked"
    )

    assert [(one["outcome"], one["url"]) for one in page["items"]] == [
        ("delivered", f"{server.url}/before")
    ]


@pytest.mark.parametrize(("critical", "state"), [("false", "completed"), ("true", "failed")])
async def test_an_action_that_fails_fails_the_run_only_if_it_is_critical(
    system: System, server: Server, receiver: Receiver, critical: str, state: str
) -> None:
    receiver.answers["/succeeded"] = answer(400)
    action = "{type: webhook, critical: CRITICAL, parameters: {url: 'URL/succeeded'}}".replace(
        "CRITICAL", critical
    )
    await system.deploy_text(hooked(server, f"actions: {{on_success: {action}}}"))

    run = await ended_run(system, await system.submit("hooked"))

    assert run["state"] == state
    assert run["metrics"]["actions_failed"] == 1


async def test_a_success_starts_another_workflow(system: System, server: Server) -> None:
    await system.deploy()
    rules = "actions: {on_success: {type: trigger_job, parameters: {workflow_id: chain, input: {of: hooked}}}}"
    await system.deploy_text(hooked(server, rules))

    await ended_run(system, await system.submit("hooked"))

    page = await found(system, "/jobs", lambda page: bool(page["items"]), workflow_id="chain")
    assert [job["input_data"] for job in page["items"]] == [{"of": "hooked"}]


async def test_each_slot_starts_one_run(system: System, server: Server) -> None:
    await system.deploy_text(hooked(server, "schedule: {every: 1s, input: {n: 3}}"))

    page = await found(
        system,
        "/runs",
        lambda page: len(page["items"]) >= 3,
        workflow_id="hooked",
        state="completed",
    )

    slots = [datetime.fromisoformat(run["scheduled_at"]).timestamp() for run in page["items"]][::-1]
    assert slots == [slots[0] + number for number in range(len(slots))]
    assert all(run["run_id"] == f"hooked:{run['scheduled_at'][:19]}Z" for run in page["items"])
    job = await system.ended(page["items"][0]["job_id"])
    assert job["input_data"] == {"n": 3}
