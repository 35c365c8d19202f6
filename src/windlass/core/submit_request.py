"""The request to start a job, as the API, the client and programs make it."""

import hashlib
from typing import Any

import msgspec
from msgspec import Struct, structs

from windlass.core.fields import Alias, Id, Instant, Key, Priority, Version
from windlass.core.instants import parse_instant
from windlass.core.jobs import JobSpec

_canonical = msgspec.json.Encoder(order="deterministic")


class SubmitRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
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
        """The digest by which a repeated request is recognized: of all fields but the key.

        Of what was requested, not of what it resolves to: a moved alias or a new default does not change it.
        """
        # An instant can be written in several ways.
        starts_at = self.scheduled_microseconds
        scheduled_at = None if starts_at is None else str(starts_at)
        return digest_of(structs.replace(self, idempotency_key=None, scheduled_at=scheduled_at))


# Fields of a job that a rerun does not have: it is another request, and it starts at once.
NOT_REPEATED = frozenset({"idempotency_key", "scheduled_at"})
REPEATED = tuple(
    name
    for name in SubmitRequest.__struct_fields__
    if name in JobSpec.__struct_fields__ and name not in NOT_REPEATED
)


def rerun_request(spec: JobSpec) -> SubmitRequest:
    """Return the request for a new job of the same version with the same input."""
    repeated = {name: getattr(spec, name) for name in REPEATED}
    return SubmitRequest(input_data=msgspec.json.decode(spec.input), **repeated)


def digest_of(request: object) -> str:
    """Return the digest of a JSON value; the order of keys does not matter."""
    return hashlib.sha256(_canonical.encode(request)).hexdigest()
