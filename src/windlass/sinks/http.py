"""Outputs to an HTTP endpoint, with the task's identity in a header by which the server can tell repeats."""

import re
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct

from windlass.core.changes import SinkSpec
from windlass.core.templates.json_values import is_list
from windlass.ports.sender import OutgoingRequest, Sender
from windlass.ports.sink import SinkReceipt
from windlass.sinks.rows import OptionsInvalid, RowSource, json_text, options_of, thought, value_at

TIMEOUT_SECONDS = 30.0
TIMEOUT_SECONDS_MAX = 3_600.0
IDEMPOTENCY_HEADER = "Idempotency-Key"

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?", re.ASCII)
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, None: 1.0}


class HttpOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """What an author says about an endpoint."""

    url: Annotated[str, Meta(min_length=1, max_length=8_192)]
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    headers: dict[str, str] = {}
    timeout: float | str = TIMEOUT_SECONDS
    rows: str | None = None


class HttpSink:
    """Sends the output, or its rows, as one JSON body."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def write(self, order: SinkSpec, output: Raw, identity: str) -> SinkReceipt:
        """Send it; the server that knows the identity already is free to do nothing."""
        options = options_of(order.options, HttpOptions)
        body, count = await thought(output, lambda: _body(output, RowSource(options.rows, order.path)))
        headers = {name: header for name, header in options.headers.items() if name.lower() != "idempotency-key"}
        request = OutgoingRequest(
            options.method,
            options.url,
            {**headers, IDEMPOTENCY_HEADER: identity},
            body,
            _seconds(options.timeout),
        )
        await self._sender.send(request)
        return SinkReceipt(count)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._sender.aclose()


def _body(output: Raw, place: RowSource) -> tuple[str, int]:
    value = value_at(output, place)
    return json_text(value), len(value) if is_list(value) else 1


def _seconds(timeout: float | str) -> float:
    read = _DURATION.fullmatch(timeout.strip()) if isinstance(timeout, str) else None
    seconds = float(read[1]) * _UNIT_SECONDS[read[2]] if read else timeout if not isinstance(timeout, str) else 0.0
    if not 0 < seconds <= TIMEOUT_SECONDS_MAX:
        raise OptionsInvalid(f"timeout {timeout!r} is none: write seconds or '500ms', '10s', '5m', up to an hour")
    return seconds
