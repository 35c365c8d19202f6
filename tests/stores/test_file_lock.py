"""The lock of an embedded database, and files that cannot be one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unprivileged import drop_file_privileges
from windlass.core.errors import DatabaseInUse, StoreUnavailable
from windlass.stores.sqlite.file_lock import lock_database


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


def test_hard_link_does_not_get_round_the_lock(tmp_path: Path) -> None:
    path, link = tmp_path / "windlass.db", tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()

    with lock_database(str(path)):
        link.hardlink_to(path)

        in_use = pytest.raises(DatabaseInUse, match=r"\(pid unknown\): .*link\.db")
        with in_use, lock_database(str(link)):
            pass
    with lock_database(str(link)):
        pass


def test_lock_without_create_leaves_a_database_absent(tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"

    with lock_database(str(path), create=False):
        assert not path.exists()


def test_lock_file_with_any_content_names_an_unknown_process(tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"
    with lock_database(str(path)):
        Path(f"{path}.lock").write_bytes(b"\xff\xfe")

        in_use = pytest.raises(DatabaseInUse, match="database in use")
        with in_use, lock_database(str(path)):
            pass


LOCK = """
import sys
from windlass.core.errors import StoreUnavailable
from windlass.stores.sqlite.file_lock import lock_database
try:
    with lock_database(sys.argv[1]):
        print("locked")
except StoreUnavailable as error:
    print(error)
"""


@pytest.mark.parametrize("unwritable", ["windlass.db", "windlass.db.lock"])
def test_unwritable_file_is_named(tmp_path: Path, unwritable: str) -> None:
    path = tmp_path / "windlass.db"
    with lock_database(str(path)):
        pass
    (tmp_path / unwritable).chmod(0o444)

    result = subprocess.run(
        [sys.executable, "-c", LOCK, str(path)],
        preexec_fn=drop_file_privileges,
        capture_output=True,
        text=True,
        check=True,
    )

    assert result.stdout == (
        f"cannot use the database {path}: Permission denied: {tmp_path / unwritable}; make the file and its directory "
        "writable, or use another file\n"
    )


FULL = """
import resource, sys
from windlass.stores.sqlite.file_lock import lock_database
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
with lock_database(sys.argv[1]):
    sys.exit(7)
"""


def test_lock_holds_although_its_file_cannot_name_the_process(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "windlass.db")],
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )

    assert result.returncode == 7
