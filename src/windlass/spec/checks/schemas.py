"""JSON Schemas of inputs: restrictions on schemas, and validators."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.spec.reading.trees import depth_over, walk

if TYPE_CHECKING:
    import jsonschema_rs

SCHEMA_BYTES_MAX = 256 << 10
SCHEMA_DEPTH_MAX = 32
REGEX_BYTES_MAX = 1 << 20
MESSAGE_MAX = 300
_REFERENCES = (("$ref",), ("$dynamicRef",), ("$id",))


def make_validator(schema: Mapping[str, Any]) -> "jsonschema_rs.Validator":
    """Return a validator without network access and with linear-time patterns. Raise ValueError for invalid schemas."""
    # Takes 20 ms, and most workflows have no schema.
    import jsonschema_rs

    return jsonschema_rs.validator_for(
        dict(schema),
        offline=True,
        validate_formats=False,
        pattern_options=jsonschema_rs.RegexOptions(
            size_limit=REGEX_BYTES_MAX, dfa_size_limit=REGEX_BYTES_MAX
        ),
    )


def find_schema_error(schema: Mapping[str, Any]) -> str | None:
    """Return why a schema cannot be used; None if it can."""
    if depth_over(schema, SCHEMA_DEPTH_MAX):
        return f"nested deeper than {SCHEMA_DEPTH_MAX} levels"
    if len(msgspec.json.encode(schema)) > SCHEMA_BYTES_MAX:
        return f"larger than {SCHEMA_BYTES_MAX} bytes"
    remote = _remote_reference(schema)
    if remote is not None:
        return f"references outside the schema are not allowed: {remote[:MESSAGE_MAX]}"
    declared = schema.get("type", "object")
    if declared != "object":
        return f"the type of an input must be 'object': {declared!r}"[:MESSAGE_MAX]
    # As above.
    from jsonschema_rs import ReferencingError

    try:
        make_validator(schema)
    except (ValueError, ReferencingError) as error:
        return str(error).split("\n")[0][:MESSAGE_MAX]
    return None


def _remote_reference(schema: object) -> str | None:
    """Return a reference that does not point into the schema itself."""
    for path, value in walk(schema):
        if path[-1:] in _REFERENCES and isinstance(value, str) and not value.startswith("#"):
            return value
    return None
