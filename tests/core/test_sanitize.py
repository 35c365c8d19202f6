"""Masking of credentials and truncation of large values before they are shown."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from windlass.core.sanitize import DEPTH_MAX, VALUE_BYTES_MAX, sanitized, sanitized_context

LARGE = "x" * (VALUE_BYTES_MAX + 1)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text() | st.just(LARGE) | st.just("https://user:pw@host/x") | st.just("Bearer abc"),
    lambda inner: st.lists(inner, max_size=5)
    | st.dictionaries(st.text(max_size=8) | st.sampled_from(["_x", "_size", "api-key", "Token", "name"]), inner),
    max_leaves=20,
)  # fmt: skip


def size(value: object) -> int:
    return len(msgspec.json.encode(value))


@pytest.mark.parametrize(
    "key",
    [
        "password", "PASSWD", "db_password", "secret", "client-secret", "token", "accessToken", "api_key", "API-KEY",
        "apikey", "X-Api-Key", "Authorization", "access_key", "aws_secret_access_key", "privateKey", "credentials",
        "Set-Cookie", "session_id", "auth", "pwd",
    ],
)  # fmt: skip
def test_values_under_credential_keys_are_masked_at_any_depth(key: str) -> None:
    assert sanitized({"a": [{"b": {key: "hunter2"}}]}) == {"a": [{"b": {key: "***"}}]}


@pytest.mark.parametrize("held", ["text", 1234, ["a", "b"], {"user": "u"}])
def test_a_credential_of_any_type_is_masked(held: object) -> None:
    assert sanitized({"password": held}) == {"password": "***"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("author", "A"), ("passenger", "P"), ("compass", "N"), ("max_tokens", 512), ("session_count", 3),
        ("key", "primary"), ("has_secret", True), ("token", None), ("pinned", "yes"),
    ],
)  # fmt: skip
def test_keys_that_only_resemble_credential_keys_are_not_masked(key: str, value: object) -> None:
    assert sanitized({key: value}) == {key: value}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgresql://app:hunter2@db/main", "postgresql://***@db/main"),
        ("see https://token@host/a and http://x", "see https://***@host/a and http://x"),
        ("https://host/a?mail=b@c", "https://host/a?mail=b@c"),
        ("Bearer abc.def", "Bearer ***"),
        ("basic dXNlcjpwdw==", "basic ***"),
        ("Basics of sailing", "Basics of sailing"),
    ],
)
def test_credentials_in_texts_are_masked(text: str, expected: str) -> None:
    assert sanitized({"text": text}) == {"text": expected}


def test_internal_keys_are_removed_except_documented_ones() -> None:
    value = {"_engine": 1, "kept": {"_id": 2, "n": 3}, "_step_results": {"a": {"has_data": True}}}

    assert sanitized(value) == {"kept": {"n": 3}, "_step_results": {"a": {"has_data": True}}}


def test_a_large_value_is_replaced_by_its_size() -> None:
    large = {"rows": [{"n": number} for number in range(2_000)]}

    result = sanitized({"large": large, "small": 1})

    assert result == {
        "large": {"rows": {"_truncated": True, "_size": size(large["rows"])}},
        "small": 1,
    }


def test_the_size_of_an_object_is_measured_after_masking() -> None:
    parts = {f"part{number}": "y" * 1_000 for number in range(20)}

    assert sanitized(parts) == {"_truncated": True, "_size": size(parts)}
    assert sanitized({"secret": LARGE, "n": 1}) == {"secret": "***", "n": 1}


def test_a_value_of_exactly_the_limit_is_kept() -> None:
    text = "x" * (VALUE_BYTES_MAX - 2)

    assert sanitized({"a": text + "x"}) == {"a": {"_truncated": True, "_size": VALUE_BYTES_MAX + 1}}
    assert sanitized(text) == text


def test_a_value_nested_too_deeply_is_replaced_by_its_size() -> None:
    value: object = 1
    for _ in range(60):
        value = [value]

    result = sanitized(value)

    for _ in range(DEPTH_MAX):
        assert isinstance(result, list)
        (result,) = result
    assert result == {"_truncated": True, "_size": 60 - DEPTH_MAX + 60 - DEPTH_MAX + 1}


def test_a_context_has_a_limit_for_each_value_and_for_the_whole() -> None:
    parts = {f"part{number}": "y" * 9_000 for number in range(3)}

    result = msgspec.json.decode(
        sanitized_context(Raw(msgspec.json.encode({**parts, "long": LARGE, "_x": 1})))
    )
    many = msgspec.json.decode(
        sanitized_context(
            Raw(msgspec.json.encode({str(number): "y" * 9_000 for number in range(9)}))
        )
    )

    assert result == {**parts, "long": {"_truncated": True, "_size": len(LARGE) + 2}}
    assert many.keys() == {"_truncated", "_size"}


@given(JSON)
def test_sanitized_values_are_within_the_limit_and_contain_no_credentials(value: object) -> None:
    result = sanitized(value)

    encoded = msgspec.json.encode(result)
    assert len(encoded) <= VALUE_BYTES_MAX
    assert b"user:pw" not in encoded
    assert b"Bearer abc" not in encoded


@given(JSON)
def test_sanitizing_twice_changes_nothing(value: object) -> None:
    result = sanitized(value)

    assert sanitized(result) == result
