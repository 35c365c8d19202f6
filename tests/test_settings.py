"""Settings: sources, validation, and defaults that are declared once."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass.core.errors import SettingsInvalid
from windlass.settings import declarations
from windlass.settings_loader import LoadedSettings, load_settings, mask_secrets

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "windlass"
# The packages that settings configure.
CONFIGURED = ("engine", "worker", "api", "stores")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def origin(loaded: LoadedSettings, key: str) -> str:
    return next(one.origin for one in loaded.effective if one.key == key)


def problems(
    folder: Path, environ: dict[str, str], flags: dict[str, object] | None = None
) -> list[str]:
    with pytest.raises(SettingsInvalid) as refused:
        load_settings(flags, folder=folder, environ=environ)
    return [str(problem) for problem in refused.value.problems]


def test_the_defaults_apply(folder: Path) -> None:
    loaded = load_settings(folder=folder, environ={})

    assert loaded.settings.database_url == "sqlite:///.windlass/windlass.db"
    assert {one.origin for one in loaded.effective} == {"default"}


def test_later_sources_override_earlier_ones(folder: Path) -> None:
    (folder / "windlass.toml").write_text(
        "[worker]\nconcurrency = 2\nthreads = 2\nheartbeat_seconds = 2\n"
    )
    environ = {"WINDLASS_WORKER__THREADS": "3", "WINDLASS_WORKER__HEARTBEAT_SECONDS": "3"}

    loaded = load_settings(
        {"worker.heartbeat_seconds": 4.0},
        preset={"worker.concurrency": 9},
        folder=folder,
        environ=environ,
    )

    worker = loaded.settings.worker
    assert (worker.concurrency, worker.threads, worker.heartbeat_seconds) == (2, 3, 4.0)
    assert origin(loaded, "worker.concurrency") == "windlass.toml"
    assert origin(loaded, "worker.threads") == "WINDLASS_WORKER__THREADS"
    assert origin(loaded, "worker.heartbeat_seconds") == "flag"


def test_the_origin_of_a_commands_default_is_recorded(folder: Path) -> None:
    preset = {"http.allow_private": True}

    loaded = load_settings(preset=preset, preset_origin="default of run", folder=folder, environ={})

    assert loaded.settings.http.allow_private
    assert origin(loaded, "http.allow_private") == "default of run"


def test_connections_take_any_name(folder: Path) -> None:
    (folder / "windlass.toml").write_text('[connections]\nshop = "sqlite:///shop.db"\n')

    loaded = load_settings(
        folder=folder, environ={"WINDLASS_CONNECTIONS__MAIN_DB": "postgresql://db/x"}
    )

    assert loaded.settings.connections == {
        "shop": "sqlite:///shop.db",
        "main_db": "postgresql://db/x",
    }
    assert origin(loaded, "connections.main_db") == "WINDLASS_CONNECTIONS__MAIN_DB"


def test_a_variable_contains_a_comma_separated_list(folder: Path) -> None:
    loaded = load_settings(folder=folder, environ={"WINDLASS_WORKER__IMPORTS": "a.b, c"})

    assert loaded.settings.worker.imports == ["a.b", "c"]


def test_an_unknown_variable_is_rejected_with_the_nearest_one(folder: Path) -> None:
    assert problems(folder, {"WINDLASS_WORKER__CONCURENCY": "3"}) == [
        (
            "WINDLASS_WORKER__CONCURENCY: unknown setting 'worker.concurency' "
            "(did you mean WINDLASS_WORKER__CONCURRENCY?)"
        )
    ]


def test_an_unknown_key_in_the_file_is_rejected_with_the_nearest_one(folder: Path) -> None:
    (folder / "windlass.toml").write_text("[engine]\nsweep_second = 2\n")

    assert problems(folder, {}) == [
        (
            "windlass.toml: engine.sweep_second: unknown setting 'engine.sweep_second' "
            "(did you mean 'engine.sweep_seconds'?)"
        )
    ]


def test_all_problems_are_reported_together(folder: Path) -> None:
    (folder / "windlass.toml").write_text("[worker]\nthreads = 0\n[nonsense]\nx = 1\n")

    found = problems(
        folder, {"WINDLASS_HTTP__ALLOW_PRIVATE": "perhaps"}, {"sqlite.synchronous": "off"}
    )

    assert [text.split(":")[0] for text in found] == [
        "windlass.toml", "windlass.toml", "WINDLASS_HTTP__ALLOW_PRIVATE", "flag",
    ]  # fmt: skip
    assert found[-1].endswith("invalid value 'off': expected one of full, normal")


def test_an_invalid_file_is_reported(folder: Path) -> None:
    (folder / "windlass.toml").write_text("worker = [")

    assert problems(folder, {})[0].startswith("windlass.toml: invalid TOML")


def test_secrets_take_any_name_and_are_masked(folder: Path) -> None:
    loaded = load_settings(folder=folder, environ={"WINDLASS_SECRETS__HOOK_KEY": "whsec_c2VjcmV0"})

    assert loaded.settings.secrets == {"hook_key": "whsec_c2VjcmV0"}
    assert mask_secrets("whsec_c2VjcmV0", "secrets.hook_key") == "***"


def test_a_password_in_a_url_is_masked() -> None:
    assert mask_secrets("postgresql://me:a@b/c@db/x") == "postgresql://me:***@db/x"


def test_the_server_has_a_short_variable(folder: Path) -> None:
    environ = {"WINDLASS_SERVER": "http://db.example.com:8470", "WINDLASS_SERVER__PORT": "9000"}

    loaded = load_settings(folder=folder, environ=environ)

    assert (loaded.settings.server.url, loaded.settings.server.port) == (
        "http://db.example.com:8470",
        9000,
    )
    assert origin(loaded, "server.url") == "WINDLASS_SERVER"


def test_an_invalid_server_url_is_rejected(folder: Path) -> None:
    assert "WINDLASS_SERVER" in problems(folder, {"WINDLASS_SERVER": "db.example.com"})[0]


def test_every_setting_has_a_description() -> None:
    assert [key for key, declaration in declarations().items() if not declaration.description] == []


def test_defaults_are_declared_once() -> None:
    """The parts that settings configure take explicit numbers: a default there would be a second declaration."""
    names = {*numeric_settings(), "artifact_bytes_max", "output_bytes_max"}
    repeated: list[str] = []
    for folder in CONFIGURED:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            found = names.intersection(numeric_defaults(path))
            repeated.extend(f"{path.relative_to(PACKAGE)}: {name}" for name in sorted(found))

    assert repeated == []


def numeric_settings() -> Iterator[str]:
    """Yield the names of settings that are numbers, without their sections."""
    for key, declaration in declarations().items():
        if declaration.plain_type in (int, float):
            yield key.rpartition(".")[2]


def numeric_defaults(path: Path) -> Iterator[str]:
    """Yield the parameters and fields of a module whose default is a number or a constant."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and is_number(node.value)
        ):
            yield node.target.id
        if isinstance(node, ast.arguments):
            positional = [*node.posonlyargs, *node.args]
            with_default = positional[len(positional) - len(node.defaults) :]
            arguments = [*with_default, *node.kwonlyargs]
            for argument, default in zip(
                arguments, [*node.defaults, *node.kw_defaults], strict=True
            ):
                if is_number(default):
                    yield argument.arg


def is_number(default: ast.expr | None) -> bool:
    if isinstance(default, ast.Constant):
        return isinstance(default.value, int | float) and not isinstance(default.value, bool)
    return isinstance(default, ast.BinOp) or (
        isinstance(default, ast.Name) and default.id.isupper()
    )
