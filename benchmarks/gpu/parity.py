"""Are the logits of the vLLM backend those of the plain PyTorch model? Both are fed the same frames.

Differences are given in units of the logits' own spread (their standard deviation), since random weights have
no natural scale.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu.requests import codes, request
from workers.gepard.checkpoint import load_checkpoint
from workers.gepard.config import Dtype, GepardConfig
from workers.gepard.decoding import Decoder
from workers.gepard.generate import GenerationRequest
from workers.gepard.vllm_backend.engine import VllmBackend

TOLERANCE: dict[Dtype, float] = {"float32": 2e-2, "bfloat16": 0.25}
"""Largest difference of a logit, in standard deviations of the logits. Float32 products on a GPU may be TF32."""

STREAMS = 8
FRAMES = 48
_SEED = 11


def compare(folder: Path, backend: VllmBackend, dtype: Dtype) -> dict[str, float | int | bool]:
    """Teacher-forced logits of STREAMS requests over FRAMES frames, half of them with a voice."""
    return difference(forced_logits(backend), plain_logits(folder, backend, dtype), backend.config, dtype)


def requests_of(config: GepardConfig) -> list[GenerationRequest]:
    """STREAMS requests of FRAMES frames, half of them with a voice."""
    return [
        request(config, number, voice=number if number % 2 else None, temperature=0.0, max_frames=FRAMES)
        for number in range(STREAMS)
    ]


@torch.inference_mode()
def plain_logits(folder: Path, backend: VllmBackend, dtype: Dtype) -> Tensor:
    """What the plain model says, [STREAMS, FRAMES, sum of head sizes] float32."""
    model = load_checkpoint(folder, device=backend.frames.device, dtype=dtype).model
    forced = codes(backend.config.head_sizes, FRAMES, _SEED).to(model.device)
    return torch.stack([_plain_logits(Decoder(model, STREAMS), item, forced) for item in requests_of(backend.config)])


def difference(ours: Tensor, plain: Tensor, config: GepardConfig, dtype: Dtype) -> dict[str, float | int | bool]:
    """How far apart they are, and whether the best value of a head is the same wherever it is clearly the best."""
    distance = (ours - plain).abs()
    spread = plain.std().item()
    largest = distance.max().item()
    decided, equal, total = 0, 0, 0
    for ours_head, plain_head in zip(_heads(ours, config), _heads(plain, config), strict=True):
        top = plain_head.topk(2, dim=-1).values
        same = ours_head.argmax(-1) == plain_head.argmax(-1)
        is_clear = top[..., 0] - top[..., 1] > 2 * TOLERANCE[dtype] * spread
        decided += int(is_clear.sum())
        equal += int((same & is_clear).sum())
        total += int(same.sum())
    count = STREAMS * FRAMES * len(config.head_sizes)
    return {
        "logit_std": spread,
        "max_difference_std": largest / spread,
        "rms_difference_std": distance.square().mean().sqrt().item() / spread,
        "tolerance_std": TOLERANCE[dtype],
        "argmax_clear": decided / count,
        "argmax_equal_where_clear": equal / max(1, decided),
        "argmax_equal": total / count,
        "holds": largest / spread <= TOLERANCE[dtype] and equal == decided,
    }


def forced_logits(backend: VllmBackend, disturb: Callable[[], None] = lambda: None) -> Tensor:
    """What the engine says of the same frames; `disturb` is called before every step."""
    runner = backend.model_runner
    sampler = runner.sampler
    names = [backend.add(item) for item in requests_of(backend.config)]
    forced = codes(backend.config.head_sizes, FRAMES, _SEED).to(backend.frames.device, torch.uint8)
    recorder = runner.sampler = _Forcing(sampler, backend, forced, {str(name) for name in names})
    left = set(names)
    try:
        while left:
            disturb()
            left -= {step.stream for step in backend.step() if step.finished is not None}
    finally:
        runner.sampler = sampler
    return torch.stack([torch.stack(recorder.logits[str(name)]) for name in names])


class _Forcing:
    """The engine's sampler, whose frames are replaced by the forced ones before the next step reads them."""

    def __init__(self, sampler: Any, backend: VllmBackend, forced: Tensor, names: set[str]) -> None:  # noqa: ANN401
        self._sampler = sampler
        self._names = names
        self._backend = backend
        self._forced = forced
        self.logits: dict[str, list[Tensor]] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._sampler, name)

    def __call__(self, logits: Tensor, batch: Any, *rest: Any) -> Any:  # noqa: ANN401
        output = self._sampler(logits, batch, *rest)
        for row, name in enumerate(batch.req_ids):
            if name not in self._names:
                continue
            kept = self.logits.setdefault(name, [])
            place = output.sampled_token_ids[row] - self._backend.space.first_frame
            self._backend.frames[place] = self._forced[len(kept)]
            kept.append(logits[row, :-1].float().clone())
        return output


def _plain_logits(decoder: Decoder, item: GenerationRequest, forced: Tensor) -> Tensor:
    branch = decoder.prefill(item.prompt_ids, item.prefix, FRAMES)
    rows = []
    for frame in forced:
        rows.append(decoder.heads([branch])[0][0])
        decoder.feed([(branch, frame[None])])
    return torch.stack(rows)


def _heads(logits: Tensor, config: GepardConfig) -> tuple[Tensor, ...]:
    return torch.split(logits, list(config.head_sizes), dim=-1)
