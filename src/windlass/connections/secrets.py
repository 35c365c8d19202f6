"""Secrets by their names. Who holds this can read them; nothing that is shown, logged or stored does."""

from collections.abc import Mapping

from windlass.core.errors import FatalError
from windlass.core.templates.json_values import nearest


class SecretUnknown(FatalError):
    """No secret of the settings has the name that a node or a hook gives."""

    type = "secret_unknown"


class Secrets:
    """The secrets of the settings. Names are the same in any case, as variables have them in capitals."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = {name.lower(): value for name, value in (values or {}).items()}

    def __repr__(self) -> str:
        return f"Secrets({len(self._values)} names)"

    def get(self, name: str) -> str:
        """The secret of a name; SecretUnknown."""
        found = self._values.get(name.lower())
        if found is None:
            near = nearest(name.lower(), list(self._values))
            hint = f"did you mean {near!r}?" if near else f"set WINDLASS_SECRETS__{name.upper()}, or [secrets] {name}"
            raise SecretUnknown(f"this process has no secret {name!r}: {hint}")
        return found
