"""Who speaks: a name, an id or a reference clip becomes the voice of a job."""

import base64
import binascii
from dataclasses import dataclass

from gateway.errors import ApiError, blaming
from gateway.schemas import SpeechRequest
from shared.contracts import ClipVoice, EngineInfo, PresetVoice, Voice
from shared.errors import VoiceRefused
from shared.settings import Settings
from voices.aliases import aliases_of, resolve_voice
from voices.clips import ClipIntake
from voices.profile_cache import ProfileCache
from voices.profiles import Profiles
from voices.records import Owner, StoredVoice, profile_kind
from voices.service import VoiceRegistry

_REFERENCE = "reference_audio"


@dataclass(frozen=True, slots=True)
class Reference:
    """A clip sent with a request, not yet looked at."""

    data: bytes


Speaker = PresetVoice | StoredVoice | Reference


class Speakers:
    """Finds speakers, which is quick, and readies them, which may take seconds."""

    def __init__(
        self, settings: Settings, voices: VoiceRegistry, intake: ClipIntake, cache: ProfileCache, profiles: Profiles
    ) -> None:
        self._settings = settings
        self._voices = voices
        self._intake = intake
        self._cache = cache
        self._profiles = profiles

    async def of(self, request: SpeechRequest, info: EngineInfo, viewer: Owner | None) -> Speaker:
        """Who shall speak; a reference clip before the voice's name. Raises ApiError; never a silent default."""
        if request.reference_audio is not None:
            return self._reference(request.reference_audio, info)
        name = request.voice if isinstance(request.voice, str) else request.voice.id
        return await self.named(name, info, viewer)

    async def named(self, name: str, info: EngineInfo, viewer: Owner | None) -> PresetVoice | StoredVoice:
        """The voice of that name or id: built-in, else from the registry. Raises ApiError."""
        built_in = resolve_voice(name, info, self._settings.voice_aliases)
        if isinstance(built_in, PresetVoice):
            return built_in
        stored = await self._voices.find(viewer, name)
        if stored is None:
            known = sorted({*aliases_of(info, self._settings.voice_aliases), *(p.name for p in info.presets)})
            raise ApiError(
                "voice_not_found",
                f"The voice '{name[:100]}' does not exist for the model '{info.model}'. There are: "
                f"{', '.join(known)}; and those you made, see /v1/voices.",
                param="voice",
            )
        if profile_kind(info) is None:
            raise ApiError(
                "unsupported_parameter", f"The model '{info.model}' has its presets only, no clips.", param="voice"
            )
        return stored

    async def ready(self, speaker: Speaker, info: EngineInfo) -> Voice:
        """What a worker can speak with; waits until its profile is there.

        Raises ApiError, IntakeBusy, DatabaseError, ClipStoreError and RedisError.
        """
        match speaker:
            case PresetVoice():
                return speaker
            case StoredVoice():
                with blaming("voice"):
                    await self._voices.prepare(speaker, info)
                return ClipVoice(sha256=speaker.sha256)
            case Reference(data=data):
                with blaming(_REFERENCE):
                    return await self._ready_reference(data, info)

    async def check(self, speaker: Speaker) -> None:
        """Raises ApiError when the speaker is a voice that was deleted meanwhile."""
        if isinstance(speaker, StoredVoice) and await self._voices.find(speaker.owner, speaker.id) is None:
            raise ApiError("voice_not_found", f"The voice '{speaker.name}' was deleted.", param="voice")

    async def _ready_reference(self, data: bytes, info: EngineInfo) -> Voice:
        taken = await self._intake.take(data, max_seconds=self._settings.generation.max_ref_seconds)
        sha256 = taken.clip.sha256
        if not await self._cache.has(sha256, info):
            await self._cache.put_clip(taken.clip)
            try:
                await self._profiles.ensure(sha256, info)
            except VoiceRefused as refused:
                if refused.code == "clip_unusable":
                    message = f"The model '{info.model}' cannot speak like this clip: {refused.message}."
                    raise VoiceRefused(refused.code, message) from refused
                raise
        return ClipVoice(sha256=sha256)

    def _reference(self, encoded: str, info: EngineInfo) -> Reference:
        if profile_kind(info) is None:
            raise ApiError(
                "unsupported_parameter", f"The model '{info.model}' does not support '{_REFERENCE}'.", param=_REFERENCE
            )
        try:
            data = base64.b64decode("".join(encoded.split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise ApiError(
                "invalid_value",
                f"'{_REFERENCE}' must be a sound file in base64; URLs are not fetched.",
                param=_REFERENCE,
            ) from error
        return Reference(data)
