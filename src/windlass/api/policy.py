"""Who may call a route. Every route declares one of four policies; an app with a route that does not will not start."""

from collections.abc import Iterable, Iterator
from enum import StrEnum, unique
from typing import Protocol, runtime_checkable

from starlette.routing import BaseRoute


@unique
class Policy(StrEnum):
    """What a caller must be allowed to do."""

    PUBLIC = "public"  # anybody: probes and the description of the API
    READ = "read"  # look at workflows, jobs and workers
    OPERATE = "operate"  # run, stop and retry jobs; do the work of a worker
    ADMIN = "admin"  # change workflows


class PolicyMissing(Exception):
    """A route without a policy: nobody decided who may call it."""


@runtime_checkable
class Guarded(Protocol):
    """An endpoint that says who may call it."""

    @property
    def policy(self) -> Policy: ...


def policy_of(route: BaseRoute) -> Policy | None:
    """The policy that a route's endpoint declares; a mount, a file or a socket without one has none."""
    endpoint: object = getattr(route, "endpoint", None)
    return endpoint.policy if isinstance(endpoint, Guarded) else None


def unguarded(routes: Iterable[BaseRoute]) -> Iterator[str]:
    """Routes that declare no policy, of every kind."""
    for route in routes:
        if policy_of(route) is None:
            yield str(getattr(route, "path", route))


def require_policies(routes: Iterable[BaseRoute]) -> None:
    """PolicyMissing names every route that declares no policy."""
    missing = list(unguarded(routes))
    if missing:
        raise PolicyMissing(f"these routes declare no policy: {', '.join(missing)}; declare them with `declare`")
