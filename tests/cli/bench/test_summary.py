"""The figures of a run."""

import pytest

from cli.bench.stream import Stream, measure
from cli.bench.summary import spread, summarise

SECOND = 48000


def stream(due, *arrivals, error=""):
    return Stream(
        text="one two three four",
        due=due,
        arrivals=[(at_s, count * SECOND) for at_s, count in arrivals],
        end=arrivals[-1][0] if arrivals else due,
        error=error,
    )


def figures(streams, duration_s=None):
    return summarise(streams, [measure(each) for each in streams], began=0.0, duration_s=duration_s)


def test_percentiles_lie_between_neighbours():
    values = spread(list(range(101)))
    assert (values.p50, values.p95, values.p99, values.max) == (50, 95, 99, 100)
    assert spread([]) is None
    assert spread([7.0]).p99 == 7.0


def test_a_failed_stream_counts_only_as_an_error():
    """It neither makes first audio faster nor adds to the throughput."""
    whole = stream(0.0, (0.4, 1), (1.0, 2))
    failed = stream(0.0, (0.001, 50), error="broken_off")
    summary = figures([whole, failed, stream(0.0, error="http_503"), stream(0.0, error="http_503")])
    assert (summary.requests, summary.completed) == (4, 1)
    assert summary.errors == {"http_503": 2, "broken_off": 1}
    assert summary.first_audio_ms.p50 == pytest.approx(400)
    assert summary.audio_s == 2


def test_without_a_whole_stream_there_are_no_percentiles():
    summary = figures([stream(0.0, error="timeout")])
    assert summary.first_audio_ms is summary.underrun_share is None
    assert summary.times_real_time == 0


def test_throughput_counts_what_came_within_the_window():
    streams = [stream(0.0, (1.0, 4), (3.0, 6)), stream(2.0, (2.5, 1), (5.0, 9))]
    assert figures(streams).window_s == 5
    assert figures(streams).times_real_time == pytest.approx(15 / 5)
    assert figures(streams, duration_s=4.0).times_real_time == pytest.approx(7 / 4)
    assert figures(streams, duration_s=60.0).window_s == 5


def test_the_share_of_underruns_is_of_whole_streams():
    good, late = stream(0.0, (0.1, 1), (0.5, 2)), stream(0.0, (0.1, 1), (1.4, 2))
    summary = figures([good, late, stream(0.0, error="timeout")])
    assert (summary.underruns, summary.underrun_share) == (1, 0.5)
    assert summary.deficit_ms.max == pytest.approx(300)


def test_the_pace_of_speech_is_told():
    assert figures([stream(0.0, (1.0, 2))]).audio_s_per_word == 0.5
