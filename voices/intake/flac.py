"""Clips as FLAC: mono, 16 bits, without loss."""

import io
from fractions import Fraction

import av
import numpy as np
from numpy.typing import NDArray

_BLOCK_SAMPLES = 4096


def to_flac(samples: NDArray[np.int16], rate_hz: int) -> bytes:
    """Code samples [n]; the same samples give the same bytes with the same FFmpeg."""
    sink = io.BytesIO()
    with av.open(sink, "w", format="flac", container_options={"fflags": "+bitexact"}) as container:
        stream = container.add_stream("flac", rate=rate_hz, layout="mono")
        stream.codec_context.time_base = Fraction(1, rate_hz)
        for start in range(0, len(samples), _BLOCK_SAMPLES):
            block = samples[start : start + _BLOCK_SAMPLES]
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(block)[None], format="s16", layout="mono")
            frame.sample_rate, frame.time_base, frame.pts = rate_hz, Fraction(1, rate_hz), start
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return sink.getvalue()


def from_flac(data: bytes) -> tuple[NDArray[np.int16], int]:
    """Samples [n] and rate of what `to_flac` wrote. Raises ValueError for anything else.

    Only for bytes of our own store; uploads go through the intake process.
    """
    try:
        with av.open(
            io.BytesIO(data), "r", options={"format_whitelist": "flac", "codec_whitelist": "flac"}
        ) as container:
            frames = [frame.to_ndarray() for frame in container.decode(audio=0)]
            rate_hz = container.streams.audio[0].rate
    except (av.FFmpegError, IndexError) as error:
        raise ValueError("no FLAC") from error
    if not frames or any(frame.dtype != np.int16 or len(frame) != 1 for frame in frames):
        raise ValueError("no mono FLAC of 16 bits")
    return np.concatenate(frames, axis=1)[0], rate_hz
