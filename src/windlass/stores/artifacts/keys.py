"""Keys of artifacts: the job, then the digest of the content. What does not look like a key reaches no store."""

import re
from hashlib import sha256

from windlass.core.errors import ArtifactNotFound, StoreUnavailable

# What a store reads at once; outputs are bounded far below it.
BODY_BYTES_MAX = 1 << 30
SHOWN_CHARS = 200
_JOB_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_KEY = re.compile(r"([A-Za-z0-9_-]{1,128})/([0-9a-f]{64})")


def is_job_id(job_id: str) -> bool:
    """Whether anything can have been stored under this job."""
    return _JOB_ID.fullmatch(job_id) is not None


def key_of(job_id: str, body: bytes) -> str:
    """The key under which a job's value lies; StoreUnavailable for an id that is none."""
    if not is_job_id(job_id):
        raise StoreUnavailable(
            f"nothing can be stored for the job {job_id[:SHOWN_CHARS]!r}: an id has letters, digits, _ and -, up to 128"
        )
    return f"{job_id}/{sha256(body).hexdigest()}"


def checked(key: str) -> str:
    """The key; ArtifactNotFound for what cannot be one."""
    if _KEY.fullmatch(key) is None:
        raise ArtifactNotFound(f"{key[:SHOWN_CHARS]!r} is no key of an artifact: job id, slash, SHA-256 digest")
    return key


def verified(key: str, body: bytes) -> bytes:
    """The value; ArtifactNotFound when it is not the one that was stored."""
    if sha256(body).hexdigest() != key.rpartition("/")[2]:
        raise ArtifactNotFound(
            f"the artifact {key} is damaged ({len(body)} bytes with another digest): run its node again to replace it"
        )
    return body
