"""Voices: those of the models, and those that users make of clips. One implementation under two paths."""

from collections.abc import Callable
from typing import Any

from litestar import HttpMethod, Request, Response, delete, get, post, route
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, JSONBody
from litestar.types import Method
from litestar.types.internal_types import PathParameterDefinition

from gateway.access import owner_of, viewer_of
from gateway.admission import Admission
from gateway.errors import ApiError, blaming
from gateway.form import missing, read_form
from gateway.pages import After, Limit, checked_limit, cut
from gateway.ranges import ranged
from gateway.voice_schemas import Rename, VoiceDeleted, VoiceItem, VoiceList, VoiceModel, voice_item
from shared.broker.heartbeat import Fleet
from shared.contracts import EngineInfo
from shared.settings import Settings
from voices.aliases import aliases_of
from voices.records import VOICE_PREFIX, NewVoice, StoredVoice, looks_like_id
from voices.service import VoiceRegistry

VOICE_FAMILIES = ("/v1/voices", "/v1/audio/voices")

_ALL = list(VOICE_FAMILIES)
_ONE = [f"{family}/{{voice_id:str}}" for family in VOICE_FAMILIES]
_CLIP = [f"{path}/clip" for path in _ONE]

_TEXTS = frozenset({"name", "consent", "description", "language", "type"})
_FILES = ("audio_sample", "file")


_IdMaker = Callable[[HTTPRouteHandler, Method | HttpMethod, list[str | PathParameterDefinition]], str]


def operation_id(name: str) -> _IdMaker:
    """`createVoice` of /v1/voices is `createAudioVoice` of /v1/audio/voices."""

    def of(_: HTTPRouteHandler, __: Method | HttpMethod, path: list[str | PathParameterDefinition]) -> str:
        verb, noun = name.split("Voice", 1)
        return f"{verb}AudioVoice{noun}" if "audio" in path else name

    return of


def available_voices(info: EngineInfo, settings: Settings) -> list[VoiceItem]:
    """An engine's presets under their own names, then the aliases."""
    described = {preset.name: preset.description for preset in info.presets}
    models = [VoiceModel(model=info.model, status="ready", kind="preset")]
    items = [
        VoiceItem(id=name, name=name, model=info.model, models=models, kind="preset", description=description)
        for name, description in described.items()
    ]
    for alias, target in sorted(aliases_of(info, settings.voice_aliases).items()):
        if alias not in described:
            items.append(
                VoiceItem(
                    id=alias,
                    name=alias,
                    model=info.model,
                    models=models,
                    kind="alias",
                    description=f"{target}: {described[target]}",
                )
            )
    return items


@get(_ALL, operation_id=operation_id("listVoices"), tags=["Voices"])
async def list_voices(
    request: Request[Any, Any, Any],
    fleet: NamedDependency[Fleet],
    settings: NamedDependency[Settings],
    voices: NamedDependency[VoiceRegistry],
    after: After = None,
    limit: Limit = None,
) -> VoiceList:
    """List the built-in voices of every live model, then a page of your own and of public voices."""
    size = checked_limit(limit)
    models = fleet.models()
    built_in = [item for info in models.values() for item in available_voices(info, settings)]
    if after is not None and not looks_like_id(after, VOICE_PREFIX) and all(item.id != after for item in built_in):
        raise ApiError("invalid_value", "'after' must be the id of a voice.", param="after")
    behind = after if after is not None and looks_like_id(after, VOICE_PREFIX) else ""
    found, has_more = cut(await voices.page(viewer_of(request), after=behind, limit=size + 1), size)
    items = [] if after is not None else built_in
    items = [*items, *(voice_item(voice, models) for voice in found)]
    return VoiceList(
        data=items,
        voices=items,
        first_id=items[0].id if items else None,
        last_id=items[-1].id if items else None,
        has_more=has_more,
    )


