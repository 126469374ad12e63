"""Foreign bytes become samples; nothing but sound is ever decoded."""

import av.logging
import numpy as np
import pytest

from shared.pitch import pitch_track
from tests.support.clips import coded, png, speech, wav
from voices.intake import decode as decoding
from voices.intake.decode import NotAudio, TooLong, decode
from voices.intake.order import CLIP_RATE_HZ

SPEECH = speech(2)


def _listen(upload: bytes) -> tuple[np.ndarray, list[tuple[str, str]]]:
    """The samples, and what FFmpeg's parts say while they are decoded: (part, message)."""
    level = av.logging.get_level()
    av.logging.set_level(av.logging.DEBUG)
    try:
        with av.logging.Capture() as messages:
            samples = decode(upload, max_s=60)
    finally:
        av.logging.set_level(level)
    return samples, [(part, message) for _, part, message in messages]


COVERS = {
    "a cover": lambda: png(16, 16),
    "a broken cover": lambda: png(16, 16, broken=True),
    "a cover of 16 megapixels": lambda: png(4000, 4000),
}


@pytest.mark.parametrize("cover", COVERS)
@pytest.mark.parametrize(("container", "codec"), [("mp3", "libmp3lame"), ("mp4", "aac")])
def test_a_cover_changes_nothing_and_is_never_decoded(container, codec, cover):
    plain = decode(coded(SPEECH, container, codec), max_s=60)
    covered, messages = _listen(coded(SPEECH, container, codec, picture=COVERS[cover]()))
    np.testing.assert_array_equal(covered, plain)
    said_of_pictures = [message for part, message in messages if part == "png"]
    # FFmpeg asks for the decoder and is refused: that it was found in the file is seen, too.
    assert said_of_pictures
    assert all("not on whitelist" in message for message in said_of_pictures)


def test_the_sound_of_a_film_is_used_and_its_pictures_are_not_decoded():
    samples, messages = _listen(coded(SPEECH, "mp4", "aac", video=True))
    assert len(samples) / CLIP_RATE_HZ == pytest.approx(2, abs=0.1)
    assert all("not on whitelist" in message for part, message in messages if part == "mpeg4")


def test_the_codecs_that_may_run_decode_sound_only():
    """Names that this build of FFmpeg does not have are harmless."""
    known = [name for name in decoding._CODECS if name in av.codecs_available]
    assert len(known) > 10
    assert {av.Codec(name, "r").type for name in known} == {"audio"}


@pytest.mark.parametrize("channels", [1, 2, 6, 8])
def test_channels_are_averaged(channels):
    one = decode(wav(SPEECH), max_s=60)
    np.testing.assert_allclose(decode(wav(SPEECH, channels=channels), max_s=60), one, atol=1e-6)


def test_audio_of_the_exact_bound_is_decoded_and_a_sample_more_is_not():
    upload = wav(speech(2, rate_hz=CLIP_RATE_HZ), CLIP_RATE_HZ)
    assert len(decode(upload, max_s=2)) == 2 * CLIP_RATE_HZ
    with pytest.raises(TooLong):
        decode(upload, max_s=2 - 1 / CLIP_RATE_HZ)


def test_a_rate_that_changes_on_the_way_is_followed():
    """Two mp3 files, one behind the other."""
    first = coded(speech(1, rate_hz=16000), "mp3", "libmp3lame", rate_hz=16000, options={"write_xing": "0"})
    second = coded(speech(1, rate_hz=48000), "mp3", "libmp3lame", rate_hz=48000, options={"write_xing": "0"})
    samples = decode(first + second, max_s=60)
    assert len(samples) / CLIP_RATE_HZ == pytest.approx(2, abs=0.25)
    pitch = pitch_track(samples, CLIP_RATE_HZ)
    assert np.median(pitch[5:40]) == pytest.approx(120, rel=0.02)
    assert np.median(pitch[60:95]) == pytest.approx(120, rel=0.02)


def test_recordings_chained_in_one_ogg_are_all_decoded():
    one = coded(SPEECH, "ogg", "libopus")
    assert len(decode(one + one, max_s=60)) / CLIP_RATE_HZ == pytest.approx(4, abs=0.05)


def test_resampling_keeps_speech_and_removes_what_does_not_fit():
    time_s = np.arange(96000) / 48000
    kept, removed = (0.4 * np.sin(2 * np.pi * hz * time_s).astype(np.float32) for hz in (1000, 15000))
    samples = decode(wav(kept + removed, 48000), max_s=60)
    spectrum = 20 * np.log10(np.abs(np.fft.rfft(samples[2205:-2205] * np.hanning(len(samples) - 4410))) + 1e-9)
    hz = np.fft.rfftfreq(len(samples) - 4410, 1 / CLIP_RATE_HZ)
    others = spectrum[(hz < 900) | (hz > 1100)].max()
    assert spectrum.max() - others > 80


def test_what_is_no_audio_is_one_error():
    for data in (b"", b"RIFF", png(8, 8), bytes(10_000)):
        with pytest.raises(NotAudio):
            decode(data, max_s=60)
