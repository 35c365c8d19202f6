"""A finished job: its result for people, and the document of `--json`."""

import sys

import click
import msgspec
from msgspec import Struct

from windlass import wire
from windlass.cli.exit_codes import COMPLETED, FAILED
from windlass.cli.output.event_data import format_failures, format_raw_error, is_null
from windlass.cli.output.text import plural
from windlass.cli.output.times import duration_seconds

# What a terminal displays of a result; the database has all of it.
RESULT_CHARS_MAX = 10_000


def format_result(job: wire.JobView, *, is_terminal: bool) -> str:
    """Return a job's result as indented JSON, truncated on a terminal."""
    text = msgspec.json.format(bytes(job.result_data), indent=2).decode()
    if is_terminal and len(text) > RESULT_CHARS_MAX:
        return f"{text[:RESULT_CHARS_MAX]}\n… truncated; full result: windlass jobs show {job.job_id} --json"
    return text


def print_result(job: wire.JobView, *, as_json: bool) -> int:
    """Print the result of a finished job, and its error if it has one; return the exit code."""
    if as_json:
        click.echo(msgspec.json.encode(result_document(job)))
    else:
        click.echo(format_result(job, is_terminal=sys.stdout.isatty()))
        if not is_null(job.error):
            click.echo(f"{job.status}: {format_raw_error(job.error)}", err=True)
        for line in format_warnings(job):
            click.echo(line, err=True)
    if job.status == "completed":
        return COMPLETED
    return FAILED


def format_warnings(job: wire.JobView) -> list[str]:
    """Return what a completed job left undone, one line each: failures that it tolerated, and pages it did not read."""
    lines: list[str] = []
    if job.failures and job.status == "completed":
        lines.append(
            f"completed with {format_failures(job.failures)}; run them again: windlass jobs retry {job.job_id}"
        )
    # The error of a node that failed for it says so.
    completed = [node for node in job.nodes or [] if node.status == "completed"]
    for node in completed:
        left = _format_exhausted(node.meta)
        if left:
            lines.append(f"node {node.node_id}: {left}; raise retry.on_success.max_attempts")
    return lines


class _RetryMeta(Struct):
    pages: int = 0
    is_exhausted: bool = False


class _NodeMeta(Struct):
    retry: _RetryMeta | None = None
    # Of a loop: its iterations that completed although pages were left.
    exhausted: int = 0


def _format_exhausted(meta: msgspec.Raw) -> str:
    """Return how many pages a node read, or how many iterations of its loop, although more were left."""
    iterations = _decoded_meta(meta).exhausted
    if iterations:
        return f"more pages than max_attempts in {plural(iterations, 'iteration')}"
    pages = exhausted_pages(meta)
    if pages is None:
        return ""
    return f"more pages than max_attempts: {pages}"


def exhausted_pages(meta: msgspec.Raw) -> int | None:
    """Return the number of pages that a node or an iteration read, if there were more; None otherwise."""
    retry = _decoded_meta(meta).retry
    if retry is None or not retry.is_exhausted:
        return None
    return retry.pages


def _decoded_meta(meta: msgspec.Raw) -> _NodeMeta:
    try:
        return msgspec.json.decode(meta, type=_NodeMeta | None) or _NodeMeta()
    except msgspec.ValidationError:
        return _NodeMeta()


def result_document(job: wire.JobView) -> dict[str, object]:
    """Return what `windlass run --json` prints."""
    return {
        "job_id": job.job_id,
        "status": job.status,
        "failures": job.failures,
        "result_data": job.result_data,
        "error": job.error,
        "nodes": {node.node_id: _node_document(node) for node in job.nodes or []},
        "duration_seconds": duration_seconds(job.started_at or job.created_at, job.completed_at),
    }


def unfinished_document(job_id: str) -> dict[str, object]:
    """Return what `windlass run --json` prints when it is interrupted."""
    return {
        "job_id": job_id,
        "status": "running",
        "failures": 0,
        "result_data": None,
        "error": None,
        "nodes": {},
        "duration_seconds": None,
    }


def _node_document(node: wire.NodeView) -> dict[str, object]:
    document: dict[str, object] = {"status": node.status, "attempt": node.attempt}
    if not is_null(node.error):
        document["error"] = node.error
    if node.loop is not None:
        document["loop"] = node.loop
    duration = duration_seconds(node.started_at, node.completed_at)
    if duration is not None:
        document["duration_seconds"] = duration
        last = duration_seconds(node.attempt_started_at, node.completed_at)
        document["last_attempt_seconds"] = last
    pages = exhausted_pages(node.meta)
    if pages is not None or _decoded_meta(node.meta).exhausted:
        document["is_exhausted"] = True
    return document
