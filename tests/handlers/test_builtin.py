"""Discovery of built-in handlers, and the small ones: echo, input, output, sleep, fail and crash."""

import sys
import time
from pathlib import Path

import pytest
from handler_harness import running

from windlass.core.errors import HandlerInvalid
from windlass.handlers import builtin, builtin_handlers
from windlass.handlers.config import HandlerConfig

# Set by the compiler, not by authors.
UNDOCUMENTED = {("container", "origin")}
NEW_HANDLER = """
from windlass.handlers.config import HandlerConfig
from windlass.ports.handler_declaration import handler

@handler("greet", aliases=("also_new",))
async def greet(config: HandlerConfig, text: str = "hello") -> str:
    \"\"\"Say hello.\"\"\"
    return f"{text} {config.allow_private}"
"""


def test_a_module_in_the_package_is_found_as_a_handler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "greet.py").write_text(NEW_HANDLER)
    monkeypatch.setattr(builtin, "__path__", [*builtin.__path__, str(tmp_path)])

    found = builtin_handlers(HandlerConfig(allow_private=True))

    assert found["also_new"].name == "greet"
    assert found["greet"].summary == "Say hello."
    assert [(param.name, param.default) for param in found["greet"].params] == [("text", "hello")]
    assert {"echo", "http", "call_external_service", "container"} <= found.keys()


def test_two_built_in_handlers_of_one_name_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "second_echo.py").write_text(NEW_HANDLER.replace('"greet"', '"echo"'))
    monkeypatch.setattr(builtin, "__path__", [*builtin.__path__, str(tmp_path)])

    with pytest.raises(HandlerInvalid, match="'echo'"):
        builtin_handlers()


def test_every_built_in_handler_describes_itself_and_its_params() -> None:
    handlers = builtin_handlers()
    undescribed = {
        (handler.name, param.name)
        for handler in handlers.values()
        for param in handler.params
        if not param.description
    }

    assert [handler.name for handler in handlers.values() if not handler.summary] == []
    assert undescribed == UNDOCUMENTED


def test_the_http_client_is_not_imported_before_it_is_needed() -> None:
    import subprocess

    code = (
        "import sys, windlass.handlers as h; h.builtin_handlers(); print('httpx2' in sys.modules)"
    )
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert seen.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("echo", {"echoed_params": {"a": [1, None]}}),
        ("input", {"a": [1, None]}),
        ("output", {"a": [1, None]}),
    ],
)
async def test_params_are_returned(name: str, expected: object) -> None:
    async with running() as runner:
        assert await runner.output(name, {"a": [1, None]}) == expected


@pytest.mark.parametrize(
    ("seconds", "slept"),
    [(0, 0.0), (0.01, 0.01), ("10ms", 0.01), ("0.01s", 0.01), ("0m", 0.0), ("0", 0.0)],
)
async def test_a_sleep_takes_a_number_or_a_duration(seconds: object, slept: float) -> None:
    async with running() as runner:
        began = time.monotonic()
        assert await runner.output("sleep", {"seconds": seconds}) == {"slept": pytest.approx(slept)}

    assert time.monotonic() - began >= slept


@pytest.mark.parametrize("seconds", ["soon", "-1s", -1, "1e3s", "", 1e12, "5 s", "8d"])
async def test_a_sleep_that_is_not_a_duration_fails_permanently(seconds: object) -> None:
    async with running() as runner:
        error = await runner.error("sleep", {"seconds": seconds})

    assert not error.retryable
    assert repr(seconds) in error.message


async def test_fail_raises_the_requested_error() -> None:
    async with running() as runner:
        wanted = {"message": "no", "type": "odd", "status": 503, "retry_after": 4}
        error = await runner.error("fail", wanted)

    assert (error.message, error.type, error.status, error.retry_after_seconds) == (
        "no",
        "odd",
        503,
        4.0,
    )
    assert error.retryable


async def test_a_failure_may_be_final() -> None:
    async with running() as runner:
        assert not (await runner.error("fail", {"retryable": False})).retryable


async def test_a_failure_may_end_after_some_attempts() -> None:
    async with running() as runner:
        await runner.error("fail", {"times": 2}, attempt=2)
        assert await runner.output("fail", {"times": 2, "x": 1}, attempt=3) == {
            "attempt": 3,
            "x": 1,
        }


@pytest.mark.parametrize("params", [{}, {"signal_name": "SIGABRT"}, {"exit": 7}])
async def test_a_crash_loses_the_process(params: object) -> None:
    async with running() as runner:
        assert (await runner.error("crash", params)).type == "worker_lost"


async def test_a_crash_may_end_after_some_attempts() -> None:
    async with running() as runner:
        assert await runner.output("crash", {"times": 1}, attempt=2) == {"attempt": 2}
