"""Imitating a speaker: the pitch, timbre and pace of a clip, as a VoiceShape of the embedded engine.

This is matching, not cloning: the network keeps its own way of speaking, and only what a few numbers can say
about a voice is taken over. The numbers are measured alike on the clip and on the network's own speech, and
the shape is what leads from one to the other:

- pitch: the median of f0, and how far the melody strays from it;
- timbre: the average spectrum of the vowels, stretched along frequency until it fits (the length of the vocal
  tract), and the slope that is left (bright or dark);
- pace: vowels a second, from the ups and downs of loudness.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shared.pitch import HIGHEST_HZ, HOP_S, LOWEST_HZ, pitch_track
from workers.engines.base import Samples
from workers.engines.hibari_vocoder import VoiceShape

REVISION = "match-1"
"""Of the way from a clip to a shape: profiles of another way are made anew."""

_MIN_VOICED_FRAMES = 15
"""0.3 s of vowels; below that nothing measured here means anything."""

# What the engine can do and still be understood; beyond it the imitation stays at the edge.
_PITCH = (0.36, 1.7)
_FORMANTS = (0.78, 1.22)
_PITCH_RANGE = (0.7, 1.3)
_TILT_DB = (-2.0, 2.0)
_PACE = (0.8, 1.25)

_REGISTER = 0.3
"""What is left of the network's height from sentence to sentence, which it changes by 10 % and the clip does not
know of; without it no text would be spoken as high as the clip."""

_LOWEST_TIMBRE_HZ = 400.0
"""Below it the pitch itself decides the level."""
_HIGHEST_TIMBRE_HZ = 7000.0
_GRID_HZ = np.geomspace(_LOWEST_TIMBRE_HZ / 1.5, _HIGHEST_TIMBRE_HZ * 1.5, 600)
_WINDOW_S = 0.0427
_SMOOTHING_HZ = 350.0
"""Wider than the harmonics of most voices are apart, narrower than formants."""

_EMPTY_BAND_DB = 65.0
"""A band this far below the loudest was cut off on the way, as by a telephone: it says nothing of the voice."""

_QUIETEST = 0.05
_ABOVE_NOISE_DB = 6.0
"""So is one where vowels are hardly louder than the quietest 5 % of the clip: that is the room."""

_SMALLEST_BANDWIDTH_HZ = 3000.0

_NUM_FORMANT_STEPS = 100
_FORMANTS_PER_PITCH = 0.27
"""Between women and men, formants fall with this power of the pitch (G. E. Peterson and H. L. Barney 1952)."""
_TRUST_IN_PITCH = 0.5
"""What a formant scale apart from that costs in correlation, per squared e-fold: it only decides close calls."""

_LOUDNESS_HOP_S = 0.01
_VOWEL_BAND_HZ = (300.0, 1200.0)
"""Where vowels are louder than most consonants."""
_VOWEL_SWING_DB = 2.0
"""Loudness falls by this much between two vowels."""
_SPEECH_RANGE_DB = 35.0


class NoVoice(Exception):
    """The clip holds too little voiced speech to be imitated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What is measured of a speaker.

    `pitch_spread`: standard deviation of f0 in octaves. `timbre_db`: average log spectrum of vowels at
    `_GRID_HZ` [600]. `bandwidth_hz`: to where that spectrum is the voice's. `vowels_per_s`: of speech, pauses apart.
    """

    pitch_hz: float
    pitch_spread: float
    timbre_db: NDArray[np.float64]
    bandwidth_hz: float
    vowels_per_s: float


def traits_of(samples: Samples, rate_hz: int) -> Traits:
    """Measure samples [n], n at least 8000 a second; 15 s take 0.1 s. Raises NoVoice."""
    pitch = _pitch(samples, rate_hz)
    voiced = pitch[pitch > 0]
    median = float(np.median(voiced))
    timbre_db, bandwidth_hz = _timbre(samples, rate_hz, pitch > 0)
    return Traits(
        pitch_hz=median,
        pitch_spread=float(np.std(np.log2(voiced / median))),
        timbre_db=timbre_db,
        bandwidth_hz=bandwidth_hz,
        vowels_per_s=_vowels_per_s(samples, rate_hz, pitch > 0),
    )


def shape_for(wanted: Traits, own: Traits) -> VoiceShape:
    """The shape that leads from the network's own traits to those wanted, within what it can do."""
    pitch = _within(wanted.pitch_hz / own.pitch_hz, _PITCH)
    formants, tilt_db = _fit_timbre(wanted, own, pitch)
    return VoiceShape(
        pitch=pitch,
        formants=formants,
        pitch_range=_within(wanted.pitch_spread / max(own.pitch_spread, 1e-3), _PITCH_RANGE),
        register=_REGISTER,
        tilt_db=_within(tilt_db, _TILT_DB),
        pace=_within(wanted.vowels_per_s / max(own.vowels_per_s, 1e-3), _PACE),
    )


