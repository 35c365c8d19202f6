"""The spellings, sink options and limits in docs/reference/language.md, from the declarations of the reader."""

from collections.abc import Iterable

from tools.generate.output import Output
from windlass.spec.checks.edges import EDGES_MAX
from windlass.spec.checks.inputs import INPUT_BYTES_MAX, INPUT_DEPTH_MAX
from windlass.spec.checks.schemas import SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX
from windlass.spec.reading.document import DOCUMENT_BYTES_MAX
from windlass.spec.reading.yaml_events import ALIASES_MAX, DEPTH_MAX
from windlass.spec.sections.nodes import ALIASES, NODES_MAX, SHARED
from windlass.spec.sections.sinks import TOOLS
from windlass.spec.workflow import PARSED_TEMPLATES_MAX

PAGE = "docs/reference/language.md"


def outputs() -> Iterable[Output]:
    """Return the generated blocks of the page."""
    yield Output(PAGE, _spellings(), "node-key-spellings")
    yield Output(PAGE, _defaults(), "node-defaults")
    yield Output(PAGE, _sinks(), "sink-options")
    yield Output(PAGE, _limits(), "document-limits")


def _spellings() -> str:
    spellings: dict[str, list[str]] = {}
    for alias, key in ALIASES.items():
        spellings.setdefault(key, []).append(f"`{alias}`")
    rows = [f"| `{key}` | {', '.join(aliases)} |" for key, aliases in spellings.items()]
    return "\n".join(["| key | also accepted |", "|---|---|", *rows])


def _defaults() -> str:
    keys = [f"`{key}`" for key in SHARED]
    return f"`defaults` may set {', '.join(keys[:-1])} and {keys[-1]} for all tasks."


def _sinks() -> str:
    rows: list[str] = []
    for tool, section in TOOLS.items():
        options = [
            f"`{key}` (required)" if key in section.required else f"`{key}`" for key in section.keys
        ]
        rows.append(f"| `{tool}` | {', '.join(options)} |")
    return "\n".join(["| tool | options |", "|---|---|", *rows])


def _limits() -> str:
    schema_rules = "`$ref` only within it; patterns without look-around or back-references"
    limits = {
        "a document": f"{DOCUMENT_BYTES_MAX >> 20} MiB, {DEPTH_MAX} levels, {ALIASES_MAX:,} aliases",
        "nodes, edges": f"{NODES_MAX:,}, {EDGES_MAX:,}",
        "distinct templates that are more than a reference": f"{PARSED_TEMPLATES_MAX:,}",
        "a job's input": f"{INPUT_BYTES_MAX >> 20} MiB, {INPUT_DEPTH_MAX} levels",
        "the input's schema": f"{SCHEMA_BYTES_MAX >> 10} KiB, {SCHEMA_DEPTH_MAX} levels; {schema_rules}",
    }
    rows = [f"| {what} | {limit} |" for what, limit in limits.items()]
    return "\n".join(["| | limit |", "|---|---|", *rows])
