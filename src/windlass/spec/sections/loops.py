"""The `loop` section of a node, the names it defines, and the element that inline Python code asks for by name."""

import ast
import re
from collections.abc import Mapping
from typing import Any

from windlass.core.durations import DAY_SECONDS
from windlass.core.plan import DEFAULT_ELEMENT, LoopPlan
from windlass.core.templates.json_values import shown
from windlass.core.templates.template import Template, compile_template, is_template
from windlass.spec.reading.findings import Findings, Path
from windlass.spec.reading.trees import is_array, is_object
from windlass.spec.sections.fields import (
    NAME,
    Section,
    build,
    choice,
    duration,
    integer,
    is_text_template,
    matching,
    number,
    read_expression,
    read_section,
    read_template,
)

CONCURRENCY_MAX = 10_000
ASYNC_CONCURRENCY = 10
CHUNK_MAX = 100_000
FAILED_MAX = 1_000_000_000
# Parsing Python code takes about a quarter of a microsecond per character (timeit of ast.parse).
CODE_CHARS_MAX = 200_000

# Names with a fixed meaning in some template.
RESERVED = frozenset(
    {
        "input",
        "workload",
        "job",
        "nodes",
        "parents",
        "secrets",
        "error",
        "attempt",
        "response",
        "index",
        "loop",
    }
)
_KEYWORDS = frozenset(
    {"true", "false", "none", "True", "False", "None", "not", "and", "or", "is", "in", "if", "else"}
)
_NOT_ELEMENTS = RESERVED | _KEYWORDS
# A single expression, possibly with comments around it, starts and ends with these.
_ONLY_EXPRESSION = re.compile(r"\s*\{[{#].*[}#]\}\s*", re.DOTALL)
_NAME_RULE = "use 1 to 64 letters, digits and _, not starting with a digit"
_ENTRY_FUNCTION = "main"
_ESCAPE = re.compile(r"\\N\{[^}\n]*\}|\\[^\r\n]")


def read_collection(findings: Findings, path: Path, value: object) -> Template:
    """Read a list, or a template that can evaluate to one."""
    if is_array(value):
        return read_template(findings, path, value)
    if not is_text_template(value):
        hint = 'write a list, or a template for one, as in "{{ input.users }}"'
        findings.reject(path, f"a collection must be a list: {shown(value)}", hint)
    if not _ONLY_EXPRESSION.fullmatch(value):
        message = f"text around the template makes the collection a string: {shown(value)}"
        findings.reject(path, message, "keep only {{ … }}")
    return read_expression(findings, path, value)


_read_name = matching(NAME, "element name", _NAME_RULE)


def read_element(findings: Findings, path: Path, value: object) -> str:
    """Read the name under which templates read the element."""
    name = _read_name(findings, path, value)
    if name in _NOT_ELEMENTS:
        hint = f"choose another name, as in element: {DEFAULT_ELEMENT}"
        findings.reject(path, f"reserved name: '{name}' has another meaning in templates", hint)
    return name


LOOP = Section(
    {
        "collection": read_collection,
        "element": read_element,
        "mode": choice("async", "sequential"),
        "concurrency": integer(1, CONCURRENCY_MAX),
        "chunk_size": integer(1, CHUNK_MAX),
        "on_failure": choice("fail", "continue"),
        "max_failed": integer(0, FAILED_MAX),
        "max_failure_rate": number(0, 1),
        "timeout_seconds": duration(0.001, 365 * DAY_SECONDS),
    },
    required=("collection",),
    synonyms={
        "items": "collection",
        "in": "collection",
        "over": "collection",
        "as": "element",
        "iterator": "element",
        "variable": "element",
        "parallel": "concurrency",
        "max_concurrency": "concurrency",
        "workers": "concurrency",
        "batch_size": "chunk_size",
        "timeout": "timeout_seconds",
    },
)


def read_loop(findings: Findings, path: Path, value: object) -> LoopPlan:
    """Read a loop. A concurrency above 1 implies the async mode, and that mode has a default concurrency."""
    fields = read_section(findings, path, value, LOOP)
    concurrency: int = fields.get("concurrency", 1)
    if concurrency > 1:
        fields.setdefault("mode", "async")
    mode: str = fields.setdefault("mode", "sequential")
    if mode == "async":
        fields.setdefault("concurrency", ASYNC_CONCURRENCY)
    elif concurrency > 1:
        message = f"a sequential loop runs one element at a time: concurrency {concurrency}"
        findings.reject((*path, "concurrency"), message, "write mode: async, or remove concurrency")
    fields["tolerant"] = fields.pop("on_failure", "fail") == "continue"
    bound = next((key for key in ("max_failed", "max_failure_rate") if key in fields), None)
    if bound is not None and not fields["tolerant"]:
        message = f"{bound} has no effect: the first failed iteration fails the loop"
        findings.reject((*path, bound), message, f"write on_failure: continue, or remove {bound}")
    return build(LoopPlan, fields)


class LoopElements:
    """Checks the element names of all loops, and passes the element to inline code that has a parameter for it."""

    def __init__(self, findings: Findings, node_ids: Mapping[str, object]) -> None:
        self._findings = findings
        self._node_ids = node_ids
        self._chars_left = CODE_CHARS_MAX

    def check(self, path: Path, values: dict[str, Any]) -> None:
        """Check one loop node, and add the parameters of its code to its params."""
        loop: LoopPlan = values["loop"]
        if loop.element in self._node_ids:
            message = f"element has the name of a node: '{loop.element}' would hide it in templates"
            self._findings.add(
                (*path, "loop", "element"), message, "choose another name, as in element: one"
            )
        params: Template | None = values.get("params")
        if values.get("handler") == "python" and params is not None and is_object(params.source):
            added = self._find_parameters(path, loop.element, params.source)
            if added:
                values["params"] = compile_template({**params.source, **added})

    def _find_parameters(
        self, path: Path, element: str, given: dict[str, object]
    ) -> dict[str, str]:
        """Return templates for the parameters of inline code that the params do not give."""
        code = given.get("code")
        if not isinstance(code, str) or is_template(code):
            return {}
        # Most code names neither and need not be parsed.
        candidates = {name for name in (element, "index") if name in code} - given.keys()
        if not candidates:
            return {}
        self._chars_left -= len(code)
        if self._chars_left < 0:
            message = f"too much code in loops: more than {CODE_CHARS_MAX} characters to search for '{element}'"
            hint = f"add {element}: \"{{{{ {element} }}}}\" to params, or move the code to a module and use 'call'"
            self._findings.add((*path, "loop"), message, hint, at_key=True)
            return {}
        return {name: f"{{{{ {name} }}}}" for name in sorted(candidates & parameters_of(code))}


def parameters_of(code: str) -> frozenset[str]:
    """Return the parameters of `main` that can be passed by name; none if the code cannot be parsed."""
    try:
        # The content of strings does not matter, and the parser warns about unknown escapes.
        body = ast.parse(_ESCAPE.sub("__", code)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    functions = {
        node.name: node.args
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    arguments = functions.get(_ENTRY_FUNCTION)
    if arguments is None:
        return frozenset()
    return frozenset(argument.arg for argument in (*arguments.args, *arguments.kwonlyargs))
