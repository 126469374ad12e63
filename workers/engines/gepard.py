"""Gepard on plain PyTorch: cloned voices at 22.05 kHz, many streams a step, on a CPU or an NVIDIA GPU.

The parts: a checkpoint (workers/gepard) speaks codes, a codec (workers/nanocodec) makes sound of them, one
thread steps both for all streams (gepard_loop), clips become voices (gepard_profiles), and voices to start
with are cloned from the embedded engine (gepard_starters).
"""

import asyncio
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from shared.clip import Clip
from shared.contracts import EngineInfo, PresetVoice, TextBudget
from shared.errors import CheckpointError, EngineError, SettingsError
from workers.engines.base import PcmChunk, Speaker, SpeakerProfile, SynthesisRequest
from workers.engines.gepard_loop import StepLoop
from workers.engines.gepard_profiles import ProfileMaker, compressor_revision
from workers.engines.gepard_speech import Speech
from workers.engines.gepard_starters import find_starters, profiles_of, rendered_starters
from workers.engines.hibari import HibariEngine
from workers.engines.hibari_voices import PRESETS as EMBEDDED_PRESETS
from workers.gepard.backbone import RopeFreqDtype
from workers.gepard.checkpoint import load_checkpoint
from workers.gepard.config import Dtype, GepardConfig
from workers.gepard.generate import FrameGenerator, GenerationRequest
from workers.gepard.sampling import SamplingParams
from workers.gepard.tokenizer import TextTokenizer
from workers.nanocodec.archive import read_archive
from workers.nanocodec.config import LEVELS, NUM_GROUPS, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME
from workers.nanocodec.decoder import CodecDecoder
from workers.nanocodec.encoder import CodecEncoder
from workers.nanocodec.streaming import StreamingDecoder

MODEL = "gepard"

_TEXT_BUDGET = TextBudget(minimum=60, first=90, target=150, maximum=300)
"""Below 13 tokens, some 55 characters of English, one text in five goes wrong and more the shorter it is.
Training texts had 33 tokens in the mean and 75 at the 95th percentile: 140 and 310 characters."""

_LANGUAGES = ("en", "es", "pt", "nl", "ky")
"""Of the training speech 85 % was English; the others are little tested."""

_CPU_ROWS, _CUDA_ROWS = 4, 16
_CPU_CAPACITY, _CUDA_CAPACITY = 8, 64

_WARM_UP_TEXT = "One sentence to warm up the engine, before anyone waits for it."
_WARM_UP_FRAMES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GepardOptions:
    """Where the model is and how it runs; None: chosen by the device.

    starter_clips: the operator's folder, None to clone the embedded presets. cache: a folder of our own.
    capacity: streams at once. rows: the fixed batch of a step, more than that many streams take further
    calls; it is part of what a seed means. num_threads: of PyTorch, for the whole process.
    """

    checkpoint: Path
    codec: Path
    cache: Path
    starter_clips: Path | None = None
    device: str | None = None
    dtype: Dtype | None = None
    rope_freq_dtype: RopeFreqDtype | None = None
    rows: int | None = None
    capacity: int | None = None
    num_threads: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """What `start` has made."""

    info: EngineInfo
    tokenizer: TextTokenizer
    steps: StepLoop
    maker: ProfileMaker
    starters: dict[str, Tensor]

    def voice(self, speaker: Speaker) -> Tensor:
        """The prefix of a speaker. Raises EngineError: there is no voice to fall back on."""
        if not isinstance(speaker, PresetVoice):
            return self.maker.prefix(speaker)
        prefix = self.starters.get(speaker.name)
        if prefix is None:
            raise EngineError(f"no starter voice {speaker.name!r}; there are {', '.join(self.starters)}")
        return prefix


