"""How the sound of a reply is cut into events."""

import numpy as np
import pytest

from workers.synthesis import EventRamp

RATE_HZ = 1000


def sizes(*chunks):
    ramp = EventRamp(RATE_HZ)
    return [len(piece) for chunk in chunks for piece in ramp.cut(np.zeros(chunk, np.float32))]


def test_events_grow_from_a_tenth_of_a_second_to_one():
    assert sizes(5000) == [100, 200, 400, 800, 1000, 1000, 1000, 500]


@pytest.mark.parametrize("size", [1000, 1022, 1400])
def test_a_chunk_of_about_a_second_is_one_event(size):
    """Model frames do not fill a second exactly: the rest would be an event of 20 ms, at the price of a whole one."""
    assert sizes(1500, size, size)[-2:] == [size, size]


def test_nothing_is_lost_or_reordered():
    ramp, sound = EventRamp(RATE_HZ), np.arange(7777, dtype=np.float32)
    cut = [piece for start in range(0, 7777, 333) for piece in ramp.cut(sound[start : start + 333])]
    assert np.array_equal(np.concatenate(cut), sound)
