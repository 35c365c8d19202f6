"""Notices that the files of an open database were deleted or replaced.

SQLite goes on with the files that it has open. What it writes then is lost with them, and nobody else can see it.
"""

import logging
import os

from windlass.core.errors import StoreUnusable

# The write-ahead log and its index, which exist while a connection is open.
LOG_SUFFIX, INDEX_SUFFIX = "-wal", "-shm"

log = logging.getLogger("windlass.stores")

_Identity = tuple[int, int] | None


class FileIdentity:
    """The files of a database as they were when it was opened."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._log = path + LOG_SUFFIX
        self._files = {name: _identity(name) for name in (path, self._log)}
        self._index = path + INDEX_SUFFIX
        self._index_file = _identity(self._index)
        # What the last check found, so that it is logged once.
        self._refusal: str | None = None

    @property
    def has_changed(self) -> bool:
        """Whether the last check found other files."""
        return self._refusal is not None

    def check(self) -> None:
        """Raise StoreUnusable if the database or its log is another file: for every commit, which it must not slow.

        Without the index of its log a commit loses nothing.
        """
        for name, file in self._files.items():
            if _identity(name) != file:
                self._refuse(name)

    def check_all(self) -> None:
        """Raise StoreUnusable if any of the files is another one."""
        self.check()
        if _identity(self._index) != self._index_file:
            self._refuse(self._index)
        self._refusal = None

    def is_log_gone(self) -> bool:
        """Return whether only the log, or its index, was deleted: then its content still fits the database."""
        if _identity(self._path) != self._files[self._path]:
            return False
        present = [_identity(self._log), _identity(self._index)]
        known = [self._files[self._log], self._index_file]
        return all(now in (None, before) for now, before in zip(present, known, strict=True))

    def _refuse(self, name: str) -> None:
        what = "deleted" if _identity(name) is None else "replaced"
        message = (
            f"database file was {what} while it is in use: {name}; nothing is accepted any more: restore the file from "
            "a backup if you need its content, and restart this process"
        )
        if self._refusal != message:
            self._refusal = message
            log.error("%s", message)
        raise StoreUnusable(message)


def _identity(path: str) -> _Identity:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
