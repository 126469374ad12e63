"""Clips in files of the operator."""

import wave

import numpy as np
import pytest

from shared.clip import Clip
from shared.formats import AudioFormat
from workers.audio.chain import ReplyChain
from workers.audio.clip_file import read_clip, write_clip

TONE = Clip(samples=(0.5 * np.sin(np.arange(24000) * 0.1)).astype(np.float32), rate_hz=24000)


def test_a_written_clip_reads_the_same_but_for_sixteen_bits(tmp_path):
    write_clip(tmp_path / "a.wav", TONE)
    back = read_clip(tmp_path / "a.wav", max_s=10)
    assert back.rate_hz == 24000
    assert np.abs(back.samples - TONE.samples).max() < 1e-4
    assert [path.name for path in tmp_path.iterdir()] == ["a.wav"]


def test_only_the_first_seconds_are_read(tmp_path):
    write_clip(tmp_path / "a.wav", TONE)
    assert len(read_clip(tmp_path / "a.wav", max_s=0.25).samples) == 6000


def test_channels_are_averaged(tmp_path):
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((2, 2, 8000, 0, "NONE", ""))
        file.writeframes(np.tile(np.array([1000, 3000], "<i2"), 800).tobytes())
    clip = read_clip(tmp_path / "a.wav", max_s=10)
    assert clip.samples.shape == (800,)
    assert np.allclose(clip.samples, 2000 / 32768)


@pytest.mark.parametrize("ending", ["flac", "mp3", "opus"])
def test_compressed_files_are_read(tmp_path, ending):
    chain = ReplyChain(engine_rate_hz=24000, audio_format=AudioFormat(ending), sample_rate_hz=24000, speed=1.0)
    packets = [*chain.feed(TONE.samples), *chain.finish()]
    (tmp_path / f"a.{ending}").write_bytes(b"".join(packets))
    clip = read_clip(tmp_path / f"a.{ending}", max_s=10)
    assert abs(clip.duration_s - 1) < 0.1
    assert 0.4 < np.abs(clip.samples).max() < 0.65


@pytest.mark.parametrize("data", [b"", b"no sound at all" * 100], ids=["empty", "text"])
def test_a_file_without_sound_is_refused_by_name(tmp_path, data):
    (tmp_path / "a.wav").write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.wav"):
        read_clip(tmp_path / "a.wav", max_s=10)


def test_a_wav_without_samples_is_refused(tmp_path):
    write_clip(tmp_path / "a.wav", Clip(samples=np.zeros(0, np.float32), rate_hz=24000))
    with pytest.raises(ValueError, match=r"a\.wav"):
        read_clip(tmp_path / "a.wav", max_s=10)


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        read_clip(tmp_path / "a.wav", max_s=10)
