"""G.711: the codes of the recommendation, nothing around them."""

import av
import numpy as np
import pytest

from shared.formats import AudioFormat
from tests.support.signals import noise, tone
from workers.audio.encode import make_encoder
from workers.audio.g711 import pack_a_law, pack_mu_law

LAWS = pytest.mark.parametrize(
    ("audio_format", "pack", "codec", "silence"),
    [
        (AudioFormat.ULAW, pack_mu_law, "pcm_mulaw", 0xFF),
        (AudioFormat.ALAW, pack_a_law, "pcm_alaw", 0xD5),
    ],
    ids=["mu-law", "A-law"],
)


def encode(audio_format, samples):
    encoder = make_encoder(audio_format, 8000)
    return encoder.encode(samples) + encoder.close()


def expand(codec, data):
    """Samples [n] of FFmpeg's decoder, which has the recommendation's table."""
    decoder = av.CodecContext.create(codec, "r")
    decoder.sample_rate, decoder.layout = 8000, "mono"
    return decoder.decode(av.Packet(data))[0].to_ndarray()[0]


@LAWS
def test_silence_has_its_own_code_and_is_not_zero(audio_format, pack, codec, silence):
    assert b"".join(encode(audio_format, np.zeros(400, np.float32))) == bytes([silence]) * 400


@LAWS
def test_a_byte_a_sample_and_nothing_else(audio_format, pack, codec, silence):
    """O8: a header in the stream is heard as a click at each utterance."""
    packets = encode(audio_format, noise(1003))
    assert [len(packet) for packet in packets] == [160] * 6 + [43]


@LAWS
def test_every_code_survives_a_round_trip(audio_format, pack, codec, silence):
    every_code = np.arange(256, dtype=np.uint8)
    again = np.frombuffer(pack(expand(codec, every_code.tobytes())), np.uint8)
    # mu-law has a negative zero.
    expected = np.where(every_code == 0x7F, 0xFF, every_code) if codec == "pcm_mulaw" else every_code
    np.testing.assert_array_equal(again, expected)


@LAWS
def test_codes_rise_with_the_samples_by_half_a_step_at_most(audio_format, pack, codec, silence):
    samples = np.arange(-32768, 32768).astype(np.int16)
    values = expand(codec, pack(samples)).astype(int)
    assert (np.diff(values) >= 0).all()
    loudest = np.abs(values).max()
    inside = np.abs(samples.astype(int)) <= loudest
    # The step doubles eight times from 8 (mu-law) or from 16, seven times (A-law).
    half_step = np.maximum(np.abs(samples.astype(int)) // 32 + 5, 9)
    assert (np.abs(values - samples)[inside] <= half_step[inside]).all()


MU_ENDS = [31, 95, 223, 479, 991, 2015, 4063]
A_ENDS = [32, 64, 128, 256, 512, 1024, 2048]


@pytest.mark.parametrize(("segment", "end"), list(enumerate(MU_ENDS)))
def test_mu_law_segments_end_at_the_decision_values_of_table_2(segment, end):
    """In 14-bit units, as the recommendation counts; a sample has 16."""
    below, above = pack_mu_law(np.array([4 * end - 1, 4 * end], np.int16))
    assert (below, above) == (0xFF - (segment << 4 | 0xF), 0xFF - ((segment + 1) << 4))


@pytest.mark.parametrize(("segment", "end"), list(enumerate(A_ENDS)))
def test_a_law_segments_end_at_the_decision_values_of_table_1(segment, end):
    """In 13-bit units, as the recommendation counts; a sample has 16."""
    below, above = np.frombuffer(pack_a_law(np.array([8 * end - 1, 8 * end], np.int16)), np.uint8) ^ 0x55
    assert (below, above) == (0x80 | segment << 4 | 0xF, 0x80 | (segment + 1) << 4)


@pytest.mark.parametrize(
    ("audio_format", "overload_dbm0", "largest", "period"),
    [
        (AudioFormat.ULAW, 3.17, 8159 * 4, "1e0b0b1e9e8b8b9e"),
        (AudioFormat.ALAW, 3.14, 4096 * 8, "34212134b4a1a1b4"),
    ],
    ids=["mu-law", "A-law"],
)
def test_the_digital_milliwatt_of_the_recommendation_comes_out(audio_format, overload_dbm0, largest, period):
    """Tables 5 and 6: 1 kHz at 0 dBm0 is this sequence of eight codes, over and over."""
    amplitude = largest / 32768 * 10 ** (-overload_dbm0 / 20)
    phase = 2 * np.pi * (np.arange(80) + 0.5) / 8
    samples = (-amplitude * np.sin(phase)).astype(np.float32)
    assert b"".join(encode(audio_format, samples)).hex() == period * 10


@LAWS
def test_what_is_too_loud_is_clipped_and_what_is_no_number_is_silence(audio_format, pack, codec, silence):
    loud, quiet, none = b"".join(encode(audio_format, np.array([3, -3, np.nan], np.float32)))
    assert expand(codec, bytes([loud, quiet]))[0] == -expand(codec, bytes([loud, quiet]))[1] > 32000
    assert none == silence


@LAWS
def test_a_tone_keeps_38_db_above_its_noise(audio_format, pack, codec, silence):
    samples = tone(440, 8000, 1.0)
    noise_left = expand(codec, b"".join(encode(audio_format, samples))) / 32768 - samples
    assert 10 * np.log10(np.mean(samples**2) / np.mean(noise_left**2)) > 37
