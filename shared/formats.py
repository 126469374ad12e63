"""The audio formats a reply can have: names, content types, sample rates, and the wav header.

Both rooms need them: the gateway refuses what cannot be made, the worker makes it.
"""

import struct
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from shared.bit_rates import BitRates, aac_bit_rates, mp3_bit_rates, opus_bit_rates

STREAMED_SIZE = 0xFFFFFFFF
"""RIFF and data size of a wav whose length is not known yet; players read to the end."""

_PCM_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
_OPUS_RATES = (8000, 12000, 16000, 24000, 48000)  # of libopus


class AudioFormat(StrEnum):
    """`response_format` of a speech request. `ulaw` and `alaw` are G.711; `webm` holds Opus."""

    MP3 = "mp3"
    OPUS = "opus"
    AAC = "aac"
    FLAC = "flac"
    WAV = "wav"
    PCM = "pcm"
    WEBM = "webm"
    ULAW = "ulaw"
    ALAW = "alaw"


class FormatSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What clients see of a format: its content type, default rate and possible rates in Hz.

    `bit_rates`: by sample rate; empty for a format whose size the samples alone decide.
    """

    content_type: str
    default_rate_hz: int
    rates_hz: tuple[int, ...]
    bit_rates: Mapping[int, BitRates] = {}


FORMATS: dict[AudioFormat, FormatSpec] = {
    AudioFormat.MP3: FormatSpec(
        content_type="audio/mpeg",
        default_rate_hz=24000,
        rates_hz=_PCM_RATES,
        bit_rates={rate_hz: mp3_bit_rates(rate_hz) for rate_hz in _PCM_RATES},
    ),
    # 48 kHz is what OpenAI sends.
    AudioFormat.OPUS: FormatSpec(
        content_type="audio/opus",
        default_rate_hz=48000,
        rates_hz=_OPUS_RATES,
        bit_rates={rate_hz: opus_bit_rates(rate_hz) for rate_hz in _OPUS_RATES},
    ),
    AudioFormat.WEBM: FormatSpec(
        content_type="audio/webm; codecs=opus",
        default_rate_hz=48000,
        rates_hz=_OPUS_RATES,
        bit_rates={rate_hz: opus_bit_rates(rate_hz) for rate_hz in _OPUS_RATES},
    ),
    AudioFormat.AAC: FormatSpec(
        content_type="audio/aac",
        default_rate_hz=24000,
        rates_hz=_PCM_RATES,
        bit_rates={rate_hz: aac_bit_rates(rate_hz) for rate_hz in _PCM_RATES},
    ),
    AudioFormat.FLAC: FormatSpec(content_type="audio/flac", default_rate_hz=24000, rates_hz=_PCM_RATES),
    AudioFormat.WAV: FormatSpec(content_type="audio/wav", default_rate_hz=24000, rates_hz=_PCM_RATES),
    AudioFormat.PCM: FormatSpec(content_type="audio/pcm", default_rate_hz=24000, rates_hz=_PCM_RATES),
    # RFC 2046 defines audio/basic as these very bytes: mu-law, 8 kHz, one channel, no header. A-law has no
    # such type, so it gets the name of the encoding; PCMU and PCMA (RFC 4856) name a payload of RTP.
    AudioFormat.ULAW: FormatSpec(content_type="audio/basic", default_rate_hz=8000, rates_hz=(8000,)),
    AudioFormat.ALAW: FormatSpec(content_type="audio/PCMA;rate=8000", default_rate_hz=8000, rates_hz=(8000,)),
}


def wav_header(rate_hz: int, num_samples: int | None = None) -> bytes:
    """The 44-byte header of mono 16-bit PCM; without `num_samples`, the sizes of a stream (0xFFFFFFFF)."""
    data_size = STREAMED_SIZE if num_samples is None else 2 * num_samples
    riff_size = STREAMED_SIZE if num_samples is None else 36 + data_size
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF", riff_size, b"WAVE",
        b"fmt ", 16, 1, 1, rate_hz, 2 * rate_hz, 2, 16,
        b"data", data_size,
    )  # fmt: skip
