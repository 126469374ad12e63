"""The operator's work on all voices: clips that nobody needs, and what a revoked key has left."""

import asyncio
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from cli.main import main
from shared.database import Database, database_url
from shared.settings import Settings
from tests.support.clips import speech, wav
from tests.support.databases import make_key
from tests.support.engines import ToneEngine
from tests.support.stack import running_stack
from tests.support.voices import Api, num_rows, stored_files
from voices.api_keys import KeyRegistry
from voices.clip_store import LocalClipStore

ORPHAN = "ab" + "0" * 62
YOUNG = "cd" + "1" * 62


def run(settings: Settings, *arguments: str) -> str:
    environ = {"GEPARD_REDIS_URL": settings.redis.url, "GEPARD_DATA_DIR": str(settings.data_path())}
    done = CliRunner().invoke(main, ["voices", *arguments], env=environ)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
async def filled(settings: Settings):
    """A stack's settings: two keys have a voice each, of one clip; the first has a consent, too, and is revoked."""
    first, first_key = await make_key(settings, "first")
    _, second_key = await make_key(settings, "second")
    data = wav(speech(3.0))
    async with running_stack(settings, ToneEngine()) as stack:
        async with stack.client(first_key) as client:
            await Api(client).add(data, "ann")
            answer = await client.post(
                "/v1/audio/voice_consents",
                data={"name": "hers", "language": "en-US"},
                files={"recording": ("c.wav", wav(speech(3.0, 200.0)), "audio/wav")},
            )
            assert answer.status_code == 200, answer.text
        async with stack.client(second_key) as client:
            await Api(client).add(data, "bob")
    async with Database(database_url(settings)) as database:
        await KeyRegistry(database).revoke(first.id)
    return settings, first.id


async def put_orphans(settings: Settings) -> None:
    store = LocalClipStore(settings.data_path() / "clips")
    for name in (ORPHAN, YOUNG):
        await store.put(name, b"flac")
    old = time.time() - 2 * 3600
    os.utime(Path(settings.data_path() / "clips" / ORPHAN[:2] / f"{ORPHAN}.flac"), (old, old))


async def test_only_old_clips_without_a_row_are_swept(filled):
    settings, _ = filled
    kept = stored_files(settings)
    for path in kept:
        os.utime(settings.data_path() / "clips" / path, (0, 0))
    await put_orphans(settings)
    assert await _in_thread(run, settings, "sweep") == "Removed 1 clip.\n"
    assert stored_files(settings) == kept | {f"{YOUNG[:2]}/{YOUNG}.flac"}
    assert await _in_thread(run, settings, "sweep", "--older-than-hours", "0") == "Removed 1 clip.\n"
    assert stored_files(settings) == kept


async def test_without_a_redis_it_sweeps_too(filled):
    settings, _ = filled
    await put_orphans(settings)
    alone = replace(settings, redis=replace(settings.redis, url=""))
    assert await _in_thread(run, alone, "sweep") == "Removed 1 clip.\n"


async def test_what_a_revoked_key_left_is_listed_and_deleted(filled):
    settings, key_id = filled
    listed = (await _in_thread(run, settings, "owned", key_id)).splitlines()
    assert [line.split(" ", 1)[1] for line in listed] == ["ann", "(a consent)"]
    before = stored_files(settings)
    deleted = (await _in_thread(run, settings, "owned", key_id, "--delete")).splitlines()
    assert deleted == [f"Deleted {line}" for line in listed]
    rows = await num_rows(settings)
    assert (rows["voices"], rows["consents"]) == (1, 0)
    # The clip that the other key's voice is made of stays.
    assert len(before) == 2
    assert len(stored_files(settings)) == 1
    assert await _in_thread(run, settings, "owned", key_id) == ""


async def test_a_key_that_there_is_not_is_named(filled):
    settings, _ = filled
    environ = {"GEPARD_DATA_DIR": str(settings.data_path())}
    done = await _in_thread(lambda: CliRunner().invoke(main, ["voices", "owned", "nobody"], env=environ))
    assert done.exit_code == 1
    assert "no valid key has the id or name 'nobody'" in done.output


async def _in_thread(work, *arguments):
    """The commands have event loops of their own."""
    return await asyncio.to_thread(work, *arguments)
