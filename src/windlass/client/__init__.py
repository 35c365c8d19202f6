"""A server's HTTP API for Python programs."""

from windlass.client.client import DEFAULT_URL, Client, Deployed

__all__ = ["DEFAULT_URL", "Client", "Deployed"]
