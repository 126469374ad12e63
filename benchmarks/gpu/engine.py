"""Measure the vLLM backend on a GPU: parity with the plain model, speed, and aborts.

    python -m benchmarks.random_checkpoint FOLDER
    python -m benchmarks.gpu.engine FOLDER parity --dtype float32
    python -m benchmarks.gpu.engine FOLDER parity speed aborts [--streams 1 32 128 256 512] [--profile FOLDER]

FOLDER holds a full-size checkpoint with random weights. Prints one JSON object; --output also writes it.
"""

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.aborts import abort_many, forced, parity_after
from benchmarks.gpu.parity import compare
from benchmarks.gpu.speed import first_frames, measure, profile
from workers.gepard.vllm_backend.engine import VllmBackend

_FRAMES = 512


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Measure the vLLM backend of the Gepard model on a GPU.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("parts", nargs="+", choices=["parity", "speed", "aborts"])
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 32, 128, 256, 512])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--aborts", type=int, default=1000)
    parser.add_argument("--no-graphs", action="store_true", help="neither compile nor capture")
    parser.add_argument("--device-memory", type=float, default=0.5)
    parser.add_argument("--profile", type=Path, help="a folder for profiles of a step at 1 and at most streams")
    parser.add_argument("--commit", help="what is measured")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    result: dict[str, Any] = {
        "benchmark": "gpu_engine",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": arguments.commit,
        "machine": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "torch": torch.__version__,
        "dtype": arguments.dtype,
    }
    start = time.perf_counter()
    backend = VllmBackend(
        arguments.folder,
        max_streams=max(arguments.streams),
        max_frames=_FRAMES,
        dtype=arguments.dtype,
        graphs=not arguments.no_graphs,
        device_memory=arguments.device_memory,
    )
    result["start_s"] = time.perf_counter() - start
    for part in arguments.parts:
        _run(part, backend, arguments, result)
        _write(result, arguments.output)
    backend.close()
    print(json.dumps(result))


def _run(part: str, backend: VllmBackend, arguments: argparse.Namespace, result: dict[str, Any]) -> None:
    match part:
        case "parity":
            result["parity"] = compare(arguments.folder, backend, arguments.dtype)
        case "speed":
            measure(backend, min(arguments.streams), steps=50)  # the first run compiles what is left
            result["speed"] = []
            for streams in arguments.streams:
                result["speed"].append(measure(backend, streams, steps=arguments.steps))
                print(json.dumps(result["speed"][-1]), flush=True)
            others = sorted({0, min(64, max(arguments.streams) // 2), max(arguments.streams) // 2})
            result["first_frames"] = [first_frames(backend, background=streams, rounds=20) for streams in others]
            if arguments.profile is not None:
                for streams in sorted({min(arguments.streams), max(arguments.streams) // 2}):
                    profile(backend, streams, steps=100, folder=arguments.profile)
        case "aborts":
            before = forced(backend)
            result["aborts"] = abort_many(backend, aborts=arguments.aborts, streams=max(arguments.streams) // 2, seed=3)
            result["aborts"]["parity_after_std"] = parity_after(backend, before)


def _write(result: dict[str, Any], output: Path | None) -> None:
    if output is not None:
        output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
