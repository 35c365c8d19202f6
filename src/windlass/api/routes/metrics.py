"""`/metrics`: counters of this process in the Prometheus text format."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.api.operations import Operation, route
from windlass.api.policy import Policy
from windlass.api.requests import reject_query
from windlass.api.routes.workers import worker_views
from windlass.api.state import ApiState
from windlass.ports.control import CountersSnapshot, RunsCounted

TAG = "health"
TEXT = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]
Samples = Sequence[tuple[Labels, float]]
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Metric(Struct, frozen=True):
    """A metric and its samples by labels."""

    name: str
    kind: str
    help: str
    values: Samples


def routes(state: ApiState) -> list[Route]:
    """Return the route of metrics."""

    async def metrics(request: Request) -> Response:
        reject_query(request)
        counted = state.control.counters()
        found = [
            *_process_metrics(state, counted),
            *await _worker_metrics(state),
            *_run_metrics(counted.runs),
        ]
        return Response(prometheus_text(found), 200, media_type=TEXT)

    operation = Operation(
        policy=Policy.READ,
        tag=TAG,
        summary="Show the metrics of this process in the Prometheus format",
        responses={200: str},
        response_type="text/plain",
        errors=(422,),
    )
    return [route("GET", "/metrics", metrics, operation)]


def prometheus_text(metrics: Iterable[Metric]) -> str:
    """Format metrics as Prometheus text."""
    lines: list[str] = []
    for metric in metrics:
        name = f"windlass_{metric.name}"
        lines.append(f"# HELP {name} {metric.help}")
        lines.append(f"# TYPE {name} {metric.kind}")
        for labels, value in metric.values:
            lines.append(f"{name}{_labels_text(labels)} {value!r}")
    return "\n".join(lines) + "\n"


def _labels_text(labels: Labels) -> str:
    if not labels:
        return ""
    pairs = [f'{key}="{text.translate(_ESCAPES)}"' for key, text in labels.items()]
    return "{" + ",".join(pairs) + "}"


def _counter(name: str, help: str, values: Samples) -> Metric:
    return Metric(f"{name}_total", "counter", help, values)


def _process_metrics(state: ApiState, counted: CountersSnapshot) -> list[Metric]:
    finished = [({"status": status}, count) for status, count in sorted(counted.jobs.items())]
    return [
        Metric("info", "gauge", "The running version.", [({"version": state.version}, 1)]),
        Metric(
            "shards", "gauge", "Shards that this process owns.", [({}, len(state.control.shards))]
        ),
        _counter("commits", "Batches that this process committed.", [({}, counted.commits)]),
        _counter("events", "Events that this process stored.", [({}, counted.events)]),
        _counter("tasks", "Tasks that this process published.", [({}, counted.tasks)]),
        _counter("jobs_ended", "Jobs that this process finished.", finished),
    ]


async def _worker_metrics(state: ApiState) -> list[Metric]:
    workers = await worker_views(state)
    alive = sum(worker.alive for worker in workers)
    by_state = [({"state": "alive"}, alive), ({"state": "stale"}, len(workers) - alive)]
    held = sum(worker.running for worker in workers)
    return [
        Metric("workers", "gauge", "Workers that the broker knows.", by_state),
        Metric("tasks_held", "gauge", "Tasks that workers hold.", [({}, held)]),
    ]


def _run_metrics(runs: Mapping[str, RunsCounted]) -> list[Metric]:
    finished: list[tuple[Labels, float]] = []
    seconds: list[tuple[Labels, float]] = []
    actions: list[tuple[Labels, float]] = []
    retries: list[tuple[Labels, float]] = []
    violations: list[tuple[Labels, float]] = []
    for workflow_id, counted in sorted(runs.items()):
        finished += _samples(workflow_id, "state", counted.finished)
        seconds += _samples(workflow_id, "phase", counted.seconds)
        actions += _samples(workflow_id, "outcome", counted.actions)
        retries.append(({"workflow_id": workflow_id}, counted.retries))
        violations.append(({"workflow_id": workflow_id}, counted.violations))
    return [
        _counter("runs_ended", "Finished runs by final state.", finished),
        _counter("run_seconds", "Seconds that runs spent in each phase.", seconds),
        _counter("run_actions", "Actions of runs by outcome.", actions),
        _counter("run_retries", "Attempts of runs after the first.", retries),
        _counter("run_violations", "Violated constraints of runs.", violations),
    ]


def _samples(workflow_id: str, label: str, counts: Mapping[str, float]) -> Samples:
    return [
        ({"workflow_id": workflow_id, label: key}, count) for key, count in sorted(counts.items())
    ]
