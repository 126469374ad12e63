"""The embedded engine's voices: its network's own, and others made from it by pitch, formants and manner.

Any two differ by at least 12 % in median pitch or in formant scale, which is well above what listeners need
to tell speakers apart, and a test holds them to it. The gains make them equally loud (ITU-R BS.1770-5).
"""

from dataclasses import dataclass

from shared.contracts import Preset
from workers.engines.hibari_vocoder import VoiceShape


@dataclass(frozen=True, slots=True)
class _Voice:
    description: str
    shape: VoiceShape


_VOICES = {
    "heart": _Voice(
        "Warm, clear, mid-high; the model's own voice",
        VoiceShape(),
    ),
    "clover": _Voice(
        "Light and youthful, mid-high",
        VoiceShape(formants=1.14, pitch_range=1.1, gain_db=-0.5),
    ),
    "linnet": _Voice(
        "Bright and open, high",
        VoiceShape(pitch=1.16, pace=1.02, gain_db=0.8),
    ),
    "robin": _Voice(
        "Small and lively, high",
        VoiceShape(pitch=1.16, formants=1.14, pitch_range=1.1),
    ),
    "finch": _Voice(
        "Childlike, very high",
        VoiceShape(pitch=1.35, formants=1.14, gain_db=1.2),
    ),
    "willow": _Voice(
        "Calm and even, middle",
        VoiceShape(pitch=0.86, formants=1.05, pitch_range=0.9, pace=0.97, gain_db=-0.8),
    ),
    "rowan": _Voice(
        "Neutral, between high and low",
        VoiceShape(pitch=0.86, formants=0.92, gain_db=-0.2),
    ),
    "reed": _Voice(
        "Light storyteller, mid-low",
        VoiceShape(pitch=0.74, formants=0.92, pitch_range=1.15, gain_db=-0.6),
    ),
    "maple": _Voice(
        "Full and expressive, mid-low",
        VoiceShape(pitch=0.74, formants=0.81, pitch_range=1.2),
    ),
    "birch": _Voice(
        "Relaxed and plain, low",
        VoiceShape(pitch=0.64, formants=0.92, gain_db=-1.2),
    ),
    "harbor": _Voice(
        "Broad and warm, low",
        VoiceShape(pitch=0.64, formants=0.81, pace=0.97, gain_db=-0.5),
    ),
    "flint": _Voice(
        "Dry and firm, very low",
        VoiceShape(pitch=0.55, formants=0.92, pitch_range=0.9, gain_db=-1.8),
    ),
    "walnut": _Voice(
        "Dark and steady, very low",
        VoiceShape(pitch=0.55, formants=0.81, pace=0.96, gain_db=-1.1),
    ),
    "granite": _Voice(
        "Deep and grave, lowest",
        VoiceShape(pitch=0.47, formants=0.81, pace=0.95, gain_db=-1.7),
    ),
}

PRESETS = tuple(Preset(name=name, description=voice.description) for name, voice in _VOICES.items())

SHAPES = {name: voice.shape for name, voice in _VOICES.items()}
