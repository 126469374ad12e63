"""The streaming codec on an NVIDIA GPU: fused kernels against plain PyTorch, on random weights of full size.

    python -m benchmarks.gpu.codec [--output FILE] [--only times stages exact]

Prints tables and writes one JSON document. Times are those of the whole call as a serving loop makes it: frames
by their rows, the copy of slots and rows, the graph. Median of the repetitions, each timed with device events.
"""

import argparse
import json
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor

from benchmarks.random_codec import write_random_codec
from workers.nanocodec.archive import CodecArchive, read_archive
from workers.nanocodec.config import FRAME_RATE_HZ, LEVELS, NUM_GROUPS
from workers.nanocodec.decoder import CodecDecoder
from workers.nanocodec.fused.decoder import FusedStreamingDecoder
from workers.nanocodec.fused.launches import Launch
from workers.nanocodec.fused.plan import MAX_STEP_FRAMES, Plan
from workers.nanocodec.fused.precision import Precision
from workers.nanocodec.streaming import StreamingDecoder

NUM_SLOTS = 512
_STORE_ROWS = 4096
_STREAMS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_FRAMES = (1, 2, 4, 8, 16)
_PLAIN_SIZES = ((1, 4), (16, 2), (64, 2), (256, 2))
_STAGE_SIZES = ((256, 2), (64, 2), (1, 4))
_EXACT_STREAMS = 256
_EXACT_FRAMES = 60

_cuda: Any = torch.cuda  # its events have no types
Row = Mapping[str, float | str]


def event_times_ms(run: Callable[[], object], repetitions: int) -> list[float]:
    """Device time of each call, after three that do not count."""
    for _ in range(3):
        run()
    events = [(_cuda.Event(enable_timing=True), _cuda.Event(enable_timing=True)) for _ in range(repetitions)]
    for begin, end in events:
        begin.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in events]


def ceilings() -> dict[str, float]:
    """What this machine reaches: a large matrix product in half precision, and a large copy."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.float16) for _ in range(2))
    product_ms = statistics.median(event_times_ms(lambda: a @ b, 10))
    source = torch.empty(1 << 31, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    copy_ms = statistics.median(event_times_ms(lambda: target.copy_(source), 10))
    return {"tflops": 2 * 8192**3 / product_ms / 1e9, "tb_s": 2 * source.numel() / copy_ms / 1e9}


def random_store(rows: int) -> Tensor:
    levels = torch.tensor(LEVELS * NUM_GROUPS, device="cuda")
    return (torch.rand(rows, len(levels), device="cuda") * levels).to(torch.uint8)


def step_times(decoder: FusedStreamingDecoder, sizes: Sequence[tuple[int, int]]) -> list[Row]:
    """Steps back to back, as many streams as there are entries."""
    store = random_store(_STORE_ROWS)
    results: list[Row] = []
    for streams, frames in sizes:
        slots = list(range(streams))
        rows = [[(stream * frames + i) % _STORE_ROWS for i in range(frames)] for stream in slots]
        times = event_times_ms(lambda: decoder.decode_rows(store, rows, slots), 30)  # noqa: B023
        begin = time.perf_counter()
        for _ in range(20):
            decoder.decode_rows(store, rows, slots)
        host_ms = (time.perf_counter() - begin) / 20 * 1e3
        torch.cuda.synchronize()
        wall_ms = (time.perf_counter() - begin) / 20 * 1e3
        ms = statistics.median(times)
        results.append(
            {
                "streams": streams,
                "frames": frames,
                "ms": ms,
                "wall_ms": wall_ms,
                "host_ms": host_ms,
                "x_real_time": streams * frames / FRAME_RATE_HZ / ms * 1e3,
            }
        )
    return results


def plain_times(archive: CodecArchive, sizes: Sequence[tuple[int, int]]) -> list[Row]:
    """The plain decoder in bfloat16, its step captured in a CUDA graph."""
    decoder = CodecDecoder(archive).to("cuda", torch.bfloat16)
    results: list[Row] = []
    for streams, frames in sizes:
        streaming = StreamingDecoder(decoder, num_slots=streams)
        slots = torch.arange(streams, device="cuda")
        codes = random_store(streams * frames).to(torch.int64).view(streams, frames, -1).transpose(1, 2).contiguous()
        for _ in range(2):
            streaming.advance(codes, slots)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            streaming.advance(codes, slots)
        ms = statistics.median(event_times_ms(graph.replay, 10))
        results.append(
            {
                "streams": streams,
                "frames": frames,
                "ms": ms,
                "x_real_time": streams * frames / FRAME_RATE_HZ / ms * 1e3,
            }
        )
    return results


def stage_times(decoder: FusedStreamingDecoder, size: tuple[int, int], ceiling: dict[str, float]) -> list[Row]:
    """Each stage's launches as a graph of their own."""
    launches = decoder.launches(*size)
    stages: dict[str, list[Launch]] = {}
    for launch in launches:
        words = launch.stage.split()
        stages.setdefault(words[0] if words[0] != "conv" else " ".join(words[:2]), []).append(launch)
        if words[0] == "conv":
            stages.setdefault(f"  {words[1]} {words[2]}", []).append(launch)
    results: list[Row] = []
    for name, some in stages.items():
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for launch in some:
                launch()
        ms = statistics.median(event_times_ms(graph.replay, 11))
        flop, traffic = (
            sum(values) for values in zip(*(work(decoder.plan, launch.stage, size) for launch in some), strict=True)
        )
        results.append(
            {
                "stage": name,
                "launches": len(some),
                "ms": ms,
                "tflops": flop / ms / 1e9,
                "of_matrix_rate": flop / ms / 1e9 / ceiling["tflops"],
                "of_bandwidth": traffic / ms / 1e9 / ceiling["tb_s"],
            }
        )
    return results


