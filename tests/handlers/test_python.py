"""The handler for Python code."""

import pytest
from handler_harness import running


async def test_main_gets_the_other_params_and_its_result_is_the_output() -> None:
    code = "def main(user, extra=1): return {**user, 'seen': True, 'extra': extra}"
    async with running() as runner:
        assert await runner.output("python", {"code": code, "user": {"id": 7}}) == {
            "id": 7,
            "seen": True,
            "extra": 1,
        }


async def test_main_may_be_async_and_may_take_the_context() -> None:
    code = "async def main(ctx, n):\n    ctx.log('hello')\n    return [ctx.job_id, n]"
    async with running() as runner:
        assert await runner.output("python", {"code": code, "n": 1}) == ["j1", 1]

    assert [line.message for line in runner.lines] == ["hello"]


async def test_a_function_of_a_module_can_be_called() -> None:
    async with running() as runner:
        assert await runner.output("python", {"call": "textwrap:dedent", "text": "  a"}) == "a"


async def test_output_of_the_code_is_logged() -> None:
    async with running() as runner:
        await runner.output(
            "python",
            {"code": "import sys\ndef main():\n print('out')\n print('err', file=sys.stderr)"},
        )

    assert {(line.level, line.message) for line in runner.lines} == {
        ("info", "out"),
        ("error", "err"),
    }


@pytest.mark.parametrize(
    ("params", "type_", "words"),
    [
        ({"code": "def main():\n    return (1"}, "code_invalid", "line 2"),
        ({"code": "x = 1"}, "code_invalid", "does not define main"),
        ({"code": "main = 3"}, "code_invalid", "does not define main"),
        ({"code": "\0"}, "code_invalid", "null"),
        ({}, "params_invalid", "either 'code'"),
        ({"code": "def main(): pass", "call": "a:b"}, "params_invalid", "either 'code'"),
        ({"code": "def main(a): pass"}, "params_invalid", "missing a required argument: 'a'"),
        ({"code": "def main(): pass", "b": 1}, "params_invalid", "'b'"),
        ({"call": "nowhere_at_all:f"}, "code_invalid", "nowhere_at_all"),
        ({"call": "textwrap:nothing"}, "code_invalid", "no function 'nothing'"),
        ({"call": "textwrap"}, "params_invalid", "module:function"),
    ],
)
async def test_code_that_cannot_run_fails_permanently(
    params: dict[str, str], type_: str, words: str
) -> None:
    async with running() as runner:
        error = await runner.error("python", params)

    assert (error.type, error.retryable) == (type_, False)
    assert words in error.message


async def test_an_exception_is_shown_with_its_line() -> None:
    async with running() as runner:
        error = await runner.error("python", {"code": "def main():\n    return 1 / 0"})

    assert (error.type, error.retryable) == ("ZeroDivisionError", True)
    assert error.traceback is not None
    assert "return 1 / 0" in error.traceback


async def test_code_that_never_ends_is_killed() -> None:
    async with running() as runner:
        error = await runner.error(
            "python", {"code": "def main():\n    while True: pass"}, timeout_seconds=0.5
        )

    assert error.type == "timeout"


async def test_one_nodes_names_do_not_reach_the_next() -> None:
    async with running() as runner:
        await runner.output("python", {"code": "leak = 1\ndef main(): return 1"})
        assert (
            await runner.output("python", {"code": "def main(): return 'leak' in globals()"})
            is False
        )
