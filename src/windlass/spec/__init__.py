"""Workflow documents: from texts to checked definitions, and from definitions to plans."""

from collections.abc import Collection

from windlass.core.errors import Problem
from windlass.spec.checks.inputs import check_input
from windlass.spec.compile import compile_plan
from windlass.spec.definition import Definition
from windlass.spec.reading.document import Format, read_document
from windlass.spec.reading.findings import Findings
from windlass.spec.reading.gc_pause import gc_paused
from windlass.spec.stored_form import definition_from_json, definition_json, digest
from windlass.spec.workflow import build_definition
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
    """Return the checked definition and the warnings about it. Raise DefinitionInvalid with all errors.

    An unknown handler is a warning, because a worker may register it later; with `strict` it is an error.
    """
    findings = Findings()
    definition = None
    with gc_paused():
        document = read_document(text, format, findings)
        if not findings.has_errors:
            definition = build_definition(document.tree, findings, handlers, strict)
        # Free the tree before the collector runs again and scans it.
        document.tree = None
    warnings = findings.report(document.find_positions)
    assert definition is not None, "there are no errors, so there is a definition"
    return definition, warnings
