"""What a client gets, decoded as players do it."""

import io
from dataclasses import dataclass

import av
import numpy as np
from numpy.typing import NDArray

PCM_HZ = 24000


@dataclass(frozen=True, slots=True)
class Decoded:
    """`samples` [n] float32 in -1..1, the first channel."""

    codec: str
    rate_hz: int
    channels: int
    samples: NDArray[np.float32]


def decode(file: bytes) -> Decoded:
    """Decode a file of any container, to its end."""
    with av.open(io.BytesIO(file)) as container:
        (stream,) = container.streams
        assert stream.type == "audio"
        frames = [frame.to_ndarray() for frame in container.decode(stream)]
        samples = np.concatenate([frame.reshape(frame.shape[0], -1)[0] for frame in frames])
        if samples.dtype == np.int16:
            samples = samples.astype(np.float32) / 32768
        context = stream.codec_context
        return Decoded(context.name, context.sample_rate, context.layout.nb_channels, samples.astype(np.float32))


def decode_pcm(data: bytes) -> NDArray[np.float32]:
    """Samples of headerless signed 16-bit little-endian mono."""
    return np.frombuffer(data, "<i2").astype(np.float32) / 32768
