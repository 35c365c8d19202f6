"""The handlers that come with Windlass, discovered from the package `windlass.handlers.builtin`."""

from importlib import import_module
from pkgutil import iter_modules

from windlass.core.errors import HandlerInvalid
from windlass.handlers import builtin
from windlass.handlers.config import HandlerConfig
from windlass.ports.handler import Handler, Injected
from windlass.ports.handler_declaration import collect, inject


def builtin_handlers(config: HandlerConfig | None = None) -> dict[str, Handler]:
    """Return all built-in handlers by name and alias.

    The modules of handlers import clients and drivers on first use, so this is cheap.
    """
    available: dict[type[Injected], Injected] = {HandlerConfig: config or HandlerConfig()}
    found: dict[str, Handler] = {}
    for module in iter_modules(builtin.__path__):
        for name, declaration in collect(
            import_module(f"{builtin.__name__}.{module.name}")
        ).items():
            if name in found:
                raise HandlerInvalid(
                    f"duplicate built-in handler: {name!r} in {module.name}; rename one of them"
                )
            found[name] = inject(declaration, available)
    return found
