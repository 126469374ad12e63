"""Bodies of requests and replies. Unknown request fields are ignored, as clients send extras."""

from enum import Enum
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from shared.contracts import (
    CfgScale,
    Sampling,
    Seed,
    Temperature,
)
from shared.formats import AudioFormat

StreamFormat = Literal["audio", "sse"]


class VoiceId(msgspec.Struct, frozen=True, kw_only=True):
    """A voice named as an object, as the OpenAI SDKs do for custom voices."""

    id: str


class SpeechRequest(Sampling, frozen=True, kw_only=True):
    """Body of POST /v1/audio/speech: OpenAI's parameters, our own, and the knobs of Sampling; null is absent."""

    model: Annotated[str, Meta(description="A model from /v1/models, or tts-1, tts-1-hd, gpt-4o-mini-tts.")]
    input: Annotated[str, Meta(description="The text to speak.")]
    voice: Annotated[str | VoiceId, Meta(description="A voice from /v1/voices, by name or as an object with its id.")]
    instructions: Annotated[str | None, Meta(description="Accepted for compatibility; has no effect.")] = None
    response_format: AudioFormat | None = AudioFormat.MP3
    speed: Annotated[float, Meta(ge=0.25, le=4.0, description="Tempo; the pitch is kept.")] | None = 1.0
    stream_format: StreamFormat | None = "audio"

    sample_rate: Annotated[int, Meta(description="In Hz; which rates there are depends on the format.")] | None = None
    bit_rate: (
        Annotated[int, Meta(description="In bits per second; which there are depends on format and sample rate.")]
        | None
    ) = None
    seed: Annotated[Seed, Meta(description="The same seed and text give the same audio.")] | None = None
    language: Annotated[str, Meta(description="BCP-47 tag of the text, e.g. en.")] | None = None
    normalize: Annotated[bool, Meta(description="Expand numbers, dates, units and the like (English).")] | None = True
    lexicon: Annotated[dict[str, str], Meta(description="Words, and what is to be said for each.")] | None = None
    pauses: Annotated[bool, Meta(description="[pause], [pause 500ms] and [pause 1.5s] become silence.")] | None = None
    reference_audio: Annotated[str, Meta(description="A clip to speak like, base64.")] | None = None

    def sampling(self, defaults: msgspec.Struct) -> Sampling:
        """The knobs of this request, each falling back to the field of the same name in `defaults`."""
        values = {}
        for name in Sampling.__struct_fields__:
            own = getattr(self, name)
            values[name] = getattr(defaults, name) if own is None else own
        return Sampling(**values)


class SynthesizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Body of POST /synthesize: the simple route, a whole wav for a text."""

    text: str
    voice: str | None = None
    speed: Annotated[float, Meta(ge=0.25, le=4.0)] | None = 1.0
    seed: Seed | None = None
    language: str | None = None
    temperature: Temperature | None = None
    cfg_scale: CfgScale | None = None


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A model as in OpenAI's list."""

    id: str
    created: int
    object: Literal["model"] = "model"
    owned_by: str = "gepard-gateway"


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """GET /v1/models."""

    data: list[Model]
    object: Literal["list"] = "list"


class AudioModelList(msgspec.Struct, frozen=True, kw_only=True):
    """GET /v1/audio/models: `models` is what Open WebUI reads, `data` what others do."""

    models: list[Model]
    data: list[Model]
    object: Literal["list"] = "list"


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """GET /health, /ready and /v1/."""

    status: str


def choices_of(param: str) -> tuple[str, ...]:
    """The values a closed parameter of a speech request may have; empty for an open one."""
    for field in msgspec.structs.fields(SpeechRequest):
        if field.name == param:
            for option in (field.type, *get_args(field.type)):
                if isinstance(option, type) and issubclass(option, Enum):
                    return tuple(str(member.value) for member in option)
                if literals := [value for value in get_args(option) if isinstance(value, str)]:
                    return tuple(literals)
    return ()
