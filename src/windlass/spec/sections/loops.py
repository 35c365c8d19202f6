"""Loops of a document: their keys, the names they bring, and the element that inline Python asks for by its name."""

import ast
import re
from collections.abc import Mapping
from typing import Any

from windlass.core.templates.json_values import kind_of, shown
from windlass.core.templates.template import Template, compile_template, is_template
from windlass.spec.definition import DEFAULT_ELEMENT, Loop
from windlass.spec.reading.findings import Findings, Path
from windlass.spec.reading.trees import is_array, is_object
from windlass.spec.sections.fields import (
    DAY_SECONDS,
    NAME,
    Section,
    choice,
    duration,
    matching,
    read_section,
    template,
    whole,
)

CONCURRENCY_MAX = 10_000
CONCURRENCY_OF_ASYNC = 10
CHUNK_MAX = 100_000
# Reading code takes a microsecond a character.
CODE_CHARS_MAX = 200_000

# Names that mean something else somewhere in a template.
RESERVED = frozenset({"input", "workload", "job", "nodes", "secrets", "error", "attempt", "response", "index", "loop"})
_WORDS = frozenset({"true", "false", "none", "True", "False", "None", "not", "and", "or", "is", "in", "if", "else"})
# What a lone expression begins and ends with; around it there may be comments.
_BEGINS, _ENDS = ("{{", "{#"), ("}}", "#}")
_NAME_RULE = "use 1 to 64 letters, digits and _, and no digit first"
_ENTRY = "main"
_ESCAPE = re.compile(r"\\N\{[^}\n]*\}|\\[^\r\n]")


def collection(findings: Findings, path: Path, value: object) -> Template | None:
    """A list, or a template that can give one."""
    if is_array(value):
        return template(findings, path, value)
    if isinstance(value, str) and is_template(value):
        alone = value.strip()
        if alone.startswith(_BEGINS) and alone.endswith(_ENDS):
            return template(findings, path, value)
        message = f"the collection {shown(value)} has text around its template, so it is text and no list"
        findings.add(path, message, "keep only {{ … }}")
        return None
    what = shown(value) if isinstance(value, str) else kind_of(value)
    hint = 'write a list, or a template that gives one, as in "{{ input.users }}"'
    findings.add(path, f"a collection is a list, not {what}", hint)
    return None


def element(findings: Findings, path: Path, value: object) -> str | None:
    """The name under which templates read the element."""
    if isinstance(value, str) and value in RESERVED | _WORDS:
        message = f"an element cannot be called '{value}': that word means something else in templates"
        findings.add(path, message, f"choose another name, as in element: {DEFAULT_ELEMENT}")
        return None
    return matching(NAME, "name for an element", _NAME_RULE)(findings, path, value)


_LOOP = Section(
    {
        "collection": collection,
        "element": element,
        "mode": choice("async", "sequential"),
        "concurrency": whole(1, CONCURRENCY_MAX),
        "chunk_size": whole(1, CHUNK_MAX),
        "on_failure": choice("fail", "continue"),
        "timeout_seconds": duration(0.001, 365 * DAY_SECONDS),
    },
    ("collection",),
    {
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


def loop(findings: Findings, path: Path, value: object) -> Loop | None:
    """One task for each element. A concurrency asks for the async mode, and that mode for a concurrency."""
    read = read_section(findings, path, value, _LOOP)
    if read is None:
        return None
    concurrency: int | None = read.get("concurrency")
    mode: str = read.setdefault("mode", "async" if (concurrency or 1) > 1 else "sequential")
    if mode == "sequential" and (concurrency or 1) > 1:
        message = f"a sequential loop runs one element at a time, not {concurrency}"
        findings.add((*path, "concurrency"), message, "write mode: async, or remove concurrency")
        return None
    read.setdefault("concurrency", CONCURRENCY_OF_ASYNC if mode == "async" else 1)
    return Loop(**read)


class Elements:
    """Checks the loops of a whole workflow against each other's names, within one allowance of code to read."""

    def __init__(self, findings: Findings, node_ids: Mapping[str, object]) -> None:
        self._found = findings
        self._node_ids = node_ids
        self._chars_left = CODE_CHARS_MAX

    def settle(self, path: Path, values: dict[str, Any]) -> None:
        """Note an element that hides a node, and give inline Python the element that its `main` asks for."""
        looping: Loop = values["loop"]
        if looping.element in self._node_ids:
            message = f"the element '{looping.element}' has the name of a node, which templates could not read any more"
            self._found.add((*path, "loop", "element"), message, "choose another name, as in element: one")
        params: Template | None = values.get("params")
        if values.get("handler") != "python" or params is None or not is_object(params.source):
            return
        given = params.source
        code = given.get("code")
        if not isinstance(code, str) or is_template(code):
            return
        missing = [name for name in (looping.element, "index") if name not in given and name in code]
        if not missing or not self._may_read(path, looping.element, code):
            return
        asked = parameters_of(code)
        added = {name: f"{{{{ {name} }}}}" for name in missing if name in asked}
        if added:
            values["params"] = compile_template({**given, **added})

    def _may_read(self, path: Path, name: str, code: str) -> bool:
        self._chars_left -= len(code)
        if self._chars_left >= 0:
            return True
        message = f"the code inside loops has more than {CODE_CHARS_MAX} characters, too many to look for '{name}' in"
        hint = f"give it in params: {name}: \"{{{{ {name} }}}}\"; or use 'call' and a module"
        self._found.add((*path, "loop"), message, hint, at_key=True)
        return False


def parameters_of(code: str) -> frozenset[str]:
    """The parameters of `main` that can be given by name; none when the code cannot be read."""
    try:
        # What strings say does not matter here, and an unknown escape in one would make the parser warn.
        body = ast.parse(_ESCAPE.sub("__", code)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    mains = [node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == _ENTRY]
    if not mains:
        return frozenset()
    taken = mains[-1].args
    return frozenset(argument.arg for argument in (*taken.args, *taken.kwonlyargs))
