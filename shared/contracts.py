"""What gateway and workers say to each other: jobs, events, engine facts. msgpack on the wire.

Structs are maps of named fields on the wire, so that a newer side may add a field with a default.
"""

from typing import Annotated, Literal, NewType

import msgspec
from msgspec import Meta

from shared.formats import AudioFormat

JobId = NewType("JobId", str)
WorkerId = NewType("WorkerId", str)

Boundary = Literal["clause", "sentence", "paragraph", "end"]
"""What follows a segment in the text; engines without pauses of their own derive the pause from it."""


class _Wire(msgspec.Struct, frozen=True, kw_only=True):
    """Base of everything that crosses Redis."""


# --- What an engine is -----------------------------------------------------------------------------------


class TextBudget(_Wire, frozen=True, kw_only=True):
    """How long a segment of text should be for an engine, in characters of normalised text.

    `minimum`: shorter segments are merged with a neighbour. `first`: aim for the first segment, shorter for
    an early first sound. `target`: aim for the others. `maximum`: never exceeded.
    """

    minimum: int
    first: int
    target: int
    maximum: int


class Preset(_Wire, frozen=True, kw_only=True):
    """A voice that an engine has of itself."""

    name: str
    description: str


class EngineInfo(_Wire, frozen=True, kw_only=True):
    """What the gateway must know of a model to accept or refuse a request.

    `languages` and `scripts`: BCP-47 primary tags and Unicode script names the engine can speak.
    `capacity`: streams at once in one worker. `can_resume`: a failed reply can be continued on another
    worker. `frame_s`: seconds of audio in one model frame (the unit of `output_tokens`). `can_match`: a
    voice made of a clip imitates its pitch, timbre and pace; with `can_clone` it is the clip's. A speaker
    profile fits the `revision` and `compressor_revision` it was made with; the latter is empty with neither.
    """

    model: str
    revision: str
    sample_rate_hz: int
    frame_s: float
    languages: tuple[str, ...]
    scripts: tuple[str, ...]
    text_budget: TextBudget
    presets: tuple[Preset, ...]
    can_clone: bool
    can_guide: bool
    can_resume: bool
    capacity: int
    can_match: bool = False
    compressor_revision: str = ""

    @property
    def edition(self) -> str:
        """The same for workers that make the same audio of a job: one may finish what the other began."""
        return f"{self.revision}/{self.compressor_revision}"


# --- A job ---------------------------------------------------------------------------------------------


class Segment(_Wire, frozen=True, kw_only=True):
    """A speakable piece of normalised text and what follows it.

    `pause_ms`: silence that the text asks for behind it, made by the worker in place of the engine's own pause.
    With it `text` may be empty: silence alone.
    """

    text: str
    boundary: Boundary
    pause_ms: Annotated[int, Meta(ge=0)] | None = None


class PresetVoice(_Wire, tag="preset", frozen=True, kw_only=True):
    """A voice the engine has of itself, by its name there."""

    name: str


class ClipVoice(_Wire, tag="clip", frozen=True, kw_only=True):
    """A voice by its reference clip.

    `sha256`: shared.clip.Clip.sha256 of the decoded clip, already cut to the length that may be used; names
    never identify a clip.
    """

    sha256: str


Voice = PresetVoice | ClipVoice

ProfileKind = Literal["cloned", "matched"]
"""`cloned`: the model speaks in the clip's voice. `matched`: it imitates pitch, timbre and pace."""


_MAX_COUNT = 1_000_000
"""No knob means more; and a number beyond 64 bits has no place in msgpack."""

UncondMode = Literal["empty_text", "audio_only"]
Temperature = Annotated[float, Meta(ge=0, le=2)]
TopK = Annotated[int, Meta(ge=0, le=_MAX_COUNT)]
RepetitionPenalty = Annotated[float, Meta(gt=0, le=10)]
RepetitionWindow = Annotated[int, Meta(ge=0, le=_MAX_COUNT)]
CfgScale = Annotated[float, Meta(ge=0, le=10)]
CfgFrames = Annotated[int, Meta(ge=0, le=_MAX_COUNT)]
StopThreshold = Annotated[float, Meta(ge=0, le=1)]
MaxFrames = Annotated[int, Meta(gt=0, le=_MAX_COUNT)]
ForceStopFrames = Annotated[int, Meta(gt=0, le=_MAX_COUNT)]
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class Sampling(_Wire, frozen=True, kw_only=True):
    """How a model draws; None leaves a knob to the model's own default. Engines ignore knobs they lack.

    `cfg_scale` above 1 asks for guidance and needs an engine with `can_guide`.
    """

    temperature: Temperature | None = None
    top_k: TopK | None = None
    repetition_penalty: RepetitionPenalty | None = None
    repetition_window: RepetitionWindow | None = None
    cfg_scale: CfgScale | None = None
    cfg_frames: CfgFrames | None = None
    cfg_uncond_mode: UncondMode | None = None
    stop_threshold: StopThreshold | None = None
    max_frames: MaxFrames | None = None
    force_stop_frames: ForceStopFrames | None = None


