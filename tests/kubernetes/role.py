"""The permissions that the reference documents for workers, as the API servers of the tests grant them."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "containers.md"


class Rule(NamedTuple):
    """One rule of the Role."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]

    @property
    def body(self) -> dict[str, list[str]]:
        """The rule as a Role has it."""
        return {
            "apiGroups": list(self.groups),
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }


@cache
def documented_rules() -> tuple[Rule, ...]:
    """Read the rules of the Role from the container reference."""
    text = REFERENCE.read_text()
    _, begin, rest = text.partition("```yaml\nrules:\n")
    assert begin, f"{REFERENCE.name} lists no rules"
    rules = yaml.safe_load("rules:\n" + rest.partition("```")[0])["rules"]
    return tuple(
        Rule(tuple(one["apiGroups"]), tuple(one["resources"]), tuple(one["verbs"])) for one in rules
    )


def allows(rules: tuple[Rule, ...], resource: str, verb: str) -> bool:
    """Whether the rules allow a verb on a resource."""
    return any(resource in rule.resources and verb in rule.verbs for rule in rules)
