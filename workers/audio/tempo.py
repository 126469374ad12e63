"""Speak faster or slower at the same pitch: WSOLA, as a stream.

Overlapping windows of the input are laid at a fixed distance in the output and at `speed` times that distance
in the input. Each window may move a little to where it continues its predecessor best (the greatest
normalised cross-correlation), so that pitch periods are repeated or left out whole. W. Verhelst and
M. Roelands, "An overlap-add technique based on waveform similarity (WSOLA)", ICASSP 1993.

FFmpeg's atempo is understood as well, but smears onsets by up to 100 ms at 0.25, holds back 60 to 200 ms before
the first sound, and misses the length by up to 1400 samples.
"""

import numpy as np

from workers.engines.base import Samples

_HOPS_PER_S = 80
"""Windows of 25 ms, half overlapping: two pitch periods of a low voice, yet short beside a syllable."""

_SEEKS_PER_S = 125
"""A window moves by up to 8 ms either way, which finds a whole pitch period down to 63 Hz."""

_OFFSET_PENALTY = 0.01
"""Correlation that a full move costs: silence and pure tones, where all places are equal, stay in time."""

_POWER_FLOOR = 1e-4
"""Added to the energy of a window, so that the correlation of near-silence means nothing."""


class Tempo:
    """Changes the speed of one reply. Total output: round(n / speed) samples (half to even) after `flush`.

    `speed` is 0.25 to 4; exactly 1 passes the samples through. The output does not depend on how the input is
    cut. Not thread-safe.
    """

    def __init__(self, sample_rate_hz: int, speed: float) -> None:
        self._speed = speed
        if speed == 1.0:
            return
        self._hop = sample_rate_hz // _HOPS_PER_S
        self._window = np.hanning(2 * self._hop + 1)[:-1].astype(np.float32)
        self._seek = sample_rate_hz // _SEEKS_PER_S
        self._penalty = _OFFSET_PENALTY * np.abs(np.linspace(-1, 1, 2 * self._seek + 1))
        # Half a window before time 0, since windows are centred, and room to move.
        lead = self._hop + self._seek
        self._input: Samples = np.zeros(lead, np.float32)
        self._input_start = -lead  # the time, in input samples, of self._input[0]
        self._num_input = 0
        self._num_output = 0
        self._num_windows = 0
        # What would follow the last window in the input.
        self._template: Samples = np.zeros(2 * self._hop, np.float32)
        self._overlap: Samples = np.zeros(self._hop, np.float32)

    def process(self, samples: Samples) -> Samples:
        """Take samples [n] of any length; return those that are ready [m]."""
        if self._speed == 1.0:
            return samples
        self._num_input += len(samples)
        self._input = np.concatenate((self._input, samples))
        return self._advance()

    def flush(self) -> Samples:
        """Return the rest."""
        if self._speed == 1.0:
            return np.zeros(0, np.float32)
        num_missing = round(self._num_input / self._speed) - self._num_output
        # The windows that cover the end reach beyond it.
        num_windows = -(-num_missing // self._hop) + 1
        reach = int(self._hop * self._speed * num_windows) + 4 * self._hop + 2 * self._seek
        self._input = np.concatenate((self._input, np.zeros(reach, np.float32)))
        return self._advance()[:num_missing]

    def _advance(self) -> Samples:
        """Lay all windows whose input is there; return the output they complete."""
        hop, seek = self._hop, self._seek
        ready: list[Samples] = []
        while True:
            # The window, its room to move, and the hop behind it that becomes the next template.
            nominal = round(self._num_windows * hop * self._speed) - hop - self._input_start
            if nominal + seek + 3 * hop > len(self._input):
                break
            start = nominal + (self._best_offset(nominal) if self._num_windows > 0 else 0)
            window = self._input[start : start + 2 * hop] * self._window
            if self._num_windows > 0:  # the first half-window lies before time 0
                ready.append(self._overlap + window[:hop])
            self._overlap = window[hop:]
            self._template = self._input[start + hop : start + 3 * hop].copy()
            self._num_windows += 1
        self._forget()
        output = np.concatenate(ready) if ready else np.zeros(0, np.float32)
        self._num_output += len(output)
        return output

    def _best_offset(self, nominal: int) -> int:
        """Samples (-seek to seek) from the nominal place to where the input is most like the template."""
        length = 2 * self._hop
        region = self._input[nominal - self._seek : nominal + self._seek + length]
        products = np.correlate(region, self._template)
        energy = np.concatenate(([0.0], np.cumsum(np.square(region, dtype=np.float64))))
        likeness = products / np.sqrt((energy[length:] - energy[:-length]) + _POWER_FLOOR)
        likeness /= np.linalg.norm(self._template) + np.sqrt(_POWER_FLOOR)
        return int(np.argmax(likeness - self._penalty)) - self._seek

    def _forget(self) -> None:
        """Drop the input that no later window can reach."""
        first_needed = round(self._num_windows * self._hop * self._speed) - self._hop - self._seek
        num_passed = min(max(first_needed - self._input_start, 0), len(self._input))
        self._input = self._input[num_passed:].copy()
        self._input_start += num_passed
