"""The part of a long clip that is kept."""

import numpy as np
from numpy.typing import NDArray

from voices.intake.checks import Activity

_CUT_COST_FRAMES = 15
"""An edge inside a word costs as much as 0.3 s of speech: a pause close by is the better place."""


def best_window(found: Activity, num_frames: int) -> int:
    """First frame of the `num_frames` that hold most speech; the earliest of equals.

    Overdriven speech counts as none. `num_frames` is at most the clip's.
    """
    useful = found.speech & ~found.clipped
    total = np.concatenate(([0], np.cumsum(useful)))
    score = total[num_frames:] - total[:-num_frames] - _CUT_COST_FRAMES * _num_cut_words(found.speech, num_frames)
    return int(np.argmax(score))


def _num_cut_words(speech: NDArray[np.bool_], num_frames: int) -> NDArray[np.intp]:
    """How many edges (0 to 2) of the window at each place lie between two frames of speech."""
    edge = np.concatenate(([False], speech[1:] & speech[:-1], [False])).astype(np.intp)
    cuts: NDArray[np.intp] = edge[:-num_frames] + edge[num_frames:]
    return cuts
