"""The `loop` section of a node, the names it defines, and the element that inline Python code asks for by name."""

import ast
import re
from collections.abc import Mapping
from typing import Any

from windlass.core.plan import DEFAULT_ELEMENT, LoopPlan
from windlass.core.templates.json_values import kind_of, shown
from windlass.core.templates.template import Template, compile_template, is_template
from windlass.spec.reading.findings import Findings, Path
from windlass.spec.reading.trees import is_array, is_object
from windlass.spec.sections.fields import (
    DAY_SECONDS,
    NAME,
    Section,
    build,
    choice,
    duration,
    integer,
    matching,
    read_section,
    read_template,
)

CONCURRENCY_MAX = 10_000
ASYNC_CONCURRENCY = 10
CHUNK_MAX = 100_000
# Parsing Python code takes a microsecond per character.
CODE_CHARS_MAX = 200_000

# Names with a fixed meaning in some template.
RESERVED = frozenset({"input", "workload", "job", "nodes", "secrets", "error", "attempt", "response", "index", "loop"})
_KEYWORDS = frozenset({"true", "false", "none", "True", "False", "None", "not", "and", "or", "is", "in", "if", "else"})
# A single expression, possibly with comments around it, starts and ends with these.
_STARTS, _ENDS = ("{{", "{#"), ("}}", "#}")
_NAME_RULE = "use 1 to 64 letters, digits and _, not starting with a digit"
_ENTRY_FUNCTION = "main"
_ESCAPE = re.compile(r"\\N\{[^}\n]*\}|\\[^\r\n]")


def read_collection(findings: Findings, path: Path, value: object) -> Template | None:
    """Read a list, or a template that can evaluate to one."""
    if is_array(value):
        return read_template(findings, path, value)
    if not isinstance(value, str) or not is_template(value):
        actual = shown(value) if isinstance(value, str) else kind_of(value)
        hint = 'write a list, or a template for one, as in "{{ input.users }}"'
        findings.add(path, f"a collection must be a list: {actual}", hint)
        return None
    expression = value.strip()
    if not expression.startswith(_STARTS) or not expression.endswith(_ENDS):
        message = f"text around the template makes the collection a string: {shown(value)}"
        findings.add(path, message, "keep only {{ … }}")
        return None
    return read_template(findings, path, value)


_read_name = matching(NAME, "element name", _NAME_RULE)


def read_element(findings: Findings, path: Path, value: object) -> str | None:
    """Read the name under which templates read the element."""
    if isinstance(value, str) and (value in RESERVED or value in _KEYWORDS):
        hint = f"choose another name, as in element: {DEFAULT_ELEMENT}"
        findings.add(path, f"reserved name: '{value}' has another meaning in templates", hint)
        return None
    return _read_name(findings, path, value)


LOOP = Section(
    {
        "collection": read_collection,
        "element": read_element,
        "mode": choice("async", "sequential"),
        "concurrency": integer(1, CONCURRENCY_MAX),
        "chunk_size": integer(1, CHUNK_MAX),
        "on_failure": choice("fail", "continue"),
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


def read_loop(findings: Findings, path: Path, value: object) -> LoopPlan | None:
    """Read a loop. A concurrency above 1 implies the async mode, and that mode has a default concurrency."""
    fields = read_section(findings, path, value, LOOP)
    if fields is None:
        return None
    concurrency: int = fields.get("concurrency", 1)
    if "mode" not in fields:
        fields["mode"] = "async" if concurrency > 1 else "sequential"
    if fields["mode"] == "async":
        fields.setdefault("concurrency", ASYNC_CONCURRENCY)
    elif concurrency > 1:
        message = f"a sequential loop runs one element at a time: concurrency {concurrency}"
        findings.add((*path, "concurrency"), message, "write mode: async, or remove concurrency")
        return None
    fields["tolerant"] = fields.pop("on_failure", "fail") == "continue"
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
            self._findings.add((*path, "loop", "element"), message, "choose another name, as in element: one")
        params: Template | None = values.get("params")
        if values.get("handler") == "python" and params is not None and is_object(params.source):
            values["params"] = self._add_parameters(path, loop.element, params, params.source)

    def _add_parameters(self, path: Path, element: str, params: Template, given: dict[str, object]) -> Template:
        code = given.get("code")
        if not isinstance(code, str) or is_template(code):
            return params
        candidates = [name for name in (element, "index") if name not in given and name in code]
        if not candidates or not self._may_parse(path, element, code):
            return params
        parameters = parameters_of(code)
        added = {name: f"{{{{ {name} }}}}" for name in candidates if name in parameters}
        if not added:
            return params
        return compile_template({**given, **added})

    def _may_parse(self, path: Path, element: str, code: str) -> bool:
        self._chars_left -= len(code)
        if self._chars_left >= 0:
            return True
        message = f"too much code in loops: more than {CODE_CHARS_MAX} characters to search for '{element}'"
        hint = f"add {element}: \"{{{{ {element} }}}}\" to params, or move the code to a module and use 'call'"
        self._findings.add((*path, "loop"), message, hint, at_key=True)
        return False


def parameters_of(code: str) -> frozenset[str]:
    """Return the parameters of `main` that can be passed by name; none if the code cannot be parsed."""
    try:
        # The content of strings does not matter, and the parser warns about unknown escapes.
        body = ast.parse(_ESCAPE.sub("__", code)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    parameters: frozenset[str] = frozenset()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == _ENTRY_FUNCTION:
            parameters = frozenset(argument.arg for argument in (*node.args.args, *node.args.kwonlyargs))
    return parameters
