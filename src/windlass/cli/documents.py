"""Reads workflow files and inputs, and reports their problems."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Literal

import click
import msgspec

from windlass.core.errors import DefinitionInvalid, InputInvalid, Problem
from windlass.spec import Definition, read_definition
from windlass.spec.reading.document import read_document
from windlass.spec.reading.findings import Findings


def read_workflow(
    path: Path, handlers: Collection[str] | None = None, *, strict: bool = False
) -> tuple[Definition, list[Problem]]:
    """Return a file's definition and its warnings. Unknown handlers are warnings unless `strict`. DefinitionInvalid."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DefinitionInvalid(
            [Problem(path="", message=f"cannot read file: {error.strerror}")]
        ) from error
    return read_definition(content, format=_format(path), handlers=handlers, strict=strict)


def report_problems(path: Path, problems: Iterable[Problem]) -> None:
    """Print problems to standard error, one per line."""
    for problem in problems:
        click.echo(format_problem(path, problem), err=True)


def format_problem(path: Path, problem: Problem) -> str:
    """Return a problem as compilers print it: FILE:LINE:COLUMN: path: message (hint)."""
    text = problem.message
    if problem.path:
        text = f"{problem.path}: {text}"
    if problem.warning:
        text = f"warning: {text}"
    if problem.hint:
        text = f"{text} ({problem.hint})"
    if problem.line is None:
        return f"{path}: {text}"
    return f"{path}:{problem.line}:{problem.column}: {text}"


def read_input(file: Path | None, pairs: Iterable[str]) -> dict[str, object]:
    """Return a job's input: the object in the file, overridden by the pairs. InputInvalid."""
    values: dict[str, object] = {}
    if file is not None:
        values = _read_object(file)
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"expected KEY=VALUE: {pair!r}", param_hint="-i")
        values[key] = _parse_value(value)
    return values


def _parse_value(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _read_object(file: Path) -> dict[str, object]:
    findings = Findings()
    document = read_document(file.read_bytes(), _format(file), findings)
    try:
        findings.report(document.find_positions)
        return msgspec.convert(document.tree, dict[str, object])
    except DefinitionInvalid as error:
        raise InputInvalid(error.problems) from error
    except msgspec.ValidationError as error:
        problem = Problem(path="", message="input is not an object", hint="write key: value lines")
        raise InputInvalid([problem]) from error


def _format(path: Path) -> Literal["json"] | None:
    if path.suffix == ".json":
        return "json"
    return None
