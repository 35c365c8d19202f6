"""Reads workflow files and inputs for commands, and spells out what is wrong with them."""

from collections.abc import Collection, Iterable
from pathlib import Path

import click
import msgspec

from windlass.core.errors import DefinitionInvalid, InputInvalid, Problem
from windlass.spec import Definition, read_definition
from windlass.spec.reading.document import read_document
from windlass.spec.reading.findings import Findings


def read_workflow(
    path: Path, handlers: Collection[str] | None = None, *, strict: bool = False
) -> tuple[Definition, list[Problem]]:
    """A file's definition and warnings, to which unknown handlers belong unless `strict`; DefinitionInvalid."""
    kind = "json" if path.suffix == ".json" else None
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DefinitionInvalid([Problem(path="", message=f"cannot be read: {error.strerror}")]) from error
    return read_definition(content, format=kind, handlers=handlers, strict=strict)


def spell(path: Path, problem: Problem) -> str:
    """One problem with its place, as compilers and editors have it: FILE:LINE:COLUMN: path: message (hint)."""
    place = f"{path}:{problem.line}:{problem.column}: " if problem.line is not None else f"{path}: "
    kind = "warning: " if problem.warning else ""
    at = f"{problem.path}: " if problem.path else ""
    hint = f" ({problem.hint})" if problem.hint else ""
    return f"{place}{kind}{at}{problem.message}{hint}"


def report(path: Path, problems: Iterable[Problem]) -> None:
    """Print problems to standard error."""
    for problem in problems:
        click.echo(spell(path, problem), err=True)


def read_input(file: Path | None, pairs: Iterable[str]) -> dict[str, object]:
    """A job's input: the file's object, and the pairs over it; InputInvalid."""
    given = _read_object(file) if file is not None else {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{pair!r} is not key=value", param_hint="-i")
        given[key] = _read_value(value)
    return given


def _read_value(text: str) -> object:
    """JSON where it is JSON, else the text itself."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _read_object(file: Path) -> dict[str, object]:
    found = Findings()
    document = read_document(file.read_bytes(), "json" if file.suffix == ".json" else None, found)
    try:
        found.report(document.find_positions)
        return msgspec.convert(document.tree, dict[str, object])
    except DefinitionInvalid as refused:
        raise InputInvalid(refused.problems) from refused
    except msgspec.ValidationError as error:
        problem = Problem(path="", message="a job's input is an object", hint="write key: value lines")
        raise InputInvalid([problem]) from error
