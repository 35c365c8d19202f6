"""Outputs as answers show them: whole values as far as the bounds go, and for the rest how large they are."""

import asyncio
from collections.abc import Sequence

from msgspec import Raw

from windlass.core.artifacts import Reference, is_reference, read_reference
from windlass.core.errors import ArtifactNotFound, StoreUnavailable
from windlass.core.sanitize import truncated
from windlass.ports.artifacts import Artifacts

# What one answer of a server shows: of each value, and of all of them.
VALUE_BYTES_MAX = 1 << 20
VALUES_BYTES_MAX = 16 << 20
FETCHES_AT_ONCE_MAX = 8
# An artifact store that takes longer is taken to be away; what is small is shown without it.
FETCH_SECONDS_MAX = 10.0

NULL = Raw(b"null")


def size_of(output: Raw) -> int:
    """How many bytes an output has, wherever it lies."""
    return read_reference(output).size if is_reference(output) else len(memoryview(output))


class OutputReader:
    """The values of one answer. Small ones come first, so that a few large ones do not take the room of all others."""

    def __init__(
        self, artifacts: Artifacts, each_bytes_max: int = VALUE_BYTES_MAX, all_bytes_max: int = VALUES_BYTES_MAX
    ) -> None:
        self._artifacts = artifacts
        self._each_bytes_max = each_bytes_max
        self._left = all_bytes_max
        self._is_away = False

    async def shown(self, outputs: Sequence[Raw | None]) -> list[Raw]:
        """Each output, or the marker that stands for it, in their order; null where there is none."""
        shown = [NULL] * len(outputs)
        large: list[tuple[int, Reference]] = []
        found = [(size_of(output), place, output) for place, output in enumerate(outputs) if output is not None]
        for size, place, output in sorted(found, key=lambda one: one[:2]):
            if size > min(self._each_bytes_max, self._left):
                shown[place] = truncated(size)
                continue
            self._left -= size
            if is_reference(output):
                large.append((place, read_reference(output)))
            else:
                shown[place] = output
        for start in range(0, len(large), FETCHES_AT_ONCE_MAX):
            some = large[start : start + FETCHES_AT_ONCE_MAX]
            values = await asyncio.gather(*(self._fetched(reference) for _, reference in some))
            for (place, _), value in zip(some, values, strict=True):
                shown[place] = value
        return shown

    async def _fetched(self, reference: Reference) -> Raw:
        if self._is_away:
            return truncated(reference.size, unavailable=True)
        try:
            async with asyncio.timeout(FETCH_SECONDS_MAX):
                return Raw(await self._artifacts.get(reference.key))
        except ArtifactNotFound:
            return truncated(reference.size, missing=True)
        except (StoreUnavailable, TimeoutError):
            self._is_away = True
            return truncated(reference.size, unavailable=True)


async def whole(artifacts: Artifacts, output: Raw) -> bytes:
    """One output, however large; ArtifactNotFound, StoreUnavailable."""
    return await artifacts.get(read_reference(output).key) if is_reference(output) else bytes(output)
