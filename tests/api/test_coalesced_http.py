"""Responses are written in one piece, in order, with a bounded buffer."""

import asyncio

import pytest

from windlass.api.coalesced_http import JOINED_BYTES_MAX, JoinedWrites


class Wire(asyncio.Transport):
    """The transport below, which keeps what reaches it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.written.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None: ...


@pytest.fixture
def wire() -> Wire:
    return Wire()


async def turn_of_the_loop() -> None:
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(done.set_result, None)
    await done


async def test_head_and_body_are_written_together(wire: Wire) -> None:
    joined = JoinedWrites(wire)

    joined.write(b"head")
    joined.write(b"body")
    await turn_of_the_loop()

    assert wire.written == [b"headbody"]


async def test_the_parts_of_a_stream_are_written_as_they_arrive(wire: Wire) -> None:
    joined = JoinedWrites(wire)

    for part in (b"1", b"2", b"3"):
        joined.write(part)
        await turn_of_the_loop()

    assert wire.written == [b"1", b"2", b"3"]


async def test_the_buffer_is_bounded(wire: Wire) -> None:
    joined = JoinedWrites(wire)

    joined.write(b"x" * JOINED_BYTES_MAX)
    joined.write(b"y")

    assert wire.written == [b"x" * JOINED_BYTES_MAX + b"y"]


async def test_data_after_a_full_buffer_is_written_in_order(wire: Wire) -> None:
    joined = JoinedWrites(wire)

    joined.write(b"x" * (JOINED_BYTES_MAX + 1))
    joined.write(b"y")
    await turn_of_the_loop()

    assert b"".join(wire.written) == b"x" * (JOINED_BYTES_MAX + 1) + b"y"


async def test_closing_writes_the_buffer(wire: Wire) -> None:
    joined = JoinedWrites(wire)
    joined.write(b"last")

    joined.close()

    assert (wire.written, wire.closed) == ([b"last"], True)


async def test_nothing_is_written_to_a_closed_connection(wire: Wire) -> None:
    joined = JoinedWrites(wire)
    joined.write(b"late")

    wire.close()
    await turn_of_the_loop()

    assert wire.written == []
