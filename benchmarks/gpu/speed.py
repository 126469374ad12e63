"""Step time, frames a second and the first frame's latency of the vLLM backend, the codec left out."""

import cProfile
import io
import pstats
import statistics
import time

from benchmarks.gpu.requests import PROMPT_TEXT_IDS, request
from workers.gepard.generate import StreamId
from workers.gepard.vllm_backend.engine import VllmBackend

_VOICES = 8
_WARM_STEPS = 30
_PROMPT_POSITIONS = 8 + PROMPT_TEXT_IDS + 3


def measure(backend: VllmBackend, streams: int, *, steps: int, context: int = 0) -> dict[str, float]:
    """`streams` requests that start together, then `steps` steps of all of them.

    context: positions that are read in the middle of those steps; 0 begins with the first frame, as requests do.
    """
    given = max(0, context - _PROMPT_POSITIONS - _WARM_STEPS - steps // 2)
    burst(backend, streams, given=given, frames=given + 4)  # kernels of these shapes are loaded when first used
    names, first = burst(backend, streams, given=given, frames=given + _WARM_STEPS + steps + 20, keep=True)
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
    return {
        "streams": streams,
        "context": given + _PROMPT_POSITIONS + _WARM_STEPS + steps // 2,
        "frames_per_s": told_frames / elapsed,
        "times_real_time": told_frames / elapsed / backend.config.codec.frame_rate_hz,
        "step_mean_ms": 1e3 * elapsed / steps,
        "step_p50_ms": 1e3 * statistics.median(times),
        "step_p99_ms": 1e3 * statistics.quantiles(times, n=100)[98],
        "first_frame_p50_ms": 1e3 * statistics.median(first),
        "first_frame_max_ms": 1e3 * max(first),
    }


def burst(
    backend: VllmBackend, streams: int, *, given: int, frames: int, keep: bool = False
) -> tuple[list[StreamId], list[float]]:
    """Requests added at once: their names, and when each had its first frame, s. Removed again unless `keep`."""
    requests = [
        request(backend.config, number, voice=number % _VOICES, given=given, max_frames=frames, temperature=0.4)
        for number in range(streams)
    ]
    began = time.perf_counter()
    names = [backend.add(item) for item in requests]
    waiting, first = set(names), []
    while waiting:
        told = backend.step()
        now = time.perf_counter() - began
        came = waiting & {step.stream for step in told}
        first += [now] * len(came)
        waiting -= came
    if not keep:
        for name in names:
            backend.remove(name)
        _settle(backend)
    return names, first


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


def beside_guided(backend: VllmBackend, *, plain: int, pairs: int, steps: int) -> dict[str, float]:
    """What `plain` unguided streams pay for `pairs` guided ones beside them, and for as many rows of unguided ones."""
    alone, rows, guided = (
        _step_ms(backend, plain=number, pairs=also, steps=steps)
        for number, also in ((plain, 0), (plain + 2 * pairs, 0), (plain, pairs))
    )
    return {
        "plain": plain,
        "pairs": pairs,
        "alone_ms": alone,
        "beside_unguided_rows_ms": rows,
        "beside_pairs_ms": guided,
        "pairs_by_rows": guided / rows,
    }


def _step_ms(backend: VllmBackend, *, plain: int, pairs: int, steps: int) -> float:
    frames = _WARM_STEPS + steps + 20
    names = [
        backend.add(request(backend.config, number, max_frames=frames, cfg_scale=1.0 if number < plain else 2.0))
        for number in range(plain + pairs)
    ]
    for _ in range(_WARM_STEPS):
        backend.step()
    began = time.perf_counter()
    for _ in range(steps):
        backend.step()
    elapsed = time.perf_counter() - began
    for name in names:
        backend.remove(name)
    _settle(backend)
    return 1e3 * elapsed / steps


def profile(backend: VllmBackend, streams: int, *, steps: int) -> str:
    """Where the host spends a burst and a step, and the device a step: tables."""
    import torch.profiler  # noqa: PLC0415  # slow to import

    burst_profile, step_profile = cProfile.Profile(), cProfile.Profile()
    burst_profile.enable()
    names, _ = burst(backend, streams, given=0, frames=steps + 100, keep=True)
    burst_profile.disable()
    for _ in range(_WARM_STEPS):
        backend.step()
    step_profile.enable()
    for _ in range(steps):
        backend.step()
    step_profile.disable()
    text = io.StringIO()
    for title, host in (("burst", burst_profile), (f"{steps} steps", step_profile)):
        text.write(f"== {streams} streams, {title}\n")
        pstats.Stats(host, stream=text).sort_stats("tottime").print_stats(45)
    activities = [torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as trace:
        for _ in range(20):
            backend.step()
        torch.cuda.synchronize()
    text.write(trace.key_averages().table(sort_by="self_cuda_time_total", row_limit=50, max_name_column_width=90))
    for name in names:
        backend.remove(name)
    _settle(backend)
    return text.getvalue()


def _settle(backend: VllmBackend) -> None:
    """Let steps in flight end."""
    for _ in range(3):
        backend.step()
