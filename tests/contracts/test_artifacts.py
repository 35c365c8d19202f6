"""The contract of artifact stores, tested on a folder, a dictionary and a server with the S3 protocol."""

import asyncio
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from obstore.store import S3Store

from tests.contracts.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, s3_server
from windlass.core.errors import ArtifactNotFound, StoreUnavailable
from windlass.ports.artifacts import Artifacts
from windlass.stores.artifacts.folder import FolderArtifacts
from windlass.stores.artifacts.s3 import S3Artifacts
from windlass.stores.memory.artifacts import MemoryArtifacts

DIGEST = hashlib.sha256(b"1").hexdigest()
NO_JOB_IDS = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "a\\b",
    "/etc",
    "a\0b",
    "a\nb",
    "job\n",
    "%2e%2e",
    "é",
    "a b",
    "x" * 129,
    "~",
]


@pytest.fixture(scope="module")
def s3_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s3")


@pytest.fixture(scope="module")
def s3_url(s3_folder: Path) -> Iterator[str]:
    with s3_server(s3_folder) as url:
        yield url


@pytest.fixture
def s3_environment(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_url)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)


class Place:
    """A store, with ways to read and to damage its content from outside."""

    def __init__(
        self,
        store: Artifacts,
        files: Callable[[], list[str]],
        damage: Callable[[str, bytes], object],
    ) -> None:
        self.store = store
        self.files = files
        self.damage = damage


def files_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def folder_place(folder: Path) -> Place:
    return Place(
        FolderArtifacts(folder),
        lambda: files_of(folder),
        lambda key, body: (folder / key).write_bytes(body),
    )


def s3_place(folder: Path, prefix: str) -> Place:
    objects = S3Store(BUCKET, prefix=prefix, client_options={"allow_http": True})
    return Place(
        S3Artifacts(f"s3://{BUCKET}/{prefix}"),
        lambda: files_of(folder / BUCKET / prefix),
        objects.put,
    )


def memory_place() -> Place:
    store = MemoryArtifacts()
    return Place(
        store, lambda: sorted(store.kept), lambda key, body: store.kept.update({key: body})
    )


