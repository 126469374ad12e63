"""Many requests, frame by frame: they join and leave between any two steps.

One step gives every running request its next frame. Neither the codes of a request nor their timing within
the request depend on who else runs: see decoding (fixed shapes) and sampling (noise keyed by seed, frame and
head). A request that comes with the codes it already has is fed them and continues with the next frame.
"""

from dataclasses import dataclass
from typing import Literal, NewType

import torch
from torch import Tensor

from shared.errors import EngineError
from workers.gepard.config import GepardConfig
from workers.gepard.decoding import Branch, Decoder
from workers.gepard.frames import check_codes
from workers.gepard.heads import stop_probabilities
from workers.gepard.layout import unconditional_ids
from workers.gepard.model import GepardModel
from workers.gepard.sampling import (
    SamplingParams,
    draw,
    guided_logits,
    gumbel_noise,
    seen_values,
    shape_logits,
    split_heads,
)

StreamId = NewType("StreamId", int)

MAX_PROMPT_IDS = 2048
"""Bounds the memory of one prefill, which grows with the square; a sentence has 25 to 100."""

FinishReason = Literal["stop", "limit"]
"""`stop`: the model said so. `limit`: max_frames or force_stop_frames was reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One text to speak.

    prompt_ids: from layout.prompt_ids. prefix: [K, hidden] of the voice, or None for no voice.
    seed: any integer, taken modulo 2^64. codes: frames the request already has, [n, C] int64; generation
    goes on with frame n, or finishes where it had finished.
    """

    prompt_ids: list[int]
    prefix: Tensor | None
    seed: int
    sampling: SamplingParams
    codes: Tensor | None = None


def check_request(request: GenerationRequest, config: GepardConfig, *, max_prompt_ids: int = MAX_PROMPT_IDS) -> None:
    """Raises ValueError for a request that does not fit the model, whatever steps it."""
    backbone = config.backbone_config
    if not 0 < len(request.prompt_ids) <= max_prompt_ids:
        raise ValueError(f"a prompt has 1 to {max_prompt_ids} ids, got {len(request.prompt_ids)}")
    if not 0 <= min(request.prompt_ids) <= max(request.prompt_ids) < backbone.vocab_size:
        raise ValueError(f"prompt ids outside the vocabulary of {backbone.vocab_size}")
    if request.prefix is not None and request.prefix.shape[1:] != (backbone.hidden_size,):
        raise ValueError(f"a prefix is [K, {backbone.hidden_size}], got {list(request.prefix.shape)}")
    if request.codes is not None:
        check_codes(request.codes, config.head_sizes)
        if len(request.codes) > request.sampling.frame_limit:
            raise ValueError(f"{len(request.codes)} codes for at most {request.sampling.frame_limit} frames")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStep:
    """What one step gave one stream: a frame, the end, or both. codes: [C] int64 on the model's device."""

    stream: StreamId
    codes: Tensor | None
    finished: FinishReason | None


@dataclass(slots=True, kw_only=True)
class _Stream:
    """A running request. `frames`: [limit, C], the first `num_frames` are known, `num_fed` of them read."""

    request: GenerationRequest
    frames: Tensor
    num_frames: int
    num_fed: int = 0
    conditional: Branch | None = None
    unconditional: Branch | None = None

    @property
    def history(self) -> Tensor:
        return self.frames[: self.num_frames]

    @property
    def is_guided(self) -> bool:
        """Whether the next frame needs the unconditional branch."""
        guided = self.request.sampling.guided_frames
        return guided is None or self.num_frames < guided

    @property
    def branches(self) -> list[Branch]:
        return [branch for branch in (self.conditional, self.unconditional) if branch is not None]


