"""Files and settings to all that a host serves with: a backend, a codec, and voices."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from shared.contracts import EngineInfo, PresetVoice, TextBudget
from shared.errors import CheckpointError, EngineError, SettingsError
from workers.engines.base import Speaker
from workers.engines.gepard_profiles import ProfileMaker, compressor_revision
from workers.engines.gepard_starters import Starter, find_starters, profiles_of
from workers.engines.hibari_voices import PRESETS as EMBEDDED_PRESETS
from workers.gepard.backbone import RopeFreqDtype
from workers.gepard.backend import Backend
from workers.gepard.checkpoint import Checkpoint, load_checkpoint
from workers.gepard.config import Dtype, GepardConfig
from workers.gepard.generate import FrameGenerator
from workers.gepard.layout import MAX_FRAME_CAP
from workers.gepard.torch_backend import TorchBackend
from workers.nanocodec.archive import read_archive
from workers.nanocodec.codec import Codec
from workers.nanocodec.config import LEVELS, NUM_GROUPS, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME
from workers.nanocodec.encoder import CodecEncoder
from workers.nanocodec.open_codec import open_codec

MODEL = "gepard"

BackendName = Literal["torch", "vllm"]

_TEXT_BUDGET = TextBudget(minimum=60, first=90, target=150, maximum=300)
"""Below 13 tokens, some 55 characters of English, one text in five goes wrong and more the shorter it is.
Training texts had 33 tokens in the mean and 75 at the 95th percentile: 140 and 310 characters."""

_LANGUAGES = ("en", "es", "pt", "nl", "ky")
"""Of the training speech 85 % was English; the others are little tested."""

_WARM_UP_TEXT = "One sentence to warm up the engine, before anyone waits for it."

_CPU_ROWS, _CUDA_ROWS = 4, 16
_CAPACITY: dict[tuple[BackendName, bool], int] = {
    ("torch", True): 8,
    ("torch", False): 64,
    ("vllm", True): 8,
    ("vllm", False): 256,
}
"""Streams at once by backend and whether the device is a CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """Where the model is and how it runs; None: chosen by the device.

    backend: what steps the model, plain PyTorch or vLLM. starter_clips: a folder of clips. own_clips: whether it is
    the operator's. cache: a folder of our own. num_workers: how many share the capacity, which is in streams at once.
    rows: the fixed batch of a step of the plain backend; it is part of what a seed means there. num_threads: of
    PyTorch, for the whole process.
    """

    checkpoint: Path
    codec: Path
    cache: Path
    starter_clips: Path
    own_clips: bool
    backend: BackendName = "torch"
    device: str | None = None
    dtype: Dtype | None = None
    rope_freq_dtype: RopeFreqDtype | None = None
    rows: int | None = None
    capacity: int | None = None
    num_workers: int = 1
    num_threads: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """What a host serves with. `info.capacity` is one worker's share of `max_streams`."""

    info: EngineInfo
    device: torch.device
    device_name: str
    backend_name: str
    backend: Backend
    codec: Codec
    maker: ProfileMaker
    starters: dict[str, Tensor]
    head_sizes: tuple[int, ...]
    warm_up_ids: list[int]

    @property
    def max_streams(self) -> int:
        """Streams at once."""
        return self.backend.max_streams

    def voice(self, speaker: Speaker) -> Tensor:
        """The prefix of a speaker. Raises EngineError: there is no voice to fall back on."""
        if not isinstance(speaker, PresetVoice):
            return self.maker.prefix(speaker)
        prefix = self.starters.get(speaker.name)
        if prefix is None:
            raise EngineError(f"no starter voice {speaker.name!r}; there are {', '.join(self.starters)}")
        return prefix


