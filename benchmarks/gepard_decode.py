"""Measure the PyTorch backend: seconds per frame and memory, codes only (no codec).

    python -m benchmarks.gepard_decode FOLDER [--dtype float32] [--device cuda] [--rows 8] [--streams 8]

FOLDER holds a checkpoint, for instance of benchmarks/random_checkpoint.py. Fixed seeds, text and number of
frames; the first frames are not counted. Prints one JSON object.
"""

import argparse
import json
import platform
import resource
import statistics
import time
from pathlib import Path

import torch

from workers.gepard.checkpoint import TORCH_DTYPES, Checkpoint, load_checkpoint
from workers.gepard.generate import FrameGenerator, GenerationRequest
from workers.gepard.sampling import SamplingParams

TEXT = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all."
_WARM_UP_STEPS = 5


def measure(checkpoint: Checkpoint, *, rows: int, streams: int, frames: int) -> dict[str, float]:
    """First-frame and step times of `streams` requests that start together, seconds."""
    generator = FrameGenerator(checkpoint.model, rows=rows, max_streams=streams)
    compressor = checkpoint.model.compressor
    prefix = None
    if compressor is not None:
        with torch.inference_mode():
            prefix = compressor.voice_prefix(torch.zeros((300, 32), dtype=torch.int64, device=checkpoint.model.device))
    for seed in range(streams):
        generator.add(
            GenerationRequest(
                prompt_ids=checkpoint.tokenizer.prompt(TEXT).ids,
                prefix=prefix,
                seed=seed,
                sampling=SamplingParams(max_frames=frames, stop_threshold=1.0),
            )
        )
    steps_s = []
    while len(generator):
        start = time.perf_counter()
        for step in generator.step():
            if step.codes is not None:
                step.codes.tolist()  # waits for the device
        steps_s.append(time.perf_counter() - start)
    counted = steps_s[_WARM_UP_STEPS:]
    return {
        "first_frames_s": steps_s[0],
        "step_p50_s": statistics.median(counted),
        "step_max_s": max(counted),
        "frames_per_s": streams * len(counted) / sum(counted),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Measure the PyTorch backend of the Gepard model.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dtype", choices=list(TORCH_DTYPES), default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--frames", type=int, default=45)
    parser.add_argument("--threads", type=int, default=None)
    arguments = parser.parse_args()
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    start = time.perf_counter()
    checkpoint = load_checkpoint(arguments.folder, device=arguments.device, dtype=arguments.dtype)
    load_s = time.perf_counter() - start
    times = measure(checkpoint, rows=arguments.rows, streams=arguments.streams, frames=arguments.frames)
    is_cpu = checkpoint.model.device.type == "cpu"
    result = {
        "machine": platform.processor() or platform.machine() if is_cpu else torch.cuda.get_device_name(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "dtype": arguments.dtype or checkpoint.config.dtype,
        "rows": arguments.rows,
        "streams": arguments.streams,
        "load_s": load_s,
        **times,
        "frame_s": 1 / checkpoint.config.codec.frame_rate_hz,
        "max_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps({key: round(v, 4) if isinstance(v, float) else v for key, v in result.items()}))


if __name__ == "__main__":
    main()
