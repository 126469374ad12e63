"""ITU-T G.711 companding, as the reference code of ITU-T G.191 does it.

An 8-bit code is a sign, a segment that doubles in step from one to the next, and 4 bits within the segment.
FFmpeg's encoders place their decision values otherwise: 964 of the 65536 sample values get a neighbouring code.
"""

import numpy as np
from numpy.typing import NDArray

_MU_BIAS = 33
"""Added to 14-bit magnitudes: it makes the segments of mu-law begin at powers of two."""

_MU_LARGEST = 0x1FFF


def pack_mu_law(samples: NDArray[np.int16]) -> bytes:
    """One byte a sample. All bits are inverted, so that silence is 0xFF."""
    magnitudes = np.minimum((_one_sided(samples) >> 2) + _MU_BIAS, _MU_LARGEST)
    segments = _bit_lengths(magnitudes) - _bit_lengths(_MU_BIAS)
    steps = (magnitudes >> (segments + 1)) & 0xF
    return _bytes_of(~(segments << 4 | steps) & 0x7F, samples)


def pack_a_law(samples: NDArray[np.int16]) -> bytes:
    """One byte a sample. Every other bit is inverted, so that silence is 0xD5."""
    magnitudes = _one_sided(samples) >> 4
    # The two lowest segments have the same step.
    segments = np.maximum(_bit_lengths(magnitudes) - 4, 0)
    steps = (magnitudes >> np.maximum(segments - 1, 0)) & 0xF
    return _bytes_of((segments << 4 | steps) ^ 0x55, samples)


def _one_sided(samples: NDArray[np.int16]) -> NDArray[np.int32]:
    """Magnitudes by one's complement, as in G.191: -1 is the negative zero, -32768 does not overflow."""
    return np.where(samples < 0, ~samples, samples).astype(np.int32)


def _bit_lengths(integers: NDArray[np.int32] | int) -> NDArray[np.int32]:
    return np.frexp(integers)[1]


def _bytes_of(codes: NDArray[np.int32], samples: NDArray[np.int16]) -> bytes:
    """Set the sign bit of samples from 0 up."""
    return np.where(samples < 0, codes, codes | 0x80).astype(np.uint8).tobytes()
