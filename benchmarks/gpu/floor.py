"""The floor of the decode step on this GPU: benchmarks.gpu.decode_step as one CUDA graph, replayed.

    python -m benchmarks.gpu.floor [--streams 1 32 128 256 512] [--folder CHECKPOINT]
    TRITON_INTERPRET=1 python -m benchmarks.gpu.floor --device cpu --streams 2 --configuration tests/data/gepard/tiny

Without --folder a full-size checkpoint with random weights is made first. On the CPU nothing is compiled: that
shows that the program runs, not how fast anything is. Prints one JSON object.
"""

import argparse
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.gpu.decode_step import ATTENTIONS, Attention, DecodeStep, captured
from benchmarks.random_checkpoint import FULL_SIZE, write_checkpoint
from workers.gepard.checkpoint import load_checkpoint
from workers.gepard.model import GepardModel
from workers.gepard.sampling import draw, shape_logits, split_heads

STREAMS = (1, 32, 128, 256, 512)
CONTEXT = 512
"""Positions a stream reads in every step: a text of 50 tokens and 21 s of speech."""


def measure_floor(
    model: GepardModel,
    streams: Sequence[int] = STREAMS,
    *,
    context: int = CONTEXT,
    repeats: int = 200,
    launches: int = 20,
) -> list[dict[str, float | str]]:
    """Step time by number of streams, with the faster kind of attention; and what the sampler takes of it.

    sampler_us is one launch of the fused sampler, sampler_torch_us the same draw by torch operations (its noise
    given, no stop test), each as a mean of `launches` in one graph. read_gb_per_s: weights and cache by step time;
    far below the memory's speed with many streams, it tells that the step does needless work.
    """
    device = model.device
    rows: list[dict[str, float | str]] = []
    for number in streams:
        torch.compiler.reset()
        attention = _faster_attention(model, number, context, repeats)
        step = DecodeStep(model, number, context=context, compiled=device.type == "cuda", attention=attention)
        step_ms = _median_ms(captured(step.run, device), repeats, device)
        rows.append(
            {
                "streams": number,
                "context": context,
                "step_p50_ms": step_ms,
                "attention": attention,
                "frames_per_s": number / step_ms * 1e3,
                "times_real_time": number / step_ms * 1e3 / model.config.codec.frame_rate_hz,
                "read_gb_per_s": step.bytes_read / step_ms / 1e6,
                "sampler_us": _per_launch_us(step.sample, launches, repeats, device),
                "sampler_torch_us": _per_launch_us(_torch_sampler(step, model), launches, repeats, device),
            }
        )
    return rows


def _faster_attention(model: GepardModel, streams: int, context: int, repeats: int) -> Attention:
    """The kind that is faster for one layer of such a batch."""
    backbone, like = model.backbone.config, model.backbone.embed_tokens.weight
    kv_heads, head_dim = backbone.num_key_value_heads, backbone.head_dim
    query = like.new_ones((streams, kv_heads, backbone.num_attention_heads // kv_heads, head_dim))
    keys = like.new_ones((streams, kv_heads, context, head_dim))
    times: dict[Attention, float] = {}
    for name, attend in ATTENTIONS.items():
        function = torch.compile(attend, dynamic=False) if like.device.type == "cuda" else attend

        @torch.inference_mode()
        def run(function: Callable[[Tensor, Tensor, Tensor], Tensor] = function) -> None:
            function(query, keys, keys)

        times[name] = _median_ms(captured(run, like.device), repeats, like.device)
    return min(times, key=lambda name: times[name])


def _torch_sampler(step: DecodeStep, model: GepardModel) -> Callable[[], None]:
    """The sampler's work by torch operations on the device."""
    streams, device, sizes = step.tokens.shape[0], model.device, model.config.head_sizes
    shape = (streams, len(sizes), max(sizes))
    noise = torch.rand(shape, device=device)
    seen = torch.zeros(shape, dtype=torch.bool, device=device)
    temperature = torch.full((streams,), 0.4, device=device)
    penalty, top_k = torch.ones_like(temperature), torch.zeros(streams, dtype=torch.int64, device=device)
    rows = torch.arange(streams, device=device)

    @torch.inference_mode()
    def run() -> None:
        padded = split_heads(step.logits[:, :-1].float(), sizes)
        shaped = shape_logits(padded, seen=seen, penalty=penalty, temperature=temperature, top_k=top_k)
        step.frames[rows] = draw(shaped, noise, temperature).to(torch.uint8)

    return run


def _per_launch_us(run: Callable[[], None], launches: int, repeats: int, device: torch.device) -> float:
    def many() -> None:
        for _ in range(launches):
            run()

    return _median_ms(captured(many, device), repeats, device) / launches * 1e3


def _median_ms(run: Callable[[], None], repeats: int, device: torch.device) -> float:
    """Median time of one call, its launches queued one after the other."""
    for _ in range(3):
        run()
    times = []
    if device.type == "cpu":
        for _ in range(repeats):
            start = time.perf_counter()
            run()
            times.append((time.perf_counter() - start) * 1e3)
        return statistics.median(times)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    events[0].record()
    for event in events[1:]:
        run()
        event.record()
    torch.cuda.synchronize()
    return statistics.median(first.elapsed_time(second) for first, second in itertools.pairwise(events))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Measure the floor of the decode step.")
    parser.add_argument("--streams", type=int, nargs="+", default=list(STREAMS))
    parser.add_argument("--context", type=int, default=CONTEXT)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--folder", type=Path, help="a checkpoint to use")
    parser.add_argument("--configuration", type=Path, default=FULL_SIZE, help="of the random checkpoint")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.folder
        if folder is None:
            folder = Path(made)
            write_checkpoint(folder, configuration=arguments.configuration, dtype=arguments.dtype, seed=0)
        model = load_checkpoint(folder, device=arguments.device, dtype=arguments.dtype).model
    rows = measure_floor(model, arguments.streams, context=arguments.context, repeats=arguments.repeats)
    machine = torch.cuda.get_device_name() if model.device.type == "cuda" else "cpu"
    print(json.dumps({"machine": machine, "torch": torch.__version__, "dtype": arguments.dtype, "floor": rows}))


if __name__ == "__main__":
    main()
