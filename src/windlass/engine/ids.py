"""Ids of jobs and requests: each greater than the one before, so that rows of one time lie together.

A batch of jobs with scattered ids would touch a page of the database for each of them.
"""

from random import Random

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_CHARS, _CHANCE_CHARS = 9, 15
_CHARS = _TIME_CHARS + _CHANCE_CHARS
# Within one millisecond ids go on from the last by a step of up to this many bits: still not to be guessed.
_STEP_BITS = 60
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]


class Ids:
    """Makes ids of 24 characters: milliseconds since the epoch, then chance."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._last = 0

    def new(self, now: int) -> str:
        """The next id."""
        number = ((now // 1000) << (5 * _CHANCE_CHARS)) | self._chance.getrandbits(5 * _CHANCE_CHARS)
        if number <= self._last or number >> (5 * _CHANCE_CHARS) == self._last >> (5 * _CHANCE_CHARS):
            number = self._last + 1 + self._chance.getrandbits(_STEP_BITS)
        self._last = number
        return "".join([_PAIRS[(number >> shift) & 1023] for shift in range(5 * (_CHARS - 2), -1, -10)])
