"""The whole way from an engine's samples to a reply's packets."""

import io

import av
import pytest

from shared.formats import FORMATS, AudioFormat
from tests.support.signals import cut, voice_like
from workers.audio.chain import ReplyChain


def packets_of(samples, audio_format, speed, call_size, rate_hz=None):
    chain = ReplyChain(
        engine_rate_hz=22050,
        audio_format=audio_format,
        sample_rate_hz=rate_hz or FORMATS[audio_format].default_rate_hz,
        speed=speed,
    )
    packets = [packet for chunk in cut(samples, call_size) for packet in chain.feed(chunk)]
    return packets + chain.finish()


@pytest.mark.parametrize("audio_format", list(AudioFormat))
@pytest.mark.parametrize("speed", [1.0, 1.5])
def test_packets_do_not_depend_on_how_an_engine_cuts_its_chunks(audio_format, speed):
    samples = voice_like(120, 22050, 1.3)
    whole = packets_of(samples, audio_format, speed, len(samples))
    assert packets_of(samples, audio_format, speed, 1764) == whole
    assert packets_of(samples, audio_format, speed, 331) == whole


@pytest.mark.parametrize("speed", [0.25, 0.5, 1.0, 2.0, 4.0])
def test_a_reply_lasts_as_long_as_its_speed_says(speed):
    samples = voice_like(120, 22050, 1.3)
    data = b"".join(packets_of(samples, AudioFormat.PCM, speed, 1764))
    stretched = round(len(samples) / speed)
    assert len(data) == 2 * round(stretched * 24000 / 22050)


def test_a_reply_that_is_fed_nothing_is_a_whole_file():
    data = b"".join(packets_of(voice_like(120, 22050, 0), AudioFormat.FLAC, 1.5, 100))
    with av.open(io.BytesIO(data)) as container:
        assert container.streams.audio[0].codec_context.name == "flac"
