"""The embedded engine's presets: different speakers, equally loud, intelligible."""

import itertools

import numpy as np
import pytest

from shared.formats import AudioFormat
from tests.speech import needs_speech_recognition, word_error_rate
from tests.support.signals import median_pitch_hz, rms_db
from tests.support.synthesis import joined
from workers.audio.chain import ReplyChain
from workers.engines.hibari_finish import level, trim
from workers.engines.hibari_voices import SHAPES

RATE_HZ = 24000
VOICED_TEXT = "We were away a year ago, and you may know all our yellow lions. The boy was there when the sun rose."

# From the Harvard sentences (IEEE 1969).
TEXT = (
    "The birch canoe slid on the smooth planks. Glue the sheet to the dark blue background. It is easy to tell the "
    "depth of a well. These days a chicken leg is a rare dish. Rice is often served in round bowls. The juice of "
    "lemons makes fine punch. The box was thrown beside the parked truck. The hogs were fed chopped corn and "
    "garbage. Large size in stockings is hard to sell. The boy was there when the sun rose. A rod is used to catch "
    "pink salmon. The source of the huge river is the clear spring. Four hours of steady work faced us."
)


def formant_scale(samples, reference):
    """Factor on formant frequencies from `reference` to `samples`: where their smoothed long-term spectra fit best."""
    log_hz = np.linspace(np.log(500), np.log(7000), 800)

    def envelope(signal):
        frames = np.lib.stride_tricks.sliding_window_view(signal, 1024)[::256] * np.hanning(1024)
        power = np.mean(np.abs(np.fft.rfft(frames)) ** 2, axis=0)
        hz = np.fft.rfftfreq(1024, 1 / RATE_HZ)
        smooth = np.convolve(power, np.hanning(23) / np.hanning(23).sum(), "same")
        return lambda at: np.interp(np.exp(at), hz, np.log(smooth))

    measured, original = envelope(samples), envelope(reference)
    factors = np.linspace(0.7, 1.3, 121)
    fits = [np.corrcoef(measured(log_hz), original(log_hz - np.log(factor)))[0, 1] for factor in factors]
    return float(factors[int(np.argmax(fits))])


def test_presets_are_pairwise_different_speakers(speak):
    """By 12 % in median pitch, as measured, or in formants, as built (and measured below)."""
    pitches = {name: median_pitch_hz(joined(speak(VOICED_TEXT, name)), RATE_HZ) for name in SHAPES}
    for name, other in itertools.combinations(SHAPES, 2):
        pitch_ratio = pitches[name] / pitches[other]
        formant_ratio = SHAPES[name].formants / SHAPES[other].formants
        assert max(pitch_ratio, 1 / pitch_ratio, formant_ratio, 1 / formant_ratio) >= 1.12, (name, other)


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if not shape.own_voice])
def test_a_preset_has_the_pitch_it_was_given(speak, name):
    own = median_pitch_hz(joined(speak(VOICED_TEXT)), RATE_HZ)
    assert median_pitch_hz(joined(speak(VOICED_TEXT, name)), RATE_HZ) == pytest.approx(
        SHAPES[name].pitch * own, rel=0.06
    )


@pytest.mark.parametrize("name", ["clover", "willow", "rowan", "maple"])
def test_a_preset_has_the_formants_it_was_given(speak, name):
    scale = formant_scale(joined(speak(VOICED_TEXT, name)), joined(speak(VOICED_TEXT)))
    assert scale == pytest.approx(SHAPES[name].formants, rel=0.04)


@pytest.mark.parametrize("name", SHAPES)
def test_presets_are_equally_loud_and_never_clip(speak, name):
    speech = joined(speak(VOICED_TEXT, name))
    assert rms_db(trim(speech[: len(speech) // 300 * 300], 300)) == pytest.approx(-19.5, abs=1.5)
    assert np.abs(speech).max() < 0.98


def test_the_level_has_no_memory():
    """The same gain for every segment, whatever came before."""
    quiet, loud = (scale * np.linspace(-1, 1, 1000, dtype=np.float32) for scale in (0.1, 3.0))
    together = level(np.concatenate((loud, quiet)), 0.0)
    np.testing.assert_array_equal(together, np.concatenate((level(loud, 0.0), level(quiet, 0.0))))
    np.testing.assert_allclose(together[1000:], 2 * quiet)
    assert np.abs(together).max() <= 0.97
    assert (np.diff(together[:1000]) >= 0).all()


def test_trimming_leaves_nothing_of_silence():
    assert len(trim(np.zeros(3000, np.float32), 300)) == 0


@needs_speech_recognition
@pytest.mark.parametrize("name", ["heart", "maple", "finch"])
def test_a_preset_is_understood(speak, name):
    assert word_error_rate(TEXT, joined(speak(TEXT, name)), RATE_HZ) <= 0.08


@needs_speech_recognition
@pytest.mark.parametrize("speed", [0.75, 1.5])
def test_changed_speed_is_understood(speak, speed):
    chain = ReplyChain(engine_rate_hz=RATE_HZ, audio_format=AudioFormat.PCM, sample_rate_hz=RATE_HZ, speed=speed)
    packets = [packet for chunk in speak(TEXT) for packet in chain.feed(chunk.samples)] + chain.finish()
    samples = np.frombuffer(b"".join(packets), "<i2").astype(np.float32) / 32768
    assert word_error_rate(TEXT, samples, RATE_HZ) <= 0.08
