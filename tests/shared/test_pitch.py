"""The pitch track follows known voices and stays silent where nothing is voiced."""

import numpy as np
import pytest

from shared.pitch import HOP_S, pitch_track
from tests.support.signals import noise, voice_like


@pytest.mark.parametrize("pitch_hz", [65, 80, 120, 200, 320, 450])
@pytest.mark.parametrize("rate_hz", [8000, 22050, 24000, 48000])
def test_a_steady_voice_has_its_pitch(pitch_hz, rate_hz):
    pitch = pitch_track(voice_like(pitch_hz, rate_hz, 1.0), rate_hz)
    assert len(pitch) == 50
    assert np.count_nonzero(pitch) >= 46
    assert np.median(pitch[pitch > 0]) == pytest.approx(pitch_hz, rel=0.015)


def test_a_voice_without_its_lowest_harmonics_has_the_same_pitch():
    """A telephone cuts them off."""
    time_s = np.arange(24000) / 24000
    voice = sum(np.sin(2 * np.pi * 120 * order * time_s) for order in range(3, 20)) / 20
    pitch = pitch_track(voice.astype(np.float32), 24000)
    assert np.median(pitch[pitch > 0]) == pytest.approx(120, rel=0.015)


def test_a_gliding_voice_is_followed():
    rate_hz, start_hz, end_hz = 24000, 100, 200
    time_s = np.arange(2 * rate_hz) / rate_hz
    phase = 2 * np.pi * (start_hz * time_s + (end_hz - start_hz) * time_s**2 / 4)
    voice = sum(np.sin(order * phase) / order for order in range(1, 8)) / 4
    pitch = pitch_track(voice.astype(np.float32), rate_hz)
    expected = start_hz + (end_hz - start_hz) * (np.arange(len(pitch)) + 0.5) * HOP_S / 2
    np.testing.assert_allclose(pitch[3:-3], expected[3:-3], rtol=0.03)


@pytest.mark.parametrize("seed", range(3))
def test_noise_and_silence_are_unvoiced(seed):
    assert np.count_nonzero(pitch_track(noise(48000, seed), 24000)) <= 2
    assert not pitch_track(np.zeros(48000, np.float32), 24000).any()


@pytest.mark.parametrize("num_samples", [1, 100, 481])
def test_very_short_audio_has_frames_all_the_same(num_samples):
    assert len(pitch_track(np.ones(num_samples, np.float32), 24000)) == -(-num_samples // 480)
