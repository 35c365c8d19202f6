"""The file sink: formats, appending, replacing, concurrent writers, and paths outside the directory."""

import asyncio
import csv
import fcntl
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet
import pytest

from tests.sinks.targets import raw, sink_spec
from windlass.connections.folder import Folder, PathRefused
from windlass.ports.sink import SinkReceipt
from windlass.sinks import file as file_sink
from windlass.sinks.file import FileRefused, FileSink, FileUnavailable
from windlass.sinks.rows import OptionsInvalid, RowsRefused

PARQUET: Any = pyarrow.parquet


class Files:
    """A file sink and its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sink = FileSink(Folder(folder))

    async def write(
        self, output: object, path: str, run_key: str = "run-1", **options: Any
    ) -> SinkReceipt:
        return await self.sink.write(
            sink_spec("file", run_key=run_key, path=path, **options), raw(output), "task-1"
        )

    def text(self, path: str) -> str:
        return (self.folder / path).read_text()

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def lines(self, path: str) -> list[Any]:
        return [msgspec.json.decode(line) for line in self.text(path).splitlines()]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


async def test_rows_are_appended_as_json_lines(files: Files) -> None:
    await files.write([{"a": 1}, {"b": [None]}], "out.jsonl")

    receipt = await files.write({"a": "Zoë\n"}, "out.jsonl")

    assert receipt == SinkReceipt(1)
    assert files.lines("out.jsonl") == [{"a": 1}, {"b": [None]}, {"a": "Zoë\n"}]


async def test_missing_directories_are_created(files: Files) -> None:
    await files.write([1, 2], "some/where/out.ndjson")

    assert files.lines("some/where/out.ndjson") == [{"value": 1}, {"value": 2}]


async def test_csv_values_are_quoted_if_necessary(files: Files) -> None:
    row = {
        "text": 'a "quoted", one',
        "lines": "two\nlines",
        "none": None,
        "yes": True,
        "nested": {"a": [1]},
        "n": 1.5,
    }

    await files.write(row, "out.csv")

    with (files.folder / "out.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == [
            {**row, "none": "", "yes": "true", "nested": '{"a":[1]}', "n": "1.5"},
        ]


async def test_later_rows_follow_the_header_of_the_first(files: Files) -> None:
    await files.write([{"a": 1, "b": 2}, {"c": 3}], "out.csv")

    await files.write([{"c": 6, "a": 4}], "out.csv")

    assert files.text("out.csv") == "a,b,c\n1,2,\n,,3\n4,,6\n"


async def test_a_column_missing_in_the_header_is_rejected(files: Files) -> None:
    await files.write({"name": 1}, "out.csv")

    with pytest.raises(RowsRefused, match=r"'nmae'.*did you mean 'name'"):
        await files.write({"nmae": 1}, "out.csv")


async def test_appending_to_a_parquet_file_rewrites_it(files: Files) -> None:
    await files.write([{"id": 1, "tags": ["a"]}], "out.parquet")

    await files.write([{"id": 2, "score": 0.5}], "out.parquet")

    assert PARQUET.read_table(files.folder / "out.parquet").to_pylist() == [
        {"id": 1, "tags": ["a"], "score": None},
        {"id": 2, "tags": None, "score": 0.5},
    ]


async def test_rows_that_parquet_cannot_store_are_rejected(files: Files) -> None:
    with pytest.raises(RowsRefused, match="write jsonl instead"):
        await files.write([{"a": 1}, {"a": "text"}], "out.parquet")


async def test_the_format_may_be_an_option(files: Files) -> None:
    await files.write({"a": 1}, "out.log", format="jsonl")

    assert files.lines("out.log") == [{"a": 1}]


async def test_an_unknown_file_extension_is_rejected(files: Files) -> None:
    with pytest.raises(OptionsInvalid, match="set format to one of jsonl, csv, parquet"):
        await files.write({"a": 1}, "out.txt")


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.parquet"])
async def test_the_first_write_of_a_run_replaces_and_the_others_append(
    files: Files, name: str
) -> None:
    await files.write([{"n": 1}, {"n": 2}], name)
    before = (files.folder / name).stat().st_size

    await files.write([{"n": 3}], name, run_key="run-2", mode="replace")
    await files.write([{"n": 4}], name, run_key="run-2", mode="replace")

    if name == "out.parquet":
        assert PARQUET.read_table(files.folder / name).to_pylist() == [{"n": 3}, {"n": 4}]
    else:
        assert "1" not in files.text(name)
        assert (files.folder / name).stat().st_size == before


async def test_each_run_replaces_the_file(files: Files) -> None:
    for run_key in ("run-1", "run-2"):
        await files.write([{"run": run_key}], "out.jsonl", run_key=run_key, mode="replace")

    assert files.lines("out.jsonl") == [{"run": "run-2"}]


async def test_an_empty_replacement_empties_the_file(files: Files) -> None:
    await files.write([{"n": 1}], "out.jsonl")

    await files.write([], "out.jsonl", run_key="run-2", mode="replace")

    assert files.text("out.jsonl") == ""


async def test_nothing_but_the_file_and_its_lock_is_left(files: Files) -> None:
    await files.write([{"n": 1}], "out.jsonl", mode="replace")

    assert files.names() == [".out.jsonl.windlass", "out.jsonl"]


async def test_readers_see_the_old_file_until_the_new_one_is_complete(files: Files) -> None:
    await files.write([{"n": 1}], "out.jsonl")
    with (files.folder / "out.jsonl").open() as reader:
        await files.write([{"n": 2}], "out.jsonl", run_key="run-2", mode="replace")

        assert reader.read() == '{"n":1}\n'


async def test_an_incomplete_line_of_a_dead_writer_does_not_damage_the_next(files: Files) -> None:
    (files.folder / "out.jsonl").write_text('{"n":1}\n{"n":')

    await files.write({"n": 2}, "out.jsonl")

    assert files.text("out.jsonl") == '{"n":1}\n{"n":\n{"n":2}\n'


async def test_many_writers_do_not_mix_their_lines(files: Files) -> None:
    sinks = [FileSink(Folder(files.folder)) for _ in range(4)]
    rows = [{"writer": number, "text": "x" * 5_000} for number in range(3)]

    await asyncio.gather(
        *(sinks[at % 4].write(sink_spec("file", path="out.jsonl"), raw([{**row, "at": at} for row in rows]), f"t{at}")
          for at in range(24))
    )  # fmt: skip

    assert [row["writer"] for row in files.lines("out.jsonl")] == [0, 1, 2] * 24


async def test_a_full_disk_does_not_change_the_file(files: Files) -> None:
    await files.write({"n": 1}, "out.jsonl")
    handled = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(FileRefused, match="too large"):
            await files.write([{"text": "x" * 60_000}, {"text": "y" * 60_000}], "out.jsonl")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handled)

    assert files.lines("out.jsonl") == [{"n": 1}]


async def test_a_lock_that_is_never_released_is_retryable(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_sink, "LOCK_SECONDS_MAX", 0.05)
    await files.write({"n": 1}, "out.jsonl")
    with (files.folder / ".out.jsonl.windlass").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        with pytest.raises(FileUnavailable, match="another writer"):
            await files.write({"n": 2}, "out.jsonl")


@pytest.mark.parametrize(
    "path",
    [
        "../out.jsonl",
        "a/../../out.jsonl",
        "/tmp/out.jsonl",
        "link/out.jsonl",
        "out\0.jsonl",
        "",
        "out-link.jsonl",
    ],
)
async def test_a_path_outside_the_directory_is_rejected(tmp_path: Path, path: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path)
    (inside / "out-link.jsonl").symlink_to(tmp_path / "out.jsonl")

    with pytest.raises(PathRefused):
        await Files(inside).write({"n": 1}, path, format="jsonl")

    assert Files(tmp_path).names() == ["inside"]


@pytest.mark.parametrize("path", ["own/engine.db", "own/engine.db-wal", "alias/engine.db"])
async def test_the_database_of_the_engine_is_rejected(tmp_path: Path, path: str) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "own")
    sink = FileSink(Folder(tmp_path, tmp_path / "own" / "engine.db"))

    with pytest.raises(PathRefused, match="the engine's database"):
        await sink.write(
            sink_spec("file", path=path, format="jsonl", mode="replace"), raw([]), "task-1"
        )


async def test_an_absolute_path_into_the_folder_is_accepted(files: Files) -> None:
    await files.write({"n": 1}, str(files.folder / "out.jsonl"))

    assert files.lines("out.jsonl") == [{"n": 1}]


async def test_a_folder_in_place_of_the_file_is_rejected(files: Files) -> None:
    (files.folder / "out.jsonl").mkdir()

    with pytest.raises(FileRefused, match=r"out\.jsonl: Is a directory"):
        await files.write({"n": 1}, "out.jsonl")


async def test_files_do_not_support_upsert(files: Files) -> None:
    with pytest.raises(OptionsInvalid, match="mode: expected one of append, replace"):
        await files.write({"n": 1}, "out.jsonl", mode="upsert", key="n")


def test_without_pyarrow_the_error_names_the_extra(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from windlass.sinks.formats import parquet_file\n"
        "try: parquet_file([{'a': 1}], None)\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=os.getcwd()
    )

    assert "FormatMissing" in done.stdout
    assert "pip install 'windlass[parquet]'" in done.stdout


async def test_declared_columns_are_the_header_whichever_row_comes_first(files: Files) -> None:
    columns = ["id", "name", "note"]
    await files.write([{"name": "a"}], "out.csv", columns=columns)

    await files.write([{"id": 2, "note": "n"}], "out.csv", columns=columns)

    assert files.text("out.csv") == "id,name,note\n,a,\n2,,n\n"


async def test_a_row_with_an_undeclared_column_is_rejected(files: Files) -> None:
    with pytest.raises(RowsRefused, match=r"'nmae'.*did you mean 'name'.*columns"):
        await files.write([{"nmae": 1}], "out.csv", columns=["name"])

    assert not (files.folder / "out.csv").exists()


async def test_a_file_with_another_header_than_the_declared_columns_is_rejected(
    files: Files,
) -> None:
    await files.write([{"a": 1}], "out.csv")

    with pytest.raises(RowsRefused, match=r"differs from columns: a"):
        await files.write([{"a": 1}], "out.csv", columns=["a", "b"])


async def test_columns_of_a_file_without_a_header_are_rejected(files: Files) -> None:
    with pytest.raises(OptionsInvalid, match="columns are for CSV files"):
        await files.write([{"a": 1}], "out.jsonl", columns=["a"])
