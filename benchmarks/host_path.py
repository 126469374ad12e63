"""Measure the way of sound without a model: step loop, delivery, socket, worker's engine; on any CPU.

    python -m benchmarks.host_path [--workers 1] [--streams 128] [--chunk 8] [--seconds 5] [--profile]

A backend and a codec that cost nothing yield frames as fast as the loop takes them, so what is measured is the
host's own path and the workers': chunks a second through the host, CPU seconds of each process per 1000 chunks.
The workers are processes; each reads its streams as `workers.synthesis` does, without encoding. Prints one JSON
object. `--profile`: a cProfile of the host's loop thread goes to stderr.
"""

import argparse
import asyncio
import cProfile
import json
import multiprocessing
import multiprocessing.queues
import os
import platform
import pstats
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from shared.contracts import EngineInfo, Sampling, TextBudget
from workers.gepard.backend import KEPT_FRAMES, FrameStep
from workers.gepard.generate import GenerationRequest, StreamId
from workers.host.client import HostClient
from workers.host.host import EngineHost
from workers.host.model import LoadedModel
from workers.host.schedule import CodecLimits
from workers.host.wire import Speak
from workers.nanocodec.config import CODES_PER_FRAME, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME

_Results: TypeAlias = "multiprocessing.queues.Queue[tuple[int, float]]"

_FRAMES = 400


class FreeBackend:
    """A frame for every stream in each step, for nothing. Implements workers.gepard.backend.Backend."""

    def __init__(self, max_streams: int) -> None:
        self.max_streams = max_streams
        self._frames = torch.zeros((max_streams * (KEPT_FRAMES + 1), CODES_PER_FRAME), dtype=torch.uint8)
        self._left: dict[StreamId, int] = {}
        self._next = 0
        self._row = 0

    @property
    def frames(self) -> Tensor:
        return self._frames

    @property
    def num_streams(self) -> int:
        return len(self._left)

    def add(self, request: GenerationRequest) -> StreamId:
        self._next += 1
        self._left[StreamId(self._next)] = request.sampling.frame_limit
        return StreamId(self._next)

    def remove(self, stream: StreamId) -> None:
        self._left.pop(stream, None)

    def step(self) -> list[FrameStep]:
        steps = []
        for stream, left in list(self._left.items()):
            self._row = (self._row + 1) % len(self._frames)
            steps.append(FrameStep(stream, self._row, "limit" if left == 1 else None))
            if left == 1:
                del self._left[stream]
            else:
                self._left[stream] = left - 1
        return steps

    def close(self) -> None:
        pass


class FreeCodec:
    """Silence, for nothing. Implements workers.nanocodec.codec.Codec as far as a host uses it."""

    def __init__(self, num_slots: int) -> None:
        self.num_slots = self.idle_slot = num_slots
        self._free = list(range(num_slots))
        self._silence = torch.zeros(512, 16 * SAMPLES_PER_FRAME)

    @property
    def num_free_slots(self) -> int:
        return len(self._free)

    def join(self) -> int:
        return self._free.pop()

    def leave(self, slot: int) -> None:
        self._free.append(slot)

    def reset(self, slot: int) -> None:
        pass

    def step(self, codes: Tensor, slots: Sequence[int]) -> Tensor:
        return self._silence[: len(slots), : codes.shape[-1] * SAMPLES_PER_FRAME]

    def decode_rows(self, frames: Tensor, rows: Sequence[Sequence[int]], slots: Sequence[int]) -> Tensor:  # noqa: ARG002
        return self._silence[: len(slots), : len(rows[0]) * SAMPLES_PER_FRAME]

    def warm_up(self) -> None:
        pass


def _model(num_streams: int, num_workers: int) -> LoadedModel:
    info = EngineInfo(
        model="free",
        revision="free",
        sample_rate_hz=SAMPLE_RATE_HZ,
        frame_s=SAMPLES_PER_FRAME / SAMPLE_RATE_HZ,
        languages=("en",),
        scripts=("Latin",),
        text_budget=TextBudget(minimum=1, first=1, target=1, maximum=1),
        presets=(),
        can_clone=False,
        can_guide=False,
        can_resume=True,
        capacity=num_streams // num_workers,
    )
    return LoadedModel(
        info=info,
        device=torch.device("cpu"),
        device_name="none",
        backend_name="none",
        backend=FreeBackend(num_streams),
        codec=FreeCodec(num_streams),
        maker=None,  # type: ignore[arg-type]  # no clip comes
        starters={"free": torch.zeros(1, 1)},
        head_sizes=(256,) * CODES_PER_FRAME,
        warm_up_ids=[1],
    )


