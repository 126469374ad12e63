"""One encoder per reply: float samples in, whole packets of a format's bytes out.

A packet is the smallest piece a client ever gets: the header, an mp3 or flac frame, an Ogg page, a WebM
Cluster, 20 ms of pcm. Where packets end depends on the samples alone, never on how calls cut them, and the
same samples give the same bytes in every process: a worker that takes over a broken reply makes all packets
again and drops those already delivered.
"""

from typing import Protocol, assert_never

from shared.formats import FORMATS, AudioFormat, wav_header
from workers.audio.codec import CodecEncoder, CodecSettings
from workers.audio.g711 import pack_a_law, pack_mu_law
from workers.audio.raw import RawEncoder
from workers.engines.base import Samples

_BLOCKS_PER_S = 50
"""All but mp3 and aac come in packets of 20 ms: an early first sound at a small overhead."""

_PAGED_OGG = {"page_duration": "20000"}
"""Microseconds. The default of 1 s is that much silence before the first sound."""

_LIVE_WEBM = {"live": "1", "cluster_time_limit": "1"}
"""Live: no Cues and no Duration; so is whatever is written to a pipe, but it shall not hang on that. A limit in
ms below a packet's 20 gives each packet a Cluster of its own; the default of 5 s is that much silence."""


class Encoder(Protocol):
    """Turns the samples of one reply into its bytes. Not thread-safe; may be dropped without `close`."""

    def encode(self, samples: Samples) -> list[bytes]:
        """Take samples [n] at the encoder's rate, any n; return the packets that are complete.

        Samples beyond -1..1 are clipped, NaN is silence.
        """
        ...

    def close(self) -> list[bytes]:
        """Return the last packets and free the codec; nothing may be encoded afterwards."""
        ...


def make_encoder(audio_format: AudioFormat, sample_rate_hz: int, bit_rate: int | None = None) -> Encoder:
    """Return a new encoder. Both rates are those of shared.formats.FORMATS; None: the format's default."""
    block_samples = sample_rate_hz // _BLOCKS_PER_S
    bit_rates = FORMATS[audio_format].bit_rates.get(sample_rate_hz)
    if bit_rate is None and bit_rates is not None:
        bit_rate = bit_rates.default
    match audio_format:
        case AudioFormat.PCM:
            return RawEncoder(block_samples)
        case AudioFormat.WAV:
            return RawEncoder(block_samples, header=wav_header(sample_rate_hz))
        case AudioFormat.ULAW:
            return RawEncoder(block_samples, pack_mu_law)
        case AudioFormat.ALAW:
            return RawEncoder(block_samples, pack_a_law)
        case AudioFormat.MP3:
            settings = _mp3(sample_rate_hz, bit_rate)
        case AudioFormat.AAC:
            settings = CodecSettings(codec="aac", container="adts", block_samples=1024, bit_rate=bit_rate)
        case AudioFormat.OPUS:
            settings = _opus("ogg", _PAGED_OGG, block_samples, bit_rate)
        case AudioFormat.WEBM:
            settings = _opus("webm", _LIVE_WEBM, block_samples, bit_rate)
        case AudioFormat.FLAC:
            settings = _flac(block_samples)
        case _:
            assert_never(audio_format)
    return CodecEncoder(settings, sample_rate_hz)


def _mp3(sample_rate_hz: int, bit_rate: int | None) -> CodecSettings:
    # MPEG-2.5 (to 12 kHz) and MPEG-2 (to 24 kHz) halve the frame to 576 samples.
    short_frame = sample_rate_hz <= 24000  # noqa: PLR2004
    return CodecSettings(
        codec="libmp3lame",
        container="mp3",
        block_samples=576 if short_frame else 1152,
        bit_rate=bit_rate,
        # The bit reservoir would hold frames back in bursts; ID3 and Xing need a seekable file.
        codec_options={"reservoir": "0"},
        container_options={"write_xing": "0", "id3v2_version": "0"},
    )


def _opus(container: str, container_options: dict[str, str], block_samples: int, bit_rate: int | None) -> CodecSettings:
    return CodecSettings(
        codec="libopus",
        container=container,
        block_samples=block_samples,
        bit_rate=bit_rate,
        integer_samples=True,
        codec_options={"frame_duration": "20", "application": "audio"},
        container_options=container_options,
    )


def _flac(block_samples: int) -> CodecSettings:
    # In a multiple of 32: the codec splits a frame into 2^n equal parts to code it well.
    block_samples = block_samples // 32 * 32
    return CodecSettings(
        codec="flac",
        container="flac",
        block_samples=block_samples,
        integer_samples=True,
        codec_options={"frame_size": str(block_samples)},
        # The default leaves 8 kB of padding between the header and the first frame.
        container_options={"metadata_header_padding": "0"},
    )
