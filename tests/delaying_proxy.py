"""A TCP proxy in front of a server that is far away: all bytes arrive later, in order."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

READ_BYTES = 65_536


@asynccontextmanager
async def delayed(url: str, seconds: float) -> AsyncGenerator[str]:
    """Return a URL of the same server at which each direction takes half of `seconds`."""
    parts = urlsplit(url)
    tasks: set[asyncio.Task[None]] = set()
    writers: list[asyncio.StreamWriter] = []

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        with suppress(ConnectionError):
            while data := await reader.read(READ_BYTES):
                loop.call_later(seconds / 2, _write, writer, data)
            loop.call_later(seconds / 2, writer.close)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(parts.hostname, parts.port)
        writers.extend((writer, server_writer))
        for pair in ((reader, server_writer), (server_reader, writer)):
            task = asyncio.ensure_future(forward(*pair))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    user, _, _ = parts.netloc.rpartition("@")
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield parts._replace(netloc=f"{user}@{address}" if user else address).geturl()
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        for writer in writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    if not writer.is_closing():
        writer.write(data)
