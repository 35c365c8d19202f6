"""Instants and durations: integers of microseconds, counted from the Unix epoch in UTC."""

MICROSECONDS = 1_000_000
