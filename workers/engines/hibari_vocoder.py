"""hibari's vocoder with other voices: pitch, formants and colour of its network's output, changed.

The network gives, per 12.5 ms frame, f0 and five spectra over 601 bins (20 Hz each); hibari.dsp turns them
into sound:

    S = exp(lh) e^{i pi tanh(theta)} STFT(pulses(f0)) + exp(ln) Z + exp(lr) e^{i phi}

lh is trained only where the harmonics of the network's own f0 lie; between them it is anything. So a new f0
needs the envelope through those harmonics (read as they are, the spectra boom by 10 dB), and a phase that
fits it: minimum phase, as the vocal tract has. Moving the envelope along frequency moves the formants, as a
shorter or longer vocal tract does.
"""

from dataclasses import dataclass, replace

import numpy as np
from hibari import dsp
from numpy.typing import NDArray

from workers.engines.base import Samples

FRAME_SAMPLES: int = dsp.HOP
SAMPLE_RATE_HZ: int = dsp.SR

_NUM_BINS = dsp.N_FFT // 2 + 1
_BIN_HZ = SAMPLE_RATE_HZ / dsp.N_FFT
_VOICED_HZ = 40.0
"""Frames with a lower f0 have no pulses (hibari.dsp.pulses)."""

_SPACING_FLOOR_HZ = 60.0
"""Harmonics closer than this are not told apart by a window of 50 ms."""

_MAX_HARMONICS = int(SAMPLE_RATE_HZ / 2 / _SPACING_FLOOR_HZ) + 1

_REFERENCE_F0_HZ = 195.0
"""Median f0 of the network's own voice: the fixed point of `pitch_range`."""

_NUM_LOW_BINS = int(1000 / _BIN_HZ)
_HEARD = 2.5
"""Voiced frames more than this (22 dB, in log amplitude) below the loudest do not decide how high a voice seems:
there f0 may be anything."""

_TILT_PIVOT_HZ = 1000.0

_LogSpectrum = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceShape:
    """How a voice differs from the network's own; the defaults leave it alone.

    `pitch`: factor on f0, 0.36 to 1.7. `formants`: factor on formant frequencies, 0.75 to 1.25.
    `pitch_range`: exponent on the melody around the median, 0 (monotone) to 1.5. `tilt_db`: dB per octave
    around 1 kHz, -3 to 3. `register`: exponent on how far a piece's median f0 lies from the network's usual one,
    0 (every piece at the same height) to 1. `pace`: speaking rate, 0.8 to 1.25. `gain_db`: evens out loudness
    between voices.
    """

    pitch: float = 1.0
    formants: float = 1.0
    pitch_range: float = 1.0
    register: float = 1.0
    tilt_db: float = 0.0
    pace: float = 1.0
    gain_db: float = 0.0

    @property
    def own_voice(self) -> bool:
        """Whether the network's output is used as it is."""
        return replace(self, pace=1.0, gain_db=0.0) == VoiceShape()


def render(outputs: list[NDArray[np.float32]], shape: VoiceShape, noise: np.random.Generator) -> Samples:
    """Turn the network's outputs (lh, theta, ln, lr, phi [601, F], f0 [F]) into samples [300 F]."""
    harmonic, theta, shaped_noise, free, phase, f0 = outputs
    if shape.own_voice:
        own: Samples = dsp.synth(harmonic, theta, shaped_noise, free, phase, f0, noise)
        return own
    num_frames = len(f0)
    tilt = _tilt(shape.tilt_db)[:, None]
    envelope = _warp_harmonics(harmonic, f0, shape.formants) + tilt
    pulses = dsp.pulses(_shift_f0(f0, shape, loudness=envelope[:_NUM_LOW_BINS].max(axis=0)))
    spectrum = dsp.stft(pulses, num_frames) * _minimum_phase(envelope)
    z = noise.standard_normal((_NUM_BINS, 2 * num_frames), dtype=np.float32).view(np.complex64)
    spectrum += z * dsp.ex(_warp(shaped_noise, shape.formants) + tilt)
    # A phase cannot be averaged with its neighbour: take the nearest bin's.
    nearest = np.rint(_source_bins(shape.formants)).astype(np.intp)
    spectrum += _polar(_warp(free, shape.formants) + tilt, phase[nearest])
    shaped: Samples = dsp.ola(spectrum)
    return shaped


