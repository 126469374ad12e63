"""Samples as codecs can take them."""

import numpy as np
from numpy.typing import NDArray

from workers.engines.base import Samples


def clean(samples: Samples) -> Samples:
    """Clip to -1..1 and silence NaN; codecs turn such samples into noise or refuse them."""
    clipped = np.clip(samples, -1.0, 1.0)
    if np.isnan(clipped).any():
        np.nan_to_num(clipped, copy=False, nan=0.0)
    return clipped.astype(np.float32, copy=False)


def to_int16(samples: Samples) -> NDArray[np.int16]:
    """Round to 16 bits; full scale is 32768, as decoders divide by it. No dither: equal bytes matter more.

    Clips as `clean` does. One long array costs a tenth of many short ones.
    """
    scaled = np.rint(samples * np.float32(32768.0))
    np.clip(scaled, -32768.0, 32767.0, out=scaled)
    if np.isnan(scaled).any():
        np.nan_to_num(scaled, copy=False, nan=0.0)
    integers: NDArray[np.int16] = scaled.astype("<i2")
    return integers
