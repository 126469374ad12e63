"""When requests arrive in an open loop."""

import itertools
import random
from collections.abc import Iterator


def poisson(rate_per_s: float, seed: int, *, duration_s: float | None, count: int | None) -> Iterator[float]:
    """Seconds from the start, drawn before anything is known of the replies; ends at the first bound.

    The gaps of a Poisson process are exponential and independent of each other: bursts belong to it.
    """
    rng = random.Random(seed)  # noqa: S311  # a seed is the point
    at_s = 0.0
    for _ in range(count) if count is not None else itertools.count():
        at_s += rng.expovariate(rate_per_s)
        if duration_s is not None and at_s >= duration_s:
            return
        yield at_s
