"""Outputs that are not JSON are rejected wherever the invalid value is, and no others."""

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from windlass.worker.outcomes import OutputInvalid, encode_json, place_of_fault

KEYS = st.sampled_from(["a", "1", "-1", ".5", "null", "{", ","]) | st.text(max_size=3)
LEAVES = (
    st.none()
    | st.booleans()
    | st.text(max_size=5)
    | st.floats()
    | st.sampled_from(
        [
            0,
            -(2**63),
            2**64 - 1,
            2**64,
            -(2**63) - 1,
            10**18,
            10**19,
            1.5,
            "1234567890123456789",
            "null",
        ]
    )
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS | st.integers(-9, 9), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES)
@example({-1: 0})
@example({"a": 0, 5: 0})
@example(2**64)
def test_exactly_the_outputs_with_a_fault_are_rejected(value: Any) -> None:
    try:
        encode_json(value, "it holds", 1 << 20)
        refusal = ""
    except OutputInvalid as refused:
        refusal = str(refused)

    fault = place_of_fault(value)
    assert bool(refusal) == bool(fault)
    assert fault in refusal


@pytest.mark.parametrize("fault", [math.nan, -math.inf, {1: 2}, 2**64])
def test_a_fault_at_the_end_of_a_large_output_is_found(fault: Any) -> None:
    value = {
        "rows": [{"id": number, "name": None, "parts": [number, 0.5]} for number in range(10_000)],
        "last": [fault],
    }

    with pytest.raises(OutputInvalid, match=r"\$\.last\[0\]"):
        encode_json(value, "it holds", 1 << 30)


def test_an_output_that_repeats_a_large_part_is_rejected_before_it_is_encoded() -> None:
    row = {"text": "x" * 10_000}

    # Its JSON would have ten terabytes.
    with pytest.raises(OutputInvalid, match=r"more than 1048576 bytes, .*; store less"):
        encode_json([[row] * 1_000_000] * 1_000, "it holds", 1 << 20)
