"""Finding workflow files, and importing changed modules again."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass.cli import workflow_folder as folders
from windlass.cli.user_code import import_modules, reimport_modules, user_modules
from windlass.cli.workflow_folder import find_documents, looks_like_workflow
from windlass.core.errors import HandlerInvalid


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder; modules imported from it are removed afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in user_modules((), tmp_path):
        del sys.modules[name]


def test_hidden_and_excluded_directories_are_not_searched(project: Path) -> None:
    for name in (
        "b.yml",
        "a.yaml",
        "deep/er/c.json",
        ".hidden/d.yaml",
        "node_modules/e.json",
        "f.txt",
    ):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("x")

    assert [str(path.relative_to(project)) for path in find_documents(project)] == [
        "a.yaml",
        "b.yml",
        "deep/er/c.json",
    ]


def test_a_large_directory_is_searched_up_to_the_limit(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "DOCUMENTS_MAX", 2)
    for name in ("a.yaml", "b.yaml", "c.yaml"):
        (project / name).write_text("x")

    assert len(find_documents(project)) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("workflow_id: x\nnodes: {}", True),
        ('{"description": "y", "workflow_id": "x"}', True),
        ("nodes:\n  a: {handler: echo}", True),
        ("{workflow_id: x}", True),
        ('{"name": "package", "scripts": {}}', False),
        ("services:\n  db: {image: postgres}", False),
        ("", False),
    ],
)
def test_a_workflow_is_recognized_by_its_keys(project: Path, text: str, expected: bool) -> None:
    (project / "x.yaml").write_text(text)

    assert looks_like_workflow(project / "x.yaml") is expected


def test_reimported_modules_see_changes_of_their_imports(project: Path) -> None:
    (project / "beneath.py").write_text("VALUE = 1\n")
    (project / "above.py").write_text("from beneath import VALUE\n")
    import_modules(["above"], project)
    (project / "beneath.py").write_text("VALUE = 2\n")

    seen = reimport_modules(["above"], project, lambda: sys.modules["above"].VALUE)

    assert seen == 2


def test_the_old_modules_stay_when_a_new_one_is_invalid(project: Path) -> None:
    (project / "beneath.py").write_text("VALUE = 1\n")
    (project / "above.py").write_text("import beneath\ndef value():\n    return beneath.VALUE\n")
    import_modules(["above"], project)
    before = dict(user_modules(["above"], project)), sys.modules["above"]
    (project / "beneath.py").write_text("VALUE = 2\n")
    (project / "above.py").write_text("import beneath\nraise ValueError('half way')\n")

    with pytest.raises(HandlerInvalid, match="cannot import module above: ValueError: half way"):
        reimport_modules(["above"], project, lambda: None)

    assert (dict(user_modules(["above"], project)), sys.modules["above"]) == before
    assert sys.modules["above"].value() == 1
