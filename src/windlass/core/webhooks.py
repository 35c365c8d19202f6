"""Webhooks: the params and reports of the handler, and signatures by the Standard Webhooks scheme.

The handler reports each attempt as `meta.delivery`, whether it succeeded or failed; its output is an `Answer`.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Raw, Struct

from windlass.core.artifacts import decode_or
from windlass.core.errors import SignatureInvalid
from windlass.core.instants import MICROSECONDS

HANDLER = "webhook"
ID_HEADER = "webhook-id"
TIMESTAMP_HEADER = "webhook-timestamp"
SIGNATURE_HEADER = "webhook-signature"
# The param of the handler, and the field of the body, that says when the message was first dispatched.
TIMESTAMP = "timestamp"
KEY_PREFIX = "whsec_"
SCHEME = "v1"
# How far the sender's clock may be from ours, and for how long a signature can be replayed.
TOLERANCE_SECONDS = 300
# A sender that changes its key signs with both for a while.
SIGNATURES_MAX = 10
ID_CHARS_MAX = 256


class Delivery(Struct, frozen=True, kw_only=True):
    """The handler's report of one attempt to deliver, without secrets."""

    # The same for all attempts and redeliveries.
    webhook_id: str
    # Without user, password and query.
    url: str
    # Microseconds since the epoch.
    sent_at: int
    duration_seconds: float
    status: int | None = None
    error: str | None = None
    # The start of the response.
    response: str | None = None


class Answer(Struct, frozen=True):
    """The output of a successful delivery."""

    status: int
    webhook_id: str
    # The response: JSON where it is JSON, else the start of the text.
    response: Any = None


class _Meta(Struct):
    delivery: Delivery | None = None


def delivery_of(meta: Raw | None) -> Delivery | None:
    """Return the handler's report of an attempt; None when there is none."""
    return decode_or(_Meta(), meta).delivery


def timestamp_text(microseconds: int) -> str:
    """Return an instant as the body of a webhook names it: in ISO 8601, in UTC, in whole seconds."""
    return (
        datetime.fromtimestamp(microseconds // MICROSECONDS, UTC).isoformat().replace("+00:00", "Z")
    )


def key_of(secret: str) -> bytes:
    """Return the key of a secret: base64 after `whsec_`, or the text itself."""
    if not secret.startswith(KEY_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(KEY_PREFIX), validate=True)
    except binascii.Error:
        raise SignatureInvalid(
            f"the secret is not base64 after {KEY_PREFIX}; check its value"
        ) from None


def signature(key: bytes, webhook_id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a body with its id and timestamp."""
    signed = b"%s.%d.%s" % (webhook_id.encode(), timestamp, body)
    return f"{SCHEME},{base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}"


def verify(key: bytes, headers: Mapping[str, str], body: bytes, now_seconds: float) -> str:
    """Return the id of a message that was signed with the key recently; SignatureInvalid."""
    webhook_id, sent, signed = (
        headers.get(name, "") for name in (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER)
    )
    if not webhook_id or len(webhook_id) > ID_CHARS_MAX or not webhook_id.isascii():
        raise SignatureInvalid(
            f"missing or invalid header: {ID_HEADER}; send it with the other webhook headers"
        )
    if not (sent.isascii() and sent.isdigit() and len(sent) < 16):
        raise SignatureInvalid(f"{TIMESTAMP_HEADER} is not a number of seconds since 1970")
    if abs(now_seconds - int(sent)) > TOLERANCE_SECONDS:
        raise SignatureInvalid(
            f"{TIMESTAMP_HEADER} is more than {TOLERANCE_SECONDS} s away from the server's clock"
        )
    expected = signature(key, webhook_id, int(sent), body).encode()
    # All are compared, and each in constant time, so that the time taken reveals nothing.
    matches = [
        hmac.compare_digest(expected, one.encode()) for one in signed.split(" ")[:SIGNATURES_MAX]
    ]
    if not any(matches):
        raise SignatureInvalid(f"no signature in {SIGNATURE_HEADER} matches the body")
    return webhook_id
