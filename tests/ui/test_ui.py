"""The web UI: its own tests, its types against the API, the size of its bundle, and a browser that drives it."""

import gzip
import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.api.described import description

ROOT = Path(__file__).resolve().parent.parent.parent
UI = ROOT / "ui"
BUILT = ROOT / "src" / "windlass" / "_ui"
TOOLS = UI / "node_modules" / ".bin"
BUNDLE_BYTES_MAX = 250_000
SPECS = sorted(path.name for path in (UI / "browser").glob("*.spec.ts"))


def ran(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    """A tool of the UI, run to its end; what it said is the failure's text."""
    done = subprocess.run(argv, check=False, cwd=UI, env={**os.environ, "CI": "1"}, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-4_000:]
    return done


@pytest.mark.timeout(180)
def test_the_parts_of_the_ui_do_what_they_say() -> None:
    ran(TOOLS / "vitest", "run")


def test_the_types_of_the_ui_are_those_of_the_api(tmp_path: Path) -> None:
    described = tmp_path / "openapi.json"
    described.write_bytes(msgspec.json.encode(description()))

    ran(TOOLS / "openapi-typescript", described, "-o", tmp_path / "schema.ts")

    # `make ui-types` writes it anew.
    assert (tmp_path / "schema.ts").read_text() == (UI / "src" / "api" / "schema.ts").read_text()


def test_the_scripts_of_the_ui_stay_small() -> None:
    sizes = {path.name: len(gzip.compress(path.read_bytes())) for path in BUILT.rglob("*.js")}

    assert 0 < sum(sizes.values()) <= BUNDLE_BYTES_MAX, sizes


def test_the_built_page_loads_nothing_from_elsewhere() -> None:
    page = (BUILT / "index.html").read_text()

    assert "//" not in page.replace("<!doctype html>", "")
    assert "<style" not in page


@pytest.mark.timeout(420)
@pytest.mark.parametrize("spec", SPECS)
def test_a_browser_sees_and_steers(spec: str, tmp_path: Path) -> None:
    ran(TOOLS / "playwright", "test", f"browser/{spec}", "--output", tmp_path)
