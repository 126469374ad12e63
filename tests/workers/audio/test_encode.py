"""Encoders: what comes out decodes to what went in, packet by packet, the same everywhere."""

import hashlib
import io
import struct
import subprocess
import sys
from itertools import pairwise

import av
import numpy as np
import pytest

from shared.formats import FORMATS, AudioFormat
from tests.support.ogg import END_OF_STREAM, ogg_pages, opus_head
from tests.support.signals import cut, noise, rms_db, tone
from tests.support.webm import opus_seconds
from workers.audio.encode import make_encoder

EVERY_RATE = [
    pytest.param(audio_format, rate_hz, id=f"{audio_format}-{rate_hz}")
    for audio_format, spec in FORMATS.items()
    for rate_hz in spec.rates_hz
]
CODECS = {
    "mp3": "mp3float", "opus": "opus", "webm": "opus", "aac": "aac", "flac": "flac", "wav": "pcm_s16le",
    "pcm": "pcm_s16le", "ulaw": "pcm_mulaw", "alaw": "pcm_alaw",
}  # fmt: skip
HEADERLESS = {AudioFormat.PCM: "s16le", AudioFormat.ULAW: "mulaw", AudioFormat.ALAW: "alaw"}
PRIMING = {AudioFormat.MP3: 1105, AudioFormat.AAC: 1024}
"""Samples of silence that a stream in this format cannot tell players to skip."""

FRAME = {AudioFormat.MP3: 1152, AudioFormat.AAC: 1024}


def encode(audio_format, rate_hz, samples, call_size=None, bit_rate=None):
    encoder = make_encoder(audio_format, rate_hz, bit_rate)
    packets = []
    for chunk in cut(samples, call_size or max(len(samples), 1)):
        packets += encoder.encode(chunk)
    return packets + encoder.close()


def decode(data, audio_format, rate_hz):
    """Codec name, rate, channels and samples [n]."""
    reader = {}
    if audio_format in HEADERLESS:
        options = {"sample_rate": str(rate_hz), "ch_layout": "mono"}
        reader = {"format": HEADERLESS[audio_format], "options": options}
    with av.open(io.BytesIO(data), **reader) as container:
        stream = container.streams.audio[0]
        frames = list(container.decode(stream))
        resampler = av.AudioResampler("flt", "mono", frames[0].sample_rate)
        floats = [part.to_ndarray()[0] for frame in frames for part in resampler.resample(frame)]
        return stream.codec_context.name, frames[0].sample_rate, stream.channels, np.concatenate(floats)


