"""Ids of jobs and requests: each greater than the one before, so that rows of one time lie together.

A batch of jobs with scattered ids would touch a page of the database for each of them.
"""

from random import Random

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
# Of 24 characters, 5 bits each, the last 15 are chance.
_CHANCE_BITS = 5 * 15
# Within one millisecond ids go on from the last by a step of up to this many bits: still not to be guessed.
_STEP_BITS = 60
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_EIGHT = 2**40 - 1


class Ids:
    """Makes ids of 24 characters: milliseconds since the epoch, then chance."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._last = 0

    def new(self, now: int) -> str:
        """The next id."""
        number = ((now // 1000) << _CHANCE_BITS) | self._chance.getrandbits(_CHANCE_BITS)
        if number <= self._last or number >> _CHANCE_BITS == self._last >> _CHANCE_BITS:
            number = self._last + 1 + self._chance.getrandbits(_STEP_BITS)
        self._last = number
        return f"{_eight(number >> 80)}{_eight(number >> 40 & _EIGHT)}{_eight(number & _EIGHT)}"


def _eight(bits: int) -> str:
    """Forty bits as eight characters."""
    return f"{_PAIRS[bits >> 30]}{_PAIRS[bits >> 20 & 1023]}{_PAIRS[bits >> 10 & 1023]}{_PAIRS[bits & 1023]}"
