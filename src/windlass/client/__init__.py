"""The Python client of a server's HTTP API."""

from windlass.client.client import DEFAULT_URL, Client
from windlass.client.workflows import DeployedWorkflow
from windlass.core.jobs import JobSelection

__all__ = ["DEFAULT_URL", "Client", "DeployedWorkflow", "JobSelection"]