class GepardEngine:
    """Implements workers.engines.base.Engine.

    The same request gives the same codes, alone or among others, on the same device, dtype and rows; the
    sound is the same to 1e-5. `frames` are model frames of 46 ms, `text_tokens` count a text once, without
    control ids and repetitions, `resume` holds the codes, 32 bytes a frame.
    """

    def __init__(self, options: GepardOptions) -> None:
        self._options = options
        self._loaded: _Loaded | None = None
        # One clip at a time: encoding is seconds of every core.
        self._clips = ThreadPoolExecutor(1, thread_name_prefix="gepard-clips")

    @property
    def info(self) -> EngineInfo:
        return self._running().info

    async def start(self) -> None:
        """Load, make the starter voices, speak once. Raises CheckpointError and SettingsError."""
        clips = self._options.starter_clips or await rendered_starters(
            HibariEngine(num_threads=1), self._options.cache / "starter-clips"
        )
        self._loaded = await asyncio.to_thread(_load, self._options, clips)
        self._loaded.steps.start()
        await self._warm_up(self._loaded)

    async def stop(self) -> None:
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            await asyncio.to_thread(loaded.steps.stop)
        self._clips.shutdown(wait=False, cancel_futures=True)

    async def profile(self, clip: Clip) -> SpeakerProfile:
        """Clone a clip, of which at most 15 s are used; some seconds on a CPU."""
        maker = self._running().maker
        return await asyncio.get_running_loop().run_in_executor(self._clips, maker.make, clip)

    async def synthesize(self, request: SynthesisRequest) -> AsyncGenerator[PcmChunk, None]:
        """Speak one segment in chunks of 0.1 to 0.4 s; all of a very short text at once, checked before."""
        loaded = self._running()
        prompt = loaded.tokenizer.prompt(request.segment.text)
        if not prompt.num_text_tokens:
            return
        speech = Speech(loaded.steps, request, prompt, loaded.voice(request.voice))
        async with aclosing(speech.chunks()) as chunks:
            async for chunk in chunks:
                yield chunk

    def _running(self) -> _Loaded:
        if self._loaded is None:
            raise EngineError("the engine is not started")
        return self._loaded

    async def _warm_up(self, loaded: _Loaded) -> None:
        request = GenerationRequest(
            prompt_ids=loaded.tokenizer.prompt(_WARM_UP_TEXT).ids,
            prefix=next(iter(loaded.starters.values())),
            seed=0,
            sampling=SamplingParams(max_frames=_WARM_UP_FRAMES, stop_threshold=1.0),
        )
        async with aclosing(loaded.steps.speak(request)) as spoken:
            async for _ in spoken:
                pass


def _load(options: GepardOptions, clips: Path) -> _Loaded:
    """Load everything; blocks. Raises CheckpointError and SettingsError."""
    if options.num_threads is not None:
        torch.set_num_threads(options.num_threads)
    device = _device(options.device)
    is_cpu = device.type == "cpu"
    checkpoint = load_checkpoint(
        options.checkpoint,
        device=device,
        # Most CPUs have no bf16 instructions and emulate them, the prefill ten times slower.
        dtype=options.dtype or ("float32" if is_cpu else None),
        rope_freq_dtype=options.rope_freq_dtype,
    )
    compressor = checkpoint.model.compressor
    if compressor is None:
        raise CheckpointError(f"{options.checkpoint}: without voice cloning the model has no voice at all")
    _check_codec(checkpoint.config, options.checkpoint)
    archive = read_archive(options.codec)
    maker = ProfileMaker(
        encoder=CodecEncoder(archive).to(device),
        compressor=compressor,
        device=device,
        model_revision=checkpoint.revision,
        compressor_revision=compressor_revision(archive),
    )
    starters = find_starters(clips, _describe if options.starter_clips is None else _describe_own)
    profiles = profiles_of(starters, maker, options.cache / "profiles")
    capacity = options.capacity or (_CPU_CAPACITY if is_cpu else _CUDA_CAPACITY)
    generator = FrameGenerator(
        checkpoint.model, rows=options.rows or (_CPU_ROWS if is_cpu else _CUDA_ROWS), max_streams=capacity
    )
    codec = StreamingDecoder(CodecDecoder(archive).to(device), num_slots=capacity)
    info = EngineInfo(
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
    return _Loaded(
        info=info,
        tokenizer=checkpoint.tokenizer,
        steps=StepLoop(generator, codec, device=device),
        maker=maker,
        starters={name: maker.prefix(profile) for name, profile in profiles.items()},
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
