"""GET /metrics: what this gateway process counts, and what the workers say of themselves, for Prometheus.

Everything a gateway counts is about its own requests: with several gateways, each is a scrape target of its
own and sums over them are right. Figures of workers (`gepard_worker_*`) come from the heartbeats, which every
gateway sees: they carry the worker as a label, so that `max by (worker, model)` reads each of them once.
"""

from collections.abc import Callable, Iterable
from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder

from gateway.fleet_metrics import FleetCollector
from gateway.underrun import AUDIBLE_S
from shared.contracts import Heartbeat

_LATENCY_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0, 30.0)
_DURATION_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_REAL_TIME_FACTORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0, 5.0)
_DEFICITS_S = (0.0, 0.02, 0.05, AUDIBLE_S, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class Metrics:
    """The metrics of one gateway. Their registry is their own: several applications in a process do not mix."""

    def __init__(self, workers: Callable[[], Iterable[Heartbeat]]) -> None:
        self.registry = registry = CollectorRegistry()
        registry.register(FleetCollector(workers))
        ProcessCollector(registry=registry)

        # Every request.
        self.requests = Counter(
            "gepard_http_requests",
            "Requests answered, by route template.",
            ("method", "route", "status"),
            registry=registry,
        )
        self.request_seconds = Histogram(
            "gepard_http_request_duration_seconds",
            "From a request's arrival to the end of its reply.",
            ("route",),
            buckets=_DURATION_S,
            registry=registry,
        )
        self.errors = Counter(
            "gepard_errors",
            "Requests refused or failed, before or after the first byte, by the error's code.",
            ("route", "code"),
            registry=registry,
        )
        self.client_retries = Counter(
            "gepard_client_retries",
            "Requests that an OpenAI SDK sent again after a failure.",
            ("route",),
            registry=registry,
        )

        # Requests for speech that became a job.
        self.speech_requests = Counter(
            "gepard_speech_requests",
            "Speech jobs that have ended: done, client_gone or failed.",
            ("model", "format", "outcome"),
            registry=registry,
        )
        self.waiting = Gauge(
            "gepard_waiting_requests", "Speech jobs that no worker has begun.", ("model",), registry=registry
        )
        self.active = Gauge("gepard_active_streams", "Speech jobs a worker has begun.", ("model",), registry=registry)
        self.queue_wait = Histogram(
            "gepard_queue_wait_seconds",
            "From the queueing of a job to its start on a worker; every attempt counts.",
            ("model",),
            buckets=_LATENCY_S,
            registry=registry,
        )
        self.first_audio = Histogram(
            "gepard_time_to_first_audio_seconds",
            "From a request's arrival to its first audio, for replies that are streamed.",
            ("model", "format"),
            buckets=_LATENCY_S,
            registry=registry,
        )
        self.real_time_factor = Histogram(
            "gepard_real_time_factor",
            "Seconds a worker took for a reply, by seconds of audio; below 1 is faster than real time.",
            ("model",),
            buckets=_REAL_TIME_FACTORS,
            registry=registry,
        )
        self.audio_seconds = Counter(
            "gepard_audio_seconds",
            "Seconds of audio that workers made for clients of this gateway.",
            ("model", "format"),
            registry=registry,
        )
        self.deficit = Histogram(
            "gepard_stream_deficit_seconds",
            "Worst deficit of a simulated player of each stream that ended well.",
            ("model", "format"),
            buckets=_DEFICITS_S,
            registry=registry,
        )
        self.underruns = Counter(
            "gepard_underruns",
            f"Streams that ended well with a deficit over {1000 * AUDIBLE_S:.0f} ms.",
            ("model", "format"),
            registry=registry,
        )
        self.lost_attempts = Counter(
            "gepard_lost_attempts",
            "Attempts whose worker was lost or stopped before their end.",
            ("model", "reason"),
            registry=registry,
        )
        self.resumed = Counter(
            "gepard_resumed_replies",
            "Times that another worker went on with a reply after its first audio.",
            ("model",),
            registry=registry,
        )


# In a thread: writing thousands of lines must not hold up the streams.
@get("/metrics", operation_id="metrics", tags=["Service"], sync_to_thread=True, media_type="text/plain")
def get_metrics(request: Request[Any, Any, Any], metrics: NamedDependency[Metrics]) -> Response[bytes]:
    """Metrics of this gateway process and of the live workers, as Prometheus text or OpenMetrics."""
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(metrics.registry), media_type=content_type)
