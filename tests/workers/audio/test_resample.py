"""The resampler: exact length, no aliases, the same however the input is cut."""

import numpy as np
import pytest

from tests.support.signals import cut, noise, rms_db, stream, tone
from workers.audio.resample import Resampler

RATES = [
    (source, target)
    for source in (22050, 24000)
    for target in (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
]


def resample(samples, source_hz, target_hz, call_size=None):
    resampler = Resampler(source_hz, target_hz)
    return stream(resampler.process, resampler.flush, cut(samples, call_size or max(len(samples), 1)))


@pytest.mark.parametrize(("source_hz", "target_hz"), RATES)
def test_length_is_exact_and_independent_of_the_cut(source_hz, target_hz):
    for num_samples in (0, 1, 5, 200, 12347):
        samples = noise(num_samples)
        whole = resample(samples, source_hz, target_hz)
        assert len(whole) == round(num_samples * target_hz / source_hz)
        for call_size in (317, 480):
            np.testing.assert_array_equal(resample(samples, source_hz, target_hz, call_size), whole)


@pytest.mark.parametrize(("source_hz", "target_hz"), RATES)
def test_a_tone_keeps_place_and_level(source_hz, target_hz):
    frequency_hz = 1000
    got = resample(tone(frequency_hz, source_hz, 1.0), source_hz, target_hz)
    expected = tone(frequency_hz, target_hz, 1.0)
    inner = slice(target_hz // 50, -target_hz // 50)
    assert rms_db(got[inner] - expected[: len(got)][inner]) < -80


@pytest.mark.parametrize(("source_hz", "target_hz"), [(s, t) for s, t in RATES if t < 0.95 * s])
def test_what_the_target_cannot_carry_is_gone(source_hz, target_hz):
    """An alias is a whistle in every s."""
    for above in (1.03, 1.2):
        frequency_hz = above * target_hz / 2
        if frequency_hz < 0.49 * source_hz:
            got = resample(tone(frequency_hz, source_hz, 0.5), source_hz, target_hz)
            assert rms_db(got[target_hz // 20 : -target_hz // 20]) < -90


@pytest.mark.parametrize(("source_hz", "target_hz"), [(22050, 24000), (22050, 48000), (24000, 48000)])
def test_upsampling_adds_no_image(source_hz, target_hz):
    frequency_hz = 0.42 * source_hz
    got = resample(tone(frequency_hz, source_hz, 0.5), source_hz, target_hz)
    inner = got[target_hz // 20 : -target_hz // 20]
    spectrum = np.abs(np.fft.rfft(inner * np.blackman(len(inner))))
    bins = np.fft.rfftfreq(len(inner), 1 / target_hz)
    assert 20 * np.log10(spectrum[np.abs(bins - frequency_hz) > 200].max() / spectrum.max()) < -90


@pytest.mark.parametrize(("source_hz", "target_hz"), [(22050, 24000), (24000, 48000), (24000, 8000)])
def test_little_is_held_back(source_hz, target_hz):
    """The first 20 ms of sound must not wait for the next 20."""
    first = Resampler(source_hz, target_hz).process(noise(source_hz // 50))
    assert len(first) / target_hz > 0.010


def test_equal_rates_change_nothing():
    samples = noise(1000)
    np.testing.assert_array_equal(resample(samples, 24000, 24000, 100), samples)
