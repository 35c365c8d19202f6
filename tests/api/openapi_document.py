"""The OpenAPI document of the routes, without a running system."""

from random import Random
from typing import Any

from windlass.api.app import create_app
from windlass.api.openapi import openapi_document
from windlass.api.state import ApiState


def described_api() -> dict[str, Any]:
    """Routes are described without anything that runs behind them."""
    nothing: Any = None
    app = create_app(ApiState(nothing, nothing, nothing, nothing, nothing, (), Random(1), "0.0.0"))
    return openapi_document(app.routes, "0.0.0")
