"""Secrets by name; they are never shown, logged or stored."""

from collections.abc import Mapping
from types import MappingProxyType

from windlass.core.errors import FatalError
from windlass.core.templates.json_values import nearest


class SecretUnknown(FatalError):
    """No secret in the settings has this name."""

    type = "secret_unknown"


class Secrets:
    """The secrets of the settings. Names are the same in any case, as variables have them in capitals."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str] = MappingProxyType({})) -> None:
        self._values = {name.lower(): value for name, value in values.items()}

    def __repr__(self) -> str:
        return f"Secrets({len(self._values)} names)"

    def get(self, name: str) -> str:
        """Return the secret with this name; raise SecretUnknown."""
        found = self._values.get(name.lower())
        if found is None:
            near = nearest(name.lower(), list(self._values))
            hint = f"set WINDLASS_SECRETS__{name.upper()}, or [secrets] {name}"
            if near is not None:
                hint = f"did you mean {near!r}?"
            raise SecretUnknown(f"unknown secret: {name!r}; {hint}")
        return found
