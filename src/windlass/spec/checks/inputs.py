"""Checks the input of a job against what its workflow declares, and fills in the defaults."""

from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec
from msgspec import Raw

from windlass.core.errors import InputInvalid, Problem
from windlass.spec.checks.schemas import MESSAGE_MAX, make_validator
from windlass.spec.reading.findings import written_path
from windlass.spec.reading.trees import depth_over, integer_over, is_array, is_object

INPUT_BYTES_MAX = 1 << 20
INPUT_DEPTH_MAX = 64
INPUT_INTEGER_MAX = (1 << 63) - 1
INPUT_PROBLEMS_MAX = 50
VALIDATORS_KEPT = 256
_PLAIN = frozenset({str, float, bool, type(None)})


@lru_cache(maxsize=VALIDATORS_KEPT)
def _loaded(schema: bytes) -> tuple[dict[str, Any], jsonschema_rs.Validator]:
    decoded = msgspec.json.decode(schema, type=dict[str, Any])
    return decoded, make_validator(decoded)


def check_input(plan_schema: Raw | None, value: object) -> Raw:
    """The input with defaults filled in, as JSON; InputInvalid with everything that is wrong with it."""
    if not is_object(value):
        kind = type(value).__name__
        raise InputInvalid(
            [Problem(path="", message=f"the input is a JSON object, not {kind}", hint='send {"key": …}')]
        )
    if not _is_small(value):
        _check_bounds(value)
    if plan_schema is None:
        return _encoded(value)
    schema, validator = _loaded(bytes(plan_schema))
    filled = fill(schema, value)
    encoded = _encoded(filled)
    problems: list[Problem] = []
    # What the encoder turned into JSON (dates, sets) is checked as that JSON.
    for error in validator.iter_errors(msgspec.json.decode(encoded)):
        path = written_path(tuple(error.instance_path))
        problems.append(Problem(path=path, message=error.message[:MESSAGE_MAX], hint="see the workflow's `input`"))
        if len(problems) == INPUT_PROBLEMS_MAX:
            break
    if problems:
        raise InputInvalid(problems)
    return encoded


def _is_small(value: dict[str, object]) -> bool:
    """Whether all values are plain and no integer is large: so are most inputs, and this is soon seen."""
    for item in value.values():
        kind = type(item)
        if kind is int:
            if not -INPUT_INTEGER_MAX <= item <= INPUT_INTEGER_MAX:  # pyright: ignore[reportOperatorIssue]
                return False
        elif kind not in _PLAIN:
            return False
    return True


def _check_bounds(value: dict[str, object]) -> None:
    if depth_over(value, INPUT_DEPTH_MAX):
        message = f"the input is nested deeper than {INPUT_DEPTH_MAX} levels"
        raise InputInvalid([Problem(path="", message=message, hint="flatten it")])
    if (large := integer_over(value, INPUT_INTEGER_MAX)) is not None:
        message = f"the input has the integer {str(large)[:40]}, which does not fit into 64 bits"
        raise InputInvalid([Problem(path="", message=message, hint="send it as a string")])


def fill(schema: object, value: object) -> object:
    """The value with the defaults of missing keys, in nested objects and in lists of objects too."""
    if not is_object(schema):
        return value
    rules = schema
    if is_object(value):
        made = dict(value)
        properties = rules.get("properties")
        if is_object(properties):
            for key, inner in properties.items():
                if key in made:
                    made[key] = fill(inner, made[key])
                elif is_object(inner) and "default" in inner:
                    made[key] = fill(inner, inner["default"])
        return made
    if is_array(value) and is_object(rules.get("items")):
        return [fill(rules["items"], item) for item in value]
    return value


def _encoded(value: object) -> Raw:
    try:
        encoded = msgspec.json.encode(value)
    except (UnicodeEncodeError, TypeError, ValueError, msgspec.MsgspecError) as error:
        message = f"the input is not JSON: {error}"
        raise InputInvalid([Problem(path="", message=message, hint="use plain JSON values")]) from None
    if len(encoded) > INPUT_BYTES_MAX:
        message = f"the input has {len(encoded)} bytes, over the limit of {INPUT_BYTES_MAX}"
        raise InputInvalid([Problem(path="", message=message, hint="pass a reference to large data")])
    return Raw(encoded)


def check_input_tree(schema: dict[str, Any] | None, value: object) -> Raw:
    """Like `check_input`, with the schema as it stands in a document."""
    return check_input(None if schema is None else Raw(msgspec.json.encode(schema, order="deterministic")), value)
