"""From a request to a job: every refusal happens here, before a job exists."""

import asyncio
import secrets
import time
from dataclasses import dataclass
from typing import Protocol

import msgspec

from gateway.errors import ApiError
from gateway.schemas import SpeechRequest
from gateway.speakers import Speaker, Speakers
from gateway.text import foreign_script, has_speech, normalize, sanitize, segment
from shared.contracts import EngineInfo, JobId, PresetVoice, Segment, SpeechJob, TextBudget
from shared.formats import FORMATS, AudioFormat
from shared.settings import DEFAULT_MODEL_ALIAS, Settings
from voices.records import Owner

# Normalising takes some 10 µs a character: longer texts go to a thread, so that no stream waits for them.
_INLINE_TEXT_CHARS = 500


class Models(Protocol):
    """What is served now; the fleet of live workers is one."""

    def models(self) -> dict[str, EngineInfo]:
        """Model id -> facts."""
        ...


_NOBODY = PresetVoice(name="")


@dataclass(frozen=True, slots=True)
class Draft:
    """A job whose speaker is still to be readied."""

    info: EngineInfo
    speaker: Speaker
    job: SpeechJob
    """Without its voice."""


class JobMaker:
    """Checks requests against the settings and the live models."""

    def __init__(self, settings: Settings, models: Models, speakers: Speakers) -> None:
        self._settings = settings
        self._models = models
        self._speakers = speakers

    async def make(self, request: SpeechRequest, viewer: Owner | None) -> Draft:
        """The job for a request of one who sees the viewer's voices.

        Raises ApiError with the parameter that is at fault, DatabaseError when voices cannot be looked up.
        """
        info = self.model(request.model)
        speaker = await self._speakers.of(request, info, viewer)
        response_format = request.response_format or AudioFormat.MP3
        rate_hz = _sample_rate(request, response_format)
        sampling = request.sampling(self._settings.generation)
        if (request.cfg_scale or 0) > 1 and not info.can_guide:
            raise _unsupported("cfg_scale", info)
        language = _language(request, info)
        segments = await self._segments(request, info, language)
        job = SpeechJob(
            id=JobId(secrets.token_hex(12)),
            attempt=1,
            model=info.model,
            segments=segments,
            voice=_NOBODY,
            language=language,
            format=response_format,
            sample_rate_hz=rate_hz,
            speed=1.0 if request.speed is None else request.speed,
            seed=secrets.randbits(63) if request.seed is None else request.seed,
            sampling=sampling,
            deadline=time.time() + self._settings.limits.request_timeout_s,
        )
        return Draft(info, speaker, job)

    async def finish(self, draft: Draft) -> SpeechJob:
        """The job with its voice, once that is ready. Raises as Speakers.ready does."""
        return msgspec.structs.replace(draft.job, voice=await self._speakers.ready(draft.speaker, draft.info))

    def model(self, name: str) -> EngineInfo:
        """The live model of that name or alias. Raises ApiError: unknown, or known but not served now."""
        live = self._models.models()
        wanted = name.strip()
        if wanted not in live:
            wanted = self._settings.model_aliases.get(wanted, wanted)
        if wanted == DEFAULT_MODEL_ALIAS:
            wanted = self._settings.model
        if wanted in live:
            return live[wanted]
        if wanted == self._settings.model:
            raise ApiError("model_unavailable", f"No worker serves the model '{wanted}' at the moment.")
        known = ", ".join(sorted({*live, *self._settings.model_aliases}))
        raise ApiError("model_not_found", f"The model '{name}' does not exist. There are: {known}.", param="model")

    async def _segments(self, request: SpeechRequest, info: EngineInfo, language: str | None) -> tuple[Segment, ...]:
        text, limit = request.input, self._settings.limits.max_input_chars
        if len(text) > limit:
            raise ApiError(
                "string_above_max_length",
                f"'input' has {len(text)} characters; at most {limit} are accepted.",
                param="input",
            )
        arguments = (text, info.text_budget, language, request.normalize is not False)
        if len(text) <= _INLINE_TEXT_CHARS:
            segments = speakable_segments(*arguments)
        else:
            segments = await asyncio.to_thread(speakable_segments, *arguments)
        if not segments:
            raise ApiError("nothing_to_speak", "'input' has nothing that can be spoken.", param="input")
        if request.language is None:
            script = foreign_script(text, info.scripts)
            if script is not None:
                raise ApiError(
                    "unsupported_language",
                    f"'input' is mostly in {script} script; the model '{info.model}' speaks "
                    f"{', '.join(info.languages)}.",
                    param="input",
                )
        return segments


def speakable_segments(text: str, budget: TextBudget, language: str | None, expand: bool) -> tuple[Segment, ...]:
    """Normalise, or only remove what is harmful, then cut; empty when nothing is left to speak."""
    spoken = normalize(text, language=language) if expand else sanitize(text)
    return segment(spoken, budget, language=language) if has_speech(spoken) else ()


def _sample_rate(request: SpeechRequest, response_format: AudioFormat) -> int:
    spec = FORMATS[response_format]
    if request.sample_rate is None:
        return spec.default_rate_hz
    if request.sample_rate not in spec.rates_hz:
        raise ApiError(
            "unsupported_sample_rate",
            f"{response_format.value} has no sample rate {request.sample_rate}; "
            f"it has {', '.join(map(str, spec.rates_hz))}.",
            param="sample_rate",
        )
    return request.sample_rate


def _language(request: SpeechRequest, info: EngineInfo) -> str | None:
    """The primary tag, or None for 'find out yourself'."""
    if request.language is None or request.language.strip().lower() in ("", "auto"):
        return None
    primary = request.language.strip().lower().replace("_", "-").split("-", 1)[0]
    if primary not in info.languages:
        raise ApiError(
            "unsupported_language",
            f"The model '{info.model}' does not speak '{request.language}'; it speaks {', '.join(info.languages)}.",
            param="language",
        )
    return primary


def _unsupported(param: str, info: EngineInfo) -> ApiError:
    return ApiError("unsupported_parameter", f"The model '{info.model}' does not support '{param}'.", param=param)
