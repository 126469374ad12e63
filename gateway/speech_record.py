"""What one request for speech adds to the metrics, from its queueing to its end."""

import time
from typing import Any

from prometheus_client import Gauge

from gateway.metrics import Metrics
from gateway.underrun import Player
from shared.contracts import Audio, Done, SpeechJob

DONE = "done"
CLIENT_GONE = "client_gone"
FAILED = "failed"


class SpeechRecord:
    """Told by the reply and the relay what happens.

    Holds a place in the gauges of waiting and active requests until `end`.
    """

    def __init__(self, metrics: Metrics, job: SpeechJob, state: dict[str, Any]) -> None:
        """`state`: the request's; `arrived` (`time.perf_counter`) is read, `attempts` kept for the log."""
        self._metrics = metrics
        self._model = job.model
        self._format = job.format.value
        self._state = state
        self._arrived: float = state["arrived"]
        self._queued = self._arrived
        self._place: Gauge | None = None
        self._player = Player()
        self._relayed_s = 0.0
        self._taking_s = 0.0
        self._heard = False

    def queued(self) -> None:
        """An attempt was queued."""
        self._state["attempts"] = self._state.get("attempts", 0) + 1
        self._queued = time.perf_counter()
        self._move(self._metrics.waiting.labels(self._model))

    def started(self) -> None:
        """A worker has begun the attempt."""
        self._metrics.queue_wait.labels(self._model).observe(time.perf_counter() - self._queued)
        self._move(self._metrics.active.labels(self._model))

    def lost(self, reason: str) -> None:
        """The attempt lost its worker."""
        self._metrics.lost_attempts.labels(self._model, reason).inc()

    def resumed(self) -> None:
        """Another worker has gone on with what the client has a part of."""
        self._metrics.resumed.labels(self._model).inc()

    def came(self, event: Audio | Done) -> None:
        """The worker sent something."""
        if isinstance(event, Audio):
            self._relayed_s += event.audio_s
            self._metrics.audio_seconds.labels(self._model, self._format).inc(event.audio_s)
        elif self._relayed_s > 0:
            factor = event.timings.total_ms / 1000 / self._relayed_s
            self._metrics.real_time_factor.labels(self._model).observe(factor)

    def sent(self, event: Audio, *, offered: float) -> None:
        """The client's connection took audio that was offered to it at `offered` (`time.perf_counter`)."""
        if not self._heard:
            self._heard = True
            self._metrics.first_audio.labels(self._model, self._format).observe(offered - self._arrived)
        # The player's clock stands still while the client takes nothing: it has more than it plays.
        self._player.receive(offered - self._taking_s, event.audio_s)
        self._taking_s += time.perf_counter() - offered

    def end(self, outcome: str) -> None:
        """The request has ended; `outcome` as in the request log. Call it exactly once."""
        self._move(None)
        word = outcome if outcome in (DONE, CLIENT_GONE) else FAILED
        self._metrics.speech_requests.labels(self._model, self._format, word).inc()
        # Without audio time (a worker that does not tell it) nothing can be said.
        if outcome == DONE and self._player.audio_s > 0:
            self._metrics.deficit.labels(self._model, self._format).observe(self._player.worst_deficit_s)
            if self._player.underran:
                self._metrics.underruns.labels(self._model, self._format).inc()

    def _move(self, place: Gauge | None) -> None:
        if self._place is not None:
            self._place.dec()
        if place is not None:
            place.inc()
        self._place = place
