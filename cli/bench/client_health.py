"""Was the client itself fast enough? A saturated client measures itself, not the server."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import numpy as np

_SAMPLE_EVERY_S = 0.05
_HIGHEST_CPU_SHARE = 0.7
_LONGEST_LAG_S = 0.02


@dataclass(slots=True)
class ClientHealth:
    """Of the measured part of a run. `lags_s`: how late the event loop woke a timer, sampled."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    lags_s: list[float] = field(default_factory=list)

    @property
    def cpu_share(self) -> float:
        """Of one core, which is all that the client can use."""
        return self.cpu_s / self.wall_s if self.wall_s else 0.0

    @property
    def lag_p99_s(self) -> float:
        """The time by which 1 % of all arrivals may have been noted too late, or more."""
        return float(np.percentile(self.lags_s, 99)) if self.lags_s else 0.0

    def warning(self) -> str | None:
        """What to tell the user, if the figures are not to be trusted."""
        if self.cpu_share > _HIGHEST_CPU_SHARE:
            return f"the client used {self.cpu_share:.0%} of its core; share the load among several clients"
        if self.lag_p99_s > _LONGEST_LAG_S:
            return (
                f"the client was up to {1000 * self.lag_p99_s:.0f} ms late (p99); "
                "run it where the server does not compete for its core"
            )
        return None


@contextlib.asynccontextmanager
async def watched() -> AsyncIterator[ClientHealth]:
    """Fill in the health of what runs inside; it is complete after the end."""
    health = ClientHealth()
    watching = asyncio.create_task(_watch(health))
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        yield health
    finally:
        health.wall_s, health.cpu_s = time.perf_counter() - wall, time.process_time() - cpu
        watching.cancel()
        await asyncio.wait([watching])


async def _watch(health: ClientHealth) -> None:
    while True:
        due = time.perf_counter() + _SAMPLE_EVERY_S
        await asyncio.sleep(_SAMPLE_EVERY_S)
        health.lags_s.append(time.perf_counter() - due)
