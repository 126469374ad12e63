"""`gepard voices` against a real gateway, run as a user runs it."""

import asyncio
import json

import pytest

from tests.conftest import tone_settings
from tests.support.clips import speech, wav
from tests.support.engines import ToneEngine, engine_info
from tests.support.gepard import run
from tests.support.stack import running_stack


@pytest.fixture
async def gepard(redis_url, tmp_path):
    """Runs a command of `gepard voices`."""
    settings = tone_settings(redis_url, tmp_path)
    (tmp_path / "clip.wav").write_bytes(wav(speech(2.0)))
    async with running_stack(settings, ToneEngine(engine_info(can_match=True), chunk_chars=50)) as stack:

        async def call(*arguments: object):
            is_local = arguments[0] in ("publish", "unpublish")
            where = ("--data-dir", tmp_path) if is_local else ("--url", stack.url)
            return await asyncio.to_thread(run, "voices", *arguments, *where, cwd=tmp_path)

        yield call


async def test_a_voice_is_added_listed_heard_renamed_shared_and_deleted(gepard, tmp_path):
    added = await gepard("add", "clip.wav", "--name", "ann", "--description", "[red]calm")
    assert added.returncode == 0, added.stderr
    voice_id = added.stdout.strip()
    assert voice_id.startswith("voice_")
    assert "tone: matched" in added.stderr
    listed = await gepard("list")
    assert "ann" in listed.stdout
    assert "[red]calm" in listed.stdout
    heard = await gepard("preview", "Ann", "-o", "ann.mp3")
    assert heard.returncode == 0, heard.stderr
    assert (tmp_path / "ann.mp3").stat().st_size > 0
    assert (await gepard("rename", "ann", "anna")).returncode == 0
    assert (await gepard("publish", voice_id)).returncode == 0
    found = json.loads((await gepard("list", "--json")).stdout)
    assert [(voice["name"], voice["public"]) for voice in found if voice["id"] == voice_id] == [("anna", True)]
    assert (await gepard("unpublish", voice_id)).returncode == 0
    removed = await gepard("rm", "anna")
    assert removed.returncode == 0, removed.stderr
    assert "anna" not in (await gepard("list")).stdout


async def test_errors_are_one_plain_line(gepard, tmp_path):
    (tmp_path / "no.wav").write_bytes(b"not audio")
    for arguments, says in (
        (("add", "no.wav", "--name", "x"), "holds no audio"),
        (("rm", "nobody"), "there is no voice 'nobody'"),
        (("publish", "voice_x"), "there is no voice with the id 'voice_x'"),
    ):
        failed = await gepard(*arguments)
        assert failed.returncode == 1
        assert says in failed.stderr
        assert "Traceback" not in failed.stderr
