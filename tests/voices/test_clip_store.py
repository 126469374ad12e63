"""Every clip store behaves alike: whole or not at all, by hash only, harmless to repeat."""

import asyncio
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from shared.errors import SettingsError
from shared.settings import ClipsSettings, Settings
from voices.clip_store import ClipStore, LocalClipStore, open_store

NAME = "ab" + "0" * 62
OTHER = "cd" + "1" * 62


@pytest.fixture(scope="module")
def s3_endpoint() -> Iterator[str]:
    """A server that speaks S3, with an empty bucket."""
    moto = pytest.importorskip("moto.server")
    boto3 = pytest.importorskip("boto3")
    pytest.importorskip("obstore")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    client.create_bucket(Bucket="clips")
    yield endpoint
    server.stop()


@pytest.fixture(params=["local", "s3", "s3 with a prefix"])
async def store(request: pytest.FixtureRequest, tmp_path, monkeypatch) -> AsyncIterator[ClipStore]:
    if request.param == "local":
        yield open_store(Settings(data_dir=str(tmp_path)))
        return
    endpoint = request.getfixturevalue("s3_endpoint")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    prefix = "voices/clips" if "prefix" in request.param else ""
    settings = ClipsSettings(s3_bucket="clips", s3_prefix=prefix, s3_endpoint=endpoint, s3_region="us-east-1")
    store = open_store(Settings(clips=settings))
    yield store
    for name in (NAME, OTHER):
        await store.delete(name)


async def test_a_clip_comes_back_as_it_was_put(store):
    await store.put(NAME, b"flac")
    assert await store.get(NAME) == b"flac"
    assert await store.get(OTHER) is None


async def test_putting_a_clip_again_is_harmless(store):
    await asyncio.gather(*(store.put(NAME, b"flac" * 1000) for _ in range(10)))
    assert await store.get(NAME) == b"flac" * 1000


async def test_a_deleted_clip_is_gone_and_deleting_it_again_is_harmless(store):
    await store.put(NAME, b"flac")
    await store.put(OTHER, b"other")
    await store.delete(NAME)
    await store.delete(NAME)
    assert await store.get(NAME) is None
    assert await store.get(OTHER) == b"other"


async def test_clips_are_listed_by_when_they_were_put(store):
    before = time.time() - 60
    await store.put(NAME, b"flac")
    await store.put(OTHER, b"other")
    assert await store.put_before(before) == []
    assert sorted(await store.put_before(time.time() + 60)) == [NAME, OTHER]
    await store.delete(OTHER)
    assert await store.put_before(time.time() + 60) == [NAME]


async def test_an_old_draft_of_a_killed_writer_goes_and_what_is_no_clip_stays(tmp_path):
    store = LocalClipStore(tmp_path)
    await store.put(NAME, b"flac")
    draft, note = tmp_path / NAME[:2] / ".0123456789abcdef.tmp", tmp_path / NAME[:2] / "note.flac"
    for path in (draft, note):
        path.touch()
    assert await store.put_before(time.time() - 60) == []
    assert draft.exists()
    assert await store.put_before(time.time() + 60) == [NAME]
    assert not draft.exists()
    assert note.exists()


@pytest.mark.parametrize(
    "name", ["", "rachel", "../" + NAME, NAME.upper(), NAME[:-1], NAME + "\n", "../../etc/passwd", NAME[:-1] + "\0"]
)
async def test_only_a_hash_names_a_clip(store, name):
    for call in (store.put(name, b"x"), store.get(name), store.delete(name)):
        with pytest.raises(ValueError, match="64 lower-case hex digits"):
            await call


async def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    store = LocalClipStore(tmp_path)
    await store.put(NAME, b"old")

    def fail(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        await store.put(NAME, b"new")
    assert await store.get(NAME) == b"old"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [f"{NAME}.flac"]


async def test_clips_on_disk_are_for_the_owner_only(tmp_path):
    await LocalClipStore(tmp_path / "clips").put(NAME, b"flac")
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


async def test_a_store_that_cannot_be_reached_is_an_os_error_without_secrets(monkeypatch):
    pytest.importorskip("obstore")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test-key-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test-secret")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
        store = open_store(Settings(clips=ClipsSettings(s3_bucket="clips", s3_endpoint=endpoint)))
        with pytest.raises(OSError, match="the clip store failed") as failure:
            await store.get(NAME)
    assert "test-key-id" not in str(failure.value)


def test_a_store_that_is_not_installed_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    monkeypatch.delitem(sys.modules, "voices.s3_clip_store", raising=False)
    with pytest.raises(SettingsError, match=r"gepard-gateway\[s3\]"):
        open_store(Settings(clips=ClipsSettings(s3_bucket="clips")))
