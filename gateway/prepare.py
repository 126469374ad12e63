"""From a request to a job: every refusal happens here, before a job exists."""

import asyncio
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from gateway.errors import ApiError
from gateway.schemas import SpeechRequest
from gateway.speakers import Speaker, Speakers
from gateway.text import Lexicon, LexiconError, PauseError, Reading, foreign_script
from shared.contracts import EngineInfo, JobId, PresetVoice, Segment, SpeechJob
from shared.errors import SettingsError
from shared.formats import FORMATS, AudioFormat
from shared.settings import DEFAULT_MODEL_ALIAS, BitRateSettings, Settings
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
    """Checks requests against the settings and the live models.

    Raises SettingsError for a lexicon in the settings that cannot be used.
    """

    def __init__(self, settings: Settings, models: Models, speakers: Speakers) -> None:
        self._settings = settings
        self._models = models
        self._speakers = speakers
        try:
            self._lexicons = (Lexicon(settings.lexicon),) if settings.lexicon else ()
        except LexiconError as error:
            raise SettingsError(f"configuration: lexicon: {error}") from error

    async def make(self, request: SpeechRequest, viewer: Owner | None, *, lexicons: Sequence[Lexicon] = ()) -> Draft:
        """The job for a request of one who sees the viewer's voices.

        `lexicons` are the caller's own: the request's wins over them, they win over that of the settings.
        Raises ApiError with the parameter that is at fault, DatabaseError when voices cannot be looked up.
        """
        info = self.model(request.model)
        speaker = await self._speakers.of(request, info, viewer)
        response_format = request.response_format or AudioFormat.MP3
        rate_hz = _sample_rate(request, response_format)
        bit_rate = _bit_rate(request, response_format, rate_hz, self._settings.bit_rates)
        sampling = request.sampling(self._settings.generation)
        if (request.cfg_scale or 0) > 1 and not info.can_guide:
            raise _unsupported("cfg_scale", info)
        language = _language(request, info)
        segments = await self._segments(request, info, language, lexicons)
        job = SpeechJob(
            id=JobId(secrets.token_hex(12)),
            attempt=1,
            model=info.model,
            segments=segments,
            voice=_NOBODY,
            language=language,
            format=response_format,
            sample_rate_hz=rate_hz,
            bit_rate=bit_rate,
            speed=1.0 if request.speed is None else request.speed,
            seed=secrets.randbits(63) if request.seed is None else request.seed,
            sampling=sampling,
            deadline=time.time() + self._settings.limits.request_timeout_s,
        )
        return Draft(info, speaker, job)

    async def check(self, draft: Draft) -> None:
        """Raises ApiError when the voice of a draft was deleted meanwhile."""
        await self._speakers.check(draft.speaker)

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

    async def _segments(
        self, request: SpeechRequest, info: EngineInfo, language: str | None, lexicons: Sequence[Lexicon]
    ) -> tuple[Segment, ...]:
        text, limit = request.input, self._settings.limits.max_input_chars
        if len(text) > limit:
            raise ApiError(
                "string_above_max_length",
                f"'input' has {len(text)} characters; at most {limit} are accepted.",
                param="input",
            )
        if len(text) <= _INLINE_TEXT_CHARS and not request.lexicon:
            segments = self._read(request, info, language, lexicons)
        else:
            segments = await asyncio.to_thread(self._read, request, info, language, lexicons)
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

    def _read(
        self, request: SpeechRequest, info: EngineInfo, language: str | None, lexicons: Sequence[Lexicon]
    ) -> tuple[Segment, ...]:
        """The segments of the text, () when nothing is left to speak."""
        limits = self._settings.limits
        entries = request.lexicon or {}
        if len(entries) > limits.max_lexicon_entries:
            raise ApiError(
                "invalid_value",
                f"'lexicon' has {len(entries)} entries; at most {limits.max_lexicon_entries} are accepted.",
                param="lexicon",
            )
        try:
            own = (Lexicon(entries),) if entries else ()
            reading = Reading(
                budget=info.text_budget,
                language=language,
                expand=request.normalize is not False,
                lexicons=(*own, *lexicons, *self._lexicons),
                pauses=self._settings.pauses if request.pauses is None else request.pauses,
                max_pause_ms=round(1000 * limits.max_pause_s),
                max_total_pause_ms=round(1000 * limits.max_total_pause_s),
            )
            return reading.segments(request.input)
        except LexiconError as error:
            raise ApiError("invalid_value", f"'lexicon': {error}", param="lexicon") from error
        except PauseError as error:
            raise ApiError("invalid_value", f"'input': {error}", param="input") from error


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


def _bit_rate(
    request: SpeechRequest, response_format: AudioFormat, rate_hz: int, defaults: BitRateSettings
) -> int | None:
    """What was asked for, else the operator's default as far as the sample rate allows it, else the format's."""
    if not FORMATS[response_format].bit_rates:
        if request.bit_rate is None:
            return None
        having_one = ", ".join(name.value for name, spec in FORMATS.items() if spec.bit_rates)
        raise ApiError(
            "unsupported_parameter",
            f"{response_format.value} has no 'bit_rate'; these formats have one: {having_one}.",
            param="bit_rate",
        )
    bit_rates = FORMATS[response_format].bit_rates[rate_hz]
    if request.bit_rate is None:
        default = defaults.of(response_format)
        return bit_rates.default if default is None else bit_rates.at_most(default)
    if request.bit_rate not in bit_rates.allowed:
        raise ApiError(
            "unsupported_bit_rate",
            f"{response_format.value} at {rate_hz} Hz has no bit rate {request.bit_rate}; it has {bit_rates}.",
            param="bit_rate",
        )
    return request.bit_rate


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
