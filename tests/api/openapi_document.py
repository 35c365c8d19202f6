"""The OpenAPI document of the routes, without a running system."""

from random import Random
from typing import Any

from windlass.api.app import create_app
from windlass.api.openapi import openapi_document
from windlass.api.state import ApiState


def described_api() -> dict[str, Any]:
    """Return the OpenAPI document of an application without a system."""
    nothing: Any = None
    state = ApiState(
        store=nothing,
        artifacts=nothing,
        broker=nothing,
        control=nothing,
        clock=nothing,
        handlers=(),
        chance=Random(1),
        version="0.0.0",
        artifact_bytes_max=1,
    )
    app = create_app(state)
    return openapi_document(app.routes, "0.0.0")