@post(_ALL, operation_id=operation_id("createVoice"), tags=["Voices"], status_code=200)
async def create_voice(
    request: Request[Any, Any, Any],
    fleet: NamedDependency[Fleet],
    settings: NamedDependency[Settings],
    voices: NamedDependency[VoiceRegistry],
    uploads: NamedDependency[Admission],
) -> VoiceItem:
    """Make a voice of a sound file. It can be used at once; its first use waits until it is ready."""
    with uploads.waiting():
        voice = await _upload(request, settings, voices)
    return voice_item(voice, fleet.models())


async def _upload(request: Request[Any, Any, Any], settings: Settings, voices: VoiceRegistry) -> StoredVoice:
    form = await read_form(
        request, texts=_TEXTS, files=frozenset(_FILES), max_file_bytes=settings.clips.max_upload_bytes
    )
    if form.texts.get("type", "audio_sample") != "audio_sample":
        raise ApiError("invalid_value", "'type' must be audio_sample: voices are made of sound files.", param="type")
    wanted = NewVoice(
        name=form.text("name"),
        consent=form.text("consent"),
        description=form.texts.get("description", ""),
        language=form.texts.get("language"),
    )
    if not form.files:
        raise missing(_FILES[0])
    if len(form.files) > 1:
        raise ApiError(
            "invalid_value", "Send the sound file as 'audio_sample' or as 'file', not as both.", param="file"
        )
    ((part, upload),) = form.files.items()
    with blaming(part):
        return await voices.create(owner_of(request), wanted, upload)


@get(_ONE, operation_id=operation_id("retrieveVoice"), tags=["Voices"])
async def retrieve_voice(
    request: Request[Any, Any, Any],
    fleet: NamedDependency[Fleet],
    settings: NamedDependency[Settings],
    voices: NamedDependency[VoiceRegistry],
    voice_id: FromPath[str],
) -> VoiceItem:
    """Get one voice and what each model makes of it."""
    models = fleet.models()
    for info in models.values():
        for item in available_voices(info, settings):
            if item.id == voice_id:
                return item
    return voice_item(await voices.get(viewer_of(request), voice_id), models)


@post(_ONE, operation_id=operation_id("updateVoice"), tags=["Voices"], status_code=200)
async def rename_voice(
    request: Request[Any, Any, Any],
    data: JSONBody[Rename],
    fleet: NamedDependency[Fleet],
    voices: NamedDependency[VoiceRegistry],
    voice_id: FromPath[str],
) -> VoiceItem:
    """Give a voice of yours another name; its id stays."""
    return voice_item(await voices.rename(owner_of(request), voice_id, data.name), fleet.models())


@delete(_ONE, operation_id=operation_id("deleteVoice"), tags=["Voices"], status_code=200)
async def delete_voice(
    request: Request[Any, Any, Any], voices: NamedDependency[VoiceRegistry], voice_id: FromPath[str]
) -> VoiceDeleted:
    """Delete a voice of yours: its clip and all that was made of it."""
    await voices.delete(owner_of(request), voice_id)
    return VoiceDeleted(id=voice_id)


@get(_CLIP, operation_id=operation_id("retrieveVoiceClip"), tags=["Voices"], media_type="audio/flac")
async def voice_clip(
    request: Request[Any, Any, Any], voices: NamedDependency[VoiceRegistry], voice_id: FromPath[str]
) -> Response[bytes]:
    """Get the clip of a voice of yours, as it is used: mono, cut to its best part."""
    return await _clip(request, voices, voice_id)


@route(_CLIP, http_method=[HttpMethod.HEAD], include_in_schema=False)
async def voice_clip_head(
    request: Request[Any, Any, Any], voices: NamedDependency[VoiceRegistry], voice_id: FromPath[str]
) -> Response[bytes]:
    """The headers of GET."""
    return await _clip(request, voices, voice_id)


async def _clip(request: Request[Any, Any, Any], voices: VoiceRegistry, voice_id: str) -> Response[bytes]:
    return ranged(
        await voices.clip_file(owner_of(request), voice_id),
        "audio/flac",
        etag=voice_id,  # a voice's clip never changes
        wanted=request.headers.get("range"),
        if_range=request.headers.get("if-range"),
    )


VOICE_ROUTES = [
    list_voices,
    create_voice,
    retrieve_voice,
    rename_voice,
    delete_voice,
    voice_clip,
    voice_clip_head,
]
