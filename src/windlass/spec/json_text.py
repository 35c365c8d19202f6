"""Reads JSON strictly: no key twice, no NaN, nothing deeper or larger than a workflow needs.

The standard decoder is fast but tells no places; a slow second pass finds those that problems need.
"""

import json
import re
from collections.abc import Iterator

from windlass.spec.findings import Findings, Path, Place, Unreadable
from windlass.spec.scalars import INTEGER_MAX, ScalarInvalid, integer, real
from windlass.spec.yaml_text import DEPTH_MAX

_TOKEN = re.compile(r'[\s]*(?:("(?:[^"\\]|\\.)*")|([{}\[\],:])|([^\s"{}\[\],:]+))')
_OPEN_OR_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')


class _Duplicate(Exception):
    """A key was given twice; where, only the second pass can tell."""


def read_json(text: str, found: Findings) -> object:
    """The plain tree of a JSON text; Unreadable when it can not be used, with the reason among the findings."""
    _check_depth(text, found)
    try:
        tree: object = json.loads(
            text, object_pairs_hook=_pairs, parse_constant=_constant, parse_float=real, parse_int=_integer
        )
    except json.JSONDecodeError as error:
        place = Place(error.lineno, error.colno)
        found.add((), f"this is not JSON: {error.msg}", "look at the commas, quotes and brackets here", place=place)
        raise Unreadable from None
    except ScalarInvalid as error:
        found.add((), str(error), "write it as a string", place=_number_place(text))
        raise Unreadable from None
    except _Duplicate:
        _report_duplicates(text, found)
        raise Unreadable from None
    except RecursionError:
        found.add((), f"the document is nested deeper than {DEPTH_MAX} levels", "flatten it", place=Place(1, 1))
        raise Unreadable from None
    if "\\u" in text:
        _check_strings(tree, found)
    return tree
