"""The project rules as tests: sizes, names, imports, errors, purity, locks, queries and examples."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "windlass"
THIS = Path(__file__).resolve()

WRITTEN = {".py", ".md", ".toml", ".yaml", ".yml", ".sql", ".lua", ".txt", ".json", ""}

# Far above the sizes to aim for, which are 500 and 70 lines.
MODULE_LINES_MAX = 800
FUNCTION_LINES_MAX = 100
LINE_LENGTH_MAX = 120
DOCSTRING_LINES_MAX = 4

# These modules list the tree of errors and the tokens of queries.
LONG_DOCSTRINGS = {"core/errors.py", "stores/queries.py"}
FORBIDDEN_WORDS = {
    "manager",
    "util",
    "utils",
    "common",
    "base",
    "service",
    "services",
    "helper",
    "helpers",
}
# Names of other systems: OpenAI-compatible servers, Kubernetes.
EXTERNAL_NAMES = {"base_url", "service_account", "service_accounts"}
UNFINISHED = re.compile(
    r"\b(TODO|FIXME|XXX|NotImplementedError)\b|pytest\.(skip|xfail)|mark\.(skip|skipif|xfail)\b"
)
MACHINE_PATHS = re.compile(r"(?<![\w.])/(work|root|home|Users|opt)/")
INDEX_HOSTS = re.compile(
    r"https?://|file:|--index-url|--extra-index-url|--find-links|--trusted-host"
)
QUERY_NAME = re.compile(r"^-- name: ([a-z][a-z0-9_]*)$", re.MULTILINE)

# Modules that may catch every exception, and why.
CATCHES_EVERYTHING = {
    "api/operations.py": "the top of a request",
    "cli/main.py": "the top of the command line",
    "cli/user_code.py": "modules that users name",
    "concurrency/batcher.py": "the error is raised in the callers of the batch",
    "engine/background.py": "the top of a duty's loop",
    "engine/leases.py": "the top of a duty's loop",
    "engine/job_table.py": "one job that cannot be loaded is quarantined and stops no other",
    "engine/output_merger.py": "the top of a background task: the shard raises the error",
    "engine/run_coordinator.py": "one workflow whose runs cannot be followed must not stop the others",
    "engine/run_rules.py": "one workflow that cannot be compiled must not stop the others",
    "engine/shard.py": "the top of a duty's loop; one bad job is quarantined",
    "engine/remote_job_watcher.py": "the error is raised in the waiting callers",
    "stores/sqlite/writer.py": "the top of the writer's loop: the error is raised in the waiting callers",
    "worker/child.py": "user code",
    "worker/executor.py": "user code",
    "worker/log_writer.py": "the top of a duty's loop",
    "worker/output_step.py": "user code: sinks",
    "worker/outcomes.py": "user code: the text of its exceptions",
    "worker/heartbeat.py": "the top of a duty's loop",
    "worker/worker.py": "the top of a duty's loop",
}
# Frameworks that can only be extended by inheriting from them.
FRAMEWORK_PARENTS = {
    "asyncio.Protocol",
    "click.Group",
    "httpcore2.AsyncNetworkBackend",
    "httpx2.AsyncBaseTransport",
    "httpx2.AsyncByteStream",
    "logging.Formatter",
    "logging.Handler",
    "uvicorn.Server",
}
PARENTS = {
    "Protocol",
    "Generic",
    "Enum",
    "IntEnum",
    "StrEnum",
    "BaseException",
    "Exception",
    "Struct",
    "BaseModel",
    # Values that templates read lazily.
    "Mapping",
}

CORE_MAY_IMPORT = {
    "__future__", "array", "ast", "base64", "binascii", "bisect", "collections", "copy", "dataclasses", "datetime",
    "decimal",
    "difflib", "enum", "functools", "hashlib", "heapq", "hmac", "itertools", "json", "math", "operator", "re", "string",
    "struct", "types", "typing", "zlib", "zoneinfo", "cronsim", "jinja2", "markupsafe", "msgspec",
}  # fmt: skip
CLOCK_AND_RANDOM = {"now", "utcnow", "today", "time", "monotonic", "uuid4", "urandom", "random"}


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(text(path), filename=str(path))


def name(path: Path) -> str:
    return str(path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (
        node
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def documents() -> Iterator[Path]:
    """Yield every hand-written text file of the repository."""
    written = [
        path for path in ROOT.iterdir() if path.name == ".ci" or not path.name.startswith(".")
    ]
    for path in sorted(
        found for top in written for found in (top.rglob("*") if top.is_dir() else [top])
    ):
        if path.is_file() and path.suffix in WRITTEN and "node_modules" not in path.parts:
            yield path


def test_modules_stay_small() -> None:
    lengths = {
        name(path): len(text(path).splitlines())
        for path in sources("src", "simulation", "tests", "benchmarks", "examples")
    }

    assert {path: lines for path, lines in lengths.items() if lines > MODULE_LINES_MAX} == {}


def test_functions_stay_small() -> None:
    lengths = {
        f"{name(path)}:{function.lineno} {function.name}": (function.end_lineno or 0)
        - function.lineno
        + 1
        for path in sources("src", "simulation", "tests", "benchmarks", "examples")
        for function in functions(path)
    }

    assert {
        function: lines for function, lines in lengths.items() if lines > FUNCTION_LINES_MAX
    } == {}


def test_lines_stay_short() -> None:
    written = [
        *sources("src", "simulation", "tests", "benchmarks", "examples"),
        *sorted(PACKAGE.rglob("*.sql")),
    ]
    long = [
        f"{name(path)}:{number}"
        for path in written
        for number, line in enumerate(text(path).splitlines(), 1)
        if len(line) > LINE_LENGTH_MAX
    ]

    assert long == []


def test_every_module_has_a_docstring() -> None:
    undocumented = [
        name(path)
        for path in sources("src", "simulation", "tests", "benchmarks", "examples")
        if text(path).strip() and not ast.get_docstring(tree(path))
    ]

    assert undocumented == []


def test_module_docstrings_are_a_few_lines() -> None:
    docstrings = {name(path): ast.get_docstring(tree(path)) or "" for path in sources("src")}
    lengths = {path: len(docstring.splitlines()) for path, docstring in docstrings.items()}

    assert {
        path for path, lines in lengths.items() if lines > DOCSTRING_LINES_MAX
    } <= LONG_DOCSTRINGS


def words(identifier: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", identifier)}


def defined_names(path: Path) -> Iterator[str]:
    yield path.stem
    yield path.parent.name
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def test_names_contain_no_vague_words() -> None:
    vague = {
        f"{name(path)}: {identifier}"
        for path in sources("src")
        for identifier in defined_names(path)
        if words(identifier) & FORBIDDEN_WORDS and identifier not in EXTERNAL_NAMES
    }

    assert vague == set()


def test_imports_inside_functions_have_a_comment() -> None:
    unexplained = [
        f"{name(path)}:{node.lineno}"
        for path in sources("src")
        for function in functions(path)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and not explained(text(path).splitlines(), node.lineno - 1)
    ]

    assert unexplained == []


def explained(lines: list[str], number: int) -> bool:
    """Return whether an import has a comment beside it, or above it and the imports before it."""
    while not lines[number].strip() or lines[number].strip().startswith(("import ", "from ")):
        if "#" in lines[number]:
            return True
        number -= 1
    return lines[number].strip().startswith("#")


def test_only_listed_modules_catch_every_exception() -> None:
    catching = {
        name(path)
        for path in sources("src")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ExceptHandler)
        and catches_everything(node)
        and not ends_with_raise(node)
    }

    assert catching - CATCHES_EVERYTHING.keys() == set()


def catches_everything(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(
        kind is None or ast.unparse(kind) in {"Exception", "BaseException"} for kind in kinds
    )


def ends_with_raise(handler: ast.ExceptHandler) -> bool:
    return isinstance(handler.body[-1], ast.Raise) and handler.body[-1].exc is None


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_the_core_imports_only_values() -> None:
    impure = [
        f"{name(path)}: {module}"
        for path in sources("src/windlass/core")
        for module in imported(path)
        if module.split(".")[0] not in CORE_MAY_IMPORT and not module.startswith("windlass.core")
    ]

    assert impure == []


def test_the_core_has_no_clock_no_randomness_and_no_await() -> None:
    impure = [
        f"{name(path)}:{node.lineno}"
        for path in sources("src/windlass/core")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.AsyncFunctionDef | ast.Await)
        or (isinstance(node, ast.Call) and called(node) in CLOCK_AND_RANDOM | {"open", "print"})
    ]

    assert impure == []


def called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=function):
            return function
        case ast.Attribute(
            value=ast.Name(id="datetime" | "date" | "time" | "random" | "os" | "uuid"),
            attr=function,
        ):
            return function
        case _:
            return ""


def test_only_commands_print() -> None:
    printing = [
        f"{name(path)}:{node.lineno}"
        for path in sources("src")
        if not name(path).startswith(("cli/", "testing/"))
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]

    assert printing == []


def test_only_the_settings_read_the_environment() -> None:
    readers = [
        f"{name(path)}:{node.lineno}"
        for path in sources("src")
        if name(path) != "settings_loader.py"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv"}
    ]

    assert readers == []


def test_no_module_keeps_state_in_globals() -> None:
    stateful = [
        f"{name(path)}:{node.lineno}"
        for path in sources("src")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Global)
    ]

    assert stateful == []


def test_classes_inherit_only_from_listed_parents() -> None:
    nodes = [(path, node) for path in sources("src") for node in ast.walk(tree(path))]
    classes = [(path, node) for path, node in nodes if isinstance(node, ast.ClassDef)]
    known = PARENTS | FRAMEWORK_PARENTS | {node.name for _, node in classes}
    foreign = [
        f"{name(path)}:{node.lineno} {node.name}({ast.unparse(parent)})"
        for path, node in classes
        for parent in node.bases
        if ast.unparse(parent.value if isinstance(parent, ast.Subscript) else parent) not in known
    ]

    assert foreign == []


def test_nothing_is_left_unfinished() -> None:
    unfinished = [
        f"{name(path)}:{number}: {line.strip()}"
        for path in sources("src", "simulation", "tests", "benchmarks", "examples")
        if path != THIS
        for number, line in enumerate(text(path).splitlines(), 1)
        if UNFINISHED.search(line)
    ]

    assert unfinished == []


def test_no_file_contains_a_path_of_one_machine() -> None:
    bound = [
        name(path) for path in documents() if path != THIS and MACHINE_PATHS.search(text(path))
    ]

    assert bound == []


def test_the_lock_files_contain_no_package_index() -> None:
    named = [
        f"{path.name}:{number}"
        for path in sorted((ROOT / "requirements").glob("*.txt"))
        for number, line in enumerate(text(path).splitlines(), 1)
        if INDEX_HOSTS.search(line)
    ]

    assert named == []


def test_every_locked_package_has_a_hash() -> None:
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        pinned = re.findall(r"^([a-z0-9-]+)==[^\n]*\n +--hash=sha256:", text(path), re.MULTILINE)
        packages = re.findall(r"^([a-zA-Z0-9_.-]+)[^\n]*==", text(path), re.MULTILINE)
        assert pinned == packages, path.name
        assert packages, path.name


def test_the_changelog_has_an_unreleased_section() -> None:
    assert "\n## [Unreleased]\n" in text(ROOT / "CHANGELOG.md")


def test_every_query_has_a_name() -> None:
    unnamed = [
        name(path)
        for path in sorted(PACKAGE.glob("stores/sql/**/*.sql"))
        if any(strip_comments(query) for query in QUERY_NAME.split(text(path))[:1])
    ]

    assert unnamed == []


def test_query_names_are_unique_within_a_dialect() -> None:
    for dialect in sorted(path for path in PACKAGE.glob("stores/sql/*") if path.is_dir()):
        names = [
            found
            for path in sorted(dialect.glob("*.sql"))
            for found in QUERY_NAME.findall(text(path))
        ]
        assert len(names) == len(set(names)), dialect.name


def strip_comments(sql: str) -> str:
    return re.sub(r"--[^\n]*", "", sql).strip()


def test_every_example_is_run_by_a_test() -> None:
    tests = text(ROOT / "tests" / "test_examples.py")
    examples = [
        path
        for path in (ROOT / "examples").rglob("*")
        if path.suffix in {".yaml", ".yml", ".json", ".py"}
    ]

    assert examples
    assert [name(path) for path in examples if path.name not in tests] == []
