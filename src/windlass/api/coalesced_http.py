"""Answers in one piece: the server writes head and body apart, two packets, each of which wakes the client."""

import asyncio
from typing import cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# What is held back at most: more than this is a stream, which its reader slows down.
JOINED_BYTES_MAX = 1 << 16


class JoinedWrites:
    """A transport that writes together what comes in one turn of the loop."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._parts: list[bytes] = []
        self._bytes = 0
        self.get_extra_info = transport.get_extra_info
        self.is_closing = transport.is_closing
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.set_protocol = transport.set_protocol

    def write(self, data: bytes) -> None:
        """Write at the end of the turn, or now when there is much."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)
        self._bytes += len(data)
        if self._bytes > JOINED_BYTES_MAX:
            self._flush()

    def _flush(self) -> None:
        if self._parts and not self._transport.is_closing():
            self._transport.write(b"".join(self._parts))
        self._parts.clear()
        self._bytes = 0

    def close(self) -> None:
        """Write what is left, then close."""
        self._flush()
        self._transport.close()


class JoinedProtocol(HttpToolsProtocol):
    """HTTP/1.1 as the server speaks it, on such a transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """A client has connected."""
        super().connection_made(cast("asyncio.Transport", JoinedWrites(transport)))
