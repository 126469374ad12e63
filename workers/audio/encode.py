"""One encoder per reply: float samples in, whole packets of a format's bytes out.

A packet is the smallest piece a client ever gets: the header, an mp3 or flac frame, an Ogg page, 20 ms of
pcm. Where packets end depends on the samples alone, never on how calls cut them, and the same samples give
the same bytes in every process: a worker that takes over a broken reply makes all packets again and drops
those already delivered.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol, assert_never, cast

import av
import numpy as np
from av.audio.stream import AudioStream
from av.codec.context import Flags
from numpy.typing import NDArray

from shared.formats import AudioFormat, wav_header
from workers.audio.blocks import BlockBuffer
from workers.engines.base import Samples

_BLOCKS_PER_S = 50
"""pcm, wav, flac and opus come in packets of 20 ms: an early first sound at a small overhead."""


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


def make_encoder(audio_format: AudioFormat, sample_rate_hz: int) -> Encoder:
    """Return a new encoder. `sample_rate_hz` is one of shared.formats.FORMATS[audio_format].rates_hz."""
    match audio_format:
        case AudioFormat.PCM:
            return PcmEncoder(sample_rate_hz)
        case AudioFormat.WAV:
            return PcmEncoder(sample_rate_hz, header=wav_header(sample_rate_hz))
        case AudioFormat.MP3:
            return CodecEncoder(_mp3(sample_rate_hz), sample_rate_hz)
        case AudioFormat.AAC:
            return CodecEncoder(_aac(sample_rate_hz), sample_rate_hz)
        case AudioFormat.OPUS:
            return CodecEncoder(_opus(sample_rate_hz), sample_rate_hz)
        case AudioFormat.FLAC:
            return CodecEncoder(_flac(sample_rate_hz), sample_rate_hz)
    assert_never(audio_format)


class PcmEncoder:
    """Signed 16-bit little-endian samples, after an optional header."""

    def __init__(self, sample_rate_hz: int, header: bytes = b"") -> None:
        self._blocks = BlockBuffer(sample_rate_hz // _BLOCKS_PER_S)
        self._pending_header = [header] if header else []

    def encode(self, samples: Samples) -> list[bytes]:
        return [*self._take_header(), *(_to_int16(block).tobytes() for block in self._blocks.push(samples))]

    def close(self) -> list[bytes]:
        rest = self._blocks.drain()
        return [*self._take_header(), *([_to_int16(rest).tobytes()] if len(rest) else [])]

    def _take_header(self) -> list[bytes]:
        header, self._pending_header = self._pending_header, []
        return header


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecSettings:
    """How FFmpeg makes one format at one rate. `block_samples`: samples handed to the codec at a time."""

    codec: str
    container: str
    block_samples: int
    bit_rate: int | None = None
    integer_samples: bool = False
    codec_options: dict[str, str] = field(default_factory=dict)
    container_options: dict[str, str] = field(default_factory=dict)


class CodecEncoder:
    """A codec and a container of FFmpeg, written to memory.

    Every packet that leaves the muxer becomes one of ours: the container is flushed after each of the
    codec's packets, so its own buffering cannot move a boundary.
    """

    def __init__(self, settings: CodecSettings, sample_rate_hz: int) -> None:
        self._blocks = BlockBuffer(settings.block_samples)
        self._integer_samples = settings.integer_samples
        self._sample_rate_hz = sample_rate_hz
        self._num_samples = 0
        self._sink = _Sink()
        self._container = av.open(
            self._sink,
            "w",
            format=settings.container,
            # bitexact: no version strings, and a fixed Ogg serial number instead of a random one.
            container_options={"fflags": "+bitexact", "flush_packets": "1", **settings.container_options},
        )
        self._stream = cast(
            "AudioStream",
            self._container.add_stream(
                settings.codec, rate=sample_rate_hz, layout="mono", options=settings.codec_options
            ),
        )
        if settings.bit_rate is not None:
            self._stream.bit_rate = settings.bit_rate
        self._stream.codec_context.time_base = Fraction(1, sample_rate_hz)
        self._stream.codec_context.flags |= Flags.bitexact
        self._container.start_encoding()

    def encode(self, samples: Samples) -> list[bytes]:
        packets = self._sink.take()
        for block in self._blocks.push(samples):
            packets += self._encode_block(block)
        return packets

    def close(self) -> list[bytes]:
        packets = self._sink.take()
        rest = self._blocks.drain()
        if len(rest):
            packets += self._encode_block(rest)
        packets += self._mux(None)
        # The last Ogg page, with the end-of-stream flag and the exact length, is written here.
        self._container.close()
        return packets + self._sink.take()

    def __del__(self) -> None:
        # PyAV's objects refer to each other: without this, the codec of a reply that was given up would keep
        # its memory (megabytes for flac) until the garbage collector happens to run.
        self._container.close()

    def _encode_block(self, block: Samples) -> list[bytes]:
        if self._integer_samples:
            frame = av.AudioFrame.from_ndarray(_to_int16(block)[None], format="s16", layout="mono")
        else:
            frame = av.AudioFrame.from_ndarray(_clean(block)[None], format="fltp", layout="mono")
        frame.sample_rate = self._sample_rate_hz
        frame.time_base = Fraction(1, self._sample_rate_hz)
        frame.pts = self._num_samples
        self._num_samples += len(block)
        return self._mux(frame)

    def _mux(self, frame: av.AudioFrame | None) -> list[bytes]:
        packets: list[bytes] = []
        for packet in self._stream.encode(frame):
            self._container.mux(packet)
            packets += self._sink.take()
        return packets


class _Sink:
    """Where a container writes; has no seek, so that FFmpeg treats it as a pipe."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, data: bytes) -> int:
        self._written += data
        return len(data)

    def take(self) -> list[bytes]:
        """Return what was written since the last call as one packet, or no packet."""
        if not self._written:
            return []
        packet, self._written = bytes(self._written), bytearray()
        return [packet]


