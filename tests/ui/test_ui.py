"""The web UI: unit tests, API types, bundle size and browser tests."""

import gzip
from pathlib import Path

import pytest

from tests.ui.api_types import TOOLS, TYPES, UI, generated, ran

BUILT = UI.parent / "src" / "windlass" / "_ui"
BUNDLE_BYTES_MAX = 250_000
SPECS = sorted(path.name for path in (UI / "browser").glob("*.spec.ts"))
# Tests that measure time, for which all others have to wait.
ALONE = {"large.spec.ts"}
# Tests of every page in every theme and width, which take minutes, and tests that restart servers.
LONG = ALONE | {"accessibility.spec.ts", "restart.spec.ts", "security.spec.ts", "webhooks.spec.ts"}


def marks_of(spec: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a browser test."""
    marks: list[pytest.MarkDecorator] = []
    if spec in ALONE:
        marks.append(pytest.mark.alone)
    if spec in LONG:
        marks.append(pytest.mark.prove)
    return marks


@pytest.mark.timeout(180)
def test_the_unit_tests_of_the_ui_pass() -> None:
    ran(TOOLS / "vitest", "run")


def test_the_types_of_the_ui_match_the_api() -> None:
    # `make ui-types` updates them.
    assert TYPES.read_text() == generated()


def test_the_bundle_is_small() -> None:
    sizes = {path.name: len(gzip.compress(path.read_bytes())) for path in BUILT.rglob("*.js")}

    assert 0 < sum(sizes.values()) <= BUNDLE_BYTES_MAX, sizes


def test_the_built_page_loads_own_resources_only() -> None:
    page = (BUILT / "index.html").read_text()

    assert "//" not in page.replace("<!doctype html>", "")
    assert "<style" not in page


@pytest.mark.timeout(420)
@pytest.mark.parametrize("spec", [pytest.param(spec, marks=marks_of(spec)) for spec in SPECS])
def test_the_browser_tests_pass(spec: str, tmp_path: Path) -> None:
    ran(TOOLS / "playwright", "test", f"browser/{spec}", "--output", tmp_path)
