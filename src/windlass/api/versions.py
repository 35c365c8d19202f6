"""Names of aliases that a workflow may have."""

from windlass.api.problems import invalid
from windlass.ports.store.workflows import LATEST


def check_alias(alias: str) -> None:
    """Refuse reserved names and numbers; HttpProblem."""
    if alias == LATEST:
        raise invalid(
            "alias", "reserved alias: 'latest' is always the newest version", "choose another name"
        )
    if alias.isdigit():
        raise invalid(
            "alias", f"invalid alias: {alias} is a version number", "choose a name with a letter"
        )
