"""Formats that FFmpeg makes: a codec and a container, written to memory."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import cast

import av
from av.audio.stream import AudioStream
from av.codec.context import Flags

from workers.audio.blocks import BlockBuffer
from workers.audio.samples import clean, to_int16
from workers.engines.base import Samples


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
        self._block_samples = settings.block_samples
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
        self._time_base = Fraction(1, sample_rate_hz)
        self._stream.codec_context.time_base = self._time_base
        self._stream.codec_context.flags |= Flags.bitexact
        self._container.start_encoding()

    def encode(self, samples: Samples) -> list[bytes]:
        packets = self._sink.take()
        return packets + self._encode_all(self._blocks.take(samples))

    def close(self) -> list[bytes]:
        packets = self._sink.take()
        packets += self._encode_all(self._blocks.drain())
        packets += self._mux(None)
        # The last Ogg page or WebM Cluster, with the exact length, is written here.
        self._container.close()
        return packets + self._sink.take()

    def __del__(self) -> None:
        # PyAV's objects refer to each other: without this, the codec of a reply that was given up would keep
        # its memory (megabytes for flac) until the garbage collector happens to run.
        self._container.close()

    def _encode_all(self, samples: Samples) -> list[bytes]:
        """The packets of whole blocks, the last of which may be short."""
        packets: list[bytes] = []
        # Converted in one go: block by block it costs as much as the cheaper codecs.
        data, kind = (to_int16(samples), "s16") if self._integer_samples else (clean(samples), "fltp")
        for start in range(0, len(data), self._block_samples):
            block = data[start : start + self._block_samples]
            frame = av.AudioFrame.from_ndarray(block[None], format=kind, layout="mono")
            frame.sample_rate = self._sample_rate_hz
            frame.time_base = self._time_base
            frame.pts = self._num_samples
            self._num_samples += len(block)
            packets += self._mux(frame)
        return packets

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
