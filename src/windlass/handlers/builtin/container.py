"""The handler for containers: a program on a Kubernetes cluster or, without one, as a child process."""

from typing import Any

from windlass.handlers.config import HandlerConfig
from windlass.handlers.container.params import ContainerParams
from windlass.ports.handler import Context
from windlass.ports.handler_declaration import handler


@handler("container", params=ContainerParams, reports_start=True)
async def container(ctx: Context, config: HandlerConfig, **params: Any) -> dict[str, Any]:
    """Run a program in a container; return its exit code and its result."""
    request = ContainerParams(**params)
    runtime = request.runtime or config.container.runtime
    if runtime == "process":
        # Loaded on first use: most workers run no containers.
        from windlass.handlers.container.process import run_as_process

        return await run_as_process(ctx, request, config.command_environment())
    # Loaded on first use, as above.
    from windlass.handlers.container.cluster_config import connect

    # Loaded on first use, as above.
    from windlass.handlers.container.kubernetes import run_on_kubernetes

    kubernetes = config.container.kubernetes
    connection = ctx.resource("kubernetes", lambda: connect(kubernetes))
    return await run_on_kubernetes(ctx, request, connection, kubernetes)
