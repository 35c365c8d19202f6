"""Nodes pass large values to each other through a folder and through an S3-compatible server."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.contracts.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, s3_server
from windlass.embedded import open_embedded
from windlass.settings import Settings
from windlass.settings_loader import load_settings
from windlass.spec import read_definition

ROWS = 20_000
PATIENCE_SECONDS = 60.0
WORKFLOW = f"""
workflow_id: large
nodes:
  make:
    handler: python
    params: {{code: "def main(): return {{'rows': [[i, 'x' * 50] for i in range({ROWS})], 'total': 7}}"}}
  part:
    handler: python
    dependencies: [make]
    params:
      code: "def main(rows, total): return [len(rows), rows[5][0], total]"
      rows: "{{{{ make.output.rows }}}}"
      total: "{{{{ make.output.total }}}}"
  whole:
    handler: input
    dependencies: [make]
    params: "{{{{ make.output }}}}"
  fifth:
    handler: input
    dependencies: [whole]
    params: {{row: "{{{{ whole.output.rows[5] }}}}"}}
"""
# Each part is larger than what a template may render.
PART = 6_000_000
PARTS = f"""
workflow_id: large
nodes:
  make:
    handler: python
    params:
      code: |
        def main():
            return {{'data': 'd' * {PART}, 'deep': [{{'list': ['e' * {PART}, 1]}}], 'n': 3}}
  also: {{handler: python, params: {{code: "def main(): return 'f' * {PART}"}}}}
  nested:
    handler: python
    dependencies: [make]
    params:
      code: "def main(nested, n): return [len(nested['a'][0]), nested['a'][1], nested['b'], n]"
      nested: {{a: "{{{{ make.output.deep[0].list }}}}", b: [1, "{{{{ make.output.n }}}}"]}}
      n: "{{{{ make.output.n + 1 }}}}"
  join:
    handler: python
    dependencies: [make, also]
    params:
      code: "def main(all): return [sorted(all), len(all['make']['data']), len(all['also'])]"
      all: "{{{{ parents }}}}"
  each:
    handler: python
    dependencies: [make]
    loop: {{collection: "{{{{ make.output.deep[0].list }}}}", concurrency: 2}}
    params: {{code: "def main(item): return len(str(item))", item: "{{{{ item }}}}"}}
"""
PARTS_RESULT = {
    "nested": [PART, 1, [1, 3], 4],
    "join": [["also", "make"], PART, PART],
    "each": [PART, 1],
}


async def result_of(settings: Settings, workflow: str = WORKFLOW) -> dict[str, Any]:
    async with open_embedded(settings) as embedded:
        await embedded.deploy(read_definition(workflow)[0])
        job = await embedded.submit("large", {})
        async with asyncio.timeout(PATIENCE_SECONDS):
            await embedded.wait(job.spec.job_id)
        result = await embedded.result(job.spec.job_id)
    assert result.job.state.status == "completed", [bytes(row.error or b"") for row in result.nodes]
    return msgspec.json.decode(result.result_data)


def settings(folder: Path, **flags: object) -> Settings:
    flags = {"database_url": f"sqlite:///{folder}/windlass.db", "worker.processes": 1, **flags}
    return load_settings(flags, folder=folder, environ={}).settings


@contextmanager
def s3_settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Settings]:
    with s3_server(folder / "s3") as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        yield settings(folder, **{"artifacts.url": f"s3://{BUCKET}/windlass"})


def check(result: dict[str, Any]) -> None:
    assert result["part"] == [ROWS, 5, 7]
    assert result["fifth"] == {"row": [5, "x" * 50]}
    assert result["whole"] == result["make"]
    assert len(result["make"]["rows"]) == ROWS


async def test_large_values_pass_from_node_to_node_through_a_folder(tmp_path: Path) -> None:
    check(await result_of(settings(tmp_path)))

    (job,) = (tmp_path / "artifacts").iterdir()
    assert len(list(job.iterdir())) == 1


async def test_large_values_pass_from_node_to_node_through_s3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_settings(tmp_path, monkeypatch) as through_s3:
        check(await result_of(through_s3))

    (job,) = (tmp_path / "s3" / BUCKET / "windlass").iterdir()
    assert len(list(job.iterdir())) == 1


def check_parts(result: dict[str, Any]) -> None:
    assert {name: result[name] for name in PARTS_RESULT} == PARTS_RESULT


async def test_large_parts_of_values_pass_from_node_to_node_through_a_folder(
    tmp_path: Path,
) -> None:
    check_parts(await result_of(settings(tmp_path), PARTS))


async def test_large_parts_of_values_pass_from_node_to_node_through_s3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_settings(tmp_path, monkeypatch) as through_s3:
        check_parts(await result_of(through_s3, PARTS))


async def test_large_parts_of_values_pass_from_node_to_node_through_postgresql(
    tmp_path: Path, postgres_url: str
) -> None:
    check_parts(await result_of(settings(tmp_path, database_url=postgres_url), PARTS))


async def test_a_part_that_does_not_exist_fails_its_node_once(tmp_path: Path) -> None:
    document = """
workflow_id: large
nodes:
  make: {handler: python, params: {code: "def main(): return {'rows': ['x' * 300000]}"}}
  use:
    handler: echo
    dependencies: [make]
    params: {row: "{{ make.output.row }}"}
    retry: {on_error: {max_attempts: 3, initial_delay: 0, when: "{{ true }}"}}
"""
    async with open_embedded(settings(tmp_path)) as embedded:
        await embedded.deploy(read_definition(document)[0])
        job = await embedded.submit("large", {})
        async with asyncio.timeout(PATIENCE_SECONDS):
            ended = await embedded.wait(job.spec.job_id)
        (row,) = (await embedded.result(job.spec.job_id)).nodes[1:]

    error = msgspec.json.decode(ended.state.error or b"")
    assert (error["type"], row.attempt) == ("template_failed", 1)
    assert "make.output has no 'row'; available: rows; did you mean 'rows'?" in error["message"]


async def test_output_beyond_the_limit_fails_its_node_with_both_sizes(tmp_path: Path) -> None:
    async with open_embedded(settings(tmp_path, **{"artifacts.bytes_max": 500_000})) as embedded:
        await embedded.deploy(read_definition(WORKFLOW)[0])
        job = await embedded.submit("large", {})
        async with asyncio.timeout(PATIENCE_SECONDS):
            ended = await embedded.wait(job.spec.job_id)

    assert ended.state.status == "failed"
    error = bytes(ended.state.error or b"").decode()
    assert "500000" in error
    assert "artifacts.bytes_max" in error
