"""One segment on Gepard: knobs, the guard against runaways, and what has been spoken as chunks.

A very short text can make the model babble without end. A cap on the frames, from the text's length, ends
that; sound that has been sent cannot be taken back, so a very short text is held until it has ended well and
is tried again with another seed when it has not. Longer texts run away rarely and are sent as they come.
"""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import torch
from torch import Tensor

from shared.contracts import Sampling
from shared.errors import EngineError
from shared.telemetry import get_logger
from workers.engines.base import PcmChunk, SynthesisRequest
from workers.engines.gepard_loop import Spoken, StepLoop
from workers.engines.hibari_finish import pause
from workers.gepard.generate import GenerationRequest
from workers.gepard.sampling import SamplingParams
from workers.gepard.tokenizer import Prompt
from workers.nanocodec.config import CODES_PER_FRAME, SAMPLE_RATE_HZ

HELD_BELOW_TOKENS = 13
"""The model's own failure rate falls from 19 % to 5 % at this length."""

_NUM_TRIES = 2

log = get_logger()


def sampling_params(sampling: Sampling, *, frame_cap: int) -> SamplingParams:
    """The request's knobs, the model's defaults where it has none, never more than `frame_cap` frames."""
    given: dict[str, Any] = {
        name: value for name in Sampling.__struct_fields__ if (value := getattr(sampling, name)) is not None
    }
    given["max_frames"] = min(frame_cap, given.get("max_frames", frame_cap))
    return SamplingParams(**given)


def retry_seed(seed: int, number: int) -> int:
    """The seed of the `number`-th retry: the same in every attempt at a job. 63 bits; the 0th is `seed`."""
    if number == 0:
        return seed
    digest = hashlib.blake2b(f"{seed}:retry:{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


class Speech:
    """Speaks one request; use it once. Raises EngineError for a `resume` that holds no codes."""

    def __init__(self, steps: StepLoop, request: SynthesisRequest, prompt: Prompt, prefix: Tensor) -> None:
        self._steps = steps
        self._request = request
        self._prompt = prompt
        self._prefix = prefix
        self._params = sampling_params(request.sampling, frame_cap=prompt.frame_cap)
        self._codes = _codes_of(request.resume)
        self._untold_tokens = prompt.num_text_tokens
        self._num_runaways = 0

    async def chunks(self) -> AsyncGenerator[PcmChunk, None]:
        """The sound as it comes, or all at once for a very short text; the pause is the last chunk."""
        if self._prompt.num_text_tokens < HELD_BELOW_TOKENS:
            for spoken in await self._held():
                yield self._chunk(spoken)
            return
        async with aclosing(self._steps.speak(self._generation(0))) as source:
            async for spoken in source:
                self._note(spoken, will_retry=False)
                yield self._chunk(spoken)

    async def _held(self) -> list[Spoken]:
        """All of the first try that ends by itself, else of the last one."""
        # Codes that were sent come from a try that had ended.
        num_tries = _NUM_TRIES if self._codes is None else 1
        number = 0
        while True:
            async with aclosing(self._steps.speak(self._generation(number))) as source:
                spoken = [item async for item in source]
            number += 1
            if not self._note(spoken[-1], will_retry=number < num_tries) or number == num_tries:
                return spoken

    def _generation(self, number: int) -> GenerationRequest:
        return GenerationRequest(
            prompt_ids=self._prompt.ids,
            prefix=self._prefix,
            seed=retry_seed(self._request.seed, number),
            sampling=self._params,
            codes=self._codes,
        )

    def _note(self, spoken: Spoken, *, will_retry: bool) -> bool:
        """Whether the text ran away: the guard ended it, neither the model nor a knob of the request."""
        wanted = self._request.sampling
        knobs = [limit for limit in (wanted.max_frames, wanted.force_stop_frames) if limit is not None]
        is_runaway = (
            spoken.finished == "limit"
            and self._prompt.frame_cap < min(knobs, default=self._prompt.frame_cap + 1)
            and self._params.stop_threshold < 1
        )
        if is_runaway:
            self._num_runaways += 1
            log.warning(
                "frame_cap_hit",
                frames=self._prompt.frame_cap,
                text_tokens=self._prompt.num_text_tokens,
                will_retry=will_retry,
            )
        return is_runaway

    def _chunk(self, spoken: Spoken) -> PcmChunk:
        tokens, self._untold_tokens = self._untold_tokens, 0
        is_last = spoken.finished is not None
        segment = self._request.segment
        boundary = segment.boundary if segment.pause_ms is None else None
        return PcmChunk(
            samples=pause(boundary, SAMPLE_RATE_HZ) if is_last else spoken.samples,
            frames=spoken.num_frames,
            text_tokens=tokens,
            resume=spoken.codes,
            runaways=self._num_runaways if is_last else 0,
        )


def _codes_of(resume: bytes) -> Tensor | None:
    """Codes [n, C] int64 of the chunks an earlier attempt made, None without any."""
    if not resume:
        return None
    if len(resume) % CODES_PER_FRAME:
        raise EngineError(f"{len(resume)} bytes to resume from are no whole frames of {CODES_PER_FRAME} codes")
    codes = torch.frombuffer(bytearray(resume), dtype=torch.uint8)
    return codes.view(-1, CODES_PER_FRAME).to(torch.int64)
