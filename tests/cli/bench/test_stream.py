"""From arrivals of bytes to what a listener hears."""

import numpy as np
import pytest

from cli.bench.audio_clock import BARE_SAMPLE_BYTES, EncodedClock, NotAudio
from cli.bench.stream import Stream, measure
from shared.formats import FORMATS, AudioFormat
from workers.audio.chain import ReplyChain

SECOND = 48000  # bytes of pcm at 24 kHz


def stream(*arrivals, **changes):
    """A stream that was due at 10.0; arrivals are (seconds after that, bytes so far)."""
    times = [(10.0 + at_s, num_bytes) for at_s, num_bytes in arrivals]
    end = times[-1][0] if times else 10.0
    return Stream(**{"text": "one two", "due": 10.0, "end": end, "arrivals": times, **changes})


CASES = {
    "at once": ([(0.5, SECOND)], 0.5, 1.0, 0.0),
    "in time": ([(0.5, SECOND), (1.5, 2 * SECOND)], 0.5, 2.0, 0.0),
    "late": ([(0.5, SECOND), (1.9, 2 * SECOND), (2.5, 3 * SECOND)], 0.5, 3.0, 0.4),
    "a slow first byte is no deficit": ([(9.0, SECOND), (9.1, 3 * SECOND)], 9.0, 3.0, 0.0),
    "odd pieces": ([(0.1, 1), (0.1, 3), (0.2, SECOND)], 0.1, 1.0, 0.1 - 3 / SECOND),
}


@pytest.mark.parametrize(("arrivals", "first_s", "audio_s", "deficit_s"), CASES.values(), ids=CASES.keys())
def test_pcm_is_timed_by_its_bytes(arrivals, first_s, audio_s, deficit_s):
    figures = measure(stream(*arrivals))
    assert figures.first_audio_s == pytest.approx(first_s)
    assert figures.audio_s == pytest.approx(audio_s)
    assert figures.deficit_s == pytest.approx(deficit_s)
    assert figures.total_s == pytest.approx(arrivals[-1][0])
    assert figures.underran is (deficit_s > 0.1)
    assert figures.real_time_factor == pytest.approx(arrivals[-1][0] / audio_s)


def test_the_servers_sample_rate_counts():
    assert measure(stream((1.0, SECOND), rate_hz=48000)).audio_s == pytest.approx(0.5)


def test_telephone_audio_has_a_byte_a_sample():
    assert measure(stream((1.0, 8000), audio_format=AudioFormat.ULAW, rate_hz=8000)).audio_s == 1


def test_a_failed_stream_has_no_figures():
    assert measure(stream((0.001, SECOND), error="broken_off")) is None


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        (stream(), "no_audio"),
        (stream((0.1, 9), audio_format=AudioFormat.MP3, body=bytearray(b"not audio")), "not_audio"),
    ],
    ids=["empty", "not audio"],
)
def test_a_reply_without_audio_is_an_error_and_not_a_fast_stream(broken, error):
    assert measure(broken) is None
    assert broken.error == error


def encoded(audio_format, seconds=3.0):
    rate_hz = FORMATS[audio_format].default_rate_hz
    chain = ReplyChain(engine_rate_hz=24000, audio_format=audio_format, sample_rate_hz=rate_hz, speed=1.0)
    samples = 0.3 * np.sin(2 * np.pi * 220 * np.arange(round(seconds * 24000)) / 24000)
    return b"".join([*chain.feed(samples.astype(np.float32)), *chain.finish()])


ENCODED = [audio_format for audio_format in AudioFormat if audio_format not in BARE_SAMPLE_BYTES]


@pytest.mark.parametrize("audio_format", ENCODED)
def test_an_encoded_file_tells_how_much_can_be_played(audio_format):
    data = encoded(audio_format)
    clock = EncodedClock(data)
    assert clock.seconds(len(data)) == pytest.approx(3.0, abs=0.08)
    assert clock.seconds(0) == clock.seconds(20) == 0
    times = [clock.seconds(num_bytes) for num_bytes in range(0, len(data), 100)]
    assert times == sorted(times)
    # At a nearly constant rate, half of the bytes are about half of the time.
    assert clock.seconds(len(data) // 2) == pytest.approx(1.5, abs=0.4)


def test_a_header_is_no_audio():
    data = encoded(AudioFormat.WAV)
    arrivals = [(0.1, 44), (0.5, 44 + SECOND), (1.5, len(data))]
    figures = measure(stream(*arrivals, audio_format=AudioFormat.WAV, body=bytearray(data)))
    assert figures.first_audio_s == pytest.approx(0.5)
    assert figures.deficit_s == pytest.approx(0.0, abs=1e-6)


def test_bytes_that_are_no_audio_are_refused():
    with pytest.raises(NotAudio):
        EncodedClock(b"{}" * 500)
