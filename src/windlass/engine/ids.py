"""Ids of jobs and requests: each greater than the one before, so that rows of the same time are neighbours.

A batch of jobs with random ids would touch a page of the database for each of them.
"""

from random import Random

from windlass.core.ids import RANDOM_BITS, id_number, id_text

# Within one millisecond ids continue from the last one with a random step of this size: still not guessable.
_STEP_BITS = 60


class Ids:
    """Generates ids."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._last = 0

    def new(self, now: int) -> str:
        """Return the next id."""
        number = id_number(now, self._chance.getrandbits(RANDOM_BITS))
        if number <= self._last or number >> RANDOM_BITS == self._last >> RANDOM_BITS:
            number = self._last + 1 + self._chance.getrandbits(_STEP_BITS)
        self._last = number
        return id_text(number)
