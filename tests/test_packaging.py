"""Wheels and sdists contain the web UI, which is built if necessary."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NEEDED = ("pyproject.toml", "hatch_build.py", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore")
BUNDLE = {"index.html": "<!doctype html>", "assets/index-4f6c.js": "export {};"}
# Replaces npm: records its arguments and creates the files that vite would build.
NPM = """#!/bin/sh
echo "$@" >> asked
if [ "$1" = run ]; then mkdir -p ../src/windlass/_ui && echo built > ../src/windlass/_ui/index.html; fi
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The parts of the repository that packing needs, without the UI."""
    made = tmp_path / "tree"
    made.mkdir()
    for name in NEEDED:
        shutil.copy(ROOT / name, made / name)
    package = made / "src" / "windlass"
    package.mkdir(parents=True)
    shutil.copy(ROOT / "src" / "windlass" / "__init__.py", package / "__init__.py")
    return made


def with_npm(tree: Path) -> dict[str, str]:
    """Create the sources of a UI and an environment whose npm only records its arguments."""
    (tree / "ui").mkdir()
    (tree / "ui" / "package.json").write_text("{}")
    programs = tree.parent / "programs"
    programs.mkdir()
    (programs / "npm").write_text(NPM)
    (programs / "npm").chmod(0o755)
    return {**os.environ, "PATH": f"{programs}:/usr/bin:/bin"}


def packed(tree: Path, target: str, environment: dict[str, str] | None = None) -> set[str]:
    """Return the names in a wheel or an sdist."""
    folder = tree.parent / "packed"
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=tree, env=environment, check=True, capture_output=True, timeout=60)
    [file] = folder.iterdir()
    if target == "wheel":
        return set(zipfile.ZipFile(file).namelist())
    with tarfile.open(file) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


@pytest.mark.parametrize(
    ("target", "place"), [("wheel", "windlass/_ui/"), ("sdist", "src/windlass/_ui/")]
)
def test_a_package_contains_the_built_ui(tree: Path, target: str, place: str) -> None:
    for name, text in BUNDLE.items():
        path = tree / "src" / "windlass" / "_ui" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    assert {place + name for name in BUNDLE} <= packed(tree, target)


def test_packaging_builds_a_missing_ui(tree: Path) -> None:
    environment = with_npm(tree)

    assert "windlass/_ui/index.html" in packed(tree, "wheel", environment)
    assert (tree / "ui" / "asked").read_text().splitlines() == [
        "ci --no-audit --no-fund",
        "run build",
    ]


def test_packaging_does_not_rebuild_the_ui(tree: Path) -> None:
    environment = with_npm(tree)
    (tree / "src" / "windlass" / "_ui").mkdir()
    (tree / "src" / "windlass" / "_ui" / "index.html").write_text("<!doctype html>")

    packed(tree, "wheel", environment)

    assert not (tree / "ui" / "asked").exists()


def test_a_tree_without_ui_sources_is_packaged_without_the_ui(tree: Path) -> None:
    names = packed(tree, "wheel", {**os.environ, "PATH": ""})

    assert "windlass/__init__.py" in names
    assert not any("_ui" in name for name in names)


def test_an_editable_install_builds_nothing(tree: Path) -> None:
    environment = with_npm(tree)
    code = "from hatchling.build import build_editable; build_editable('.')"

    subprocess.run(
        [sys.executable, "-c", code],
        cwd=tree,
        env=environment,
        check=True,
        capture_output=True,
        timeout=60,
    )

    assert not (tree / "ui" / "asked").exists()


def test_a_build_without_npm_is_reported(tree: Path) -> None:
    environment = {**with_npm(tree), "PATH": ""}

    with pytest.raises(subprocess.CalledProcessError) as failed:
        packed(tree, "wheel", environment)

    assert b"install Node.js" in failed.value.stderr