def work(plan: Plan, launch: str, size: tuple[int, int]) -> tuple[float, float]:
    """Operations and bytes that a launch cannot do without: true channels, each tensor once, two bytes a value."""
    batch, frames = size
    kind, _, rest = launch.partition(" ")
    num_branches, taps = len(plan.kernels), sum(plan.kernels)
    if kind == "pre":
        flop = 2 * batch * frames * 32 * plan.channels * plan.in_kernel
        return flop, 2 * batch * frames * plan.channels
    if kind == "post":
        return 0, batch * frames * 1024 * (2 * plan.stages[-1].channels + 4)
    if kind == "state":
        return 0, 2 * 2 * batch * plan.state_size
    channels, _, conv = rest.partition(" ")
    stage = next(stage for stage in plan.stages if stage.channels == int(channels))
    values = batch * frames * stage.rows_per_frame * stage.channels
    if kind == "upsample":
        return 8 * values, 2 * values * (1 + num_branches + 2 / stage.rate)
    passes = {"dilated": 2 * num_branches, "skip": 4 * num_branches, "last": 2 * num_branches + 1}[conv]
    return 2 * values * stage.channels * taps, 2 * values * passes


def exactness(archive: CodecArchive, precision: Precision) -> dict[str, float]:
    """SNR of each of 256 streams against float32 at once: batches of changing streams, changing frames a step."""
    decoder = FusedStreamingDecoder(archive, _EXACT_STREAMS, device=torch.device("cuda"), precision=precision)
    decoder.warm_up()
    store = random_store(_EXACT_STREAMS * _EXACT_FRAMES)
    slots = [decoder.join() for _ in range(_EXACT_STREAMS)]
    chooser = torch.Generator().manual_seed(0)
    done = [0] * _EXACT_STREAMS
    samples = torch.zeros(_EXACT_STREAMS, _EXACT_FRAMES * 1024, device="cuda")
    while min(done) < _EXACT_FRAMES:
        frames = int((1, 2, 4, 8)[int(torch.randint(4, (), generator=chooser))])
        ready = [stream for stream in range(_EXACT_STREAMS) if done[stream] + frames <= _EXACT_FRAMES]
        order = torch.randperm(len(ready), generator=chooser)[: int(torch.randint(1, 129, (), generator=chooser))]
        streams = [ready[int(i)] for i in order]
        if not streams:
            continue
        rows = [[stream * _EXACT_FRAMES + done[stream] + i for i in range(frames)] for stream in streams]
        result = decoder.decode_rows(store, rows, [slots[stream] for stream in streams])
        for stream, row in zip(streams, result, strict=True):
            samples[stream, done[stream] * 1024 : (done[stream] + frames) * 1024] = row
            done[stream] += frames
    reference = CodecDecoder(archive).to("cuda")
    codes = store.view(_EXACT_STREAMS, _EXACT_FRAMES, -1).transpose(1, 2).to(torch.int64)
    snr, worst = [], 0.0
    for first in range(0, _EXACT_STREAMS, 16):
        exact = reference.decode(codes[first : first + 16])
        error = samples[first : first + 16] - exact
        snr.append(10 * torch.log10(exact.square().mean(1) / error.square().mean(1)))
        worst = max(worst, float(error.abs().max()))
    all_snr = torch.cat(snr)
    return {
        "snr_db_worst": float(all_snr.min()),
        "snr_db_median": float(all_snr.median()),
        "max_difference": worst,
        "clamped": decoder.num_clamps(),
    }


