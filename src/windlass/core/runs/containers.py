"""What attempts that ran containers tell of them, for the figures of their run."""

import msgspec
from msgspec import Raw

from windlass.core.artifacts import is_reference
from windlass.core.messages import Failed, Succeeded
from windlass.core.runs.messages import Container

# The handler's name.
CONTAINER = "container"


def container_of(outcome: Succeeded | Failed) -> Container:
    """What is known in every case is beside the output; the rest is in the output, where there is one."""
    told = _decoded(outcome.meta)
    output = _decoded(outcome.output) if isinstance(outcome, Succeeded) else Container()
    return Container(
        output.exit_code if told.exit_code is None else told.exit_code,
        output.pod_start_seconds if told.pod_start_seconds is None else told.pod_start_seconds,
        max(told.api_calls, output.api_calls),
    )


def _decoded(value: Raw | None) -> Container:
    if value is None or is_reference(value):
        return Container()
    try:
        return msgspec.json.decode(value, type=Container)
    except msgspec.DecodeError:
        return Container()
