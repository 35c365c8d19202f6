"""Ids of jobs and requests: sortable by time, so that rows of one time lie together."""

from random import Random

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_CHARS, _CHANCE_CHARS = 9, 15
_CHARS = _TIME_CHARS + _CHANCE_CHARS


def new_id(now: int, chance: Random) -> str:
    """24 characters: milliseconds since the epoch, then chance."""
    number = ((now // 1000) << (5 * _CHANCE_CHARS)) | chance.getrandbits(5 * _CHANCE_CHARS)
    return "".join([_ALPHABET[(number >> shift) & 31] for shift in range(5 * (_CHARS - 1), -1, -5)])
