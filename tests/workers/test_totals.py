"""What a worker counts of its own work."""

import pytest

from workers.totals import TotalsCounter


class Clock:
    """Moved by hand, in seconds."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


def test_idle_time_is_not_busy(clock):
    totals = TotalsCounter(clock)
    clock.now_s += 10
    with totals.stream():
        clock.now_s += 2
    clock.now_s += 10
    read = totals.read()
    assert (read.busy_s, read.stream_s, read.streams) == (2, 2, 1)


def test_streams_at_once_are_busy_once_and_counted_each(clock):
    totals = TotalsCounter(clock)
    with totals.stream():
        clock.now_s += 1
        with totals.stream():
            clock.now_s += 3
    read = totals.read()
    assert (read.busy_s, read.stream_s, read.streams) == (4, 7, 2)


def test_a_running_stream_counts_before_its_end(clock):
    totals = TotalsCounter(clock)
    with totals.stream():
        clock.now_s += 5
        read = totals.read()
        assert (read.busy_s, read.stream_s, read.streams) == (5, 5, 0)
        clock.now_s += 1
        assert totals.read().busy_s == 6


def test_a_stream_that_is_cancelled_has_ended(clock):
    totals = TotalsCounter(clock)
    with pytest.raises(KeyboardInterrupt), totals.stream():
        raise KeyboardInterrupt
    clock.now_s += 5
    assert totals.read().streams == 1
    assert totals.read().busy_s == 0


def test_audio_and_failures_add_up(clock):
    totals = TotalsCounter(clock)
    totals.made(frames=5, audio_s=0.05)
    totals.made(frames=7, audio_s=0.07, runaways=1)
    totals.failed()
    read = totals.read()
    assert (read.frames, read.audio_s, read.failed_streams) == (12, pytest.approx(0.12), 1)
    assert read.runaways == 1
    assert read.cpu_s > 0
