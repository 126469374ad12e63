"""From upload to clip: every format that is promised, cut to its best part, and stored without loss."""

import asyncio
import sys

import msgspec
import numpy as np
import pytest

from shared.clip import MAX_CLIP_BYTES, Clip
from shared.errors import ClipRefused, IntakeBusy
from shared.settings import ClipsSettings
from tests.support import clips
from tests.support.clips import coded, float_wav, speech, streamed_wav, wav, wav_of
from tests.support.signals import median_pitch_hz, rms_db
from tests.support.waiting import eventually
from tests.voices.conftest import intake_processes
from voices import clips as intake_module
from voices.clip_store import LocalClipStore
from voices.clips import MAX_STORED_S, ClipIntake, load_clip
from voices.intake.order import CLIP_RATE_HZ, Taken

pytestmark = pytest.mark.usefixtures("no_trace")

SPEECH = speech(3)
FAST = speech(3, rate_hz=48000)

FORMATS = {
    "wav": lambda: wav(SPEECH),
    "wav streamed, sizes 0xFFFFFFFF": lambda: streamed_wav(SPEECH),
    "wav, sizes 0": lambda: streamed_wav(SPEECH).replace(b"\xff\xff\xff\xff", bytes(4)),
    "wav, 8 bits": lambda: wav_of(np.uint8(np.rint(SPEECH * 127) + 128).tobytes(), bits=8),
    "wav, 32 bits": lambda: wav_of(np.int32(SPEECH * 2**31).tobytes(), bits=32),
    "wav, float": lambda: float_wav(SPEECH),
    "wav, double": lambda: wav_of(SPEECH.astype("<f8").tobytes(), bits=64, kind=3),
    "wav, A-law": lambda: coded(speech(3, rate_hz=8000), "wav", "pcm_alaw", rate_hz=8000),
    "wav, stereo 48 kHz": lambda: wav(FAST, 48000, channels=2),
    "wav, 96 channels": lambda: wav(speech(1.5, rate_hz=8000), 8000, channels=96),
    "wav, 192 kHz": lambda: wav(speech(3, rate_hz=192000), 192000),
    "mp3": lambda: coded(SPEECH, "mp3", "libmp3lame"),
    "mp3, stereo": lambda: coded(FAST, "mp3", "libmp3lame", rate_hz=48000, layout="stereo"),
    "m4a": lambda: coded(SPEECH, "ipod", "aac"),
    "mp4": lambda: coded(SPEECH, "mp4", "aac"),
    "mp4, fragmented": lambda: coded(SPEECH, "mp4", "aac", options={"movflags": "frag_every_frame+empty_moov"}),
    "alac in m4a": lambda: coded(SPEECH, "ipod", "alac"),
    "aac": lambda: coded(SPEECH, "adts", "aac"),
    "ogg opus": lambda: coded(SPEECH, "ogg", "libopus"),
    "ogg vorbis": lambda: coded(SPEECH, "ogg", "vorbis", layout="stereo", codec_options={"strict": "-2"}),
    "flac": lambda: coded(SPEECH, "flac", "flac"),
    "flac in ogg": lambda: coded(SPEECH, "ogg", "flac"),
    "webm": lambda: coded(SPEECH, "webm", "libopus"),
    "webm from a browser, without a length": lambda: coded(SPEECH, "webm", "libopus", options={"live": "1"}),
}


@pytest.mark.parametrize("name", FORMATS)
async def test_a_format_is_taken_in(take, name):
    taken = await take(FORMATS[name]())
    expected_s = 1.5 if "96" in name else 3.0
    assert taken.clip.rate_hz == CLIP_RATE_HZ
    # AAC pads its first and its last block.
    assert taken.clip.duration_s == pytest.approx(expected_s, abs=0.08)
    assert median_pitch_hz(taken.clip.samples[2000:-2000], CLIP_RATE_HZ) == pytest.approx(120, rel=0.02)
    # 3 dB are lost where the test makes stereo of mono.
    assert rms_db(taken.clip.samples) == pytest.approx(rms_db(SPEECH), abs=4)
    assert taken.note is None


async def test_a_clip_at_the_stored_rate_is_kept_to_the_bit(take):
    samples = speech(2, rate_hz=CLIP_RATE_HZ)
    taken = await take(wav(samples, CLIP_RATE_HZ))
    np.testing.assert_array_equal(
        taken.clip.samples * 32768, np.frombuffer(clips.int16(samples), "<i2").astype(np.float32)
    )


async def test_the_same_sound_has_the_same_name_whatever_the_container(take):
    names = {(await take(data)).clip.sha256 for data in (wav(SPEECH), streamed_wav(SPEECH), wav(SPEECH, channels=2))}
    assert len(names) == 1


async def test_a_stored_clip_comes_back_without_loss(take, tmp_path):
    store = LocalClipStore(tmp_path / "clips")
    taken = await take(coded(SPEECH, "mp3", "libmp3lame"))
    await store.put(taken.clip.sha256, taken.flac)
    loaded = await load_clip(store, taken.clip.sha256)
    np.testing.assert_array_equal(loaded.samples, taken.clip.samples)
    assert await load_clip(store, "0" * 64) is None


