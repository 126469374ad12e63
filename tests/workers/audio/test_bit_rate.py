"""Bit rates: each that is offered works, and is what comes out."""

import numpy as np
import pytest

from shared.formats import FORMATS, AudioFormat
from tests.support.ogg import ogg_pages
from tests.support.signals import cut, noise, voice_like
from workers.audio.encode import make_encoder

WITH_BIT_RATES = [
    pytest.param(audio_format, rate_hz, id=f"{audio_format}-{rate_hz}")
    for audio_format, spec in FORMATS.items()
    for rate_hz in spec.bit_rates
]
MP3_RATES = FORMATS[AudioFormat.MP3].bit_rates


def encode(audio_format, rate_hz, samples, bit_rate, call_size=None):
    encoder = make_encoder(audio_format, rate_hz, bit_rate)
    packets = [packet for chunk in cut(samples, call_size or len(samples)) for packet in encoder.encode(chunk)]
    return packets + encoder.close()


def mp3_bit_rate(frame):
    """By the tables of ISO/IEC 11172-3 and 13818-3, layer III."""
    mpeg1 = frame[1] >> 3 & 3 == 3
    table = (
        (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
        if mpeg1
        else (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
    )
    return 1000 * table[(frame[2] >> 4) - 1]


def test_formats_with_bit_rates_have_them_for_every_sample_rate():
    for audio_format, spec in FORMATS.items():
        expected = spec.rates_hz if audio_format in ("mp3", "opus", "webm", "aac") else ()
        assert tuple(spec.bit_rates) == expected
        assert spec.default_rate_hz in spec.rates_hz
        for bit_rates in spec.bit_rates.values():
            assert bit_rates.default in bit_rates.allowed


@pytest.mark.parametrize(
    ("rate_hz", "bit_rate"), [(rate_hz, bit_rate) for rate_hz, rates in MP3_RATES.items() for bit_rate in rates.allowed]
)
def test_every_mp3_frame_has_the_bit_rate_that_was_asked_for(rate_hz, bit_rate):
    """LAME takes the nearest one for a bit rate that it lacks, without a word."""
    frames = encode(AudioFormat.MP3, rate_hz, noise(rate_hz // 5), bit_rate)
    assert {mp3_bit_rate(frame) for frame in frames} == {bit_rate}
    samples_a_frame = 1152 if rate_hz > 24000 else 576
    size = samples_a_frame / 8 * bit_rate / rate_hz
    assert all(size - 1 < len(frame) < size + 1 for frame in frames)


@pytest.mark.parametrize(("audio_format", "rate_hz"), WITH_BIT_RATES)
def test_the_ends_of_the_range_work_and_more_bits_make_more_bytes(audio_format, rate_hz):
    allowed = FORMATS[audio_format].bit_rates[rate_hz].allowed
    samples = noise(rate_hz // 2)
    lowest, middle, highest = (
        len(b"".join(encode(audio_format, rate_hz, samples, bit_rate)))
        for bit_rate in (allowed[0], allowed[len(allowed) // 2], allowed[-1])
    )
    assert lowest < middle < highest


@pytest.mark.parametrize("audio_format", [AudioFormat.OPUS, AudioFormat.AAC])
@pytest.mark.parametrize("bit_rate", [24000, 64000, 96000])
def test_the_average_is_near_the_bit_rate(audio_format, bit_rate):
    """Both codecs spend their bits where the sound needs them."""
    samples = (voice_like(130, 48000, 4.0) + 0.1 * noise(4 * 48000)).astype(np.float32)
    packets = encode(audio_format, 48000, samples, bit_rate)
    payload = b"".join(packets)
    if audio_format is AudioFormat.OPUS:
        payload = b"".join(page.payload for page in ogg_pages(payload)[2:])
    assert len(payload) * 8 / 4.0 == pytest.approx(bit_rate, rel=0.35)


@pytest.mark.parametrize(("audio_format", "rate_hz"), WITH_BIT_RATES)
def test_without_one_the_default_is_taken(audio_format, rate_hz):
    samples = noise(rate_hz // 5)
    default = FORMATS[audio_format].bit_rates[rate_hz].default
    assert encode(audio_format, rate_hz, samples, None) == encode(audio_format, rate_hz, samples, default)


@pytest.mark.parametrize("audio_format", [AudioFormat.MP3, AudioFormat.OPUS, AudioFormat.WEBM, AudioFormat.AAC])
def test_packets_at_another_bit_rate_do_not_depend_on_the_cut(audio_format):
    samples = noise(24007)
    whole = encode(audio_format, 24000, samples, 24000)
    assert encode(audio_format, 24000, samples, 24000, 331) == whole
    assert whole != encode(audio_format, 24000, samples, None)


@pytest.mark.parametrize(
    ("audio_format", "rate_hz", "wanted", "expected"),
    [
        ("mp3", 8000, 128000, 64000),
        ("mp3", 24000, 128000, 128000),
        ("mp3", 24000, 127999, 112000),
        ("mp3", 48000, 8000, 32000),
        ("opus", 8000, 64001, 64001),
        ("aac", 8000, 96000, 48000),
        ("aac", 8000, 1, 16000),
    ],
)
def test_an_operators_default_falls_to_what_the_sample_rate_has(audio_format, rate_hz, wanted, expected):
    assert FORMATS[AudioFormat(audio_format)].bit_rates[rate_hz].at_most(wanted) == expected