def load_model(options: HostOptions) -> LoadedModel:
    """Load everything; blocks, and the first time makes the starter voices. Raises CheckpointError, SettingsError."""
    if options.num_threads is not None:
        torch.set_num_threads(options.num_threads)
    device = _device(options.device)
    is_cpu = device.type == "cpu"
    capacity = options.capacity or _CAPACITY[options.backend, is_cpu]
    if capacity < options.num_workers:
        raise SettingsError(f"gepard.workers {options.num_workers}: more than the {capacity} streams they share")
    # Most CPUs have no bf16 instructions and emulate them, the prefill ten times slower.
    dtype = options.dtype or ("float32" if is_cpu else None)
    is_plain = options.backend == "torch"
    # Before anything else takes memory of the device: vLLM takes its share of what is free.
    vllm = None if is_plain else _vllm_backend(options, dtype, capacity=capacity)
    checkpoint = load_checkpoint(
        options.checkpoint,
        # vLLM has its own weights there; of these only the compressor is used.
        device=device if is_plain else "cpu",
        dtype=dtype,
        rope_freq_dtype=options.rope_freq_dtype,
    )
    compressor = checkpoint.model.compressor
    if compressor is None:
        raise CheckpointError(f"{options.checkpoint}: without voice cloning the model has no voice at all")
    compressor.to(device)
    _check_codec(checkpoint.config, options.checkpoint)
    archive = read_archive(options.codec)
    maker = ProfileMaker(
        encoder=CodecEncoder(archive).to(device),
        compressor=compressor,
        device=device,
        model_revision=checkpoint.revision,
        compressor_revision=compressor_revision(archive),
    )
    starters = find_starters(options.starter_clips, _describe_own if options.own_clips else _describe)
    profiles = profiles_of(starters, maker, options.cache / "profiles")
    return LoadedModel(
        info=_info(checkpoint, maker, starters, capacity=capacity // options.num_workers),
        device=device,
        device_name=torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        backend_name=options.backend,
        backend=vllm or _torch_backend(options, checkpoint, device, capacity=capacity),
        codec=open_codec(archive, capacity, device=device),
        maker=maker,
        starters={name: maker.prefix(profile) for name, profile in profiles.items()},
        head_sizes=tuple(checkpoint.config.head_sizes),
        warm_up_ids=checkpoint.tokenizer.prompt(_WARM_UP_TEXT).ids,
    )


def _torch_backend(
    options: HostOptions, checkpoint: Checkpoint, device: torch.device, *, capacity: int
) -> TorchBackend:
    rows = options.rows or (_CPU_ROWS if device.type == "cpu" else _CUDA_ROWS)
    generator = FrameGenerator(checkpoint.model, rows=rows, max_streams=capacity)
    return TorchBackend(generator, num_channels=len(checkpoint.config.head_sizes), device=device)


def _vllm_backend(options: HostOptions, dtype: Dtype | None, *, capacity: int) -> Backend:
    """Raises EngineError where vLLM is absent or of another version."""
    from workers.gepard.vllm_backend.engine import VllmBackend  # noqa: PLC0415 - an extra of its own

    return VllmBackend(
        options.checkpoint,
        max_streams=capacity,
        # No request asks for more, and room for each stream's longest is set aside.
        max_frames=MAX_FRAME_CAP,
        dtype=dtype,
        rope_freq_dtype=options.rope_freq_dtype,
    )


def _info(checkpoint: Checkpoint, maker: ProfileMaker, starters: list[Starter], *, capacity: int) -> EngineInfo:
    return EngineInfo(
        model=MODEL,
        revision=checkpoint.revision,
        compressor_revision=maker.compressor_revision,
        sample_rate_hz=SAMPLE_RATE_HZ,
        frame_s=SAMPLES_PER_FRAME / SAMPLE_RATE_HZ,
        languages=_LANGUAGES,
        scripts=("Latin", "Cyrillic"),
        text_budget=_TEXT_BUDGET,
        presets=tuple(starter.preset for starter in starters),
        can_clone=True,
        can_guide=True,
        can_resume=True,
        capacity=capacity,
    )


def _device(name: str | None) -> torch.device:
    """The device of that name, by default the GPU if there is one. Raises SettingsError."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:  # a build without CUDA asserts
        raise SettingsError(f"gepard.device {name}: PyTorch {torch.__version__} has no such device here") from error
    return device


def _check_codec(config: GepardConfig, folder: Path) -> None:
    spoken = (config.codec.num_layers, tuple(config.codec.fsq_levels), config.codec.sample_rate)
    known = (NUM_GROUPS, LEVELS, SAMPLE_RATE_HZ)
    if spoken != known:
        raise CheckpointError(f"{folder}: speaks a codec of groups, levels and rate {spoken}; there is only {known}")


def _describe(name: str) -> str:
    """What is said of a clone of an embedded preset."""
    described = {preset.name: preset.description for preset in EMBEDDED_PRESETS}
    return f"{described.get(name, name)}; cloned from the embedded voice"


def _describe_own(name: str) -> str:
    return f"Cloned from the clip {name}"
