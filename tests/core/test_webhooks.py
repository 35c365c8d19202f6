"""Signatures of webhooks, compared with the reference library, and invalid ones."""

from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from windlass.core.errors import SignatureInvalid
from windlass.core.webhooks import delivery_of, key_of, signature, verify

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEY = key_of(SECRET)
NOW = 1_760_000_000
BODY = '{"a": "é"}'.encode()


def signed_by_reference(body: bytes = BODY, at: int = NOW) -> dict[str, str]:
    made = Webhook(SECRET).sign("msg_1", datetime.fromtimestamp(at, UTC), body.decode())
    return {"webhook-id": "msg_1", "webhook-timestamp": str(at), "webhook-signature": made}


def test_signatures_of_the_reference_library_are_accepted() -> None:
    assert verify(KEY, signed_by_reference(), BODY, NOW) == "msg_1"


def test_signatures_equal_those_of_the_reference_library() -> None:
    assert signature(KEY, "msg_1", NOW, BODY) == signed_by_reference()["webhook-signature"]


def test_one_valid_signature_among_several_is_enough() -> None:
    headers = signed_by_reference()
    headers["webhook-signature"] = f"v1,AAAA v1a,BBBB {headers['webhook-signature']}"

    assert verify(KEY, headers, BODY, NOW) == "msg_1"


BROKEN: dict[str, dict[str, str]] = {
    "no id": {"webhook-id": ""},
    "another id": {"webhook-id": "msg_2"},
    "an id that is not ASCII": {"webhook-id": "é"},
    "an id that is too long": {"webhook-id": "x" * 300},
    "no timestamp": {"webhook-timestamp": ""},
    "a timestamp that is not a number": {"webhook-timestamp": "now"},
    "a timestamp that is negative": {"webhook-timestamp": f"-{NOW}"},
    "another timestamp": {"webhook-timestamp": str(NOW + 1)},
    "a timestamp with many digits": {"webhook-timestamp": "9" * 5_000},
    "no signature": {"webhook-signature": ""},
    "another signature": {"webhook-signature": "v1,AAAA"},
    "a signature of another scheme": {
        "webhook-signature": signed_by_reference()["webhook-signature"].replace("v1", "v2")
    },
    "a signature without scheme": {
        "webhook-signature": signed_by_reference()["webhook-signature"][3:]
    },
    "a valid signature after too many others": {
        "webhook-signature": "v1,AAAA " * 20 + signed_by_reference()["webhook-signature"],
    },
    "a signature that is not ASCII": {"webhook-signature": "v1,é"},
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_changed_headers_are_refused(change: dict[str, str]) -> None:
    with pytest.raises(SignatureInvalid):
        verify(KEY, signed_by_reference() | change, BODY, NOW)


def test_another_body_is_refused() -> None:
    with pytest.raises(SignatureInvalid):
        verify(KEY, signed_by_reference(), BODY + b" ", NOW)


def test_another_key_is_refused() -> None:
    with pytest.raises(SignatureInvalid):
        verify(b"another", signed_by_reference(), BODY, NOW)


@pytest.mark.parametrize("away", [-301, 301, 86_400])
def test_a_signature_that_is_too_old_or_from_the_future_is_refused(away: int) -> None:
    with pytest.raises(SignatureInvalid, match="300 s away"):
        verify(KEY, signed_by_reference(at=NOW + away), BODY, NOW)


@pytest.mark.parametrize("away", [-300, 0, 300])
def test_clocks_may_differ_by_five_minutes(away: int) -> None:
    assert verify(KEY, signed_by_reference(at=NOW + away), BODY, NOW)


@pytest.mark.parametrize("secret", ["whsec_*hidden*", "whsec_?hiddenAA", "whsec_hidden"])
def test_the_error_about_a_secret_that_is_not_base64_does_not_contain_it(secret: str) -> None:
    with pytest.raises(SignatureInvalid) as raised:
        key_of(secret)

    assert "hidden" not in str(raised.value)


def test_an_attempt_without_metadata_has_no_delivery() -> None:
    assert delivery_of(None) is None
