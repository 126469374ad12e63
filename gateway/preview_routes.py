"""A short spoken sample of any voice, kept for a while: players ask for it in pieces."""

import hashlib
from typing import Annotated, Any

from litestar import HttpMethod, Request, Response, get, route
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter
from litestar.types import ASGIApp

from gateway.access import viewer_of
from gateway.errors import ApiError
from gateway.prepare import Draft
from gateway.ranges import ranged
from gateway.relay import ClientGone
from gateway.schemas import SpeechRequest
from gateway.speakers import Reference
from gateway.speech import SpeechService, nobody_listens
from gateway.voice_routes import VOICE_FAMILIES, operation_id
from shared.contracts import ClipVoice, Voice
from shared.errors import VoiceRefused
from shared.formats import FORMATS, AudioFormat
from voices.profile_cache import ProfileCache
from voices.records import StoredVoice

_PATHS = [f"{family}/{{voice_id:str}}/preview" for family in VOICE_FAMILIES]
_TEXT = "Hello! This is how I sound when I read to you. Shall we begin?"
_SEED = 1
_FORMAT = AudioFormat.MP3

Model = Annotated[
    str | None, QueryParameter(name="model", description="The model that speaks; the default one if absent.")
]


@get(_PATHS, operation_id=operation_id("previewVoice"), tags=["Voices"], media_type="audio/mpeg")
async def preview(
    request: Request[Any, Any, Any],
    speech: NamedDependency[SpeechService],
    cache: NamedDependency[ProfileCache],
    voice_id: FromPath[str],
    model: Model = None,
) -> Response[bytes] | ASGIApp:
    """Hear a voice: a few seconds of mp3."""
    return await _preview(request, speech, cache, voice_id, model)


@route(_PATHS, http_method=[HttpMethod.HEAD], include_in_schema=False)
async def preview_head(
    request: Request[Any, Any, Any],
    speech: NamedDependency[SpeechService],
    cache: NamedDependency[ProfileCache],
    voice_id: FromPath[str],
    model: Model = None,
) -> Response[bytes] | ASGIApp:
    """The headers of GET."""
    return await _preview(request, speech, cache, voice_id, model)


async def _preview(
    request: Request[Any, Any, Any], speech: SpeechService, cache: ProfileCache, voice_id: str, model: str | None
) -> Response[bytes] | ASGIApp:
    wanted = SpeechRequest(
        model=model or speech.settings.model,
        input=_TEXT,
        voice=voice_id,
        response_format=_FORMAT,
        seed=_SEED,
    )
    try:
        # Without the key's lexicon: what is kept is played to other keys too.
        draft = await speech.jobs.make(wanted, viewer_of(request))
    except ApiError as error:
        # Here the voice is the address, not a parameter.
        raise ApiError("not_found", error.message) if error.code == "voice_not_found" else error from error
    voice = _voice(draft)
    audio = await cache.get_preview(voice, draft.info)
    if audio is None:
        try:
            _, audio = await speech.speak_whole(draft, request, characters=len(_TEXT))
        except ClientGone:
            return nobody_listens(request)
        await cache.put_preview(voice, draft.info, audio)
    return ranged(
        audio,
        FORMATS[_FORMAT].content_type,
        etag=hashlib.sha256(audio).hexdigest()[:32],
        wanted=request.headers.get("range"),
        if_range=request.headers.get("if-range"),
    )


def _voice(draft: Draft) -> Voice:
    match draft.speaker:
        case StoredVoice(sha256=sha256):
            return ClipVoice(sha256=sha256)
        case Reference():
            raise VoiceRefused("invalid_value", "A preview is of a voice.")
        case preset:
            return preset


PREVIEW_ROUTES = [preview, preview_head]
