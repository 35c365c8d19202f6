"""API servers for the tests of this folder: a simulated one, and a real one if its programs are installed."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest

from tests.kubernetes.api_server import (
    CONTROLLER_TOKEN,
    TOKEN,
    ApiServer,
    serving,
    write_kubeconfig,
)
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.real_server import RealServer, new_namespace, start_real
from windlass.handlers.container.config import ContainerConfig, KubernetesConfig

ASSETS = os.environ.get("KUBEBUILDER_ASSETS")
NAMESPACE = "shop"


class Place(NamedTuple):
    """A cluster and the configuration that connects to it."""

    cluster: Cluster
    rules: KubernetesConfig

    @property
    def defaults(self) -> ContainerConfig:
        return ContainerConfig("kubernetes", self.rules)


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """The simulated API server."""
    async with serving() as running:
        yield running


@asynccontextmanager
async def simulated(server: ApiServer, folder: Path) -> AsyncIterator[Place]:
    config = write_kubeconfig(folder / "kubeconfig", server.url, TOKEN, NAMESPACE)
    headers = {"authorization": f"Bearer {CONTROLLER_TOKEN}"}
    async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=30) as http:
        yield Place(Cluster(http, NAMESPACE), _rules(config))


@asynccontextmanager
async def real(server: RealServer, folder: Path) -> AsyncIterator[Place]:
    headers = {"authorization": f"Bearer {server.token}"}
    async with httpx2.AsyncClient(
        base_url=server.url, headers=headers, verify=False, timeout=30
    ) as http:
        namespace = await new_namespace(http, server.worker_token)
        trust = {"insecure-skip-tls-verify": True}
        config = write_kubeconfig(
            folder / "kubeconfig", server.url, server.worker_token, namespace, **trust
        )
        yield Place(Cluster(http, namespace), _rules(config))


@pytest.fixture
async def place(server: ApiServer, tmp_path: Path) -> AsyncIterator[Place]:
    """A cluster with the simulated API server."""
    async with simulated(server, tmp_path) as found:
        yield found


@pytest.fixture(scope="session")
def real_server(server_folder: Path) -> Iterator[RealServer | None]:
    """The real API server of $KUBEBUILDER_ASSETS, if it is set."""
    if ASSETS is None:
        yield None
        return
    server = start_real(Path(ASSETS), server_folder / "kubernetes")
    yield server
    server.stop()


@pytest.fixture(params=["simulated", *(["real"] if ASSETS else [])])
async def any_place(
    request: pytest.FixtureRequest,
    server: ApiServer,
    real_server: RealServer | None,
    tmp_path: Path,
) -> AsyncIterator[Place]:
    """A cluster with each available kind of API server."""
    wanted = real_server if request.param == "real" else None
    async with simulated(server, tmp_path) if wanted is None else real(wanted, tmp_path) as found:
        yield found


def _rules(config: Path) -> KubernetesConfig:
    return KubernetesConfig(kubeconfig=str(config), requests_per_second=1000, requests_burst=1000)
