"""The handlers that come with Windlass."""

from collections.abc import Mapping
from pathlib import Path

from windlass.connections.folder import Folder
from windlass.connections.named import Connections
from windlass.connections.secrets import Secrets
from windlass.handlers import echo, fail, python, sleep
from windlass.handlers.container.handler import ContainerConfig, container_handler
from windlass.handlers.http import http_handler
from windlass.handlers.llm import LlmConfig, llm_handler
from windlass.handlers.postgres import postgres_handler
from windlass.handlers.shell import shell_handler
from windlass.handlers.sqlite import sqlite_handler
from windlass.handlers.webhook import webhook_handler
from windlass.ports.handler import Handler
from windlass.ports.handler_declaration import collect


def builtin(
    *,
    allow_private: bool = False,
    environment: Mapping[str, str] | None = None,
    llm: LlmConfig | None = None,
    container: ContainerConfig | None = None,
    connections: Connections | None = None,
    secrets: Secrets | None = None,
) -> dict[str, Handler]:
    """All of them, by name. `environment` is the worker's own, of which commands see the harmless part."""
    http = http_handler(allow_private)
    model = llm_handler(allow_private, llm or LlmConfig())
    databases = connections or Connections({}, Folder(Path()))
    return {
        **collect(echo),
        **collect(sleep),
        **collect(fail),
        **collect(python),
        "http": http,
        "call_external_service": http,
        "container": container_handler(environment or {}, container or ContainerConfig()),
        "llm": model,
        "llm_service": model,
        "postgres": postgres_handler(databases),
        "shell": shell_handler(environment or {}),
        "sqlite": sqlite_handler(databases),
        "webhook": webhook_handler(allow_private, secrets or Secrets()),
    }