class ResumePoint(_Wire, frozen=True, kw_only=True):
    """Where a new attempt takes over: packets the client already has, and the model state behind them.

    `edition`: EngineInfo.edition of the engine that made them; another one must not go on. Empty: any may.
    """

    packets: int
    state: bytes = b""
    edition: str = ""


class SpeechJob(_Wire, frozen=True, kw_only=True):
    """One request for speech, ready for a worker.

    `seed` is always set (drawn by the gateway when the client gave none), so that every attempt makes the
    same audio. `deadline`: Unix seconds after which nobody waits. `speed`: 0.25 to 4, pitch kept. `bit_rate`:
    bits per second, one that the format has at that sample rate; None: its default, or it has none.
    """

    id: JobId
    attempt: int
    model: str
    segments: tuple[Segment, ...]
    voice: Voice
    language: str | None
    format: AudioFormat
    sample_rate_hz: int
    speed: float
    seed: int
    sampling: Sampling
    deadline: float
    bit_rate: int | None = None
    resume: ResumePoint | None = None


class ProfileJob(_Wire, frozen=True, kw_only=True):
    """Make the speaker profile of a clip, which was laid out in Redis before, and keep it there.

    The reply is `started`, then `profiled` or `failed`.
    """

    id: JobId
    attempt: int
    model: str
    sha256: str
    deadline: float


Job = SpeechJob | ProfileJob


# --- Events on a reply stream --------------------------------------------------------------------------


class Usage(_Wire, frozen=True, kw_only=True):
    """`input_tokens`: the engine's text tokens. `output_tokens`: audio frames of the model."""

    input_tokens: int
    output_tokens: int


class Timings(_Wire, frozen=True, kw_only=True):
    """Milliseconds in the worker.

    `engine_first_ms`: from the call of the engine to its first chunk, the engine's own share. The others:
    from the moment the worker took the job.
    """

    engine_first_ms: float
    first_audio_ms: float
    total_ms: float


class Started(_Wire, tag="started", frozen=True, kw_only=True):
    """A worker has the job. `edition`: EngineInfo.edition of its engine; empty for a profile job."""

    worker: WorkerId
    edition: str = ""


class Audio(_Wire, tag="audio", frozen=True, kw_only=True):
    """Encoded audio. `seq` counts from 0 without a gap; `packets`: whole encoder packets in `data`.

    `resume`: only this event's share of what another worker needs to go on. `audio_s`: seconds of sound that
    went into it, after tempo; the encoder may hold back some milliseconds of them for the next event.
    """

    seq: int
    packets: int
    data: bytes
    resume: bytes = b""
    audio_s: float = 0.0


class Done(_Wire, tag="done", frozen=True, kw_only=True):
    """All audio has been sent."""

    usage: Usage
    timings: Timings


HANDED_BACK = frozenset({"worker_stopping", "engine_lost", "engine_stalled", "broker_lost", "other_edition"})
"""Codes of Failed that are no end: the worker, or the process with its model, goes or cannot; another attempt may."""


class Failed(_Wire, tag="failed", frozen=True, kw_only=True):
    """The attempt ends here, and but for HANDED_BACK the reply. `message` is safe to show to the client."""

    code: str
    message: str


class Profiled(_Wire, tag="profiled", frozen=True, kw_only=True):
    """The profile of a clip is in Redis."""

    kind: ProfileKind


Event = Started | Audio | Done | Failed | Profiled


class WorkerTotals(_Wire, frozen=True, kw_only=True):
    """What a worker has done since it started; each figure only grows.

    `streams`, `failed_streams`: attempts that have ended, and those of them that failed in the worker.
    `runaways`: tries of a segment that only a guard ended. `frames`: model frames.
    `audio_s`: seconds of sound at the model's own tempo. `busy_s`: seconds with at
    least one stream. `stream_s`: seconds of all streams together. `cpu_s`: CPU time of the process.
    """

    streams: int = 0
    failed_streams: int = 0
    runaways: int = 0
    frames: int = 0
    audio_s: float = 0.0
    busy_s: float = 0.0
    stream_s: float = 0.0
    cpu_s: float = 0.0


class HostFigures(_Wire, frozen=True, kw_only=True):
    """What the process that holds a model says of itself; the workers it serves pass it on.

    `device`: its name, such as NVIDIA H200 or cpu. `streams`, `capacity`: of all its workers. `step_ms`: a step of
    the model, `codec_ms`: a step of the codec, each of late. `waiting_frames`: made and not decoded.
    `late_chunks`, `frames`: sound that came when its stream's player had nothing left, and frames decoded, since
    the host started.
    """

    host: str
    backend: str
    device: str
    streams: int = 0
    capacity: int = 0
    step_ms: float = 0.0
    codec_ms: float = 0.0
    waiting_frames: int = 0
    late_chunks: int = 0
    frames: int = 0


class Heartbeat(_Wire, frozen=True, kw_only=True):
    """What a live worker says of itself, again and again. `active` and `capacity` count streams.

    `host`: of the process that holds its model, where that is not the worker itself.
    """

    worker: WorkerId
    info: EngineInfo
    active: int
    capacity: int
    accepting: bool
    totals: WorkerTotals = WorkerTotals()
    host: HostFigures | None = None
