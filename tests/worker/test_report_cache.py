"""The cache of reports that answers repeated deliveries, and its limits."""

from msgspec import Raw

from windlass.core.messages import Succeeded, TaskFinished
from windlass.ports.broker import TaskReport
from windlass.worker.report_cache import REPORTS_CACHED_BYTES_MAX, REPORTS_CACHED_MAX, ReportCache


def report(number: int, output: bytes = b"1") -> TaskReport:
    message = TaskFinished(f"j{number}", "n", 1, "w", 1, 2, Succeeded(Raw(output)))
    return TaskReport(f"j{number}_n_1", 0, message)


def cached(cache: ReportCache, count: int) -> list[int]:
    return [number for number in range(count) if cache.get(f"j{number}_n_1") is not None]


def test_the_latest_reports_are_cached() -> None:
    cache = ReportCache()
    count = 5 * REPORTS_CACHED_MAX // 2

    for number in range(count):
        cache.add(report(number))

    assert cached(cache, count)[-REPORTS_CACHED_MAX:] == list(
        range(count - REPORTS_CACHED_MAX, count)
    )


def test_at_most_twice_the_limit_is_cached() -> None:
    cache = ReportCache()
    count = 4 * REPORTS_CACHED_MAX

    for number in range(count):
        cache.add(report(number))

    assert len(cached(cache, count)) <= 2 * REPORTS_CACHED_MAX


def test_large_outputs_are_evicted_earlier() -> None:
    cache = ReportCache()
    size = REPORTS_CACHED_BYTES_MAX // 4
    output = b'"' + b"x" * (size - 2) + b'"'

    for number in range(20):
        cache.add(report(number, output))

    assert 4 <= len(cached(cache, 20)) <= 8


def test_the_report_given_last_for_a_task_counts() -> None:
    cache = ReportCache()
    cache.add(report(0, b"1"))

    cache.add(report(0, b"2"))

    found = cache.get("j0_n_1")
    assert found is not None
    assert found.message.outcome == Succeeded(Raw(b"2"))
