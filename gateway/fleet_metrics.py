"""What the live workers say of themselves in their heartbeats, as metrics.

Every gateway that sees a worker exposes the same values; see docs/metrics.md on reading them once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from shared.contracts import Heartbeat, HostFigures

_LABELS = ("worker", "model")
_HOST_LABELS = ("host", "model", "backend", "device")

_GAUGES: dict[str, tuple[str, Callable[[Heartbeat], float]]] = {
    "gepard_worker_active_streams": ("Streams a worker is serving.", lambda beat: beat.active),
    "gepard_worker_capacity_streams": ("Streams a worker serves at once.", lambda beat: beat.capacity),
    "gepard_worker_accepting": (
        "1 while a worker takes jobs, 0 while it drains or its host is away.",
        lambda beat: beat.accepting,
    ),
}

_COUNTERS: dict[str, tuple[str, Callable[[Heartbeat], float]]] = {
    "gepard_worker_streams": ("Streams that have ended.", lambda beat: beat.totals.streams),
    "gepard_worker_failed_streams": ("Streams that failed in the worker.", lambda beat: beat.totals.failed_streams),
    "gepard_worker_runaways": ("Tries of a segment that only a guard ended.", lambda beat: beat.totals.runaways),
    "gepard_worker_frames": ("Model frames made.", lambda beat: beat.totals.frames),
    "gepard_worker_audio_seconds": ("Seconds of audio made.", lambda beat: beat.totals.audio_s),
    "gepard_worker_busy_seconds": ("Seconds with at least one stream.", lambda beat: beat.totals.busy_s),
    "gepard_worker_stream_seconds": ("Seconds of all streams together.", lambda beat: beat.totals.stream_s),
    "gepard_worker_cpu_seconds": ("CPU time of the worker's process.", lambda beat: beat.totals.cpu_s),
}

_HOST_GAUGES: dict[str, tuple[str, Callable[[HostFigures], float]]] = {
    "gepard_host_active_streams": ("Streams in the model, of all workers of the host.", lambda host: host.streams),
    "gepard_host_capacity_streams": ("Streams a host serves at once.", lambda host: host.capacity),
    "gepard_host_step_seconds": ("A step of the model, of late.", lambda host: host.step_ms / 1000),
    "gepard_host_codec_seconds": ("A step of the codec, of late.", lambda host: host.codec_ms / 1000),
    "gepard_host_waiting_frames": ("Frames made and not decoded.", lambda host: host.waiting_frames),
}

_HOST_COUNTERS: dict[str, tuple[str, Callable[[HostFigures], float]]] = {
    "gepard_host_frames": ("Frames decoded.", lambda host: host.frames),
    "gepard_host_late_chunks": ("Chunks decoded after their player had run dry.", lambda host: host.late_chunks),
}


class FleetCollector(Collector):
    """Reads the heartbeats at each scrape; a worker that is gone leaves no series behind."""

    def __init__(self, workers: Callable[[], Iterable[Heartbeat]]) -> None:
        self._workers = workers

    def collect(self) -> Iterator[Metric]:
        """All families, also when no worker lives."""
        beats = tuple(self._workers())
        for name, (text, value) in _GAUGES.items():
            gauge = GaugeMetricFamily(name, text, labels=_LABELS)
            for beat in beats:
                gauge.add_metric((beat.worker, beat.info.model), value(beat))
            yield gauge
        for name, (text, value) in _COUNTERS.items():
            counter = CounterMetricFamily(name, text, labels=_LABELS)
            for beat in beats:
                counter.add_metric((beat.worker, beat.info.model), value(beat))
            yield counter
        yield from _hosts(beats)


def _hosts(beats: tuple[Heartbeat, ...]) -> Iterator[Metric]:
    """What hosts say, once for each though all its workers pass it on, and which worker has which host."""
    serving = GaugeMetricFamily("gepard_worker_host", "1 for each worker and its host.", labels=(*_LABELS, "host"))
    hosts: dict[str, tuple[Sequence[str], HostFigures]] = {}
    for beat in beats:
        if beat.host is not None:
            serving.add_metric((beat.worker, beat.info.model, beat.host.host), 1)
            labels = (beat.host.host, beat.info.model, beat.host.backend, beat.host.device)
            hosts[beat.host.host] = (labels, beat.host)
    yield serving
    for name, (text, value) in _HOST_GAUGES.items():
        gauge = GaugeMetricFamily(name, text, labels=_HOST_LABELS)
        for host_labels, host in hosts.values():
            gauge.add_metric(host_labels, value(host))
        yield gauge
    for name, (text, value) in _HOST_COUNTERS.items():
        counter = CounterMetricFamily(name, text, labels=_HOST_LABELS)
        for host_labels, host in hosts.values():
            counter.add_metric(host_labels, value(host))
        yield counter
