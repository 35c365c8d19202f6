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
# A request that failed by chance is repeated so often, and for so long.
RETRIES_MAX = 4
RETRY_SECONDS = 30
PAGE = 1000
ERROR_CHARS_MAX = 500
_URL = re.compile(r"s3://([A-Za-z0-9._-]{1,255})(?:/(.*))?")

P = ParamSpec("P")
Answer = TypeVar("Answer")


class S3Artifacts:
    """Keeps values below `s3://bucket/prefix`. Region, endpoint and credentials come from the usual AWS_* variables, a
    profile of the machine, or the cloud it runs in: the library finds them."""

    def __init__(self, url: str) -> None:
        found = _URL.fullmatch(url)
        if found is None:
            raise StoreUnavailable(f"{url!r} names no place for artifacts: write s3://bucket or s3://bucket/prefix")
        self._url = url
        try:
            self._objects = S3Store(
                found[1],
                prefix=(found[2] or "").strip("/") or None,
                client_options={
                    # Whoever sets an endpoint without TLS means it; the default one has it.
                    "allow_http": True,
                    "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
                    "timeout": timedelta(seconds=REQUEST_SECONDS),
                },
                retry_config={"max_retries": RETRIES_MAX, "retry_timeout": timedelta(seconds=RETRY_SECONDS)},
            )
        except (BaseError, ValueError) as error:
            raise StoreUnavailable(f"the artifact store {url} cannot be used: {_shown(error)}") from error
        self._threads = ThreadPoolExecutor(THREADS_MAX, "windlass-artifacts")

    async def put(self, job_id: str, body: bytes) -> str:
        """Keep a value of a job; stored when it returns its key. StoreUnavailable."""
        return await self._call(self._put, job_id, body)

    async def get(self, key: str) -> bytes:
        """The value; ArtifactNotFound, StoreUnavailable."""
        return await self._call(self._get, checked(key))

    async def remove(self, job_ids: Sequence[str]) -> None:
        """Forget everything of these jobs; what is not there is no error."""
        await self._call(self._remove, job_ids)

    async def aclose(self) -> None:
        """Let go of the threads; connections close by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _call(
        self,
        function: Callable[P, Answer],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> Answer:
        # In threads, and not with the library's own coroutines: those end on threads that Python does not know, and one
        # that is late makes the interpreter abort at its exit.
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, lambda: function(*arguments, **named)
            )
        except (BaseError, OSError) as error:
            raise StoreUnavailable(f"the artifact store {self._url} does not do its work: {_shown(error)}") from error

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
            raise ArtifactNotFound(f"the artifact {key} is not in {self._url}") from None
        if (size := found.meta["size"]) > BODY_BYTES_MAX:
            raise ArtifactNotFound(f"the artifact {key} is damaged: {size} bytes, more than any value has")
        return verified(key, bytes(found.bytes()))

    def _remove(self, job_ids: Sequence[str]) -> None:
        for job_id in filter(is_job_id, job_ids):
            # By whole segments: the objects of the job "a" are not those of "ab".
            for page in cast("Any", self._objects).list(job_id, chunk_size=PAGE):
                self._objects.delete([one["path"] for one in page])


def _shown(error: Exception) -> str:
    """The first line, which says what happened; the rest is the library's own view, and the server's whole answer."""
    return str(error).partition("\n")[0].partition("<")[0].strip(" :")[:ERROR_CHARS_MAX]
