"""`/metrics`: what this process did since it started, and what it sees now, as Prometheus reads it."""

from collections.abc import Iterable, Mapping, Sequence

from fastapi import APIRouter
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from windlass.api.operations import Operation, declare
from windlass.api.policy import Policy
from windlass.api.requests import no_query
from windlass.api.routes.workers import workers_seen
from windlass.api.state import ApiState
from windlass.ports.control import CountersSnapshot, RunsCounted

TAG = "health"
TEXT = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Family(Struct, frozen=True):
    """One metric: its values by labels."""

    name: str
    kind: str
    help: str
    values: Sequence[tuple[Labels, float]]


def router(state: ApiState) -> APIRouter:
    """`/metrics`."""
    routes = APIRouter()

    async def metrics(request: Request) -> Response:
        no_query(request)
        counted = state.control.counted()
        families = [*_of_process(state, counted), *await _of_workers(state), *_of_runs(counted.runs)]
        return Response(text_of(families), 200, media_type=TEXT)

    declare(routes, "GET", "/metrics", metrics, Operation(
        policy=Policy.READ, tag=TAG, summary="Numbers of this process, for Prometheus", answers={200: str},
        answer_type="text/plain", refusals=(422,),
    ))  # fmt: skip
    return routes


def text_of(families: Iterable[Family]) -> str:
    """The text that a scraper reads."""
    lines: list[str] = []
    for family in families:
        name = f"windlass_{family.name}"
        lines += (f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}")
        for labels, value in family.values:
            told = ",".join(f'{key}="{text.translate(_ESCAPES)}"' for key, text in labels.items())
            lines.append(f"{name}{{{told}}} {value!r}" if told else f"{name} {value!r}")
    return "\n".join(lines) + "\n"


def _counter(name: str, help: str, values: Sequence[tuple[Labels, float]]) -> Family:
    return Family(f"{name}_total", "counter", help, values)


def _of_process(state: ApiState, counted: CountersSnapshot) -> list[Family]:
    ended = [({"status": status}, count) for status, count in sorted(counted.jobs.items())]
    return [
        Family("info", "gauge", "The version that runs.", [({"version": state.version}, 1)]),
        Family("shards", "gauge", "Shards that this process runs.", [({}, len(state.control.shards))]),
        _counter("commits", "Batches that this process stored.", [({}, counted.commits)]),
        _counter("events", "Events that this process stored.", [({}, counted.events)]),
        _counter("tasks", "Tasks that this process gave to workers.", [({}, counted.tasks)]),
        _counter("jobs_ended", "Jobs that this process brought to their end.", ended),
    ]


async def _of_workers(state: ApiState) -> list[Family]:
    workers = await workers_seen(state)
    alive = sum(worker.alive for worker in workers)
    seen = [({"state": "alive"}, alive), ({"state": "silent"}, len(workers) - alive)]
    held = sum(worker.running for worker in workers)
    return [
        Family("workers", "gauge", "Workers that the broker knows.", seen),
        Family("tasks_held", "gauge", "Tasks that workers have.", [({}, held)]),
    ]


def _of_runs(runs: Mapping[str, RunsCounted]) -> list[Family]:
    def values(part: str, label: str) -> list[tuple[Labels, float]]:
        return [
            ({"workflow_id": name, label: key}, count)
            for name, counted in sorted(runs.items())
            for key, count in sorted(getattr(counted, part).items())
        ]

    retries = [({"workflow_id": name}, counted.retries) for name, counted in sorted(runs.items())]
    violations = [({"workflow_id": name}, counted.violations) for name, counted in sorted(runs.items())]
    return [
        _counter("runs_ended", "Runs that ended, by their last state.", values("ended", "state")),
        _counter("run_seconds", "What the parts of their lives took.", values("seconds", "phase")),
        _counter("run_actions", "Actions of runs, by outcome.", values("actions", "outcome")),
        _counter("run_retries", "Attempts of runs beyond their first.", retries),
        _counter("run_violations", "Constraints of runs that did not hold.", violations),
    ]
