"""A worker's request in the model's terms."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shared.contracts import PresetVoice, Sampling
from shared.errors import EngineError
from workers.engines.base import SpeakerProfile
from workers.gepard.frames import check_codes
from workers.gepard.generate import GenerationRequest
from workers.gepard.sampling import SamplingParams
from workers.host.model import LoadedModel
from workers.host.wire import Speak
from workers.nanocodec.config import CODES_PER_FRAME


def generation_of(request: Speak, model: LoadedModel) -> tuple[GenerationRequest, NDArray[np.uint8] | None]:
    """What the backend takes, and the codes [n, 32] that come with it. Raises EngineError."""
    try:
        params = sampling_params(request.sampling, frame_cap=request.frame_cap)
        given = _codes_of(request.codes)
        if given is not None:
            check_codes(torch.from_numpy(given).to(torch.int64), model.head_sizes)
            if len(given) > params.frame_limit:
                raise EngineError(f"{len(given)} frames to resume from, of at most {params.frame_limit}")
        voice = SpeakerProfile.from_bytes(request.profile) if request.profile else PresetVoice(name=request.starter)
    except ValueError as error:
        raise EngineError(f"the model refused the request: {error}") from error
    generation = GenerationRequest(
        prompt_ids=request.prompt_ids,
        prefix=model.voice(voice),
        seed=request.seed,
        sampling=params,
        codes=None if given is None else torch.from_numpy(given).to(torch.int64),
    )
    return generation, given


def sampling_params(sampling: Sampling, *, frame_cap: int) -> SamplingParams:
    """The request's knobs, the model's defaults where it has none, never more than `frame_cap` frames."""
    values: dict[str, Any] = {
        name: value for name in Sampling.__struct_fields__ if (value := getattr(sampling, name)) is not None
    }
    values["max_frames"] = min(frame_cap, values.get("max_frames", frame_cap))
    return SamplingParams(**values)


def _codes_of(codes: bytes) -> NDArray[np.uint8] | None:
    """[n, 32] of the frames an earlier attempt made, None without any."""
    if not codes:
        return None
    if len(codes) % CODES_PER_FRAME:
        raise EngineError(f"{len(codes)} bytes to resume from are no whole frames of {CODES_PER_FRAME} codes")
    return np.frombuffer(bytearray(codes), np.uint8).reshape(-1, CODES_PER_FRAME)
