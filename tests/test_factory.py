"""Adapters that the settings select, and masked secrets."""

import builtins
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from windlass.cli.commands.config import command
from windlass.core.errors import SettingsInvalid, StoreUnavailable
from windlass.factory import open_artifacts
from windlass.settings import Settings, load_settings
from windlass.stores.artifacts.folder import FolderArtifacts
from windlass.stores.artifacts.s3 import S3Artifacts

KEY = "sk-a-very-secret-key"


def settings(folder: Path, **values: str) -> Settings:
    return load_settings(
        {name.replace("__", "."): value for name, value in values.items()}, folder=folder, environ={}
    ).settings


async def stored(wanted: Settings) -> None:
    store = open_artifacts(wanted)
    assert isinstance(store, FolderArtifacts)
    await store.put("j1", b"1")
    await store.aclose()


async def test_artifacts_are_stored_next_to_the_database_by_default(tmp_path: Path) -> None:
    await stored(settings(tmp_path, database_url=f"sqlite:///{tmp_path}/db/windlass.db"))

    assert [path.name for path in (tmp_path / "db" / "artifacts").iterdir()] == ["j1"]


async def test_a_file_url_selects_a_directory(tmp_path: Path) -> None:
    await stored(settings(tmp_path, artifacts__url=f"file://{tmp_path}/large%20values"))

    assert [path.name for path in (tmp_path / "large values").iterdir()] == ["j1"]


async def test_an_s3_url_selects_a_bucket(tmp_path: Path) -> None:
    store = open_artifacts(settings(tmp_path, artifacts__url="s3://bucket/some/prefix"))

    assert isinstance(store, S3Artifacts)
    await store.aclose()


@pytest.mark.parametrize("url", ["artifacts", "file://host/x", "s3://", "s3:///x", "https://host/x", "s3://b/x?y=1"])
def test_an_invalid_artifact_url_is_rejected(tmp_path: Path, url: str) -> None:
    with pytest.raises(SettingsInvalid, match=r"artifacts\.url"):
        settings(tmp_path, artifacts__url=url)


@pytest.mark.parametrize("bytes_max", ["0", "-1", "1e12", "many"])
def test_an_invalid_size_limit_is_rejected(tmp_path: Path, bytes_max: str) -> None:
    with pytest.raises(SettingsInvalid, match=r"artifacts\.bytes_max"):
        settings(tmp_path, artifacts__bytes_max=bytes_max)


def test_a_missing_package_is_reported_with_the_command_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = builtins.__import__

    def without_obstore(name: str, *rest: Any) -> Any:
        if name == "windlass.stores.artifacts.s3":
            raise ModuleNotFoundError("No module named 'obstore'", name="obstore")
        return usual(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_obstore)

    with pytest.raises(StoreUnavailable, match=r"obstore.*windlass\[s3\]"):
        open_artifacts(settings(tmp_path, artifacts__url="s3://bucket"))


def test_an_api_key_is_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDLASS_LLM__API_KEY", KEY)

    plain = CliRunner().invoke(command, []).output
    shown = msgspec.json.decode(CliRunner().invoke(command, ["--json"]).output)

    assert KEY not in plain
    assert shown["llm.api_key"] == {"value": "***", "origin": "WINDLASS_LLM__API_KEY"}


def test_an_invalid_api_key_is_masked(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid) as refused:
        settings(tmp_path, llm__api_key=KEY * 1000)

    assert "llm.api_key" in str(refused.value)
    assert KEY not in str(refused.value)
