"""Artifacts as files: a folder for each job and a file for each value, which is written completely or not at all."""

import asyncio
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from errno import ELOOP
from pathlib import Path

from windlass.core.errors import ArtifactNotFound, StoreUnavailable
from windlass.stores.artifacts.keys import BODY_BYTES_MAX, checked, is_job_id, key_of, verified

# Threads of their own, so that a disk that hangs does not block other work.
THREADS_MAX = 8


class FolderArtifacts:
    """Stores values in one folder, which is created by the first write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._threads = ThreadPoolExecutor(THREADS_MAX, "windlass-artifacts")

    async def put(self, job_id: str, body: bytes) -> str:
        """Write a value of a job durably and return its key. StoreUnavailable."""
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, self._put, job_id, body
        )

    async def get(self, key: str) -> bytes:
        """Return a value. ArtifactNotFound, StoreUnavailable."""
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, self._get, checked(key)
        )

    async def remove(self, job_ids: Sequence[str]) -> None:
        """Delete the values of jobs, as far as they exist. StoreUnavailable."""
        await asyncio.get_running_loop().run_in_executor(self._threads, self._remove, job_ids)

    async def aclose(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _put(self, job_id: str, body: bytes) -> str:
        key = key_of(job_id, body)
        folder = self._folder / job_id
        try:
            if not self._folder.is_dir():
                self._folder.mkdir(parents=True, exist_ok=True)
                _flush(self._folder.parent)
            folder.mkdir(exist_ok=True)
            self._refuse_link(folder)
            _write(folder, key.rpartition("/")[2], body)
            # Even if another writer created the job's folder: it may not have flushed it yet.
            _flush(self._folder)
        except OSError as error:
            raise StoreUnavailable(
                f"cannot write to the artifact folder {self._folder}: {error}"
            ) from error
        return key

    def _get(self, key: str) -> bytes:
        job_id, _, name = key.partition("/")
        try:
            self._refuse_link(self._folder / job_id)
            descriptor = os.open(
                self._folder / job_id / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            )
            with os.fdopen(descriptor, "rb") as file:
                if (size := os.fstat(descriptor).st_size) > BODY_BYTES_MAX:
                    raise ArtifactNotFound(
                        f"artifact is damaged: {key} ({size} bytes, the limit is {BODY_BYTES_MAX})"
                    )
                return verified(key, file.read())
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise ArtifactNotFound(f"artifact not found: {key} in {self._folder}") from None
        except OSError as error:
            if error.errno == ELOOP:
                raise ArtifactNotFound(
                    f"artifact is a symbolic link: {key}; links are not followed"
                ) from None
            raise StoreUnavailable(
                f"cannot read the artifact folder {self._folder}: {error}"
            ) from error

    def _remove(self, job_ids: Sequence[str]) -> None:
        try:
            for folder in (self._folder / job_id for job_id in job_ids if is_job_id(job_id)):
                if folder.is_symlink():
                    folder.unlink(missing_ok=True)
                elif folder.is_dir():
                    _empty(folder)
        except OSError as error:
            raise StoreUnavailable(f"cannot delete artifacts in {self._folder}: {error}") from error

    def _refuse_link(self, folder: Path) -> None:
        # The store creates no links; following one could leave its folder.
        if folder.is_symlink():
            raise OSError(ELOOP, os.strerror(ELOOP), str(folder))


def _write(folder: Path, name: str, body: bytes) -> None:
    """Write a file atomically and durably. Several writers of the same file do not interfere."""
    descriptor, temporary = tempfile.mkstemp(prefix=".", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, folder / name)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _flush(folder)


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _empty(folder: Path) -> None:
    # Another process may delete the same job.
    with suppress(FileNotFoundError):
        for name in os.listdir(folder):
            os.unlink(folder / name)
        folder.rmdir()
