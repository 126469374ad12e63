"""Poisson arrivals, with a fixed seed."""

import itertools

import numpy as np
import pytest

from cli.bench.arrivals import poisson


def gaps(rate, seed, count):
    return np.diff([0.0, *poisson(rate, seed, duration_s=None, count=count)])


@pytest.mark.parametrize("rate", [0.5, 4.0, 200.0])
def test_the_gaps_are_exponential(rate):
    """Their mean and their deviation are one by the rate, and one gap tells nothing of the next."""
    drawn = gaps(rate, seed=1, count=20_000)
    assert np.mean(drawn) == pytest.approx(1 / rate, rel=0.03)
    assert np.std(drawn) == pytest.approx(1 / rate, rel=0.03)
    assert np.median(drawn) == pytest.approx(np.log(2) / rate, rel=0.03)
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.03


def test_counts_in_equal_times_vary_as_much_as_their_mean():
    counts = np.bincount(np.array(list(poisson(10, 3, duration_s=2000, count=None)), dtype=int), minlength=2000)
    assert np.mean(counts) == pytest.approx(10, rel=0.03)
    assert np.var(counts) == pytest.approx(10, rel=0.1)


def test_the_seed_decides():
    assert list(gaps(1, 5, 50)) == list(gaps(1, 5, 50))
    assert list(gaps(1, 5, 50)) != list(gaps(1, 6, 50))


@pytest.mark.parametrize(
    ("duration_s", "count", "expected"),
    [(None, 7, 7), (1000.0, 7, 7), (0.0, 7, 0), (0.0, None, 0), (None, 0, 0)],
)
def test_the_first_bound_ends_it(duration_s, count, expected):
    assert len(list(poisson(1, 1, duration_s=duration_s, count=count))) == expected


def test_no_arrival_after_the_duration():
    arrivals = list(poisson(100, 1, duration_s=5, count=None))
    assert arrivals == sorted(arrivals)
    assert arrivals[0] > 0
    assert 4 < arrivals[-1] < 5
    assert len(list(itertools.islice(poisson(100, 1, duration_s=None, count=None), 1000))) == 1000
