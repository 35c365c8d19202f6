"""The `container` handler: a program in a container of its own, on a cluster or, without one, as a child process."""

from collections.abc import Mapping
from typing import Any, get_type_hints

from msgspec import Struct

from windlass.handlers.container.cluster_config import connect
from windlass.handlers.container.kubernetes import run_on_kubernetes
from windlass.handlers.container.manifest import KubernetesConfig
from windlass.handlers.container.params import ContainerParams, Runtime
from windlass.handlers.container.process import run_as_process
from windlass.ports.handler import ENVIRONMENT_PASSED, Context, Handler, Mode
from windlass.ports.handler_declaration import Signature, check_for


class ContainerConfig(Struct, frozen=True):
    """How containers run where nodes do not say it, and what they may do on a cluster."""

    runtime: Runtime = "process"
    kubernetes: KubernetesConfig = KubernetesConfig()


def container_handler(environment: Mapping[str, str], defaults: ContainerConfig) -> Handler:
    """The `container` handler, for a worker with this environment; programs see the harmless part of it."""
    passed = {name: environment[name] for name in ENVIRONMENT_PASSED if name in environment}

    async def container(ctx: Context, **params: Any) -> dict[str, Any]:
        order = ContainerParams(**params)
        if (order.runtime or defaults.runtime) == "process":
            return await run_as_process(ctx, order, passed)
        link = ctx.resource("kubernetes", lambda: connect(defaults.kubernetes))
        return await run_on_kubernetes(ctx, order, link, defaults.kubernetes)

    return Handler(
        name="container",
        call=container,
        mode=Mode.ASYNC,
        check=check_for(
            Signature(get_type_hints(ContainerParams, include_extras=True), frozenset(), takes_context=True)
        ),
        takes_context=True,
        description="Run a program in a container; return its exit code and its result.",
        reports_start=True,
    )
