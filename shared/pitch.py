"""The pitch of a voice, frame by frame: where a clip has speech, and how high its speaker is.

Autocorrelation, with the window's own divided out so that long lags do not lose (P. Boersma 1993).
"""

import numpy as np
from numpy.typing import NDArray

HOP_S = 0.02
LOWEST_HZ = 60.0
HIGHEST_HZ = 500.0
"""Speech from the lowest men to the smallest children."""

_WINDOW_S = 0.05
"""Three periods of the lowest pitch."""

_WORKING_RATE_HZ = 8000
_SMOOTHED_HZ = 3000.0
_VOICED = 0.55
"""Correlation of one period with the next: noise stays below 0.4, a clear vowel is above 0.8."""

_OCTAVE_COST = 0.03
"""What an octave down costs: two periods correlate as well as one."""

_SILENCE_RMS = 1e-4
_MAX_FRAMES_AT_ONCE = 512


def pitch_track(
    samples: NDArray[np.float32], rate_hz: int, *, lowest_hz: float = LOWEST_HZ, highest_hz: float = HIGHEST_HZ
) -> NDArray[np.float32]:
    """Pitch in Hz for each 20 ms of samples [n], n at least 8000 a second: [ceil(n / hop)], 0 where unvoiced."""
    num_frames = -(-len(samples) // round(HOP_S * rate_hz))
    low, low_rate_hz = _decimate(samples, rate_hz)
    size = round(_WINDOW_S * low_rate_hz)
    hop = HOP_S * low_rate_hz
    padded = np.pad(low, (size // 2, size + round(hop)))
    starts = np.rint(np.arange(num_frames) * hop + hop / 2).astype(np.intp)
    pitch = np.zeros(num_frames, np.float32)
    for first in range(0, num_frames, _MAX_FRAMES_AT_ONCE):
        block = starts[first : first + _MAX_FRAMES_AT_ONCE]
        frames = padded[block[:, None] + np.arange(size)]
        pitch[first : first + len(block)] = _pitch_of(frames, low_rate_hz, lowest_hz, highest_hz)
    return pitch


def _decimate(samples: NDArray[np.float32], rate_hz: int) -> tuple[NDArray[np.float32], float]:
    """Smooth, then keep every k-th sample, of at least 8 kHz: pitch needs no more.

    What is above 3 kHz would make the peaks of a high voice so narrow that they fall between two samples.
    """
    smoother = np.hanning(2 * round(rate_hz / _SMOOTHED_HZ) + 3)[1:-1]
    smooth = np.convolve(samples, (smoother / smoother.sum()).astype(np.float32), "full")
    factor = max(rate_hz // _WORKING_RATE_HZ, 1)
    return smooth[len(smoother) // 2 :][: len(samples)][::factor], rate_hz / factor


def _pitch_of(frames: NDArray[np.float32], rate_hz: float, lowest_hz: float, highest_hz: float) -> NDArray[np.float32]:
    """Pitch [F] of frames [F, n]; 0 where unvoiced."""
    size = frames.shape[1]
    window = np.hanning(size).astype(np.float32)
    centred = frames - frames.mean(axis=1, keepdims=True)
    loud_enough = np.sqrt(np.square(centred).mean(axis=1)) > _SILENCE_RMS
    correlation = _autocorrelation(centred * window)
    correlation /= np.maximum(correlation[:, :1], 1e-12)
    correlation /= _autocorrelation(window[None])[0] / _autocorrelation(window[None])[0, 0] + 1e-6
    shortest = max(int(rate_hz / highest_hz), 2)
    longest = min(int(np.ceil(rate_hz / lowest_hz)), size - 2)
    lags = np.arange(shortest, longest + 1)
    here, before, after = (correlation[:, lags + step] for step in (0, -1, 1))
    peak = (here >= before) & (here > after)
    score = np.where(peak, here - _OCTAVE_COST * np.log2(lags / shortest), -1.0)
    best = np.argmax(score, axis=1)
    row = np.arange(len(frames))
    top, left, right = here[row, best], before[row, best], after[row, best]
    # The peak between samples, by a parabola.
    bend = np.maximum(2 * top - left - right, 1e-9)
    lag = lags[best] + (right - left) / (2 * bend)
    voiced = loud_enough & peak[row, best] & (top > _VOICED)
    return np.where(voiced, rate_hz / lag, 0).astype(np.float32)


def _autocorrelation(frames: NDArray[np.float32]) -> NDArray[np.float32]:
    """Autocorrelation [F, n] of each row of [F, n]."""
    size = frames.shape[1]
    num_fft = 1 << (2 * size - 1).bit_length()
    spectrum = np.fft.rfft(frames, num_fft)
    power = spectrum.real**2 + spectrum.imag**2
    return np.fft.irfft(power, num_fft)[:, :size].astype(np.float32)
