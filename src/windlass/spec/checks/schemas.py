"""JSON Schemas of inputs: which are accepted, and how their validators are made."""

from collections.abc import Mapping
from typing import Any

import jsonschema_rs
import msgspec

from windlass.spec.reading.trees import depth_over, is_array, is_object

SCHEMA_BYTES_MAX = 256 << 10
SCHEMA_DEPTH_MAX = 32
REGEX_BYTES_MAX = 1 << 20
MESSAGE_MAX = 300


def make_validator(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """A validator that reaches out for nothing and matches patterns in linear time; ValueError says what is wrong."""
    return jsonschema_rs.validator_for(
        dict(schema),
        offline=True,
        validate_formats=False,
        pattern_options=jsonschema_rs.RegexOptions(size_limit=REGEX_BYTES_MAX, dfa_size_limit=REGEX_BYTES_MAX),
    )


def schema_fault(schema: Mapping[str, Any]) -> str | None:
    """Why a schema cannot be used, or None."""
    if depth_over(schema, SCHEMA_DEPTH_MAX):
        return f"it is nested deeper than {SCHEMA_DEPTH_MAX} levels"
    if len(msgspec.json.encode(schema)) > SCHEMA_BYTES_MAX:
        return f"it has more than {SCHEMA_BYTES_MAX} bytes"
    remote = _remote_reference(schema)
    if remote is not None:
        return f"$ref may only point into the schema itself (#/…), not to {remote[:MESSAGE_MAX]}"
    declared = schema.get("type", "object")
    if declared != "object":
        return f"the input of a job is an object, so its type cannot be {declared!r}"[:MESSAGE_MAX]
    try:
        make_validator(schema)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        return str(error).split("\n")[0][:MESSAGE_MAX]
    return None


def _remote_reference(schema: object) -> str | None:
    stack = [schema]
    while stack:
        here = stack.pop()
        if is_object(here):
            held = here
            for key in ("$ref", "$dynamicRef", "$schema", "$id"):
                target = held.get(key)
                if isinstance(target, str) and key != "$schema" and not target.startswith("#"):
                    return target
            stack.extend(held.values())
        elif is_array(here):
            stack.extend(here)
    return None
