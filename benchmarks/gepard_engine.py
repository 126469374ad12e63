"""Measure the engine `gepard` as a worker runs it: start, a voice, first sound, seconds per frame, memory.

    python -m benchmarks.gepard_engine CHECKPOINT CODEC [--device cuda] [--dtype bfloat16] [--streams 4]

CHECKPOINT and CODEC may be those of benchmarks/random_checkpoint.py. Model and codec together; fixed seeds, text
and number of frames; the streams start together. Prints one JSON object.
"""

import argparse
import asyncio
import json
import platform
import resource
import tempfile
import time
from contextlib import aclosing
from pathlib import Path

import numpy as np
import torch

from shared.clip import Clip
from shared.contracts import PresetVoice, Sampling, Segment
from workers.audio.clip_file import write_clip
from workers.engines.base import SynthesisRequest
from workers.engines.gepard import GepardEngine, GepardOptions

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


async def measure(options: GepardOptions, *, streams: int, frames: int) -> dict[str, float]:
    """One start, one voice and one round of `streams` streams; seconds."""
    engine = GepardEngine(options)
    began = time.perf_counter()
    await engine.start()
    started = time.perf_counter()
    await engine.profile(_clip())
    profiled = time.perf_counter()
    results = await asyncio.gather(*(_speak(engine, seed, frames) for seed in range(streams)))
    spoken_s = time.perf_counter() - profiled
    frame_s = engine.info.frame_s
    await engine.stop()
    num_frames = sum(count for _, count in results)
    after_first_s = spoken_s - min(first for first, _ in results)
    return {
        "start_s": started - began,
        "profile_s": profiled - started,
        "first_sound_max_s": max(first for first, _ in results),
        "s_per_frame": after_first_s * streams / num_frames,
        "audio_s_per_s": num_frames * frame_s / spoken_s,
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Measure the engine `gepard` on PyTorch.")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("codec", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default=None)
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--frames", type=int, default=48)
    parser.add_argument("--threads", type=int, default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        clips = Path(folder) / "clips"
        clips.mkdir()
        write_clip(clips / f"{_VOICE}.wav", _clip())
        options = GepardOptions(
            checkpoint=arguments.checkpoint,
            codec=arguments.codec,
            cache=Path(folder),
            starter_clips=clips,
            device=arguments.device,
            dtype=arguments.dtype,
            rows=arguments.rows,
            num_threads=arguments.threads,
        )
        times = asyncio.run(measure(options, streams=arguments.streams, frames=arguments.frames))
    is_cpu = arguments.device == "cpu"
    result = {
        "machine": platform.processor() or platform.machine() if is_cpu else torch.cuda.get_device_name(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "device": arguments.device,
        "dtype": arguments.dtype,
        "streams": arguments.streams,
        **times,
        "max_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps({key: round(value, 4) if isinstance(value, float) else value for key, value in result.items()}))


if __name__ == "__main__":
    main()
