"""Change the sample rate of a stream."""

from fractions import Fraction
from typing import cast

import av
import av.filter
import numpy as np

from workers.engines.base import Samples

# A Kaiser window of 128 taps: aliases and images below -100 dB, flat to 0.9 of the lower Nyquist frequency,
# yet only 64 samples (3 ms) held back. FFmpeg's default of 32 taps lets images through at -27 dB; soxr,
# cleaner still, holds back 20 to 40 ms.
_FILTER = "filter_size=128:cutoff=0.95:filter_type=kaiser:kaiser_beta=10"


class Resampler:
    """Resamples one reply. Total output: round(n * target / source) samples (half to even) after `flush`.

    The output does not depend on how the input is cut. Equal rates pass the samples through. Not thread-safe;
    may be dropped without `flush`.
    """

    def __init__(self, source_hz: int, target_hz: int) -> None:
        self._source_hz = source_hz
        self._target_hz = target_hz
        self._num_input = 0
        self._num_output = 0
        if source_hz == target_hz:
            return
        graph = av.filter.Graph()
        self._source = graph.add_abuffer(
            sample_rate=source_hz, format="flt", layout="mono", time_base=Fraction(1, source_hz)
        )
        swr = graph.add("aresample", f"{target_hz}:{_FILTER}")
        self._sink = graph.add("abuffersink")
        self._source.link_to(swr)
        swr.link_to(self._sink)
        graph.configure()
        self._graph = graph

    def process(self, samples: Samples) -> Samples:
        """Take samples [n] of any length; return those that are ready [m]."""
        if self._source_hz == self._target_hz or not len(samples):
            return samples
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples)[None], format="flt", layout="mono")
        frame.sample_rate = self._source_hz
        frame.time_base = Fraction(1, self._source_hz)
        frame.pts = self._num_input
        self._num_input += len(samples)
        self._source.push(frame)
        return self._pull()

    def flush(self) -> Samples:
        """Return the rest and free the filter."""
        if self._source_hz == self._target_hz or not self._num_input:
            return np.zeros(0, np.float32)
        num_missing = round(Fraction(self._num_input * self._target_hz, self._source_hz)) - self._num_output
        self._source.push(None)
        # The filter's own total differs by at most a sample, from rate to rate.
        rest = self._pull()[:num_missing]
        del self._source, self._sink, self._graph
        return np.pad(rest, (0, num_missing - len(rest)))

    def _pull(self) -> Samples:
        ready: list[Samples] = []
        while True:
            try:
                frame = self._sink.pull()
            except (av.BlockingIOError, av.EOFError):
                break
            ready.append(cast("Samples", cast("av.AudioFrame", frame).to_ndarray().reshape(-1)))
        output = np.concatenate(ready) if ready else np.zeros(0, np.float32)
        self._num_output += len(output)
        return output
