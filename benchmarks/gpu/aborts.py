"""Random aborts among running streams: the engine lives, nothing leaks, the others hear nothing of it."""

import random
import time

import torch

from benchmarks.gpu.parity import FRAMES, forced_codes, forced_logits
from benchmarks.gpu.requests import request
from workers.gepard.generate import StreamId
from workers.gepard.vllm_backend.engine import VllmBackend

_SURVIVOR_FRAMES = 200


def abort_many(backend: VllmBackend, *, aborts: int, streams: int, seed: int) -> dict[str, float | int | bool]:
    """Abort `aborts` streams at random moments, started and waiting, guided and not, of about `streams` at once.

    Eight survivors run through the middle of it; their codes are those they have among as many calm streams.
    """
    survivors = _survivors(backend, aborts=0, streams=streams, seed=seed)[0]
    began = time.perf_counter()
    disturbed, num_aborts = _survivors(backend, aborts=aborts, streams=streams, seed=seed)
    seconds = time.perf_counter() - began
    equal = [
        sum(a == b for a, b in zip(first, second, strict=True))
        for first, second in zip(survivors, disturbed, strict=True)
    ]
    return {
        "aborts": num_aborts,
        "seconds": seconds,
        "is_clean": backend.is_clean,
        "faults": int(backend.model_runner.model_state.frame_sampler.faults.item()),
        "survivors": len(equal),
        "survivor_frames_equal": sum(equal) / sum(len(codes) for codes in survivors),
        "all_frames_came": all(len(codes) == _SURVIVOR_FRAMES for codes in disturbed),
    }


def parity_after(backend: VllmBackend, before: torch.Tensor) -> float:
    """Largest difference of teacher-forced logits from those that `forced` gave, in their standard deviations."""
    return ((forced(backend) - before).abs().max() / before.std()).item()


def forced(backend: VllmBackend) -> torch.Tensor:
    """Teacher-forced logits of four requests."""
    requests = [request(backend.config, number, temperature=0.0, max_frames=FRAMES) for number in range(4)]
    return forced_logits(backend, requests, forced_codes(backend.config).to(backend.frames.device))


def _survivors(backend: VllmBackend, *, aborts: int, streams: int, seed: int) -> tuple[list[list[bytes]], int]:
    """Codes of the survivors, frame by frame, and how many streams were aborted."""
    choice = random.Random(seed)
    names = [
        backend.add(request(backend.config, number, voice=number, temperature=0.0, max_frames=_SURVIVOR_FRAMES))
        for number in range(8)
    ]
    rows: dict[StreamId, list[torch.Tensor]] = {name: [] for name in names}
    others: list[StreamId] = []
    number, done = 100, 0
    while any(len(kept) < _SURVIVOR_FRAMES for kept in rows.values()) or done < aborts:
        while len(backend) < streams:
            guided = {"cfg_scale": 2.0, "cfg_frames": choice.choice([None, 5])} if choice.random() < 0.2 else {}
            others.append(
                backend.add(
                    request(backend.config, number, voice=number % 300, max_frames=choice.randint(1, 400), **guided)
                )
            )
            number += 1
        for step in backend.step():
            if step.stream in rows and step.row is not None:
                rows[step.stream].append(backend.frames[step.row].clone())
            elif step.finished is not None and step.stream in others:
                others.remove(step.stream)
        for _ in range(choice.randint(0, 10) if done < aborts else 0):
            if others:
                backend.remove(others.pop(choice.randrange(len(others))))
                done += 1
    for name in others:
        backend.remove(name)
    for _ in range(3):
        backend.step()
    return [[bytes(codes.tolist()) for codes in torch.stack(kept).cpu()] for kept in rows.values()], done
