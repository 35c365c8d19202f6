"""The embedded database of a process: its lock, and files that cannot be one."""

from pathlib import Path

import pytest

from windlass.core.errors import DatabaseInUse, StoreUnavailable
from windlass.factory import lock_database


def test_one_process_has_the_lock_of_a_database(tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "windlass.db")

    in_use = pytest.raises(DatabaseInUse, match=r"in use by another Windlass process \(pid \d+\)")
    with lock_database(path), in_use, lock_database(path):
        pass
    with lock_database(path):
        pass


def test_a_path_that_cannot_be_a_database_is_rejected_without_a_trace(tmp_path: Path) -> None:
    document = tmp_path / "hello.yaml"
    document.write_text("workflow_id: hello\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    before = sorted(tmp_path.iterdir())

    for path in (document, folder, document / "windlass.db"):
        refused = pytest.raises(
            StoreUnavailable, match=r"cannot use the database .*; use another file"
        )
        with refused, lock_database(str(path)):
            pass

    assert sorted(tmp_path.iterdir()) == before
