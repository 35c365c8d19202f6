"""Workflow documents: texts to checked definitions, definitions to plans."""

from collections.abc import Collection

from windlass.core.errors import Problem
from windlass.spec.checks.inputs import check_input
from windlass.spec.compile import compile_plan, definition_from_json, definition_json, digest
from windlass.spec.definition import Definition
from windlass.spec.reading.document import Format, read_document, read_value
from windlass.spec.reading.findings import Findings
from windlass.spec.reading.gc_pause import collections_paused
from windlass.spec.workflow import check_tree
from windlass.spec.yaml_writer import definition_text

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
    findings = Findings()
    with collections_paused():
        document = read_value(text, findings) if isinstance(text, dict) else read_document(text, format, findings)
        definition = None if findings.refused else check_tree(document.tree, findings, handlers, strict)
        # Nothing to look through for the collector, which starts again with all that is there.
        document.tree = None
    problems = findings.settle(document.locate)
    assert definition is not None, "a definition without problems exists"
    return definition, problems
