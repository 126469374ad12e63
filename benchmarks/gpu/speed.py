"""Step time, frames a second and the first frame's latency of the vLLM backend, the codec left out."""

import cProfile
import io
import pstats
import statistics
import time
from pathlib import Path

from benchmarks.gpu.requests import request
from workers.gepard.generate import StreamId
from workers.gepard.vllm_backend.engine import VllmBackend

_VOICES = 8
_WARM_STEPS = 30


def measure(backend: VllmBackend, streams: int, *, steps: int) -> dict[str, float]:
    """`streams` requests that start together, then `steps` steps of all of them."""
    frames = _WARM_STEPS + steps + 20
    began = time.perf_counter()
    waiting: set[StreamId] = {
        backend.add(request(backend.config, number, voice=number % _VOICES, max_frames=frames, temperature=0.4))
        for number in range(streams)
    }
    names = list(waiting)
    added = time.perf_counter()
    first: list[float] = []
    while waiting:
        told = backend.step()
        now = time.perf_counter() - began
        for step in told:
            if step.stream in waiting:
                waiting.discard(step.stream)
                first.append(now)
    for _ in range(_WARM_STEPS):
        backend.step()
    times, told_frames = [], 0
    start = previous = time.perf_counter()
    for _ in range(steps):
        told_frames += len(backend.step())
        now = time.perf_counter()
        times.append(now - previous)
        previous = now
    elapsed = previous - start
    for name in names:
        backend.remove(name)
    _settle(backend)
    tenths = statistics.quantiles(times, n=100)
    return {
        "streams": streams,
        "frames_per_s": told_frames / elapsed,
        "times_real_time": told_frames / elapsed / backend.config.codec.frame_rate_hz,
        "step_mean_ms": 1e3 * elapsed / steps,
        "step_p50_ms": 1e3 * statistics.median(times),
        "step_p99_ms": 1e3 * tenths[98],
        "first_frame_p50_ms": 1e3 * statistics.median(first),
        "first_frame_max_ms": 1e3 * max(first),
        "add_all_ms": 1e3 * (added - began),
    }


def first_frames(backend: VllmBackend, *, background: int, rounds: int) -> dict[str, float]:
    """Latency of one request's first frame while `background` others decode."""
    names = [
        backend.add(request(backend.config, number, voice=number % _VOICES, max_frames=_WARM_STEPS + 12 * rounds))
        for number in range(background)
    ]
    for _ in range(_WARM_STEPS):
        backend.step()
    latencies = []
    for number in range(rounds):
        began = time.perf_counter()
        name = backend.add(request(backend.config, 1000 + number, voice=number % _VOICES, max_frames=4))
        while all(step.stream != name for step in backend.step()):
            pass
        latencies.append(time.perf_counter() - began)
        backend.remove(name)
    for name in names:
        backend.remove(name)
    _settle(backend)
    return {
        "background": background,
        "first_frame_p50_ms": 1e3 * statistics.median(latencies),
        "first_frame_max_ms": 1e3 * max(latencies),
    }


def profile(backend: VllmBackend, streams: int, *, steps: int, folder: Path) -> None:
    """Where the host and the device spend a step: tables into `folder`."""
    import torch.profiler  # noqa: PLC0415  # slow to import

    names = [
        backend.add(request(backend.config, number, voice=number % _VOICES, max_frames=2 * steps + 80))
        for number in range(streams)
    ]
    for _ in range(_WARM_STEPS):
        backend.step()
    host = cProfile.Profile()
    host.enable()
    for _ in range(steps):
        backend.step()
    host.disable()
    text = io.StringIO()
    pstats.Stats(host, stream=text).sort_stats("tottime").print_stats(45)
    (folder / f"host_{streams}.txt").write_text(text.getvalue())
    activities = [torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as trace:
        for _ in range(20):
            backend.step()
        torch.cuda.synchronize()
    table = trace.key_averages().table(sort_by="self_cuda_time_total", row_limit=60, max_name_column_width=90)
    (folder / f"device_{streams}.txt").write_text(table)
    for name in names:
        backend.remove(name)
    _settle(backend)


def _settle(backend: VllmBackend) -> None:
    """Let steps in flight end."""
    for _ in range(3):
        backend.step()