async def test_a_damaged_stored_clip_is_noticed(take, tmp_path):
    store = LocalClipStore(tmp_path / "clips")
    one, other = await take(wav(SPEECH)), await take(wav(speech(2)))
    await store.put(one.clip.sha256, other.flac)
    with pytest.raises(ValueError, match="damaged"):
        await load_clip(store, one.clip.sha256)
    await store.put(one.clip.sha256, b"rubbish")
    with pytest.raises(ValueError, match="FLAC"):
        await load_clip(store, one.clip.sha256)


async def test_the_part_with_most_speech_is_kept_and_the_reply_says_so(take):
    silence = np.zeros(24000 * 8, np.float32)
    upload = np.concatenate([speech(2), silence, speech(4), silence[:12000], speech(4), silence])
    taken = await take(wav(upload), max_seconds=10)
    assert taken.clip.duration_s == pytest.approx(10, abs=0.02)
    assert taken.speech_s == pytest.approx(8, abs=0.5)
    assert 8 <= taken.start_s <= 10.1
    assert taken.note == (f"Of 26.5 s, 10.0 s with the most speech were kept, from {taken.start_s:.1f} s on.")


@pytest.mark.parametrize("max_seconds", [None, 0])
async def test_without_a_bound_the_whole_clip_is_kept(take, max_seconds):
    taken = await take(wav(speech(20, rate_hz=8000), 8000), max_seconds)
    assert taken.clip.duration_s == 20
    assert not taken.is_cut


async def test_no_clip_is_longer_than_workers_can_get(take):
    upload = wav(speech(30, rate_hz=8000), 8000)
    taken = await take(upload, 30)
    assert taken.clip.duration_s == pytest.approx(MAX_STORED_S, abs=0.02)
    assert len(taken.clip.to_bytes()) <= MAX_CLIP_BYTES
    with pytest.raises(ClipRefused, match=f"longer than {MAX_STORED_S} s") as refused:
        await take(upload, None)
    assert refused.value.code == "clip_too_long"


async def test_clips_at_once_wait_for_their_turn_and_too_many_are_sent_away():
    intake = ClipIntake(ClipsSettings(max_decoders=1, max_waiting=2))
    uploads = [asyncio.create_task(intake.take(wav(speech(1 + n)), max_seconds=15)) for n in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(IntakeBusy):
        await intake.take(wav(SPEECH), max_seconds=15)
    most = 0
    while not all(upload.done() for upload in uploads):
        most = max(most, len(intake_processes()))
        await asyncio.sleep(0.02)
    assert most == 1
    assert [upload.result().clip.duration_s for upload in uploads] == [1, 2, 3]


async def test_an_upload_that_is_given_up_frees_its_place(monkeypatch):
    intake = ClipIntake(ClipsSettings(max_decoders=1))
    monkeypatch.setattr(intake_module, "_COMMAND", (sys.executable, "-c", "import time; time.sleep(60)"))
    upload = asyncio.create_task(intake.take(wav(SPEECH), max_seconds=15))
    await eventually(intake_processes)
    upload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await upload
    monkeypatch.undo()
    assert intake_processes() == []
    assert (await intake.take(wav(SPEECH), max_seconds=15)).clip.duration_s == 3


def _says(report: Taken) -> str:
    output = msgspec.msgpack.encode(report)
    return f"import sys; sys.stdin.buffer.read(); sys.stdout.buffer.write({output!r})"


TAKEN = Taken(pcm=b"", flac=b"", source_s=1, start_s=0, speech_s=1)

BROKEN = {
    "crashes": "import os; os.abort()",
    "hangs": "import time; time.sleep(60)",
    "hangs before it has read": "import sys, time; sys.stdin.close(); time.sleep(60)",
    "spins": "while True: pass",
    "floods": "import sys\nwhile True: sys.stdout.write('x' * 65536)",
    "says nothing": "import sys; sys.stdin.buffer.read()",
    "says rubbish": "print('rubbish')",
    "gives half a sample": _says(msgspec.structs.replace(TAKEN, pcm=b"x")),
    "gives no sample": _says(TAKEN),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_process_that_goes_wrong_costs_one_refusal(monkeypatch, name):
    """Whatever a file does to a decoder ends with that process, within the time allowed."""
    monkeypatch.setattr(intake_module, "_COMMAND", (sys.executable, "-c", BROKEN[name]))
    intake = ClipIntake(ClipsSettings(decode_timeout_s=0.6))
    with pytest.raises(ClipRefused, match="could not be decoded") as refused:
        await asyncio.wait_for(intake.take(wav(speech(60)), max_seconds=15), 5)
    assert refused.value.code == "clip_undecodable"


def test_a_clip_of_the_longest_kind_fits_the_transport():
    clip = Clip(samples=np.zeros(MAX_STORED_S * CLIP_RATE_HZ, np.float32), rate_hz=CLIP_RATE_HZ)
    assert len(clip.to_bytes()) <= MAX_CLIP_BYTES
