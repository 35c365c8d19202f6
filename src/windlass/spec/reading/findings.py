"""Collect all problems of a document while it is read, up to a limit."""

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from msgspec import Struct

from windlass.core.errors import DefinitionInvalid, Problem
from windlass.core.templates.json_values import nearest

PROBLEMS_MAX = 100
KEYS_IN_HINT_MAX = 20
# Comparing names is slow.
SUGGESTIONS_MAX = 25

Path = tuple[str | int, ...]
# A path, and whether the key is meant (True) or its value (False).
Target = tuple[Path, bool]


class Unreadable(Exception):
    """A text or a value in it cannot be used; the reason is among the findings."""


class OtherFormat(Unreadable):
    """A text is not written in the expected format."""


class Position(Struct, frozen=True):
    """A line and a column of a text, both counted from 1."""

    line: int | None
    column: int | None


NO_POSITION = Position(None, None)

FindPositions = Callable[[frozenset[Target]], Mapping[Target, Position]]


class Finding(Struct, frozen=True):
    """A problem whose position in the text may not be known yet."""

    path: Path
    message: str
    hint: str | None = None
    # The problem is with the key, not with its value.
    at_key: bool = False
    warning: bool = False
    position: Position | None = None


def format_path(path: Path) -> str:
    """Format a path as in `nodes.fetch.retry` or `nodes[3].handler`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}"
    return text.removeprefix(".")


class Findings:
    """The errors and warnings found so far."""

    def __init__(self) -> None:
        self._errors: list[Finding] = []
        self._warnings: list[Finding] = []
        self._omitted = 0
        self._suggestions = 0

    def add(
        self,
        path: Path,
        message: str,
        hint: str,
        *,
        at_key: bool = False,
        position: Position | None = None,
    ) -> None:
        """Record an error. The document will be rejected."""
        if len(self._errors) == PROBLEMS_MAX:
            self._omitted += 1
            return
        self._errors.append(Finding(path, message, hint, at_key, position=position))

    def reject(
        self,
        path: Path,
        message: str,
        hint: str,
        *,
        at_key: bool = False,
        position: Position | None = None,
    ) -> NoReturn:
        """Record an error and raise Unreadable, because there is no value to continue with."""
        self.add(path, message, hint, at_key=at_key, position=position)
        raise Unreadable

    def stop_if_more_than(self, count: int) -> None:
        """Raise Unreadable if errors were added since there were `count`."""
        if self.count > count:
            raise Unreadable

    def warn(self, path: Path, message: str, hint: str, *, at_key: bool = False) -> None:
        """Record a warning. The document remains valid."""
        if len(self._warnings) < PROBLEMS_MAX:
            self._warnings.append(Finding(path, message, hint, at_key, warning=True))

    def suggest(self, name: str, known: Sequence[str], otherwise: str) -> str:
        """Return a hint for an unknown name: the most similar known name, or `otherwise`."""
        self._suggestions += 1
        if self._suggestions > SUGGESTIONS_MAX:
            return otherwise
        similar = nearest(name, known)
        if similar is None:
            return otherwise
        return f"did you mean '{similar}'?"

    def add_unknown_key(
        self, path: Path, known: Sequence[str], synonyms: Mapping[str, str] | None = None
    ) -> None:
        """Record an unknown key, the last part of `path`. `synonyms` maps keys of other systems to known keys."""
        key = str(path[-1])
        if synonyms and key in synonyms:
            hint = f"did you mean '{synonyms[key]}'?"
        elif not known:
            hint = "remove it"
        else:
            hint = self.suggest(key, known, f"known keys: {', '.join(known[:KEYS_IN_HINT_MAX])}")
        self.add(path, f"unknown key: '{key}'", hint, at_key=True)

    def add_duplicate_key(self, path: Path, first: Position | None, second: Position) -> None:
        """Record a key that an object has twice, the last part of `path`."""
        message = f"duplicate key: '{path[-1]}'"
        if first is not None:
            message += f", first used in line {first.line}, column {first.column}"
        self.add(path, message, "remove one of the two", position=second)

    def replace(self, other: "Findings") -> None:
        """Replace these findings with those of another reading."""
        self._errors, self._warnings, self._omitted = other._errors, other._warnings, other._omitted

    @property
    def count(self) -> int:
        """The number of errors."""
        return len(self._errors) + self._omitted

    @property
    def has_errors(self) -> bool:
        """Whether there is any error."""
        return bool(self._errors)

    def report(self, find_positions: FindPositions) -> list[Problem]:
        """Return the warnings with their positions. Raise DefinitionInvalid with all problems if there are errors."""
        findings = [*self._errors, *self._warnings]
        positions: Mapping[Target, Position] = {}
        if findings:
            positions = find_positions(_targets(findings))
        problems = [_problem(finding, positions) for finding in findings]
        if not self._errors:
            return problems
        problems.sort(key=lambda problem: (problem.line or 0, problem.column or 0))
        if self._omitted:
            message = f"{self._omitted} more problems"
            problems.append(Problem(path="", message=message, hint="fix the errors above first"))
        raise DefinitionInvalid(problems)


def _targets(findings: Sequence[Finding]) -> frozenset[Target]:
    """Return everything that can give a finding its position: its path, and the paths that contain it."""
    targets: set[Target] = set()
    for finding in findings:
        if finding.position is None:
            for length in range(len(finding.path) + 1):
                targets.add((finding.path[:length], True))
                targets.add((finding.path[:length], False))
    return frozenset(targets)


def _problem(finding: Finding, positions: Mapping[Target, Position]) -> Problem:
    position = finding.position or _nearest_position(finding, positions)
    return Problem(
        path=format_path(finding.path),
        message=finding.message,
        hint=finding.hint,
        line=position.line,
        column=position.column,
        warning=finding.warning,
    )


def _nearest_position(finding: Finding, positions: Mapping[Target, Position]) -> Position:
    """Return the position of a finding, or of the innermost value that should contain it."""
    exact = positions.get((finding.path, finding.at_key))
    if exact is not None:
        return exact
    for length in range(len(finding.path), -1, -1):
        outer = finding.path[:length]
        position = positions.get((outer, False)) or positions.get((outer, True))
        if position is not None:
            return position
    return NO_POSITION
