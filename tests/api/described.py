"""The description of the API, made of its routes alone."""

from random import Random
from typing import Any

from windlass.api.app import create_app
from windlass.api.state import ApiState


def description() -> dict[str, Any]:
    """Routes are described without anything that runs behind them."""
    nothing: Any = None
    return create_app(ApiState(nothing, nothing, nothing, nothing, nothing, (), Random(1), "0.0.0", 1 << 20)).openapi()
