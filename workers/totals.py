"""What a worker has done so far, for its heartbeat."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from shared.contracts import WorkerTotals


class TotalsCounter:
    """Counts the streams of one worker, on its event loop. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._active = 0
        self._changed = clock()
        self._streams = self._failed = self._frames = self._runaways = 0
        self._audio_s = self._busy_s = self._stream_s = 0.0

    @contextmanager
    def stream(self) -> Iterator[None]:
        """A stream runs while inside."""
        self._advance()
        self._active += 1
        try:
            yield
        finally:
            self._advance()
            self._active -= 1
            self._streams += 1

    def failed(self) -> None:
        """A stream failed in the worker."""
        self._failed += 1

    def made(self, *, frames: int, audio_s: float, runaways: int = 0) -> None:
        """The engine made audio."""
        self._runaways += runaways
        self._frames += frames
        self._audio_s += audio_s

    def read(self) -> WorkerTotals:
        """The totals up to now, those of running streams included."""
        self._advance()
        return WorkerTotals(
            streams=self._streams,
            failed_streams=self._failed,
            runaways=self._runaways,
            frames=self._frames,
            audio_s=self._audio_s,
            busy_s=self._busy_s,
            stream_s=self._stream_s,
            cpu_s=time.process_time(),
        )

    def _advance(self) -> None:
        now = self._clock()
        passed_s, self._changed = now - self._changed, now
        if self._active:
            self._busy_s += passed_s
            self._stream_s += self._active * passed_s
