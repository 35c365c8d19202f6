"""Handlers that give back what they get: `echo`, and `input` and `output`, which name the ends of a workflow."""

from typing import Any

from windlass.ports.handler_declaration import handler


@handler("echo")
async def echo(**params: Any) -> dict[str, Any]:
    """Return `{"echoed_params": <its params>}`."""
    return {"echoed_params": params}


@handler("input")
async def input_(**params: Any) -> dict[str, Any]:
    """Return its params, which are the job's input when the node has none."""
    return params


@handler("output")
async def output(**params: Any) -> dict[str, Any]:
    """Return its params: what the workflow shows as its result."""
    return params
