"""`windlass validate` and `windlass graph`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import CommandResult

Windlass = Callable[..., CommandResult]

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

    result = windlass("validate", "round.yaml", "echo.yaml", "typo.yaml")

    assert result.code == 2
    assert result.out == "echo.yaml: valid\n"
    assert "typo.yaml:2:1: " in result.err
    assert any(
        line.startswith("round.yaml:") and "dependency cycle" in line
        for line in result.err.splitlines()
    )


def test_validate_prints_problems_as_json(windlass: Windlass, folder: Path) -> None:
    (folder / "typo.yaml").write_text("workflow_id: typo\nnods: {}\n")

    result = windlass("validate", "typo.yaml", "echo.yaml", "--json")

    assert result.code == 2
    assert result.json["echo.yaml"] == {"valid": True, "problems": []}
    assert not result.json["typo.yaml"]["valid"]
    assert any(problem["line"] == 2 for problem in result.json["typo.yaml"]["problems"])


@pytest.mark.parametrize(
    ("form", "part"),
    [("text", "│ echo_handler │"), ("mermaid", "flowchart TD"), ("dot", 'digraph "echo_test" {')],
)
def test_graph_draws_each_format(windlass: Windlass, form: str, part: str) -> None:
    result = windlass("graph", "echo.yaml", "--format", form)

    assert result.code == 0
    assert part in result.out


def test_graph_rejects_an_invalid_document(windlass: Windlass, folder: Path) -> None:
    (folder / "round.yaml").write_text(CYCLE)

    result = windlass("graph", "round.yaml")

    assert result.code == 2
    assert result.out == ""
    assert "round.yaml:" in result.err