def settled(shape: VoiceShape, wanted: Traits, spoken: Samples, own: Samples, rate_hz: int) -> VoiceShape:
    """Correct a shape by what it sounds like: `spoken` with it, `own` without. Pitch and loudness come out right."""
    try:
        pitch_hz = float(np.median(_voiced_pitch(spoken, rate_hz)))
    except NoVoice:
        return shape
    return replace(
        shape,
        pitch=_within(shape.pitch * wanted.pitch_hz / pitch_hz, _PITCH),
        gain_db=shape.gain_db + _loudness_db(own) - _loudness_db(spoken),
    )


def _within(value: float, bounds: tuple[float, float]) -> float:
    return float(np.clip(value, *bounds))


def _loudness_db(samples: Samples) -> float:
    return float(10 * np.log10(np.square(samples, dtype=np.float64).mean() + 1e-12))


def _pitch(samples: Samples, rate_hz: int) -> NDArray[np.float32]:
    """Track twice, the second time near what most of the first says: that takes the octave errors out.

    The bounds follow C. De Looze and D. Hirst (2008).
    """
    first = pitch_track(samples, rate_hz)
    voiced = first[first > 0]
    if len(voiced) < _MIN_VOICED_FRAMES:
        raise NoVoice
    low, high = np.percentile(voiced, [25, 75])
    pitch = pitch_track(
        samples, rate_hz, lowest_hz=max(0.7 * float(low), LOWEST_HZ), highest_hz=min(1.6 * float(high), HIGHEST_HZ)
    )
    return pitch if np.count_nonzero(pitch) >= _MIN_VOICED_FRAMES else first


def _voiced_pitch(samples: Samples, rate_hz: int) -> NDArray[np.float32]:
    pitch = _pitch(samples, rate_hz)
    return pitch[pitch > 0]


