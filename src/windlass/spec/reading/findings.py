"""Collects everything wrong with a document while it is being read, up to a bound."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from windlass.core.errors import DefinitionInvalid, Problem
from windlass.core.templates.json_values import nearest

PROBLEMS_MAX = 100
KEYS_IN_HINT_MAX = 20
LIKENESSES_MAX = 25

Path = tuple[str | int, ...]


class Unreadable(Exception):
    """A text cannot be read any further; the reason is among the findings."""


class OtherFormat(Unreadable):
    """A text is not even written in the format it was taken for."""


class Place(Struct, frozen=True):
    """A line and a column in a text, both from 1."""

    line: int
    column: int


class Finding(Struct, frozen=True):
    """A problem whose place in the text is not yet known."""

    path: Path
    message: str
    hint: str | None = None
    # The problem is with the key, not with what it holds.
    at_key: bool = False
    warning: bool = False
    place: Place | None = None


# Finds the places of keys (True) and values (False) by their paths.
Locate = Callable[[frozenset[tuple[Path, bool]]], Mapping[tuple[Path, bool], Place]]


def written_path(path: Path) -> str:
    """A path as people write it: `nodes.fetch.retry` or `nodes[3].handler`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text


class Findings:
    """All that was found so far."""

    def __init__(self) -> None:
        self._errors: list[Finding] = []
        self._warnings: list[Finding] = []
        self._more = 0
        self._likenesses = 0

    def like(self, name: str, known: Sequence[str], otherwise: str) -> str:
        """The hint for a name that is not known. Only so many are worked out: comparing names is slow."""
        self._likenesses += 1
        near = nearest(name, known) if self._likenesses <= LIKENESSES_MAX else None
        return f"did you mean '{near}'?" if near else otherwise

    def unknown_key(self, key: str, known: Sequence[str], meant: Mapping[str, str] | None = None) -> str:
        """The hint for a key that does not exist; `meant` has keys of other systems."""
        if meant and key in meant:
            return f"did you mean '{meant[key]}'?"
        return self.like(key, known, f"known keys: {', '.join(known[:KEYS_IN_HINT_MAX])}")

    def add(self, path: Path, message: str, hint: str, *, at_key: bool = False, place: Place | None = None) -> None:
        """Note an error: the document will be refused."""
        if len(self._errors) < PROBLEMS_MAX:
            self._errors.append(Finding(path, message, hint, at_key, place=place))
        else:
            self._more += 1

    def warn(self, path: Path, message: str, hint: str, *, at_key: bool = False) -> None:
        """Note something worth telling that does not make the document unusable."""
        if len(self._warnings) < PROBLEMS_MAX:
            self._warnings.append(Finding(path, message, hint, at_key, warning=True))

    def replace(self, other: "Findings") -> None:
        """Take over another reading's findings instead of these."""
        self._errors, self._warnings, self._more = other._errors, other._warnings, other._more

    @property
    def count(self) -> int:
        """How many errors there are."""
        return len(self._errors) + self._more

    @property
    def refused(self) -> bool:
        """Whether there is any error."""
        return bool(self._errors)

    def settle(self, locate: Locate) -> list[Problem]:
        """The warnings, with their places; DefinitionInvalid, with everything, when there are errors."""
        findings = [*self._errors, *self._warnings]
        # What is missing has no place; then the place of what it is missing from serves.
        wanted = {
            (f.path[:n], key)
            for f in findings
            if f.place is None
            for n in range(len(f.path) + 1)
            for key in (True, False)
        }
        places: Mapping[tuple[Path, bool], Place] = locate(frozenset(wanted)) if wanted else {}
        problems = [_problem(finding, places) for finding in findings]
        if self._errors:
            problems.sort(key=lambda problem: (problem.line or 0, problem.column or 0))
            if self._more:
                more = f"and {self._more} more problems"
                problems.append(Problem(path="", message=more, hint="mend those above first"))
            raise DefinitionInvalid(problems)
        return problems


def _problem(finding: Finding, places: Mapping[tuple[Path, bool], Place]) -> Problem:
    place = finding.place or _nearest_place(finding, places)
    return Problem(
        path=written_path(finding.path),
        message=finding.message,
        hint=finding.hint,
        line=place.line if place else None,
        column=place.column if place else None,
        warning=finding.warning,
    )


def _nearest_place(finding: Finding, places: Mapping[tuple[Path, bool], Place]) -> Place | None:
    """Where the thing is, or, when it is missing, what it is missing from."""
    exact = places.get((finding.path, finding.at_key))
    if exact is not None:
        return exact
    for length in range(len(finding.path), -1, -1):
        for at_key in (False, True):
            place = places.get((finding.path[:length], at_key))
            if place is not None:
                return place
    return None
