"""Uploads that are broken or meant to break: an exact code for each, in bounded time, nothing left behind."""

import asyncio
import io
import resource
import subprocess
import sys
import time
import zipfile

import msgspec
import numpy as np
import pytest

from shared.errors import ClipRefused
from shared.settings import ClipsSettings
from tests.support.clips import coded, endless_opus, float_wav, png, speech, streamed_wav, wav, wav_of
from tests.support.signals import noise
from voices.clips import ClipIntake
from voices.intake.order import Order

pytestmark = pytest.mark.usefixtures("no_trace")

SPEECH = speech(3)
SILENCE = np.zeros(72000, np.float32)


def archive() -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as file:
        file.writestr("clip.wav", wav(SPEECH))
    return sink.getvalue()


def ten_minutes() -> bytes:
    return coded(np.tile(speech(1, rate_hz=8000), 620), "flac", "flac", rate_hz=8000)


REFUSED = {
    "nothing": (lambda: b"", "clip_not_audio"),
    "one byte": (lambda: b"R", "clip_not_audio"),
    "text": (lambda: b"This is my voice. " * 500, "clip_not_audio"),
    "noise": (lambda: np.random.default_rng(0).bytes(100_000), "clip_not_audio"),
    "a zip": (archive, "clip_not_audio"),
    "a picture": (lambda: png(16, 16), "clip_not_audio"),
    "a program": (lambda: b"\x7fELF" + bytes(5000), "clip_not_audio"),
    "a playlist that names an address": (
        lambda: b"#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\nhttp://127.0.0.1:9/a.ts\n#EXT-X-ENDLIST\n",
        "clip_not_audio",
    ),
    "a list that names a file": (lambda: b"ffconcat version 1.0\nfile /etc/hostname\n", "clip_not_audio"),
    "a wav cut behind its data size": (lambda: wav(SPEECH)[:44], "clip_not_audio"),
    "a wav cut in its header": (lambda: wav(SPEECH)[:30], "clip_not_audio"),
    "a wav without channels": (lambda: wav_of(b"\0" * 9000, channels=0), "clip_not_audio"),
    "a wav of rate 0": (lambda: wav_of(b"\0" * 9000, 0), "clip_not_audio"),
    "an m4a without its end": (lambda: coded(SPEECH, "ipod", "aac")[:-2000], "clip_not_audio"),
    "a webm of silent pictures only": (lambda: coded(SPEECH, "webm", "libopus")[:300], "clip_not_audio"),
    "a codec that is not promised": (lambda: coded(SPEECH, "matroska", "ac3", rate_hz=48000), "clip_not_audio"),
    "silence": (lambda: wav(SILENCE), "clip_silent"),
    "numbers that are none": (lambda: float_wav(SILENCE * np.nan), "clip_silent"),
    "faint noise": (lambda: wav(0.003 * noise(72000)), "clip_silent"),
    "noise as loud as speech": (lambda: wav(noise(72000)), "clip_too_short"),
    "half a second": (lambda: wav(speech(0.5)), "clip_too_short"),
    "half a second in ten of silence": (lambda: wav(np.pad(speech(0.5), 120_000)), "clip_too_short"),
    "overdriven speech": (lambda: wav(np.clip(12 * SPEECH, -1, 1)), "clip_clipped"),
    "integers called floats": (lambda: float_wav(32767 * SPEECH), "clip_clipped"),
    "infinite numbers": (lambda: float_wav(np.where(SPEECH > 0.1, np.inf, -np.inf)), "clip_clipped"),
    "ten minutes and more": (ten_minutes, "clip_too_long"),
    "two hours of silence in one megabyte": (lambda: endless_opus(7200), "clip_too_long"),
    "eleven megabytes": (lambda: wav(SPEECH) + bytes(11 << 20), "clip_too_large"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_hostile_upload_is_refused_with_a_plain_reason(take, name):
    make, code = REFUSED[name]
    upload = make()
    started = time.monotonic()
    with pytest.raises(ClipRefused) as refused:
        await take(upload)
    assert refused.value.code == code
    assert time.monotonic() - started < 20
    # Nothing a decoder says.
    assert not any(word in refused.value.message.lower() for word in ("errno", "invalid", "av.", "traceback", "0x"))


ACCEPTED = {
    "a wav that claims 4 GB": (lambda: streamed_wav(SPEECH), 3.0),
    "a wav with more to come than there is": (lambda: wav(SPEECH)[:-48000], 2.0),
    "an mp3 cut anywhere": (lambda: coded(SPEECH, "mp3", "libmp3lame")[:-5000], 1.75),
    "a fragmented mp4 cut anywhere": (
        lambda: coded(SPEECH, "mp4", "aac", options={"movflags": "frag_every_frame+empty_moov"})[:-8000],
        2.2,
    ),
    "an ogg cut anywhere": (lambda: coded(SPEECH, "ogg", "libopus")[:-5000], 2.0),
    "tags in an unknown alphabet": (
        lambda: coded(SPEECH, "mp3", "libmp3lame").replace(b"Lavf", b"\xff\xfe\x80\x81"),
        3.0,
    ),
    "speech with a few numbers that are none": (
        lambda: float_wav(np.where(np.arange(72000) % 1000 == 0, np.nan, SPEECH).astype(np.float32)),
        3.0,
    ),
    "rubbish in the middle of an mp3": (lambda: _spoiled(coded(SPEECH, "mp3", "libmp3lame")), 2.8),
}


def _spoiled(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + np.random.default_rng(0).bytes(600) + data[middle + 600 :]


@pytest.mark.parametrize("name", ACCEPTED)
async def test_what_can_be_read_of_a_damaged_upload_is_used(take, name):
    make, seconds = ACCEPTED[name]
    taken = await take(make())
    assert taken.clip.duration_s == pytest.approx(seconds, abs=0.35)
    assert np.isfinite(taken.clip.samples).all()


async def test_speech_at_its_exact_peak_is_not_called_overdriven(take):
    angle = 2 * np.pi * 120 * np.arange(72000) / 24000
    pulses = np.sum([np.cos(order * angle) / order for order in range(1, 11)], axis=0)
    assert (await take(wav(pulses / np.abs(pulses).max()))).clip.duration_s == 3


async def test_ten_minutes_are_taken_in_within_memory_and_time(take):
    upload = coded(np.tile(speech(1, rate_hz=8000), 590), "flac", "flac", rate_hz=8000)
    started = time.monotonic()
    taken = await take(upload)
    assert taken.source_s == 590
    assert time.monotonic() - started < 25


async def test_an_upload_that_needs_too_much_memory_is_refused():
    upload = coded(np.tile(speech(1, rate_hz=8000), 590), "flac", "flac", rate_hz=8000)
    intake = ClipIntake(ClipsSettings(decode_memory_bytes=280 << 20))
    with pytest.raises(ClipRefused, match="limits on time and memory") as refused:
        await intake.take(upload, max_seconds=15)
    assert refused.value.code == "clip_undecodable"


async def test_the_gateway_stays_responsive_while_a_bomb_is_decoded(take):
    upload = asyncio.create_task(take(endless_opus(3600)))
    longest = 0.0
    while not upload.done():
        before = time.monotonic()
        await asyncio.sleep(0.01)
        longest = max(longest, time.monotonic() - before)
    assert isinstance(upload.exception(), ClipRefused)
    assert longest < 0.5


def test_the_intake_process_can_open_nothing_and_has_nothing_of_ours():
    """After it gave up its rights: no file, no socket, bounded memory."""
    order = Order(max_s=15, max_stored_s=23, max_decoded_s=60, max_memory_bytes=400 << 20, max_cpu_s=3)
    probe = f"""
import msgspec, os, resource, socket
from voices.intake import process
from voices.intake.order import Order
process._give_up_rights(msgspec.json.decode({msgspec.json.encode(order)!r}, type=Order))
failed = []
def read(): open("/etc/hostname")
def write(): open("/tmp/left-behind", "w")
def fill(): bytearray(500 << 20)
for attempt in (read, write, socket.socket, fill):
    try:
        attempt()
    except (OSError, MemoryError):
        failed.append(attempt)
print(len(failed), resource.getrlimit(resource.RLIMIT_CPU)[0])
"""
    result = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True, text=True)
    assert result.stdout.split() == ["4", "3"]


async def test_no_secret_of_the_gateway_reaches_the_intake_process(monkeypatch, take):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setattr(
        "voices.clips._COMMAND",
        (sys.executable, "-c", "import os, sys; sys.exit('AWS_SECRET_ACCESS_KEY' in os.environ and 3)"),
    )
    seen = []
    monkeypatch.setattr("voices.clips.log.warning", lambda event, **fields: seen.append(fields["returncode"]))
    with pytest.raises(ClipRefused):
        await take(wav(SPEECH))
    assert seen == []


async def test_nothing_is_needed_of_a_machine_but_pipes(monkeypatch, take):
    """A read-only container without a home."""
    monkeypatch.delenv("HOME", raising=False)
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, "/nonexistent")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        assert (await take(coded(SPEECH, "mp3", "libmp3lame"))).clip.duration_s == 3
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
