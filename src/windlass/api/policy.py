"""Access policies. Every route declares one; the application does not start if a route declares none."""

from collections.abc import Iterable
from enum import StrEnum, unique
from typing import Protocol, runtime_checkable

from starlette.routing import BaseRoute


@unique
class Policy(StrEnum):
    """The permission that a caller needs."""

    PUBLIC = "public"  # none: probes, signed webhooks and the OpenAPI document
    READ = "read"  # read workflows, jobs and workers
    OPERATE = "operate"  # run, cancel and retry jobs; act as a worker
    ADMIN = "admin"  # change workflows


class PolicyMissing(Exception):
    """A route declares no policy."""


@runtime_checkable
class HasPolicy(Protocol):
    """An endpoint that declares a policy."""

    @property
    def policy(self) -> Policy: ...


def policy_of(route: BaseRoute) -> Policy | None:
    """Return the policy that a route's endpoint declares; None for a mount or an endpoint without one."""
    endpoint: object = getattr(route, "endpoint", None)
    return endpoint.policy if isinstance(endpoint, HasPolicy) else None


def require_policies(routes: Iterable[BaseRoute]) -> None:
    """Raise PolicyMissing with the paths of all routes that declare no policy."""
    missing = [str(getattr(route, "path", route)) for route in routes if policy_of(route) is None]
    if missing:
        raise PolicyMissing(
            f"routes without a policy: {', '.join(missing)}; declare them with `operations.route`"
        )
