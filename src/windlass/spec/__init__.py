"""Workflow documents: texts to checked definitions, definitions to plans."""

from collections.abc import Collection

from windlass.core.errors import Problem
from windlass.spec.check import check_tree
from windlass.spec.collector import collections_paused
from windlass.spec.compile import compile_plan, definition_from_json, definition_json, digest
from windlass.spec.document import definition_text
from windlass.spec.findings import Findings
from windlass.spec.inputs import check_input
from windlass.spec.model import Definition
from windlass.spec.reader import Format, read_document, read_value

__all__ = [
    "Definition",
    "check_input",
    "compile_plan",
    "definition_from_json",
    "definition_json",
    "definition_text",
    "digest",
    "read_definition",
]


def read_definition(
    text: str | bytes | dict[str, object],
    *,
    format: Format | None = None,
    handlers: Collection[str] | None = None,
    strict: bool = False,
) -> tuple[Definition, list[Problem]]:
    """A checked definition and the warnings about it; DefinitionInvalid has everything that is wrong.

    An unknown handler is a warning, since a worker may register it later, unless `strict`.
    """
    found = Findings()
    with collections_paused():
        document = read_value(text, found) if isinstance(text, dict) else read_document(text, format, found)
        definition = None if found.refused else check_tree(document.tree, found, handlers, strict)
        # Nothing to look through for the collector, which starts again with all that is there.
        document.tree = None
    problems = found.settle(document.locate)
    assert definition is not None, "a definition without problems exists"
    return definition, problems
