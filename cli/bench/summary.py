"""From streams to the figures of a run."""

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from cli.bench.stream import Measured, Stream


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How a figure is spread over the streams that came to their end."""

    p50: float
    p95: float
    p99: float
    max: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run. Only streams that came to their end count, but for `requests` and `errors`.

    `window_s`: from the start until no more requests were begun, or until the last ended if that was sooner.
    `audio_s`: what came within the window. `times_real_time`: `audio_s` by `window_s`. `underrun_share`: of
    streams with a deficit over 100 ms. `audio_s_per_word`: median; far from another server's, the two do not
    do the same work. Spreads are null when no stream came to its end.
    """

    requests: int
    completed: int
    errors: dict[str, int]
    window_s: float
    audio_s: float
    times_real_time: float
    audio_s_per_word: float | None
    first_audio_ms: Spread | None
    real_time_factor: Spread | None
    deficit_ms: Spread | None
    underruns: int
    underrun_share: float | None


def spread(values: Sequence[float]) -> Spread | None:
    """Percentiles, interpolated between neighbours; None of nothing."""
    if not values:
        return None
    p50, p95, p99 = (round(float(value), 4) for value in np.percentile(values, (50, 95, 99)))
    return Spread(p50=p50, p95=p95, p99=p99, max=round(max(values), 4))


def summarise(
    streams: Sequence[Stream], measured: Sequence[Measured | None], *, began: float, duration_s: float | None
) -> Summary:
    """`measured` belongs to `streams`, one by one; `began`: `time.perf_counter` at the start of the run."""
    whole = [(stream, figures) for stream, figures in zip(streams, measured, strict=True) if figures is not None]
    figures = [each for _, each in whole]
    last_s = max((stream.end - began for stream in streams), default=0.0)
    window_s = last_s if duration_s is None else min(duration_s, last_s)
    audio_s = sum(audio_s for each in figures for at_s, audio_s in each.heard if at_s - began <= window_s)
    underruns = sum(each.underran for each in figures)
    pace = spread([each.audio_s / len(stream.text.split()) for stream, each in whole])
    return Summary(
        requests=len(streams),
        completed=len(whole),
        errors=dict(Counter(stream.error for stream in streams if stream.error).most_common()),
        window_s=round(window_s, 3),
        audio_s=round(audio_s, 3),
        times_real_time=round(audio_s / window_s, 3) if window_s else 0.0,
        audio_s_per_word=pace.p50 if pace else None,
        first_audio_ms=spread([1000 * each.first_audio_s for each in figures]),
        real_time_factor=spread([each.real_time_factor for each in figures]),
        deficit_ms=spread([1000 * each.deficit_s for each in figures]),
        underruns=underruns,
        underrun_share=round(underruns / len(whole), 4) if whole else None,
    )