def _clean(samples: Samples) -> Samples:
    """Clip to -1..1 and silence NaN; codecs turn such samples into noise or refuse them."""
    return np.clip(np.nan_to_num(samples, nan=0.0, posinf=1.0, neginf=-1.0), -1.0, 1.0).astype(np.float32)


def _to_int16(samples: Samples) -> NDArray[np.int16]:
    """Round to 16 bits; full scale is 32768, as decoders divide by it. No dither: equal bytes matter more."""
    integers: NDArray[np.int16] = np.clip(np.rint(_clean(samples) * 32768.0), -32768, 32767).astype("<i2")
    return integers


def _mp3(sample_rate_hz: int) -> CodecSettings:
    # MPEG-2.5 (to 12 kHz) and MPEG-2 (to 24 kHz) halve the frame to 576 samples. Rates transparent for mono
    # speech; MPEG-2.5 allows 64 kbit/s at most.
    short_frame = sample_rate_hz <= 24000  # noqa: PLR2004
    return CodecSettings(
        codec="libmp3lame",
        container="mp3",
        block_samples=576 if short_frame else 1152,
        bit_rate=_bit_rate(sample_rate_hz),
        # The bit reservoir would hold frames back in bursts; ID3 and Xing need a seekable file.
        codec_options={"reservoir": "0"},
        container_options={"write_xing": "0", "id3v2_version": "0"},
    )


def _aac(sample_rate_hz: int) -> CodecSettings:
    return CodecSettings(codec="aac", container="adts", block_samples=1024, bit_rate=_bit_rate(sample_rate_hz))


def _opus(sample_rate_hz: int) -> CodecSettings:
    return CodecSettings(
        codec="libopus",
        container="ogg",
        block_samples=sample_rate_hz // _BLOCKS_PER_S,
        bit_rate=48000 if sample_rate_hz >= 24000 else 32000,  # noqa: PLR2004
        integer_samples=True,
        codec_options={"frame_duration": "20", "application": "audio"},
        # In microseconds; the default of 1 s is that much silence before the first sound.
        container_options={"page_duration": "20000"},
    )


def _flac(sample_rate_hz: int) -> CodecSettings:
    # About 20 ms, in a multiple of 32: the codec splits a frame into 2^n equal parts to code it well.
    block_samples = sample_rate_hz // _BLOCKS_PER_S // 32 * 32
    return CodecSettings(
        codec="flac",
        container="flac",
        block_samples=block_samples,
        integer_samples=True,
        codec_options={"frame_size": str(block_samples)},
        # The default leaves 8 kB of padding between the header and the first frame.
        container_options={"metadata_header_padding": "0"},
    )


def _bit_rate(sample_rate_hz: int) -> int:
    """Bits per second at which mono speech has no audible loss in mp3 and aac."""
    if sample_rate_hz <= 12000:  # noqa: PLR2004
        return 32000
    if sample_rate_hz <= 16000:  # noqa: PLR2004
        return 48000
    return 64000 if sample_rate_hz <= 32000 else 96000  # noqa: PLR2004
