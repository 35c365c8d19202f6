"""ARCHITECTURE.md and other documents name only what exists; ARCHITECTURE.md names every folder."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

from windlass.core.events import EventType

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "windlass"
STEPS_MAX = 20
# The built web UI is described beside the package.
NOT_LISTED = {"__init__.py", "__main__.py", "__pycache__", "_ui", "py.typed"}

NAME = re.compile(r"`([\w./]+)`")
NAME_IN_FILE = re.compile(r"`([\w/]+\.py)`\s+`([\w.]+)`")
STEP = re.compile(r"^(\d+)\. ", re.MULTILINE)


def section(title: str) -> str:
    document = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    _, rest = document.split(f"\n## {title}\n")
    return rest.partition("\n## ")[0]


def definitions(module: ast.Module) -> Iterator[str]:
    """Yield the classes and functions of a module, and its methods as `Class.method`."""
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
            for member in node.body:
                if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{node.name}.{member.name}"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


@cache
def defined_in(path: Path) -> frozenset[str]:
    return frozenset(definitions(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def defined_anywhere() -> frozenset[str]:
    return frozenset().union(*(defined_in(path) for path in PACKAGE.rglob("*.py")))


def test_the_way_of_one_job_names_only_what_exists() -> None:
    names = NAME.findall(section("The way of one job"))
    known = defined_anywhere() | {event.value for event in EventType}

    assert [name for name in names if "/" not in name and name not in known] == []
    assert [name for name in names if "/" in name and not (PACKAGE / name).exists()] == []


def test_the_way_of_one_job_names_the_files_of_its_functions() -> None:
    pairs = NAME_IN_FILE.findall(section("The way of one job"))

    assert pairs
    assert [(file, name) for file, name in pairs if name not in defined_in(PACKAGE / file)] == []


def test_the_way_of_one_job_is_short_and_numbered() -> None:
    numbers = [int(number) for number in STEP.findall(section("The way of one job"))]

    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) <= STEPS_MAX


def test_every_folder_and_module_of_the_package_is_listed() -> None:
    listed = re.findall(r"^\| `([\w.]+)/?` \|", section("Folders"), re.MULTILINE)
    present = [path.name for path in PACKAGE.iterdir() if path.name not in NOT_LISTED]

    assert sorted(listed) == sorted(present)


def test_the_table_of_folders_names_only_folders_that_exist() -> None:
    names = re.findall(r"`(\w+/\w+)/`", section("Folders"))

    assert names
    assert [name for name in names if not (PACKAGE / name).is_dir()] == []


def test_documents_name_only_modules_that_exist() -> None:
    missing: list[str] = []
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        text = document.read_text(encoding="utf-8")
        files = re.findall(r"`(\w+/[\w/]+\.(?:py|ts|tsx))`", text)
        missing += [f"{document.name}: {file}" for file in files if not exists(file)]
        modules = re.findall(rf"`(windlass\.(?:{packages()})\.\w[\w.]*)", text)
        missing += [
            f"{document.name}: {module}" for module in modules if not is_module_or_member(module)
        ]

    assert missing == []


def exists(file: str) -> bool:
    return (ROOT / file).exists() or (PACKAGE / file).exists()


def packages() -> str:
    """Return a pattern of all packages and modules directly below the package."""
    return "|".join(path.stem for path in PACKAGE.iterdir() if path.name not in NOT_LISTED)


def is_module_or_member(dotted: str) -> bool:
    try:
        resolve_name(dotted)
    except (ImportError, AttributeError):
        return False
    return True


def test_a_member_that_does_not_exist_is_detected() -> None:
    names = [
        "core.events",
        "core.events.EventType",
        "core.events.Missing",
        "core.missing",
        "worker.worker.Worker.run",
    ]

    assert [is_module_or_member(f"windlass.{name}") for name in names] == [
        True,
        True,
        False,
        False,
        True,
    ]
