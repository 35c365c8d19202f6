"""Keys of artifacts: the job id, a slash, and the digest of the content. Malformed keys never reach a store."""

import re
from hashlib import sha256

from windlass.core.errors import ArtifactNotFound, StoreUnavailable

# The most that a store reads at once; outputs are limited far below it.
BODY_BYTES_MAX = 1 << 30
SHOWN_CHARS = 200
_JOB_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_KEY = re.compile(r"([A-Za-z0-9_-]{1,128})/([0-9a-f]{64})")


def is_job_id(job_id: str) -> bool:
    """Return whether the text can be a job id."""
    return _JOB_ID.fullmatch(job_id) is not None


def key_of(job_id: str, body: bytes) -> str:
    """Return the key of a job's value. Raise StoreUnavailable for a malformed job id."""
    if not is_job_id(job_id):
        raise StoreUnavailable(
            f"invalid job id: {job_id[:SHOWN_CHARS]!r}; use up to 128 letters, digits, _ and -"
        )
    return f"{job_id}/{sha256(body).hexdigest()}"


def checked(key: str) -> str:
    """Return the key. Raise ArtifactNotFound for a malformed one."""
    if _KEY.fullmatch(key) is None:
        raise ArtifactNotFound(
            f"invalid artifact key: {key[:SHOWN_CHARS]!r}; a key is JOB_ID/SHA256"
        )
    return key


def verified(key: str, body: bytes) -> bytes:
    """Return the value. Raise ArtifactNotFound if it is not the one that was stored."""
    if sha256(body).hexdigest() != key.rpartition("/")[2]:
        raise ArtifactNotFound(
            f"artifact is damaged: {key} ({len(body)} bytes with another digest); run its node again to replace it"
        )
    return body
