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


def test_validate_accepts_a_valid_document(windlass: Windlass) -> None:
    assert windlass("validate", "echo.yaml") == (0, "echo.yaml: valid\n", "")


def test_validate_lists_all_problems_of_all_documents(windlass: Windlass, folder: Path) -> None:
    (folder / "round.yaml").write_text(CYCLE)
    (folder / "typo.yaml").write_text("workflow_id: typo\nnods: {}\n")

    said = windlass("validate", "round.yaml", "echo.yaml", "typo.yaml")

    assert said.code == 2
    assert said.out == "echo.yaml: valid\n"
    assert "typo.yaml:2:1: " in said.err
    assert any(line.startswith("round.yaml:") and "dependency cycle" in line for line in said.err.splitlines())


def test_validate_prints_problems_as_json(windlass: Windlass, folder: Path) -> None:
    (folder / "typo.yaml").write_text("workflow_id: typo\nnods: {}\n")

    said = windlass("validate", "typo.yaml", "echo.yaml", "--json")

    assert said.code == 2
    assert said.json["echo.yaml"] == {"valid": True, "problems": []}
    assert not said.json["typo.yaml"]["valid"]
    assert any(problem["line"] == 2 for problem in said.json["typo.yaml"]["problems"])


@pytest.mark.parametrize(
    ("form", "part"), [("text", "│ echo_handler │"), ("mermaid", "flowchart TD"), ("dot", 'digraph "echo_test" {')]
)
def test_graph_draws_each_format(windlass: Windlass, form: str, part: str) -> None:
    said = windlass("graph", "echo.yaml", "--format", form)

    assert said.code == 0
    assert part in said.out


def test_graph_rejects_an_invalid_document(windlass: Windlass, folder: Path) -> None:
    (folder / "round.yaml").write_text(CYCLE)

    said = windlass("graph", "round.yaml")

    assert said.code == 2
    assert said.out == ""
    assert "round.yaml:" in said.err