class FrameGenerator:
    """Owns the running streams; not thread-safe.

    rows: the batch every shared call has (decoding); 1 suits a single stream, more suit as many streams, and
    unused ones cost as much as used ones. Codes for one `rows` differ from another's as rounding does.
    Memory is bounded by max_streams caches, two each where guided, of prompt + frame limit positions.
    """

    def __init__(self, model: GepardModel, *, rows: int, max_streams: int) -> None:
        self.max_streams = max_streams
        self._model = model
        self._decoder = Decoder(model, rows)
        self._streams: dict[StreamId, _Stream] = {}
        self._next_id = 0

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, request: GenerationRequest) -> StreamId:
        """Take a request; its first frame comes with the next step.

        Raises EngineError when all streams are in use, ValueError for a prompt, prefix or codes that do not
        fit: on a GPU an index out of range would end the process, not the request.
        """
        if len(self._streams) >= self.max_streams:
            raise EngineError(f"all {self.max_streams} streams are in use")
        check_request(request, self._model.config)
        given = self._given_codes(request)
        frames = given.new_zeros((request.sampling.frame_limit, given.shape[1]))
        frames[: given.shape[0]] = given
        stream = StreamId(self._next_id)
        self._next_id += 1
        self._streams[stream] = _Stream(request=request, frames=frames, num_frames=given.shape[0])
        return stream

    def remove(self, stream: StreamId) -> None:
        """Drop a stream and its memory; unknown and finished ones are ignored."""
        self._streams.pop(stream, None)

    @torch.inference_mode()
    def step(self) -> list[StreamStep]:
        """Advance every stream; streams that still read given codes have no entry. Finished ones are gone."""
        self._read()
        ready = [(name, s) for name, s in self._streams.items() if s.num_fed == s.num_frames]
        if not ready:
            return []
        logits, stops = self._score([stream for _, stream in ready])
        reasons = [_finish_reason(stream, stop) for (_, stream), stop in zip(ready, stops, strict=True)]
        steps = [
            StreamStep(stream=name, codes=None, finished=reason)
            for (name, _), reason in zip(ready, reasons, strict=True)
            if reason is not None
        ]
        going = [row for row, reason in enumerate(reasons) if reason is None]
        if going:
            codes = self._sample([ready[row][1] for row in going], logits[going])
            steps += [self._append(*ready[row], frame) for row, frame in zip(going, codes, strict=True)]
        for step in steps:
            if step.finished is not None:
                self.remove(step.stream)
        return steps

    def _given_codes(self, request: GenerationRequest) -> Tensor:
        head_sizes = self._model.config.head_sizes
        if request.codes is None:
            return torch.zeros((0, len(head_sizes)), dtype=torch.int64, device=self._model.device)
        return request.codes.to(self._model.device, torch.int64)

    def _read(self) -> None:
        """Let every branch read what it has not: the prompt, then at most `rows` frames a step."""
        feeds: list[tuple[Branch, Tensor]] = []
        for stream in self._streams.values():
            if stream.conditional is None:
                self._prefill(stream)
            if not stream.is_guided:
                stream.unconditional = None
            unread = stream.history[stream.num_fed :][: self._decoder.rows]
            if len(unread):
                feeds += [(branch, unread) for branch in stream.branches]
                stream.num_fed += len(unread)
        if feeds:
            self._decoder.feed(feeds)

    def _prefill(self, stream: _Stream) -> None:
        request, limit = stream.request, stream.frames.shape[0]
        stream.conditional = self._decoder.prefill(request.prompt_ids, request.prefix, limit)
        if stream.is_guided:
            ids = unconditional_ids(request.sampling.cfg_uncond_mode, self._model.config.special_tokens)
            stream.unconditional = self._decoder.prefill(ids, request.prefix, limit)

    def _score(self, streams: list[_Stream]) -> tuple[Tensor, list[float]]:
        """Logits [N, sum of head sizes] as the sampler takes them, guidance included; stop probabilities."""
        conditional = [stream.branches[0] for stream in streams]
        guided = [row for row, stream in enumerate(streams) if stream.unconditional is not None]
        unconditional = [streams[row].branches[1] for row in guided]
        all_logits, all_stops = self._decoder.heads([*conditional, *unconditional])
        logits, stops = all_logits[: len(streams)], stop_probabilities(all_stops[: len(streams)])
        if guided:
            scale = logits.new_tensor([streams[row].request.sampling.cfg_scale for row in guided])[:, None]
            logits[guided] = guided_logits(logits[guided], all_logits[len(streams) :], scale)
        return logits, stops

    def _sample(self, streams: list[_Stream], logits: Tensor) -> Tensor:
        """One frame a stream, [N, C] int64."""
        sampling = [stream.request.sampling for stream in streams]
        padded = split_heads(logits, self._model.config.head_sizes)
        temperature = logits.new_tensor([params.temperature for params in sampling])
        shaped = shape_logits(
            padded,
            seen=torch.stack([_seen(stream, padded.shape[-1]) for stream in streams]),
            penalty=logits.new_tensor([params.repetition_penalty for params in sampling]),
            temperature=temperature,
            top_k=torch.tensor([params.top_k for params in sampling], device=logits.device),
        )
        noise = gumbel_noise(
            [stream.request.seed for stream in streams],
            [stream.num_frames for stream in streams],
            num_heads=padded.shape[1],
            width=padded.shape[2],
        )
        return draw(shaped, noise.to(logits.device), temperature)

    def _append(self, name: StreamId, stream: _Stream, codes: Tensor) -> StreamStep:
        stream.frames[stream.num_frames] = codes
        stream.num_frames += 1
        is_last = stream.num_frames >= stream.request.sampling.frame_limit
        return StreamStep(stream=name, codes=codes, finished="limit" if is_last else None)


def _finish_reason(stream: _Stream, stop_probability: float) -> FinishReason | None:
    """Why there is no further frame: read on the state of the last one, so the first always comes."""
    if stream.num_frames == 0:
        return None
    if stream.num_frames >= stream.request.sampling.frame_limit:
        return "limit"
    return "stop" if stop_probability > stream.request.sampling.stop_threshold else None


def _seen(stream: _Stream, width: int) -> Tensor:
    params = stream.request.sampling
    history = stream.history if params.repetition_penalty != 1.0 else stream.history[:0]
    return seen_values(history, params.repetition_window, width)
