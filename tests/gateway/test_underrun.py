"""The simulated player, as tables of arrivals: (when it came, seconds of audio in it)."""

import pytest

from gateway.underrun import Player

CASES = {
    "nothing": ([], 0.0, 0.0),
    "one piece": ([(5.0, 1.0)], 1.0, 0.0),
    "all at once": ([(1.0, 1.0), (1.0, 1.0)], 2.0, 0.0),
    "just in time": ([(0.0, 1.0), (1.0, 1.0), (2.0, 1.0)], 3.0, 0.0),
    "early is kept": ([(0.0, 5.0), (4.0, 1.0), (5.5, 1.0)], 7.0, 0.0),
    "late by 300 ms": ([(0.0, 1.0), (1.3, 1.0)], 2.0, 0.3),
    "the start is no deficit": ([(100.0, 1.0), (101.3, 1.0)], 2.0, 0.3),
    "a late piece is not made up by silence": ([(0.0, 1.0), (1.3, 1.0), (2.3, 1.0)], 3.0, 0.3),
    "small delays add up": ([(0.0, 1.0), (1.2, 1.0), (2.4, 1.0), (3.6, 1.0)], 4.0, 0.6),
    "the worst counts, not the last": ([(0.0, 1.0), (1.5, 4.0), (4.0, 1.0)], 6.0, 0.5),
    "pieces without audio do not start it": ([(0.0, 0.0), (9.0, 1.0), (10.0, 1.0)], 2.0, 0.0),
}


@pytest.mark.parametrize(("arrivals", "audio_s", "deficit_s"), CASES.values(), ids=CASES.keys())
def test_the_deficit_is_the_silence_that_is_heard(arrivals, audio_s, deficit_s):
    player = Player()
    for at_s, seconds in arrivals:
        player.receive(at_s, seconds)
    assert player.audio_s == pytest.approx(audio_s)
    assert player.worst_deficit_s == pytest.approx(deficit_s)


@pytest.mark.parametrize(("late_s", "underran"), [(0.0, False), (0.09, False), (0.11, True)])
def test_only_a_gap_over_100_ms_is_an_underrun(late_s, underran):
    player = Player()
    player.receive(0.0, 1.0)
    player.receive(1.0 + late_s, 1.0)
    assert player.underran is underran
