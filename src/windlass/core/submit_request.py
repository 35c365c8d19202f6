"""The request to start a job, as the API, the client and programs make it."""

import hashlib
from typing import Any

import msgspec
from msgspec import Struct

from windlass.core.fields import Alias, Id, Instant, Key, Priority, Version
from windlass.core.instants import parse_instant

_canonical = msgspec.json.Encoder(order="deterministic")


class SubmitRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A job to start. `version` is a number or an alias; `scheduled_at` is an ISO instant."""

    workflow_id: Id
    input_data: dict[str, Any] = {}
    version: Version | Alias | None = None
    idempotency_key: Key | None = None
    scheduled_at: Instant | None = None
    priority: Priority = 0

    @property
    def scheduled_microseconds(self) -> int | None:
        """`scheduled_at` in microseconds since the epoch. InputInvalid."""
        if self.scheduled_at is None:
            return None
        return parse_instant(self.scheduled_at, "scheduled_at")

    @property
    def digest(self) -> str:
        """The digest by which a repeated request is recognized.

        Of what was asked, not of what it resolves to: a moved alias or a new default does not change it.
        """
        return digest_of((self.workflow_id, self.version, self.input_data, self.priority, self.scheduled_microseconds))


def digest_of(asked: object) -> str:
    """Return the digest of a JSON value; the order of keys does not matter."""
    return hashlib.sha256(_canonical.encode(asked)).hexdigest()
