"""The time stretch: length, pitch, timing, the same however the input is cut."""

import numpy as np
import pytest

from tests.support.signals import cut, median_pitch_hz, noise, stream, tone, voice_like
from workers.audio.tempo import Tempo

RATE_HZ = 24000
SPEEDS = [0.25, 0.5, 0.75, 0.9, 1.1, 1.5, 2.0, 4.0]


def stretch(samples, speed, call_size=None, rate_hz=RATE_HZ):
    tempo = Tempo(rate_hz, speed)
    return stream(tempo.process, tempo.flush, cut(samples, call_size or max(len(samples), 1)))


@pytest.mark.parametrize("speed", SPEEDS)
def test_length_is_exact_and_independent_of_the_cut(speed):
    for num_samples in (0, 1, 100, 1000, 20011):
        samples = noise(num_samples)
        whole = stretch(samples, speed)
        assert len(whole) == round(num_samples / speed)
        for call_size in (317, 480):
            np.testing.assert_array_equal(stretch(samples, speed, call_size), whole)


@pytest.mark.parametrize("speed", SPEEDS)
@pytest.mark.parametrize("pitch_hz", [75, 90, 130, 210, 330])
def test_pitch_stays(speed, pitch_hz):
    got = stretch(voice_like(pitch_hz, RATE_HZ, 1.0), speed)
    assert median_pitch_hz(got, RATE_HZ) == pytest.approx(pitch_hz, rel=0.02)


@pytest.mark.parametrize("speed", SPEEDS)
def test_sounds_stay_in_time(speed):
    """Beeps begin where they should, and the first and last samples are not lost."""
    samples = np.zeros(2 * RATE_HZ, np.float32)
    beep = tone(440, RATE_HZ, 0.1)
    for start_s in (0.0, 0.5, 1.0, 1.9):
        samples[round(start_s * RATE_HZ) :][: len(beep)] = beep
    got = stretch(samples, speed)
    sounding = np.convolve(np.abs(got) > 0.04, np.ones(RATE_HZ // 40), "same") > 0
    onsets = np.flatnonzero(np.diff(sounding.astype(int), prepend=0) == 1) / RATE_HZ
    # The search moves a window by up to 8 ms of input, and a window is 25 ms, smeared by 12 ms here.
    np.testing.assert_allclose(onsets, np.array([0.0, 0.5, 1.0, 1.9]) / speed, atol=0.04 + 0.008 / speed)
    assert np.abs(got[-RATE_HZ // 100 :]).max() > 0.1


@pytest.mark.parametrize("speed", SPEEDS)
def test_first_sound_comes_early(speed):
    """A window, its search and a hop of the input, nothing more: 36 ms at 0.25, 83 ms at 4."""
    tempo = Tempo(RATE_HZ, speed)
    assert len(tempo.process(noise(round(RATE_HZ * (0.034 + 0.0125 * speed))))) > 0


@pytest.mark.parametrize("speed", [0.25, 1.5, 4.0])
def test_level_stays(speed):
    samples = voice_like(120, RATE_HZ, 1.0)
    got = stretch(samples, speed)
    assert np.std(got[2000:-2000]) == pytest.approx(np.std(samples), rel=0.05)
    assert np.abs(got).max() < 1.1 * np.abs(samples).max()


def test_normal_speed_changes_nothing():
    samples = noise(1000)
    np.testing.assert_array_equal(stretch(samples, 1.0, 100), samples)


def test_memory_does_not_grow_with_the_length():
    tempo = Tempo(RATE_HZ, 0.5)
    for _ in range(20):
        tempo.process(noise(RATE_HZ))
    assert len(tempo._input) < RATE_HZ // 10
