"""The growth of delays between attempts."""

# Larger exponents would overflow; the maximum delay is reached long before.
_EXPONENT_MAX = 64


def exponential_delay(initial_seconds: float, multiplier: float, attempts_made: int) -> float:
    """Return the delay after a number of attempts, without its maximum."""
    return initial_seconds * multiplier ** min(attempts_made - 1, _EXPONENT_MAX)
