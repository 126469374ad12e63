"""Measure the vLLM backend on a GPU: parity with the plain model, speed, and aborts.

    python -m benchmarks.random_checkpoint FOLDER
    python -m benchmarks.gpu.engine FOLDER parity --dtype float32
    python -m benchmarks.gpu.engine FOLDER parity speed floor aborts [--streams 1 32 128 256 512]

FOLDER holds a full-size checkpoint with random weights. Prints one JSON object; --output also writes it.
"""

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.aborts import abort_many
from benchmarks.gpu.floor import CONTEXT, measure_floor
from benchmarks.gpu.parity import STREAMS, compare
from benchmarks.gpu.speed import beside_guided, first_frames, measure, profile
from workers.gepard.checkpoint import load_checkpoint
from workers.gepard.vllm_backend.engine import VllmBackend

_MAX_FRAMES = 1024


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Measure the vLLM backend of the Gepard model on a GPU.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("parts", nargs="+", choices=["parity", "speed", "guided", "floor", "aborts", "profile"])
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 32, 128, 256, 512])
    parser.add_argument("--floor-streams", type=int, nargs="+", help="fewer, since each is compiled anew")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--aborts", type=int, default=1000)
    parser.add_argument("--block-positions", type=int, default=32)
    parser.add_argument("--no-graphs", action="store_true", help="neither compile nor capture")
    parser.add_argument("--device-memory", type=float, default=0.5)
    parser.add_argument("--tables", type=Path, help="where `profile` writes")
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
        max_frames=_MAX_FRAMES,
        dtype=arguments.dtype,
        graphs=not arguments.no_graphs,
        device_memory=arguments.device_memory,
        block_positions=arguments.block_positions,
    )
    result["start_s"] = time.perf_counter() - start
    for part in arguments.parts:
        _run(part, backend, arguments, result)
        _write(result, arguments.output)
    backend.close()
    print(json.dumps(result))


def _run(part: str, backend: VllmBackend, arguments: argparse.Namespace, result: dict[str, Any]) -> None:
    most = max(arguments.streams)
    match part:
        case "parity":
            result["parity"] = compare(arguments.folder, backend, arguments.dtype)
        case "speed":
            for context, name in ((0, "speed"), (CONTEXT, f"speed_at_{CONTEXT}_positions")):
                result[name] = []
                for streams in arguments.streams:
                    result[name].append(measure(backend, streams, steps=arguments.steps, context=context))
                    print(json.dumps(result[name][-1]), flush=True)
            others = sorted({0, min(64, most // 2), most // 2})
            result["first_frames"] = [first_frames(backend, background=streams, rounds=20) for streams in others]
        case "guided":
            quarter = max(1, most // 4)
            result["guided"] = beside_guided(backend, plain=quarter, pairs=max(1, quarter // 8), steps=arguments.steps)
        case "floor":
            model = load_checkpoint(arguments.folder, device=backend.frames.device, dtype=arguments.dtype).model
            result["floor"] = measure_floor(model, arguments.floor_streams or arguments.streams, repeats=100)
            at_context = f"speed_at_{CONTEXT}_positions"
            floors = {floor["streams"]: float(floor["frames_per_s"]) for floor in result["floor"]}
            for speed in result.get(at_context, []):
                if speed["streams"] in floors:
                    speed["of_the_floor"] = speed["frames_per_s"] / floors[speed["streams"]]
        case "aborts":
            result["aborts"] = abort_many(
                arguments.folder, backend, arguments.dtype, aborts=arguments.aborts, streams=max(2 * STREAMS, most // 2)
            )
        case "profile":
            tables = [profile(backend, streams, steps=100) for streams in sorted({min(arguments.streams), most // 2})]
            arguments.tables.write_text("\n".join(tables))


def _write(result: dict[str, Any], output: Path | None) -> None:
    if output is not None:
        output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