async def _read(path: Path, streams: int, seconds: float) -> tuple[int, float]:
    """Chunks read by one worker in that time, and the CPU seconds it took; each stream begins anew when it ends."""
    client = HostClient(path)
    await client.start()
    until, num_chunks = time.time() + seconds, 0
    request = Speak(0, [1], "free", b"", 0, Sampling(max_frames=_FRAMES, stop_threshold=1.0), _FRAMES)

    async def listen() -> None:
        nonlocal num_chunks
        while time.time() < until:
            async with aclosing(client.speak(request)) as spoken:
                async for item in spoken:
                    num_chunks += item.num_frames > 0

    began = time.process_time()
    await asyncio.gather(*(listen() for _ in range(streams)))
    cpu_s = time.process_time() - began
    await client.stop()
    return num_chunks, cpu_s


def _work(path: Path, streams: int, seconds: float, results: _Results) -> None:
    import uvloop  # noqa: PLC0415 - as a worker runs

    results.put(uvloop.run(_read(path, streams, seconds)))


async def _host(path: Path, arguments: argparse.Namespace, results: _Results) -> dict[str, Any]:
    limits = CodecLimits(frame_counts=(arguments.chunk,), max_step_frames=max(512, arguments.chunk))
    host = EngineHost(
        _model(arguments.streams, arguments.workers),
        num_workers=arguments.workers,
        limits=limits,
        on_failure=lambda error: print(error, file=sys.stderr),
    )
    serving = asyncio.create_task(host.serve(path))
    while not path.exists():  # noqa: ASYNC240 - a moment
        await asyncio.sleep(0.01)
        if serving.done():
            serving.result()
    share = arguments.streams // arguments.workers
    spawn = multiprocessing.get_context("spawn")
    workers = [
        spawn.Process(target=_work, args=(path, share, 2 * arguments.seconds, results))
        for _ in range(arguments.workers)
    ]
    for worker in workers:
        worker.start()
    # Some are always between two streams.
    while host.steps.num_streams < 0.8 * arguments.streams:
        await asyncio.sleep(0.01)
    before, began, cpu = host.steps.num_frames, time.perf_counter(), time.process_time()
    await asyncio.sleep(arguments.seconds)
    frames, seconds, cpu_s = host.steps.num_frames - before, time.perf_counter() - began, time.process_time() - cpu
    counts = [await asyncio.to_thread(results.get) for _ in workers]
    for worker in workers:
        await asyncio.to_thread(worker.join)
    serving.cancel()
    await asyncio.wait([serving])
    chunks = frames / arguments.chunk
    return {
        "chunks_per_s": chunks / seconds,
        "x_real_time": frames * SAMPLES_PER_FRAME / SAMPLE_RATE_HZ / seconds,
        "host_cpu_s_per_1000_chunks": 1000 * cpu_s / chunks,
        "host_cores": cpu_s / seconds,
        "worker_cpu_s_per_1000_chunks": 1000 * sum(cpu for _, cpu in counts) / sum(count for count, _ in counts),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Measure the way of sound without a model.")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--streams", type=int, default=128)
    parser.add_argument("--chunk", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    profiler = cProfile.Profile()
    if arguments.profile:
        # Of the loop's thread, which starts later.
        threading.setprofile(lambda *_: profiler.enable() if threading.current_thread().name == "steps" else None)
    results = multiprocessing.get_context("spawn").Queue()
    with tempfile.TemporaryDirectory() as folder:
        measured = asyncio.run(_host(Path(folder) / "host.sock", arguments, results))
    if arguments.profile:
        profiler.disable()
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(25)
    result = {
        "machine": platform.processor() or platform.machine(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "workers": arguments.workers,
        "streams": arguments.streams,
        "chunk_frames": arguments.chunk,
        **measured,
    }
    print(json.dumps({key: round(value, 3) if isinstance(value, float) else value for key, value in result.items()}))


if __name__ == "__main__":
    main()