def table(rows: Sequence[Row]) -> str:
    """Columns under their names."""
    lines = ["  ".join(f"{name:>14}" for name in rows[0])]
    lines += ["  ".join(f"{v:>14.3f}" if isinstance(v, float) else f"{v:>14}" for v in row.values()) for row in rows]
    return "\n".join(lines)


def commit() -> str:
    """Of the checkout; empty without one."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Measure the streaming codec on a GPU.")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only", nargs="+", choices=["times", "stages", "exact"], default=["times", "stages", "exact"])
    parser.add_argument("--precision", choices=["float16", "bfloat16", "float32"], default="float16")
    parser.add_argument("--commit", default=commit())
    arguments = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "codec.nemo"
        write_random_codec(path)
        archive = read_archive(path, parts=["audio_decoder"])
    result: dict[str, object] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": arguments.commit,
        "command": "python -m benchmarks.gpu.codec",
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": platform.python_version(),
        "precision": arguments.precision,
    }
    ceiling = ceilings()
    result["ceilings"] = ceiling
    print(f"{result['gpu']}: {ceiling['tflops']:.0f} TFLOP/s, {ceiling['tb_s']:.2f} TB/s", flush=True)
    begin = time.perf_counter()
    decoder = FusedStreamingDecoder(archive, NUM_SLOTS, device=torch.device("cuda"), precision=arguments.precision)
    result["load_s"] = time.perf_counter() - begin
    begin = time.perf_counter()
    decoder.warm_up()
    torch.cuda.synchronize()
    result["warm_up_s"] = time.perf_counter() - begin
    state_bytes = decoder.plan.state_size * (4 if arguments.precision == "float32" else 2)
    result["state_bytes_per_slot"] = state_bytes
    result["memory_bytes"] = decoder.memory_bytes
    print(
        f"load {result['load_s']:.1f} s, warm-up {result['warm_up_s']:.1f} s, {state_bytes / 1e6:.3f} MB a slot, "
        f"{decoder.memory_bytes / 1e9:.3f} GB for {NUM_SLOTS} slots",
        flush=True,
    )
    if "times" in arguments.only:
        sizes = [(b, n) for n in _FRAMES for b in _STREAMS if b * n <= MAX_STEP_FRAMES]
        result["fused"] = times = step_times(decoder, sizes)
        print(table(times), flush=True)
        result["plain"] = times = plain_times(archive, _PLAIN_SIZES)
        print("plain PyTorch, bfloat16, CUDA graph\n" + table(times), flush=True)
    if "stages" in arguments.only:
        stages = {f"{b}x{n}": stage_times(decoder, (b, n), ceiling) for b, n in _STAGE_SIZES}
        result["stages"] = stages
        for name, rows in stages.items():
            print(f"stages at {name}\n{table(rows)}", flush=True)
    del decoder
    if "exact" in arguments.only:
        exact: dict[str, dict[str, float]] = {}
        precision: Precision
        for precision in ("float16", "bfloat16"):
            exact[precision] = exactness(archive, precision)
            print(precision, {name: round(value, 6) for name, value in exact[precision].items()}, flush=True)
        result["exact"] = exact
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
