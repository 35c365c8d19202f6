"""What attempts report about the containers they ran, for the metrics of their run."""

from msgspec import structs

from windlass.core.artifacts import decode_or
from windlass.core.messages import Failed, Succeeded
from windlass.core.runs.messages import Container

# The handler's name.
CONTAINER = "container"
# How long a worker may wait, before it reports that it stopped an attempt, until the container has stopped.
STOP_SECONDS_MAX = 90.0
_UNKNOWN = Container()


def container_of(outcome: Succeeded | Failed, task: str) -> Container:
    """Return what an outcome says about its container: in the meta, and in the output where there is one."""
    meta = decode_or(_UNKNOWN, outcome.meta)
    if not isinstance(outcome, Succeeded):
        return structs.replace(meta, task=task)
    output = decode_or(_UNKNOWN, outcome.output)
    return Container(
        exit_code=output.exit_code if meta.exit_code is None else meta.exit_code,
        pod_start_seconds=output.pod_start_seconds
        if meta.pod_start_seconds is None
        else meta.pod_start_seconds,
        api_calls=max(meta.api_calls, output.api_calls),
        task=task,
    )