@pytest.fixture(params=["folder", "memory", "s3"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    match request.param:
        case "folder":
            made = folder_place(tmp_path / "values")
        case "memory":
            made = memory_place()
        case _:
            request.getfixturevalue("s3_environment")
            made = s3_place(request.getfixturevalue("s3_folder"), f"some/where-{uuid4().hex}")
    yield made
    await made.store.aclose()


@pytest.mark.parametrize(
    "body", [b"1", b'{"text": "\xc3\xa9\\u0000"}', b"x" * (7 * 1024 * 1024 + 1)]
)
async def test_a_value_is_returned_unchanged(place: Place, body: bytes) -> None:
    key = await place.store.put("j1", body)

    assert await place.store.get(key) == body


async def test_a_key_names_the_job_and_the_content(place: Place) -> None:
    assert await place.store.put("j1", b"1") == f"j1/{DIGEST}"


async def test_a_value_is_stored_under_its_key_without_leftovers(place: Place) -> None:
    await place.store.put("j1", b"1")

    assert place.files() == [f"j1/{DIGEST}"]


async def test_putting_a_value_again_changes_nothing(place: Place) -> None:
    first = await place.store.put("j1", b"1")

    assert await place.store.put("j1", b"1") == first
    assert place.files() == [first]


async def test_concurrent_writers_of_the_same_value_store_it_complete(place: Place) -> None:
    body = os.urandom(1_000_000)

    keys = await asyncio.gather(*(place.store.put("j1", body) for _ in range(12)))

    assert len(set(keys)) == 1
    assert place.files() == [keys[0]]
    assert await place.store.get(keys[0]) == body


async def test_a_value_that_was_never_put_is_not_found(place: Place) -> None:
    await place.store.put("j1", b"2")

    with pytest.raises(ArtifactNotFound, match=DIGEST):
        await place.store.get(f"j1/{DIGEST}")


async def test_a_value_is_not_found_before_anything_was_put(place: Place) -> None:
    with pytest.raises(ArtifactNotFound):
        await place.store.get(f"j1/{DIGEST}")


@pytest.mark.parametrize("damaged", [b"", b"2", b"11"])
async def test_a_damaged_value_is_not_returned(place: Place, damaged: bytes) -> None:
    key = await place.store.put("j1", b"1")
    place.damage(key, damaged)

    with pytest.raises(ArtifactNotFound, match="damaged"):
        await place.store.get(key)


async def test_putting_a_damaged_value_again_repairs_it(place: Place) -> None:
    key = await place.store.put("j1", b"1")
    place.damage(key, b"damaged")

    await place.store.put("j1", b"1")

    assert await place.store.get(key) == b"1"


async def test_removing_a_job_deletes_its_values_and_no_others(place: Place) -> None:
    removed = [
        await place.store.put(job_id, b"%d" % n) for job_id in ("j1", "j2") for n in range(3)
    ]
    kept = [await place.store.put(job_id, b"1") for job_id in ("j10", "j", "j1x")]

    await place.store.remove(["j1", "j2", "never-there"])

    for key in removed:
        with pytest.raises(ArtifactNotFound):
            await place.store.get(key)
    assert place.files() == sorted(kept)


async def test_removing_a_job_twice_concurrently_is_not_an_error(place: Place) -> None:
    for number in range(20):
        await place.store.put("j1", b"%d" % number)

    await asyncio.gather(*(place.store.remove(["j1"]) for _ in range(4)))

    assert place.files() == []


async def test_a_removed_job_may_store_again(place: Place) -> None:
    await place.store.put("j1", b"1")
    await place.store.remove(["j1"])

    assert await place.store.get(await place.store.put("j1", b"1")) == b"1"


@pytest.mark.parametrize("job_id", NO_JOB_IDS)
async def test_an_invalid_job_id_stores_nothing(place: Place, job_id: str) -> None:
    with pytest.raises(StoreUnavailable, match="letters, digits"):
        await place.store.put(job_id, b"1")

    assert place.files() == []


@pytest.mark.parametrize("job_id", NO_JOB_IDS)
async def test_an_invalid_job_id_removes_nothing(place: Place, job_id: str) -> None:
    key = await place.store.put("j1", b"1")

    await place.store.remove([job_id])

    assert place.files() == [key]


@pytest.mark.parametrize(
    "key",
    ["", "j1", "/", f"../{DIGEST}", f"j1/../j1/{DIGEST}", f"/j1/{DIGEST}", f"j1/{DIGEST}/x", f"j1//{DIGEST}",
     f"j1/{DIGEST}\n", f"j1/{DIGEST.upper()}", f"j1/{DIGEST[:-1]}", "j1/..", "j1/../../../etc/passwd", f"j1\\{DIGEST}",
     f"{'x' * 129}/{DIGEST}"],
)  # fmt: skip
async def test_an_invalid_key_is_not_searched_for(place: Place, key: str) -> None:
    await place.store.put("j1", b"1")

    with pytest.raises(ArtifactNotFound, match="invalid artifact key"):
        await place.store.get(key)


async def test_removing_thousands_of_jobs_is_fast(tmp_path: Path) -> None:
    store = FolderArtifacts(tmp_path / "values")
    keys = await asyncio.gather(
        *(store.put(f"job{number}", b"%d" % number) for number in range(1500))
    )

    await store.remove([f"job{number}" for number in range(1, 1500)])

    assert await store.get(keys[0]) == b"0"
    assert os.listdir(tmp_path / "values") == ["job0"]
    await store.aclose()


async def test_the_content_is_flushed_before_the_name_and_the_name_before_the_call_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        steps.append("file" if path.is_file() else path.name)
        fsync(descriptor)

    def noted_replace(source: str, target: Path) -> None:
        steps.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    store = FolderArtifacts(tmp_path / "values")
    await store.put("j1", b"1")

    assert steps == [tmp_path.name, "file", "rename", "j1", "values"]
    await store.aclose()


async def test_a_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / DIGEST).write_bytes(b"1")
    store = FolderArtifacts(tmp_path / "values")
    await store.put("j2", b"2")
    (tmp_path / "values" / "j1").symlink_to(outside)
    (tmp_path / "values" / "j2" / DIGEST).symlink_to(outside / DIGEST)

    for key in (f"j1/{DIGEST}", f"j2/{DIGEST}"):
        with pytest.raises((ArtifactNotFound, StoreUnavailable)):
            await store.get(key)
    with pytest.raises(StoreUnavailable):
        await store.put("j1", b"3")
    await store.remove(["j1", "j2"])

    assert [path.name for path in outside.iterdir()] == [DIGEST]
    assert os.listdir(tmp_path / "values") == []
    await store.aclose()


async def test_a_folder_that_cannot_be_created_makes_the_store_unavailable(tmp_path: Path) -> None:
    (tmp_path / "values").write_text("in the way")
    store = FolderArtifacts(tmp_path / "values")

    with pytest.raises(StoreUnavailable, match="cannot write to"):
        await store.put("j1", b"1")
    await store.aclose()


async def test_a_failed_write_leaves_no_file(tmp_path: Path) -> None:
    store = FolderArtifacts(tmp_path / "values")
    (tmp_path / "values" / "j1" / DIGEST / "in the way").mkdir(parents=True)

    with pytest.raises(StoreUnavailable):
        await store.put("j1", b"1")

    assert os.listdir(tmp_path / "values" / "j1") == [DIGEST]
    await store.aclose()


async def test_an_s3_store_that_does_not_answer_is_unavailable(
    s3_environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    store = S3Artifacts(f"s3://{BUCKET}")

    with pytest.raises(StoreUnavailable, match="s3://values"):
        await store.put("j1", b"1")
    await store.aclose()


async def test_wrong_credentials_are_not_in_the_error(
    s3_environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
    store = S3Artifacts(f"s3://{BUCKET}")

    with pytest.raises(StoreUnavailable, match="403 Forbidden") as refused:
        await store.put("j1", b"1")

    assert "wrong-secret" not in str(refused.value)
    assert ACCESS_KEY not in str(refused.value)
    await store.aclose()


@pytest.mark.parametrize("act", ["put", "get", "remove"])
async def test_a_missing_bucket_makes_the_store_unavailable(s3_environment: None, act: str) -> None:
    store = S3Artifacts("s3://no-such-bucket/x")
    calls = {"put": lambda: store.put("j1", b"1"), "get": lambda: store.get(f"j1/{DIGEST}")}

    with pytest.raises(StoreUnavailable, match="no-such-bucket"):
        await calls.get(act, lambda: store.remove(["j1"]))()
    await store.aclose()


@pytest.mark.parametrize(
    "url", ["s3://", "s3:///prefix", "s3://bucket/../x", "https://host/bucket", "s3://b/a//b"]
)
def test_a_url_without_a_bucket_is_refused(url: str) -> None:
    with pytest.raises(StoreUnavailable, match=re.escape(url)):
        S3Artifacts(url)


def test_a_process_that_exits_after_a_rejected_request_is_not_aborted(s3_url: str) -> None:
    code = (
        "import asyncio, sys\n"
        "from windlass.core.errors import StoreUnavailable\n"
        "from windlass.stores.artifacts.s3 import S3Artifacts\n"
        "async def main():\n"
        "    store = S3Artifacts('s3://values')\n"
        "    await store.put('j1', b'1')\n"
        "    await store.aclose()\n"
        "asyncio.run(main())\n"
    )
    environment = {
        "AWS_ENDPOINT_URL": s3_url,
        "AWS_REGION": "x",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
    }

    command = [sys.executable, "-c", code]
    ends = [
        subprocess.run(command, env=environment, capture_output=True, check=False) for _ in range(5)
    ]

    assert {end.returncode for end in ends} == {1}
    assert all(b"StoreUnavailable" in end.stderr for end in ends)
