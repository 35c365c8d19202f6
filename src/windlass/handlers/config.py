"""What the configuration of a worker provides to built-in handlers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from windlass.connections.folder import Folder
from windlass.connections.named import Connections
from windlass.connections.secrets import Secrets
from windlass.handlers.container.config import ContainerConfig
from windlass.ports.handler import ENVIRONMENT_PASSED, Injected


class LlmConfig(Struct, frozen=True):
    """The server for nodes that name none, and its key, which is sent to no other server."""

    base_url: str | None = None
    api_key: str | None = None


def _no_connections() -> Connections:
    return Connections({}, Folder(Path()))


@dataclass(frozen=True, kw_only=True)
class HandlerConfig(Injected):
    """Connections, secrets and limits. A handler declares a parameter of this type to receive them."""

    # Whether requests may reach loopback and private addresses; metadata addresses are always refused.
    allow_private: bool = False
    # The environment of the worker; commands see only a part of it.
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    llm: LlmConfig = field(default_factory=LlmConfig)
    container: ContainerConfig = field(default_factory=ContainerConfig)
    connections: Connections = field(default_factory=_no_connections)
    secrets: Secrets = field(default_factory=Secrets)

    def command_environment(self) -> dict[str, str]:
        """Return the part of the worker's environment that commands may see."""
        return {
            name: self.environment[name] for name in ENVIRONMENT_PASSED if name in self.environment
        }
