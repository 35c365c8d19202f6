"""Handlers that return what they get: `echo`, and `input` and `output`, which mark the ends of a workflow."""

from typing import Any

from windlass.ports.handler_declaration import handler


@handler("echo")
async def echo(**params: Any) -> dict[str, Any]:
    """Return `{"echoed_params": <its params>}`."""
    return {"echoed_params": params}


@handler("input")
async def input_(**params: Any) -> dict[str, Any]:
    """Return its params, by default the job's input."""
    return params


@handler("output")
async def output(**params: Any) -> dict[str, Any]:
    """Return its params: the result of the workflow."""
    return params
