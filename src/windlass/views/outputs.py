"""Outputs in responses: values up to a limit, and a marker with the size for larger ones."""

import asyncio
from collections.abc import Sequence

from msgspec import Raw

from windlass.core.artifacts import ArtifactReference, is_reference, read_reference
from windlass.core.errors import ArtifactNotFound, StoreUnavailable
from windlass.core.json_text import NULL
from windlass.core.sanitize import truncated
from windlass.ports.artifacts import Artifacts

# Limits of one response: of each value, and of all values together.
VALUE_BYTES_MAX = 1 << 20
VALUES_BYTES_MAX = 16 << 20
FETCHES_AT_ONCE_MAX = 8
# An artifact store that takes longer is considered unavailable; small values do not need it.
FETCH_SECONDS_MAX = 10.0


def output_size(output: Raw) -> int:
    """Return the size of an output in bytes, inline or in the artifact store."""
    if is_reference(output):
        return read_reference(output).size
    return len(memoryview(output))


class OutputReader:
    """Reads the outputs of one response, small ones first, so that a few large ones do not use up the limit."""

    def __init__(
        self,
        artifacts: Artifacts,
        each_bytes_max: int = VALUE_BYTES_MAX,
        all_bytes_max: int = VALUES_BYTES_MAX,
    ) -> None:
        self._artifacts = artifacts
        self._each_bytes_max = each_bytes_max
        self._remaining_bytes = all_bytes_max
        self._is_unavailable = False

    async def read(self, outputs: Sequence[Raw | None]) -> list[Raw]:
        """Return each output or the marker of a large one, in order; null where there is none."""
        values = [NULL] * len(outputs)
        references: list[tuple[int, ArtifactReference]] = []
        for size, place, output in _by_size(outputs):
            if size > min(self._each_bytes_max, self._remaining_bytes):
                values[place] = truncated(size)
                continue
            self._remaining_bytes -= size
            if is_reference(output):
                references.append((place, read_reference(output)))
            else:
                values[place] = output
        for start in range(0, len(references), FETCHES_AT_ONCE_MAX):
            chunk = references[start : start + FETCHES_AT_ONCE_MAX]
            fetched = await asyncio.gather(*(self._fetch(reference) for _, reference in chunk))
            for (place, _), value in zip(chunk, fetched, strict=True):
                values[place] = value
        return values

    async def _fetch(self, reference: ArtifactReference) -> Raw:
        if self._is_unavailable:
            return truncated(reference.size, unavailable=True)
        try:
            async with asyncio.timeout(FETCH_SECONDS_MAX):
                return Raw(await self._artifacts.get(reference.key))
        except ArtifactNotFound:
            return truncated(reference.size, missing=True)
        except (StoreUnavailable, TimeoutError):
            self._is_unavailable = True
            return truncated(reference.size, unavailable=True)


def _by_size(outputs: Sequence[Raw | None]) -> list[tuple[int, int, Raw]]:
    """Return the size, the place and the value of each output, smallest first."""
    found = [
        (output_size(output), place, output)
        for place, output in enumerate(outputs)
        if output is not None
    ]
    return sorted(found, key=lambda entry: entry[:2])


async def read_output(artifacts: Artifacts, output: Raw) -> bytes:
    """Return a whole output, however large; ArtifactNotFound, StoreUnavailable."""
    if is_reference(output):
        return await artifacts.get(read_reference(output).key)
    return bytes(output)
