"""Check the input of a job against the schema of its workflow, and fill in the defaults."""

from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from windlass.core.errors import InputInvalid, Problem
from windlass.core.json_length import is_longer_than
from windlass.spec.checks.schemas import MESSAGE_MAX, make_validator
from windlass.spec.reading.findings import format_path
from windlass.spec.reading.trees import depth_over, integer_over, is_array, is_object

if TYPE_CHECKING:
    import jsonschema_rs

INPUT_BYTES_MAX = 1 << 20
INPUT_DEPTH_MAX = 64
INPUT_INTEGER_MAX = (1 << 63) - 1
INPUT_PROBLEMS_MAX = 50
VALIDATORS_KEPT = 256
_FLAT_TYPES = frozenset({str, float, bool, type(None)})


@lru_cache(maxsize=VALIDATORS_KEPT)
def _load_schema(schema: bytes) -> "tuple[dict[str, Any], jsonschema_rs.Validator]":
    decoded = msgspec.json.decode(schema, type=dict[str, Any])
    return decoded, make_validator(decoded)


def check_input(schema: Raw | None, value: object) -> Raw:
    """Return the input with its defaults as JSON. Raise InputInvalid with all problems."""
    if not is_object(value):
        raise _invalid(
            f"the input must be a JSON object: {type(value).__name__}", 'send {"key": …}'
        )
    if not _is_within_limits(value):
        _check_limits(value)
    if schema is None:
        return _encode(value)
    decoded_schema, validator = _load_schema(bytes(schema))
    encoded = _encode(fill_defaults(decoded_schema, value))
    # The encoder turns dates and sets into JSON; the schema applies to the result.
    errors = validator.iter_errors(msgspec.json.decode(encoded))
    problems = [_problem(error) for error in islice(errors, INPUT_PROBLEMS_MAX)]
    if problems:
        raise InputInvalid(problems)
    return encoded


def _problem(error: "jsonschema_rs.ValidationError") -> Problem:
    path = format_path(tuple(error.instance_path))
    return Problem(
        path=path, message=error.message[:MESSAGE_MAX], hint="see the workflow's `input`"
    )


def encode_schema(schema: dict[str, Any] | None) -> Raw | None:
    """Encode a schema as `check_input` takes it: equal schemas have equal bytes."""
    if schema is None:
        return None
    return Raw(msgspec.json.encode(schema, order="deterministic"))


def _invalid(message: str, hint: str) -> InputInvalid:
    return InputInvalid([Problem(path="", message=message, hint=hint)])


def _is_within_limits(value: dict[str, object]) -> bool:
    """Return True for flat inputs without large integers. Most inputs are, and this check is fast."""
    for item in value.values():
        kind = type(item)
        if kind is int:
            if not -INPUT_INTEGER_MAX <= item <= INPUT_INTEGER_MAX:  # pyright: ignore[reportOperatorIssue]
                return False
        elif kind not in _FLAT_TYPES:
            return False
    return True


def _check_limits(value: dict[str, object]) -> None:
    if depth_over(value, INPUT_DEPTH_MAX):
        raise _invalid(f"input nested deeper than {INPUT_DEPTH_MAX} levels", "flatten it")
    large = integer_over(value, INPUT_INTEGER_MAX)
    if large is not None:
        raise _invalid(
            f"integer over 64 bits in the input: {str(large)[:40]}", "send it as a string"
        )


def fill_defaults(schema: object, value: object) -> object:
    """Return the value with the defaults of missing keys, also in nested objects and in lists of objects."""
    if not is_object(schema):
        return value
    if is_object(value):
        return _fill_object(schema.get("properties"), value)
    if is_array(value) and is_object(schema.get("items")):
        return [fill_defaults(schema["items"], item) for item in value]
    return value


def _fill_object(properties: object, value: dict[str, object]) -> dict[str, object]:
    filled = dict(value)
    if not is_object(properties):
        return filled
    for key, schema in properties.items():
        if key in filled:
            filled[key] = fill_defaults(schema, filled[key])
        elif is_object(schema) and "default" in schema:
            filled[key] = fill_defaults(schema, schema["default"])
    return filled


def _encode(value: object) -> Raw:
    if is_longer_than(value, INPUT_BYTES_MAX):
        raise _too_large(f"more than {INPUT_BYTES_MAX} bytes")
    try:
        encoded = msgspec.json.encode(value)
    except (UnicodeEncodeError, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise _invalid(f"the input is not JSON: {error}", "use plain JSON values") from None
    if len(encoded) > INPUT_BYTES_MAX:
        raise _too_large(f"{len(encoded)} bytes, limit {INPUT_BYTES_MAX}")
    return Raw(encoded)


def _too_large(size: str) -> InputInvalid:
    return _invalid(f"input too large: {size}", "pass a reference to large data")
