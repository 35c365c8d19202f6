"""Artifacts as objects of an S3-compatible store, `{prefix}/{job}/{digest}`. Needs the extra `s3`."""

import asyncio
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar, cast

from obstore.exceptions import BaseError
from obstore.store import S3Store

from windlass.core.errors import ArtifactNotFound, StoreUnavailable
from windlass.stores.artifacts.keys import BODY_BYTES_MAX, checked, is_job_id, key_of, verified

THREADS_MAX = 8
CONNECT_SECONDS = 5
REQUEST_SECONDS = 60
# Limits of the retries after transient failures.
RETRIES_MAX = 4
RETRY_SECONDS = 30
PAGE = 1000
ERROR_CHARS_MAX = 500
_URL = re.compile(r"s3://([A-Za-z0-9._-]{1,255})(?:/(.*))?")

P = ParamSpec("P")
T = TypeVar("T")


class S3Artifacts:
    """Stores values under `s3://bucket/prefix`.

    The library takes region, endpoint and credentials from the AWS_* variables, a profile or the cloud's metadata.
    """

    def __init__(self, url: str) -> None:
        found = _URL.fullmatch(url)
        if found is None:
            raise StoreUnavailable(
                f"invalid artifact URL: {url!r}; write s3://bucket or s3://bucket/prefix"
            )
        self._url = url
        try:
            self._objects = S3Store(
                found[1],
                prefix=(found[2] or "").strip("/") or None,
                client_options={
                    # For endpoints that are configured without TLS; the default endpoint uses it.
                    "allow_http": True,
                    "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
                    "timeout": timedelta(seconds=REQUEST_SECONDS),
                },
                retry_config={
                    "max_retries": RETRIES_MAX,
                    "retry_timeout": timedelta(seconds=RETRY_SECONDS),
                },
            )
        except (BaseError, ValueError) as error:
            raise StoreUnavailable(
                f"cannot use the artifact store {url}: {_message(error)}"
            ) from error
        self._threads = ThreadPoolExecutor(THREADS_MAX, "windlass-artifacts")

    async def put(self, job_id: str, body: bytes) -> str:
        """Store a value of a job and return its key. StoreUnavailable."""
        return await self._call(self._put, job_id, body)

    async def get(self, key: str) -> bytes:
        """Return a value. ArtifactNotFound, StoreUnavailable."""
        return await self._call(self._get, checked(key))

    async def remove(self, job_ids: Sequence[str]) -> None:
        """Delete the values of jobs, as far as they exist. StoreUnavailable."""
        await self._call(self._remove, job_ids)

    async def aclose(self) -> None:
        """End the threads; the library closes its connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _call(
        self,
        function: Callable[P, T],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        # Not with the library's coroutines: they end on threads unknown to Python, and one that ends late makes the
        # interpreter abort at exit.
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, lambda: function(*arguments, **named)
            )
        except (BaseError, OSError) as error:
            raise StoreUnavailable(
                f"request to the artifact store {self._url} failed: {_message(error)}"
            ) from error

    def _put(self, job_id: str, body: bytes) -> str:
        key = key_of(job_id, body)
        self._objects.put(key, body)
        return key

    def _get(self, key: str) -> bytes:
        try:
            found = self._objects.get(key)
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise
            raise ArtifactNotFound(f"artifact not found: {key} in {self._url}") from None
        if (size := found.meta["size"]) > BODY_BYTES_MAX:
            raise ArtifactNotFound(
                f"artifact is damaged: {key} ({size} bytes, the limit is {BODY_BYTES_MAX})"
            )
        return verified(key, bytes(found.bytes()))

    def _remove(self, job_ids: Sequence[str]) -> None:
        for job_id in filter(is_job_id, job_ids):
            # The prefix matches whole segments: listing job "a" does not list job "ab".
            for page in cast("Any", self._objects).list(job_id, chunk_size=PAGE):
                self._objects.delete([one["path"] for one in page])


def _message(error: Exception) -> str:
    """Return the first line of an error, without the library's details and the server's whole response."""
    return str(error).partition("\n")[0].partition("<")[0].strip(" :")[:ERROR_CHARS_MAX]
