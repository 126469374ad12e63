"""Test signals and the few measures that audio tests share. Samples are float32 in -1..1, mono."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]


def tone(frequency_hz: float, rate_hz: int, seconds: float, amplitude: float = 0.4) -> Samples:
    """A sine."""
    time_s = np.arange(round(rate_hz * seconds)) / rate_hz
    return (amplitude * np.sin(2 * np.pi * frequency_hz * time_s)).astype(np.float32)


def voice_like(pitch_hz: float, rate_hz: int, seconds: float) -> Samples:
    """Ten harmonics that fall off like those of a voice."""
    harmonics = (tone(order * pitch_hz, rate_hz, seconds, 0.3 / order) for order in range(1, 11))
    return np.sum(list(harmonics), axis=0).astype(np.float32)


def noise(num_samples: int, seed: int = 0) -> Samples:
    """White noise at -20 dBFS."""
    return (0.1 * np.random.default_rng(seed).standard_normal(num_samples)).astype(np.float32)


def cut(samples: Samples, size: int) -> Iterator[Samples]:
    """The samples in calls of `size`."""
    return (samples[start : start + size] for start in range(0, len(samples), size))


def stream(process: Callable[[Samples], Samples], flush: Callable[[], Samples], chunks: Iterator[Samples]) -> Samples:
    """What a streaming filter makes of the chunks, as one array."""
    return np.concatenate([*(process(chunk) for chunk in chunks), flush()])


def rms_db(samples: Samples) -> float:
    """Root mean square in dB of full scale."""
    return float(10 * np.log10(np.mean(np.square(samples, dtype=np.float64)) + 1e-20))


def median_pitch_hz(samples: Samples, rate_hz: int, lowest_hz: float = 60, highest_hz: float = 500) -> float:
    """Median over voiced 50 ms frames of the pitch, by the highest peak of the normalised autocorrelation.

    The window's own autocorrelation is divided out (P. Boersma 1993), which keeps long lags from losing.
    """
    size = rate_hz // 20
    window = np.hanning(size)
    window_correlation = _autocorrelation(window)
    shortest, longest = int(rate_hz / highest_hz), int(rate_hz / lowest_hz)
    pitches = []
    for start in range(0, len(samples) - size, size // 4):
        frame = samples[start : start + size]
        if rms_db(frame) < -40:
            continue
        correlation = _autocorrelation((frame - frame.mean()) * window) / window_correlation
        correlation /= correlation[0]
        lags = correlation[shortest : longest + 1]
        if lags.max() < 0.7:
            continue
        # The shortest lag that is nearly as good: two periods correlate as well as one.
        peaks = np.flatnonzero((lags[1:-1] >= lags[:-2]) & (lags[1:-1] >= lags[2:])) + 1
        good = [peak for peak in peaks if lags[peak] > 0.9 * lags.max()]
        if good:
            pitches.append(rate_hz / (shortest + good[0]))
    return float(np.median(pitches))


def _autocorrelation(frame: NDArray[np.float64]) -> NDArray[np.float64]:
    spectrum = np.fft.rfft(frame, 2 * len(frame))
    return np.fft.irfft(np.abs(spectrum) ** 2)[: len(frame)]
