"""Engine duties and worker options with the defaults of the settings, for tests that build these parts themselves."""

from typing import Any

from msgspec import structs

from windlass.engine.config import Duties
from windlass.process import engine_duties
from windlass.settings import Settings

DEFAULTS = Settings()
OUTPUT_BYTES_MAX = DEFAULTS.artifacts.bytes_max
WORKER_TIMEOUT_SECONDS = DEFAULTS.engine.worker_timeout_seconds


def duties(**changes: Any) -> Duties:
    return structs.replace(engine_duties(DEFAULTS), **changes)


def worker_options(**changes: Any) -> dict[str, Any]:
    worker = DEFAULTS.worker
    options = {
        "queues": worker.queues,
        "concurrency": worker.concurrency,
        "threads": worker.threads,
        "processes": worker.processes,
        "heartbeat_seconds": worker.heartbeat_seconds,
        "output_bytes_max": OUTPUT_BYTES_MAX,
    }
    return {**options, **changes}
