"""`windlass validate` and `windlass graph`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Said

Windlass = Callable[..., Said]

CYCLE = """\
workflow_id: round
nodes:
  a: {handler: echo, dependencies: [b]}
  b: {handler: echo, dependencies: [a]}
"""


def test_a_usable_document_is_valid(windlass: Windlass) -> None:
    assert windlass("validate", "echo.yaml") == (0, "echo.yaml: valid\n", "")


def test_all_problems_of_all_documents_are_listed(windlass: Windlass, folder: Path) -> None:
    (folder / "round.yaml").write_text(CYCLE)
    (folder / "typo.yaml").write_text("workflow_id: typo\nnods: {}\n")

    said = windlass("validate", "round.yaml", "echo.yaml", "typo.yaml")

    assert said.code == 2
    assert said.out == "echo.yaml: valid\n"
    assert "typo.yaml:2:1: " in said.err
    assert any(line.startswith("round.yaml:") and "circle" in line for line in said.err.splitlines())


def test_problems_are_data_with_json(windlass: Windlass, folder: Path) -> None:
    (folder / "typo.yaml").write_text("workflow_id: typo\nnods: {}\n")

    said = windlass("validate", "typo.yaml", "echo.yaml", "--json")

    assert said.code == 2
    assert said.json["echo.yaml"] == {"valid": True, "problems": []}
    assert not said.json["typo.yaml"]["valid"]
    assert any(problem["line"] == 2 for problem in said.json["typo.yaml"]["problems"])


@pytest.mark.parametrize(
    ("form", "part"), [("text", "│ echo_handler │"), ("mermaid", "flowchart TD"), ("dot", 'digraph "echo_test" {')]
)
def test_a_workflow_is_drawn_in_each_form(windlass: Windlass, form: str, part: str) -> None:
    said = windlass("graph", "echo.yaml", "--format", form)

    assert said.code == 0
    assert part in said.out


def test_an_unusable_document_is_not_drawn(windlass: Windlass, folder: Path) -> None:
    (folder / "round.yaml").write_text(CYCLE)

    said = windlass("graph", "round.yaml")

    assert said.code == 2
    assert said.out == ""
    assert "round.yaml:" in said.err
