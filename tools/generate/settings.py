"""The tables of docs/reference/settings.md, from the declarations in windlass/settings.py."""

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from tools.generate.output import Output
from windlass.settings import Declaration, Settings, declarations
from windlass.settings_rules import RULES

PAGE = "docs/reference/settings.md"
# The sections of settings that each table of the page lists; settings without a section are in the first one.
TABLES = {
    "settings-general": ("", "sqlite", "postgres", "artifacts", "sinks", "connections", "secrets"),
    "settings-engine": ("engine",),
    "settings-worker": ("worker",),
    "settings-server": ("server",),
    "settings-handlers": ("http", "llm", "container", "kubernetes"),
}
HEADER = "| setting | variable | default | meaning |\n|---|---|---|---|"


def outputs() -> Iterable[Output]:
    """Return one block per table."""
    for block, sections in TABLES.items():
        yield Output(PAGE, "\n".join([HEADER, *_rows(sections)]), block)
    yield Output(PAGE, "\n".join(f"- {_quoted(rule.text)}" for rule in RULES), "settings-rules")


def _quoted(text: str) -> str:
    """Return a text with the names of settings as code."""
    names = sorted(declarations(), key=len, reverse=True)
    return re.sub("|".join(map(re.escape, names)), lambda found: f"`{found[0]}`", text)


def _rows(sections: tuple[str, ...]) -> Iterator[str]:
    defaults: Mapping[str, object] = msgspec.to_builtins(Settings())
    for section in sections:
        for declaration in declarations().values():
            if _section(declaration) == section:
                yield _row(declaration, defaults)


def _section(declaration: Declaration) -> str:
    section, _, name = declaration.key.partition(".")
    if name or declaration.is_table:
        return section
    return ""


def _row(declaration: Declaration, defaults: Mapping[str, object]) -> str:
    key, variable = declaration.key, f"`{declaration.variable}`"
    if declaration.is_table:
        key, variable = f"{key}.NAME", f"`{declaration.variable}__NAME`"
    elif declaration.is_list:
        variable += " (`a,b`)"
    return (
        f"| `{key}` | {variable} | {_default(declaration, defaults)} | {declaration.description} |"
    )


def _default(declaration: Declaration, defaults: Mapping[str, object]) -> str:
    if declaration.default_text is not None:
        return declaration.default_text
    value: object = defaults
    for part in declaration.key.split("."):
        assert isinstance(value, Mapping)
        value = value[part]
    if value is None or declaration.is_table:
        return "none"
    if isinstance(value, str):
        return f"`{value}`"
    return f"`{msgspec.json.encode(value).decode()}`"
