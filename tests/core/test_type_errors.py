"""Values that do not have their declared type are described in plain words."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, Struct

from windlass.core.jobs import JobSelection
from windlass.core.submit_request import SubmitRequest
from windlass.core.type_errors import problem_of


class Item(Struct, forbid_unknown_fields=True):
    size: Annotated[int, Meta(ge=1)] = 1
    ratio: Annotated[float, Meta(le=1.5)] = 1.0
    mode: Literal["fast", "safe"] = "fast"
    code: Annotated[str, Meta(pattern=r"^[a-z]{2}\Z")] = "aa"
    name: Annotated[str, Meta(max_length=3)] = ""
    is_open: bool = False


class Order(Struct, forbid_unknown_fields=True):
    id: str
    items: list[Item] | None = None
    labels: dict[str, str] = {}


def problem(value: object, expected: Any) -> str:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(value, expected)
    return str(problem_of(raised.value, expected))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "id: missing field: 'id' (add 'id')"),
        ({"id": "1", "itms": []}, "itms: unknown field: 'itms' (did you mean 'items'?)"),
        ({"id": "1", "zz": 1}, "zz: unknown field: 'zz' (known fields: id, items, labels)"),
        ({"id": 1}, "id: expected text"),
        ({"id": "1", "items": 1}, "items: expected a list"),
        ({"id": "1", "labels": {"a": 1}}, "labels[...]: expected text"),
        ({"id": "1", "items": [{}, {"size": 0}]}, "items[1].size: expected an integer of at least 1"),
        ({"id": "1", "items": [{"ratio": 2}]}, "items[0].ratio: expected a number of at most 1.5"),
        ({"id": "1", "items": [{"mode": "slow"}]}, "items[0].mode: expected one of fast, safe"),
        ({"id": "1", "items": [{"code": "A"}]}, "items[0].code: expected text that matches [a-z]{2}"),
        ({"id": "1", "items": [{"name": "long"}]}, "items[0].name: expected text of at most 3 characters"),
        ({"id": "1", "items": [{"is_open": 1}]}, "items[0].is_open: expected true or false"),
        ({"id": "1", "items": [{"siz": 1}]}, "items[0].siz: unknown field: 'siz' (did you mean 'size'?)"),
        ([], "expected an object"),
    ],
)  # fmt: skip
def test_a_problem_names_the_place_and_what_is_expected(value: object, text: str) -> None:
    assert problem(value, Order) == text


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("workflow_id", "a b", "1 to 128 letters, digits, _ and -"),
        ("version", 0, "an integer from 1 to 999,999,999 or 1 to 128 letters, digits, _ and -"),
        ("idempotency_key", "a b", "1 to 255 printable ASCII characters without blanks"),
        ("scheduled_at", "yesterday", "an instant with an offset, such as 2026-05-01T00:00:00Z"),
        ("priority", 5_000, "an integer from -1,000 to 1,000"),
    ],
)
def test_the_fields_of_a_request_describe_themselves(
    field: str, value: object, expected: str
) -> None:
    request = {"workflow_id": "w", field: value}

    assert problem(request, SubmitRequest) == f"{field}: expected {expected}"


def test_the_values_of_an_enumeration_are_listed() -> None:
    assert problem({"status": "done"}, JobSelection) == (
        "status: expected one of pending, running, completed, failed, cancelled"
    )
