"""The log of long-running commands: one JSON object per line on standard error."""

import logging
import sys

import msgspec

ACCESS_LOGGER = "windlass.access"


class JsonFormatter(logging.Formatter):
    """Formats records as JSON; those of the access log are JSON already."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, whatever the message contains."""
        if record.name == ACCESS_LOGGER:
            return record.getMessage()
        entry = {
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(entry).decode()


def log_to_stderr(level: int) -> None:
    """Write records of Windlass from `level` on, and warnings of libraries, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("windlass").setLevel(level)
