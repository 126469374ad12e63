"""Starter voices: from the operator's clips or the embedded presets, their profiles kept on disk."""

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs PyTorch: make test-gepard")

import numpy as np

from shared.errors import CheckpointError, SettingsError
from tests.support.tiny_gepard import clip_of, tiny_engine, write_starters
from voices.aliases import OPENAI_NAMES, aliases_of, resolve_voice
from workers.audio.clip_file import read_clip, write_clip
from workers.engines.gepard_profiles import MAX_REFERENCE_S, ProfileMaker
from workers.engines.gepard_starters import rendered_starters
from workers.engines.hibari import HibariEngine
from workers.engines.hibari_voices import PRESETS


def info_of(engine):
    """Start, look, stop."""

    async def run():
        await engine.start()
        try:
            return engine.info
        finally:
            await engine.stop()

    return asyncio.run(run())


@pytest.fixture(scope="module")
def embedded_clips(tmp_path_factory) -> Path:
    return asyncio.run(rendered_starters(HibariEngine(num_threads=1), tmp_path_factory.mktemp("clips")))


def test_without_clips_of_the_operator_the_embedded_presets_are_cloned(embedded_clips, tmp_path):
    # As the engine would have rendered them into its cache.
    cache = tmp_path / "cache" / "starter-clips"
    cache.mkdir(parents=True)
    (cache / embedded_clips.name).symlink_to(embedded_clips)
    info = info_of(tiny_engine(tmp_path, starter_clips=None))
    assert {preset.name for preset in info.presets} == {preset.name for preset in PRESETS}
    assert set(aliases_of(info, {})) == set(OPENAI_NAMES)
    assert all("cloned from the embedded voice" in preset.description for preset in info.presets)


def test_the_embedded_clips_have_a_length_the_model_was_trained_on(embedded_clips):
    for preset in PRESETS:
        clip = read_clip(embedded_clips / f"{preset.name}.wav", max_s=60)
        assert 4 < clip.duration_s < MAX_REFERENCE_S
        assert 0.05 < np.abs(clip.samples).max() <= 1


def test_embedded_clips_are_rendered_once(embedded_clips):
    before = {path: path.stat().st_mtime_ns for path in embedded_clips.iterdir()}
    again = asyncio.run(rendered_starters(HibariEngine(num_threads=1), embedded_clips.parent))
    assert again == embedded_clips
    assert {path: path.stat().st_mtime_ns for path in again.iterdir()} == before


def test_profiles_are_made_once(tmp_path, monkeypatch):
    info_of(tiny_engine(tmp_path))
    assert len(list((tmp_path / "cache" / "profiles").glob("*.profile"))) == 3
    monkeypatch.setattr(ProfileMaker, "make", lambda *_: pytest.fail("made again"))
    info_of(tiny_engine(tmp_path))


@pytest.mark.parametrize("damage", [b"", b"\xc1", None], ids=["empty", "no profile", "other model's"])
def test_a_damaged_profile_on_disk_is_made_anew(tmp_path, damage):
    info_of(tiny_engine(tmp_path))
    first, *_ = entries = sorted((tmp_path / "cache" / "profiles").glob("*.profile"))
    good = first.read_bytes()
    first.write_bytes(good.replace(good[20:40], b"x" * 20) if damage is None else damage)
    info_of(tiny_engine(tmp_path))
    assert first.read_bytes() == good
    assert sorted((tmp_path / "cache" / "profiles").iterdir()) == entries


def test_a_clip_that_changes_gets_a_profile_of_its_own(tmp_path):
    info_of(tiny_engine(tmp_path))
    write_clip(tmp_path / "clips" / "alloy.wav", clip_of(400))
    info_of(tiny_engine(tmp_path))
    assert len(list((tmp_path / "cache" / "profiles").glob("*.profile"))) == 4


def test_a_name_of_the_operators_own_wins_over_the_built_in_alias(tmp_path):
    """The folder has alloy.wav and rowan.wav, and alloy is an alias of rowan elsewhere."""
    info = info_of(tiny_engine(tmp_path))
    assert resolve_voice("Alloy", info, {}).name == "alloy"
    assert resolve_voice("nova", info, {}).name == "linnet"
    assert resolve_voice("nova", info, {"nova": "alloy"}).name == "alloy"
    assert resolve_voice("verse", info, {}) is None


def _bad_folders(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    text = write_starters(tmp_path / "text")
    (text / "notes.wav").write_text("no sound")
    named = write_starters(tmp_path / "named")
    (named / "alloy.wav").rename(named / "My Voice!.wav")
    twice = write_starters(tmp_path / "twice")
    (twice / "alloy.wav").rename(twice / "Rowan.wav")
    return {
        "missing": (tmp_path / "missing", "cannot read the folder"),
        "empty": (empty, "has 0 clips"),
        "text": (text, r"notes\.wav.*cannot be decoded"),
        "named": (named, "My Voice!.wav: a voice is named by"),
        "twice": (twice, "two clips named rowan"),
    }


@pytest.mark.parametrize("case", ["missing", "empty", "text", "named", "twice"])
def test_clips_that_cannot_be_used_stop_the_start_with_their_name(tmp_path, case):
    folder, message = _bad_folders(tmp_path)[case]
    with pytest.raises(SettingsError, match=message):
        info_of(tiny_engine(tmp_path, starter_clips=folder))


def test_a_cache_that_cannot_be_written_stops_the_start(tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(SettingsError, match="starter clip"):
        info_of(tiny_engine(tmp_path))
    with pytest.raises(SettingsError, match="cannot write to"):
        info_of(tiny_engine(tmp_path, starter_clips=None))


def test_a_device_that_is_not_there_stops_the_start(tmp_path):
    for device in ("cuda:7", "nonsense"):
        with pytest.raises(SettingsError, match=f"gepard.device {device}"):
            info_of(tiny_engine(tmp_path, device=device))


def test_a_codec_that_is_none_stops_the_start(tmp_path):
    bad = tmp_path / "codec.nemo"
    bad.write_bytes(b"no archive")
    with pytest.raises(CheckpointError, match=r"codec\.nemo"):
        info_of(tiny_engine(tmp_path, codec=bad))
