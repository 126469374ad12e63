"""Samples as codecs can take them."""

import numpy as np
from numpy.typing import NDArray

from workers.engines.base import Samples


def clean(samples: Samples) -> Samples:
    """Clip to -1..1 and silence NaN; codecs turn such samples into noise or refuse them."""
    return np.clip(np.nan_to_num(samples, nan=0.0, posinf=1.0, neginf=-1.0), -1.0, 1.0).astype(np.float32)


def to_int16(samples: Samples) -> NDArray[np.int16]:
    """Round to 16 bits; full scale is 32768, as decoders divide by it. No dither: equal bytes matter more."""
    integers: NDArray[np.int16] = np.clip(np.rint(clean(samples) * 32768.0), -32768, 32767).astype("<i2")
    return integers
