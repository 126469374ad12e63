"""Measure the engine `gepard` as a worker has it: start, a voice, first sound, seconds per frame, memory.

    python -m benchmarks.gepard_engine CHECKPOINT CODEC [--device cuda] [--dtype bfloat16] [--streams 4]

CHECKPOINT and CODEC may be those of benchmarks/random_checkpoint.py. The engine host is a process of its own, as in
the product; model and codec together; fixed seeds, text and number of frames; the streams start together. Prints
one JSON object; the memory is the host's.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import numpy as np

from shared.clip import Clip
from shared.contracts import PresetVoice, Sampling, Segment
from workers.audio.clip_file import write_clip
from workers.engines.base import SynthesisRequest
from workers.engines.gepard import GepardEngine

TEXT = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all."
_VOICE = "noise"
_CLIP_S = 6.0
_RATE_HZ = 22050


def _clip() -> Clip:
    samples = 0.1 * np.random.default_rng(0).standard_normal(round(_CLIP_S * _RATE_HZ))
    return Clip(samples=samples.astype(np.float32), rate_hz=_RATE_HZ)


async def _speak(engine: GepardEngine, seed: int, frames: int) -> tuple[float, int]:
    """Seconds to the first sound, and frames."""
    request = SynthesisRequest(
        segment=Segment(text=TEXT, boundary="end"),
        voice=PresetVoice(name=_VOICE),
        language="en",
        seed=seed,
        sampling=Sampling(max_frames=frames, stop_threshold=1.0),
    )
    began, first_s, num_frames = time.perf_counter(), 0.0, 0
    async with aclosing(engine.synthesize(request)) as chunks:
        async for chunk in chunks:
            first_s = first_s or time.perf_counter() - began
            num_frames += chunk.frames
    return first_s, num_frames


@contextlib.contextmanager
def running_host(folder: Path, **settings: object) -> Iterator[Path]:
    """An engine host for one worker, with these `gepard` settings; yields its socket before it is warm."""
    path = folder / "host.sock"
    variables = {f"GEPARD_GEPARD_{name.upper()}": str(value) for name, value in settings.items() if value is not None}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "cli", "host", f"--socket={path}", "--workers=1"],
        env={**os.environ, "GEPARD_DATA_DIR": str(folder), **variables},
    )
    try:
        yield path
    finally:
        process.terminate()
        process.wait()


async def measure(engine: GepardEngine, *, streams: int, frames: int) -> dict[str, float | str]:
    """One start, one voice and one round of `streams` streams; seconds."""
    began = time.perf_counter()
    await engine.start()
    started = time.perf_counter()
    await engine.profile(_clip())
    profiled = time.perf_counter()
    results = await asyncio.gather(*(_speak(engine, seed, frames) for seed in range(streams)))
    spoken_s = time.perf_counter() - profiled
    frame_s, host = engine.info.frame_s, engine.host
    await engine.stop()
    num_frames = sum(count for _, count in results)
    after_first_s = spoken_s - min(first for first, _ in results)
    return {
        "device": host.device if host else "",
        "backend": host.backend if host else "",
        "start_s": started - began,
        "profile_s": profiled - started,
        "first_sound_max_s": max(first for first, _ in results),
        "s_per_frame": after_first_s * streams / num_frames,
        "audio_s_per_s": num_frames * frame_s / spoken_s,
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Measure the engine `gepard`.")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("codec", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default=None)
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--frames", type=int, default=48)
    parser.add_argument("--backend", default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        clips = Path(folder) / "clips"
        clips.mkdir()
        write_clip(clips / f"{_VOICE}.wav", _clip())
        options = {
            "checkpoint": arguments.checkpoint.absolute(),
            "codec": arguments.codec.absolute(),
            "starter_clips": clips,
            "device": arguments.device,
            "dtype": arguments.dtype,
            "rows": arguments.rows,
            "backend": arguments.backend,
        }
        with running_host(Path(folder), **options) as path:
            engine = GepardEngine(host=path, checkpoint=arguments.checkpoint)
            times = asyncio.run(measure(engine, streams=arguments.streams, frames=arguments.frames))
    result = {
        "machine": platform.processor() or platform.machine(),
        "dtype": arguments.dtype,
        "streams": arguments.streams,
        **times,
        "max_rss_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
    }
    print(json.dumps({key: round(value, 4) if isinstance(value, float) else value for key, value in result.items()}))


if __name__ == "__main__":
    main()