def _timbre(samples: Samples, rate_hz: int, voiced: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float]:
    """The average log spectrum of voiced frames at `_GRID_HZ`, and the frequency to which it is the voice's.

    Of logarithms: the average of powers would be that of the loudest vowel.
    """
    size, hop = round(_WINDOW_S * rate_hz), round(HOP_S * rate_hz)
    padded = np.pad(samples, (size // 2, size))
    frames = padded[np.arange(len(voiced))[:, None] * hop + hop // 2 + np.arange(size)]
    power = np.abs(np.fft.rfft(frames * np.hanning(size))) ** 2
    bin_hz = rate_hz / size
    smoother = np.hanning(round(_SMOOTHING_HZ / bin_hz) + 2)[1:-1]
    smooth = np.apply_along_axis(np.convolve, 1, power, smoother / smoother.sum(), "same")
    vowels_db = (10 * np.log10(smooth[voiced] + 1e-12)).mean(axis=0)
    num_quietest = max(int(_QUIETEST * len(smooth)), 1)
    quietest = np.argsort(power.sum(axis=1))[:num_quietest]
    noise_db = 10 * np.log10(smooth[quietest].mean(axis=0) + 1e-12)
    hz = np.arange(len(vowels_db)) * bin_hz
    lost = (vowels_db < noise_db + _ABOVE_NOISE_DB) | (vowels_db < vowels_db.max() - _EMPTY_BAND_DB)
    lost[hz < _SMALLEST_BANDWIDTH_HZ] = False
    # A filter that cuts a band off begins before its end.
    end_hz = 0.9 * float(hz[np.argmax(lost)] if lost.any() else hz[-1])
    return np.interp(_GRID_HZ, hz, vowels_db), min(end_hz, _HIGHEST_TIMBRE_HZ)


def _fit_timbre(wanted: Traits, own: Traits, pitch: float) -> tuple[float, float]:
    """Formant scale, and tilt in dB per octave, that bring the network's timbre closest to the one wanted."""
    log_hz = np.log(_GRID_HZ)
    inside = (_GRID_HZ >= _LOWEST_TIMBRE_HZ) & (wanted.bandwidth_hz >= _GRID_HZ)
    target, target_slope = _without_slope(wanted.timbre_db[inside], log_hz[inside])
    best = (-np.inf, 1.0, 0.0)
    expected = _FORMANTS_PER_PITCH * np.log(pitch)
    for scale in np.geomspace(*_FORMANTS, _NUM_FORMANT_STEPS):
        stretched = np.interp(log_hz[inside] - np.log(scale), log_hz, own.timbre_db)
        candidate, slope = _without_slope(stretched, log_hz[inside])
        likeness = float(target @ candidate / np.sqrt((target @ target) * (candidate @ candidate) + 1e-12))
        likeness -= _TRUST_IN_PITCH * (np.log(scale) - expected) ** 2
        best = max(best, (likeness, float(scale), target_slope - slope))
    # The slope is per e-fold of frequency.
    return best[1], best[2] * float(np.log(2))


def _without_slope(values: NDArray[np.float64], at: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    centred, place = values - values.mean(), at - at.mean()
    slope = float(centred @ place / (place @ place))
    return centred - slope * place, slope


def _vowels_per_s(samples: Samples, rate_hz: int, voiced: NDArray[np.bool_]) -> float:
    """Peaks of loudness in voiced places, per second of speech (N. H. de Jong and T. Wempe 2009).

    Vowels of fast speech run into one another: a clip twice as fast seems half as much again.
    """
    hop, size = round(_LOUDNESS_HOP_S * rate_hz), round(2 * _LOUDNESS_HOP_S * rate_hz)
    num_frames = len(samples) // hop
    padded = np.pad(samples, (0, size))
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[: num_frames * hop : hop]
    power = np.abs(np.fft.rfft(frames * np.hanning(size))) ** 2
    hz = np.fft.rfftfreq(size, 1 / rate_hz)
    in_band = (hz > _VOWEL_BAND_HZ[0]) & (hz < _VOWEL_BAND_HZ[1])
    loudness_db = 10 * np.log10(power[:, in_band].sum(axis=1) + 1e-12)
    smoother = np.hanning(9)[1:-1]
    smooth_db = np.convolve(loudness_db, smoother / smoother.sum(), "same")
    floor_db = float(smooth_db.max()) - _SPEECH_RANGE_DB
    pitch_frame = np.arange(num_frames) * hop // round(HOP_S * rate_hz)
    is_vowel = voiced[np.minimum(pitch_frame, len(voiced) - 1)] & (smooth_db > floor_db)
    num_vowels = sum(is_vowel[peak] for peak in _peaks(smooth_db))
    return float(num_vowels / (np.count_nonzero(smooth_db > floor_db) * _LOUDNESS_HOP_S))


def _peaks(curve_db: NDArray[np.float64]) -> list[int]:
    """Places of the peaks that rise and fall by at least `_VOWEL_SWING_DB`."""
    peaks: list[int] = []
    rising, turn = True, 0
    for place, value in enumerate(curve_db):
        swing = value - curve_db[turn]
        if (swing > 0) == rising:
            turn = place
        elif abs(swing) > _VOWEL_SWING_DB:
            if rising:
                peaks.append(turn)
            rising, turn = not rising, place
    return peaks
