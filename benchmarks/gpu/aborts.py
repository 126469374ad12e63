"""Random aborts among running streams: the engine lives, nothing leaks, the others hear nothing of it."""

import random
import time
from pathlib import Path

from benchmarks.gpu.parity import difference, forced_logits, plain_logits
from benchmarks.gpu.requests import request
from workers.gepard.config import Dtype
from workers.gepard.generate import GenerationRequest, StreamId
from workers.gepard.vllm_backend.engine import VllmBackend

_PER_STEP = 40


class _Crowd:
    """About `streams` streams of all kinds, of which some are aborted before every step."""

    def __init__(self, backend: VllmBackend, *, streams: int, aborts: int, seed: int) -> None:
        self._backend = backend
        self._streams = streams
        self._choice = random.Random(seed)
        self._aborts = aborts
        self._alive: list[StreamId] = []
        self._number = 100
        self.num_aborted = 0

    def disturb(self) -> None:
        """Abort some, running and waiting, and fill up with others."""
        while self._backend.num_streams < self._streams:
            self._alive.append(self._backend.add(self._request()))
        count = min(self._choice.randint(0, _PER_STEP), self._aborts - self.num_aborted, len(self._alive))
        for _ in range(count):
            # Those that have ended meanwhile are among them: aborting them must do nothing.
            before = self._backend.num_streams
            self._backend.remove(self._alive.pop(self._choice.randrange(len(self._alive))))
            self.num_aborted += before - self._backend.num_streams

    def leave(self) -> None:
        """Abort all."""
        for name in self._alive:
            self._backend.remove(name)

    def _request(self) -> GenerationRequest:
        self._number += 1
        guidance = {"cfg_scale": 2.0, "cfg_frames": self._choice.choice([None, 5])}
        return request(
            self._backend.config,
            self._number,
            voice=self._number % 300,
            given=self._choice.choice([0, 0, 0, 7]),
            max_frames=self._choice.randint(8, 400),
            **(guidance if self._choice.random() < 0.2 else {}),
        )


def abort_many(
    folder: Path, backend: VllmBackend, dtype: Dtype, *, aborts: int, streams: int, seed: int = 3
) -> dict[str, float | int | bool]:
    """Abort `aborts` streams while others, teacher-forced, run through it and are compared with the plain model."""
    plain = plain_logits(folder, backend, dtype)
    crowd = _Crowd(backend, streams=streams, aborts=aborts, seed=seed)
    began = time.perf_counter()
    rounds = 0
    survivors: dict[str, float | int | bool] = {}
    while crowd.num_aborted < aborts:
        survivors = difference(forced_logits(backend, crowd.disturb), plain, backend.config, dtype)
        rounds += 1
    seconds = time.perf_counter() - began
    crowd.leave()
    for _ in range(3):
        backend.step()
    return {
        "aborts": crowd.num_aborted,
        "rounds": rounds,
        "seconds": seconds,
        "is_clean": backend.is_clean,
        "faults": int(backend.model_runner.model_state.frame_sampler.faults.item()),
        **{f"survivors_{name}": value for name, value in survivors.items()},
    }
