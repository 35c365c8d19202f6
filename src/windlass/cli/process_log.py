"""The log of long-running commands: one JSON object per line on standard error."""

import logging
import sys

import msgspec

from windlass.core.instants import MICROSECONDS
from windlass.wire import instant

ACCESS_LOGGER = "windlass.access"


class JsonFormatter(logging.Formatter):
    """Formats records as JSON with their time; those of the access log are JSON objects already."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, whatever the message contains."""
        timestamp = instant(round(record.created * MICROSECONDS))
        if record.name == ACCESS_LOGGER:
            return f'{{"timestamp":"{timestamp}",{record.getMessage()[1:]}'
        entry: dict[str, object] = {
            "timestamp": timestamp,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        # What the record is about; the names above keep their meaning.
        entry = entry | getattr(record, "fields", {}) | entry
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(entry).decode()


def log_to_stderr(level: int) -> None:
    """Write records of Windlass from `level` on, and warnings of libraries, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("windlass").setLevel(level)
