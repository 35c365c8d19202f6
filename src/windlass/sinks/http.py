"""Sends outputs to an HTTP endpoint, with the task's identity in a header so that the server can detect repeats."""

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct

from windlass.core.changes import SinkSpec
from windlass.core.durations import DURATION_RULE, parse_duration
from windlass.ports.sender import OutgoingRequest, Sender
from windlass.ports.sink import SinkReceipt
from windlass.sinks.rows import (
    OptionsInvalid,
    RowSource,
    as_list,
    json_text,
    options_of,
    parse_output,
    value_at,
)

TIMEOUT_SECONDS = 30.0
TIMEOUT_SECONDS_MAX = 3_600.0
IDEMPOTENCY_HEADER = "Idempotency-Key"


class HttpSinkOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The options of the HTTP sink."""

    url: Annotated[str, Meta(min_length=1, max_length=8_192)]
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    headers: dict[str, str] = {}
    timeout: float | str = TIMEOUT_SECONDS
    rows: str | None = None


class HttpSink:
    """Sends the output, or its rows, as one JSON body."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def write(self, spec: SinkSpec, output: Raw, identity: str) -> SinkReceipt:
        """Send the output; a server that has seen the identity before may ignore it."""
        options = options_of(spec.options, HttpSinkOptions)
        source = RowSource(rows=options.rows, path=spec.path)
        body, count = await parse_output(output, lambda: _body(output, source))
        headers = {
            name: value
            for name, value in options.headers.items()
            if name.lower() != IDEMPOTENCY_HEADER.lower()
        }
        headers[IDEMPOTENCY_HEADER] = identity
        request = OutgoingRequest(
            method=options.method,
            url=options.url,
            headers=headers,
            body=body,
            timeout_seconds=_seconds(options.timeout),
        )
        await self._sender.send(request)
        return SinkReceipt(count)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._sender.aclose()


def _body(output: Raw, source: RowSource) -> tuple[str, int]:
    value = value_at(output, source)
    return json_text(value), len(as_list(value))


def _seconds(timeout: float | str) -> float:
    seconds = parse_duration(timeout)
    if seconds is None:
        raise OptionsInvalid(f"invalid timeout: {timeout!r}; {DURATION_RULE}")
    if not 0 < seconds <= TIMEOUT_SECONDS_MAX:
        raise OptionsInvalid(
            f"timeout out of range: {timeout!r}; must be above 0 and at most an hour"
        )
    return seconds