@pytest.mark.parametrize(("audio_format", "rate_hz"), EVERY_RATE)
def test_each_format_decodes_at_each_rate_it_offers(audio_format, rate_hz):
    """A rate in the table that a codec refuses would be a 500 instead of a 400."""
    samples = tone(440, rate_hz, 0.731)
    data = b"".join(encode(audio_format, rate_hz, samples))
    codec, decoded_hz, channels, decoded = decode(data, audio_format, rate_hz)

    assert codec == CODECS[audio_format]
    assert channels == 1
    # Opus always decodes at 48 kHz, whatever went in.
    assert decoded_hz == (48000 if codec == "opus" else rate_hz)
    expected = len(samples) * decoded_hz // rate_hz
    if audio_format in PRIMING:
        surplus = len(decoded) - expected
        assert PRIMING[audio_format] <= surplus + 1 <= PRIMING[audio_format] + 2 * FRAME[audio_format]
    else:
        assert len(decoded) == expected
    middle = slice(len(decoded) // 4, len(decoded) // 4 * 3)
    assert rms_db(decoded[middle]) == pytest.approx(rms_db(samples), abs=0.7)
    spectrum = np.abs(np.fft.rfft(decoded[middle] * np.hanning(len(decoded[middle])), 1 << 18))
    assert np.argmax(spectrum) * decoded_hz / (1 << 18) == pytest.approx(440, rel=0.01)


@pytest.mark.parametrize("audio_format", list(AudioFormat))
def test_packets_do_not_depend_on_how_the_input_was_cut(audio_format):
    """A resuming worker drops whole packets: their boundaries must be the same again."""
    rate_hz = FORMATS[audio_format].default_rate_hz
    samples = noise(rate_hz + 7)
    whole = encode(audio_format, rate_hz, samples)
    assert len(whole) > 20
    for call_size in (1013, 480, 64):
        assert encode(audio_format, rate_hz, samples, call_size) == whole


ENCODE_ELSEWHERE = """
import hashlib
from shared.formats import FORMATS
from tests.support.signals import noise
from workers.audio.encode import make_encoder
for audio_format, spec in FORMATS.items():
    encoder = make_encoder(audio_format, spec.default_rate_hz)
    packets = encoder.encode(noise(12345)) + encoder.close()
    print(audio_format, hashlib.sha256(b"|".join(packets)).hexdigest())
"""


def test_another_process_makes_the_same_bytes():
    """Random Ogg serial numbers and version strings would break a resumed reply."""
    here = ""
    for audio_format, spec in FORMATS.items():
        packets = encode(audio_format, spec.default_rate_hz, noise(12345))
        here += f"{audio_format} {hashlib.sha256(b'|'.join(packets)).hexdigest()}\n"
    there = subprocess.run(
        [sys.executable, "-c", ENCODE_ELSEWHERE], capture_output=True, check=True, text=True, timeout=60
    )
    assert there.stdout == here


@pytest.mark.parametrize(
    ("audio_format", "most_ms"),
    [
        ("pcm", 20),
        ("wav", 20),
        ("ulaw", 20),
        ("alaw", 20),
        ("flac", 20),
        ("opus", 40),
        ("webm", 60),
        ("mp3", 60),
        ("aac", 100),
    ],
)
def test_first_sound_leaves_early(audio_format, most_ms):
    """Each codec's own look-ahead, and nothing on top of it."""
    rate_hz = FORMATS[AudioFormat(audio_format)].default_rate_hz
    encoder = make_encoder(AudioFormat(audio_format), rate_hz)
    num_headers = 1 if audio_format in {"wav", "flac", "opus", "webm"} else 0
    packets, fed_ms = [], 0
    for chunk in cut(noise(rate_hz), rate_hz // 50):
        packets += encoder.encode(chunk)
        fed_ms += 20
        if len(packets) > num_headers:
            break
    assert fed_ms <= most_ms


def test_pcm_is_rounded_clipped_and_never_noise():
    values = [0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, np.nan, np.inf, -np.inf, 1.6 / 32768, -1.4 / 32768]
    packets = encode(AudioFormat.PCM, 24000, np.array(values, np.float32))
    expected = [0, 16384, -16384, 32767, -32768, 32767, -32768, 0, 32767, -32768, 2, -1]
    assert packets == [struct.pack("<12h", *expected)]


def test_wav_is_a_streaming_header_and_then_pcm():
    samples = noise(1000)
    header, *rest = encode(AudioFormat.WAV, 24000, samples)
    assert header.hex() == ("52494646ffffffff57415645666d74201000000001000100c05d000080bb00000200100064617461ffffffff")
    assert rest == encode(AudioFormat.PCM, 24000, samples)
    assert [len(packet) for packet in rest] == [960, 960, 80]


@pytest.mark.parametrize("audio_format", ["mp3", "aac", "opus", "webm", "flac"])
def test_not_a_number_is_silence_to_every_codec(audio_format):
    samples = noise(9600)
    samples[3000:3100] = np.nan
    samples[5000] = np.inf
    rate_hz = FORMATS[AudioFormat(audio_format)].default_rate_hz
    *_, decoded = decode(b"".join(encode(AudioFormat(audio_format), rate_hz, samples)), audio_format, rate_hz)
    assert np.isfinite(decoded).all()
    assert len(decoded) >= len(samples)


def test_mp3_has_neither_tag_nor_reservoir():
    """Each frame stands alone: it starts with its sync word, and main_data_begin is 0."""
    packets = encode(AudioFormat.MP3, 24000, noise(24000))
    for packet in packets:
        assert packet[0] == 0xFF
        assert packet[1] & 0xE0 == 0xE0
        assert packet[4] == 0  # MPEG-2: 8 bits of main_data_begin follow the header
    assert b"Xing" not in b"".join(packets)
    assert b"Info" not in b"".join(packets[:2])


def test_aac_packets_are_whole_adts_frames():
    for packet in encode(AudioFormat.AAC, 24000, noise(24000)):
        assert packet[0] == 0xFF
        assert packet[1] & 0xF6 == 0xF0
        assert (packet[3] & 3) << 11 | packet[4] << 3 | packet[5] >> 5 == len(packet)


def test_flac_header_is_small_and_alone():
    header, first, *_ = encode(AudioFormat.FLAC, 24000, noise(24000))
    assert header[:4] == b"fLaC"
    assert len(header) < 100
    assert first[0] == 0xFF
    assert first[1] & 0xFC == 0xF8


@pytest.mark.parametrize("rate_hz", FORMATS[AudioFormat.OPUS].rates_hz)
def test_opus_length_is_exact_and_the_stream_ends(rate_hz):
    """Granules count at 48 kHz whatever the input; the last page says where the sound ends (RFC 7845)."""
    samples = noise(round(rate_hz * 1.237))
    packets = encode(AudioFormat.OPUS, rate_hz, samples)
    pages = ogg_pages(b"".join(packets))
    head, tags, *sound = pages

    channels, pre_skip, input_hz = opus_head(head)
    assert (channels, input_hz) == (1, rate_hz)
    assert tags.payload[:8] == b"OpusTags"
    assert [page.sequence for page in pages] == list(range(len(pages)))
    assert {page.serial for page in pages} == {head.serial}
    assert head.flags == 2  # beginning of stream
    assert [page.flags & END_OF_STREAM for page in pages] == [0] * (len(pages) - 1) + [END_OF_STREAM]
    assert sound[-1].granule - pre_skip == round(len(samples) * 48000 / rate_hz)
    assert all(later.granule - earlier.granule == 960 for earlier, later in pairwise(sound[:-1]))
    # Packets are whole pages; both headers are one, and so are the last two pages.
    assert [len(ogg_pages(packet)) for packet in packets] == [2] + [1] * (len(packets) - 2) + [2]


@pytest.mark.parametrize("audio_format", list(AudioFormat))
@pytest.mark.parametrize("num_samples", [0, 1])
def test_almost_nothing_is_still_a_whole_file(audio_format, num_samples):
    packets = encode(audio_format, FORMATS[audio_format].default_rate_hz, np.zeros(num_samples, np.float32))
    assert all(packets)
    if audio_format is AudioFormat.OPUS and num_samples:
        assert ogg_pages(b"".join(packets))[-1].flags & END_OF_STREAM
    if audio_format is AudioFormat.WEBM and num_samples:
        assert opus_seconds(b"".join(packets)) == pytest.approx(num_samples / 48000, abs=1e-9)


def test_given_up_encoders_leave_no_memory_behind():
    """PyAV's objects form cycles around megabytes that the collector does not see."""
    encoders = 40

    def resident_mb():
        with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 - not a file on disk
            return int(statm.read().split()[1]) * 4096 / 1e6

    samples = noise(4800)
    make_encoder(AudioFormat.FLAC, 24000).encode(samples)
    before = resident_mb()
    for _ in range(encoders):
        make_encoder(AudioFormat.FLAC, 24000).encode(samples)
    assert resident_mb() - before < encoders
