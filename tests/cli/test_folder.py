"""Which files of a folder are workflows, and how modules are imported again."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass.cli import workflow_folder as folders
from windlass.cli.user_code import import_again, import_modules, user_modules
from windlass.cli.workflow_folder import documents, looks_like_workflow
from windlass.core.errors import HandlerInvalid


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder; modules imported from it are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in user_modules((), tmp_path):
        del sys.modules[name]


def test_documents_are_found_in_folders_but_not_in_hidden_or_foreign_ones(project: Path) -> None:
    for name in ("b.yml", "a.yaml", "deep/er/c.json", ".hidden/d.yaml", "node_modules/e.json", "f.txt"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("x")

    assert [str(path.relative_to(project)) for path in documents(project)] == ["a.yaml", "b.yml", "deep/er/c.json"]


def test_a_folder_of_very_many_files_is_read_up_to_a_bound(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "DOCUMENTS_MAX", 2)
    for name in ("a.yaml", "b.yaml", "c.yaml"):
        (project / name).write_text("x")

    assert len(documents(project)) == 2


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
def test_a_document_is_known_by_its_keys(project: Path, text: str, expected: bool) -> None:
    (project / "x.yaml").write_text(text)

    assert looks_like_workflow(project / "x.yaml") is expected


def test_modules_imported_again_see_what_changed_beneath_them(project: Path) -> None:
    (project / "beneath.py").write_text("VALUE = 1\n")
    (project / "above.py").write_text("from beneath import VALUE\n")
    import_modules(["above"], project)
    (project / "beneath.py").write_text("VALUE = 2\n")

    seen = import_again(["above"], project, lambda: sys.modules["above"].VALUE)

    assert seen == 2


def test_when_a_module_is_broken_the_old_ones_stay_whole(project: Path) -> None:
    (project / "beneath.py").write_text("VALUE = 1\n")
    (project / "above.py").write_text("import beneath\ndef value():\n    return beneath.VALUE\n")
    import_modules(["above"], project)
    before = dict(user_modules(["above"], project)), sys.modules["above"]
    (project / "beneath.py").write_text("VALUE = 2\n")
    (project / "above.py").write_text("import beneath\nraise ValueError('half way')\n")

    with pytest.raises(HandlerInvalid, match="above cannot be imported: ValueError: half way"):
        import_again(["above"], project, lambda: None)

    assert (dict(user_modules(["above"], project)), sys.modules["above"]) == before
    assert sys.modules["above"].value() == 1
