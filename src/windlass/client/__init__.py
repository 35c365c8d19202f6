"""The Python client of a server's HTTP API."""

from windlass.client.client import DEFAULT_URL, Client
from windlass.client.workflows import DeployedWorkflow

__all__ = ["DEFAULT_URL", "Client", "DeployedWorkflow"]