def _shift_f0(f0: NDArray[np.float32], shape: VoiceShape, *, loudness: NDArray[np.float32]) -> NDArray[np.float32]:
    """Move f0 [F] as the shape says. `loudness` [F]: log amplitude of the vowels."""
    voiced = f0 > _VOICED_HZ
    melody = np.where(voiced, f0, _REFERENCE_F0_HZ) / _REFERENCE_F0_HZ
    if shape.register != 1.0 and voiced.any():
        heard = voiced & (loudness > loudness[voiced].max() - _HEARD)
        melody *= np.median(melody[heard]) ** (shape.register - 1)
    shifted = _REFERENCE_F0_HZ * shape.pitch * melody**shape.pitch_range
    # A voiced frame stays one, however low the voice.
    return np.where(voiced, np.maximum(shifted, _VOICED_HZ + 1), f0).astype(np.float32)


def _source_bins(formants: float) -> NDArray[np.float64]:
    """Bins [601] of the network's spectrum that end up at bins 0 to 600."""
    bins: NDArray[np.float64] = np.minimum(np.arange(_NUM_BINS) / formants, _NUM_BINS - 1)
    return bins


def _warp(spectrum: _LogSpectrum, formants: float) -> _LogSpectrum:
    """Stretch [601, F] along frequency; linear between bins."""
    source = _source_bins(formants)
    below = np.minimum(source.astype(np.intp), _NUM_BINS - 2)
    weight = (source - below).astype(np.float32)[:, None]
    warped: _LogSpectrum = spectrum[below] * (1 - weight) + spectrum[below + 1] * weight
    return warped


def _warp_harmonics(spectrum: _LogSpectrum, f0: NDArray[np.float32], formants: float) -> _LogSpectrum:
    """Stretch the envelope through the harmonics of f0; below the first one it is level."""
    # A harmonic is heard over the main lobe of the window, not in one bin.
    power = np.exp(2 * np.minimum(spectrum, 7.0), dtype=np.float32)
    smooth = power.copy()
    smooth[1:] += power[:-1] / 4
    smooth[:-1] += power[1:] / 4
    lobe = np.log(smooth / 1.5 + 1e-12).T / 2  # [F, 601]
    spacing = np.maximum(f0, _SPACING_FLOOR_HZ)[:, None] / _BIN_HZ  # [F, 1], in bins
    harmonics = _sample(lobe, spacing * np.arange(1, _MAX_HARMONICS + 1, dtype=np.float32))
    # Harmonic 1 is at index 0.
    index = np.maximum(_source_bins(formants).astype(np.float32) / spacing - 1, 0)
    envelope: _LogSpectrum = np.where(f0 > _VOICED_HZ, _sample(harmonics, index).T, _warp(lobe.T, formants))
    return envelope


def _sample(rows: _LogSpectrum, positions: NDArray[np.float32]) -> _LogSpectrum:
    """Read [F, N] at fractional places [F, K] of each row, linear between columns, level beyond the last."""
    num_columns = rows.shape[1]
    position = np.minimum(positions, num_columns - 1)
    below = np.minimum(position.astype(np.intp), num_columns - 2)
    weight = (position - below).astype(np.float32)
    flat = rows.ravel()
    at = below + np.arange(len(rows))[:, None] * num_columns
    low, high = flat[at], flat[at + 1]
    sampled: _LogSpectrum = low + (high - low) * weight
    return sampled


def _minimum_phase(log_magnitude: _LogSpectrum) -> NDArray[np.complex64]:
    """The minimum-phase response [601, F] of a log magnitude: fold its cepstrum (Oppenheim and Schafer)."""
    cepstrum = dsp.irfft(np.ascontiguousarray(log_magnitude.T), dsp.N_FFT, 1)
    half = dsp.N_FFT // 2
    cepstrum[:, 1:half] *= 2
    cepstrum[:, half + 1 :] = 0
    log_response = dsp.rfft(cepstrum, 1)
    # Contiguous: cosine and sine of every second number are slow.
    response = _polar(np.ascontiguousarray(log_response.real), np.ascontiguousarray(log_response.imag))
    by_bin: NDArray[np.complex64] = response.T
    return by_bin


def _polar(log_magnitude: _LogSpectrum, phase: NDArray[np.float32]) -> NDArray[np.complex64]:
    """exp(log_magnitude + i phase); numpy's complex exp takes six times as long."""
    value = np.empty(phase.shape, np.complex64)
    np.cos(phase, out=value.real)
    np.sin(phase, out=value.imag)
    np.multiply(value, dsp.ex(log_magnitude), out=value)
    return value


def _tilt(tilt_db: float) -> NDArray[np.float32]:
    """Natural-log gain [601] of a tilt in dB per octave, level below 100 Hz."""
    octaves = np.log2(np.maximum(np.arange(_NUM_BINS) * _BIN_HZ, 100.0) / _TILT_PIVOT_HZ)
    gain: NDArray[np.float32] = (tilt_db * octaves * np.log(10) / 20).astype(np.float32)
    return gain
