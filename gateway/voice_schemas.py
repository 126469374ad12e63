"""Bodies of requests and replies about voices and consents."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shared.contracts import EngineInfo
from voices.records import ModelStatus, StatusName, StoredConsent, StoredVoice, profile_kind


class VoiceModel(msgspec.Struct, frozen=True, kw_only=True):
    """What one model makes of a voice: its own preset, an imitation of the clip, or the clip's voice.

    `reason`: why it failed.
    """

    model: str
    status: StatusName
    kind: Literal["preset", "matched", "cloned"] | None = None
    reason: str | None = None


class VoiceItem(msgspec.Struct, frozen=True, kw_only=True):
    """A voice that `voice` may name, by `id` or `name`.

    `kind`: how it came to be. `model`: the one model of a built-in voice. `status`: ready where a model can
    speak with it now. `note`: what was done to the upload.
    """

    id: str
    name: str
    kind: Literal["preset", "alias", "clip"]
    description: str
    model: str | None = None
    status: StatusName = "ready"
    models: list[VoiceModel] = []
    created_at: int | None = None
    language: str | None = None
    public: bool = True
    duration_s: float | None = None
    note: str | None = None
    consent: str | None = None
    type: Literal["audio_sample"] | None = None
    object: Literal["audio.voice"] = "audio.voice"


class VoiceList(msgspec.Struct, frozen=True, kw_only=True):
    """One list under the two names that clients read; then the cursor."""

    data: list[VoiceItem]
    voices: list[VoiceItem]
    first_id: str | None = None
    last_id: str | None = None
    has_more: bool = False
    object: Literal["list"] = "list"


class VoiceDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """A voice is gone."""

    id: str
    deleted: bool = True
    object: Literal["audio.voice.deleted"] = "audio.voice.deleted"


class Rename(msgspec.Struct, frozen=True, kw_only=True):
    """Another name for a voice or a consent."""

    name: Annotated[str, Meta(description="At most 100 characters; a voice's name is unique among your voices.")]


class ConsentItem(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded consent."""

    id: str
    name: str
    language: str
    created_at: int
    object: Literal["audio.voice_consent"] = "audio.voice_consent"


class ConsentList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of consents."""

    data: list[ConsentItem]
    first_id: str | None = None
    last_id: str | None = None
    has_more: bool = False
    object: Literal["list"] = "list"


class ConsentDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """A consent is gone."""

    id: str
    deleted: bool = True
    object: Literal["audio.voice_consent"] = "audio.voice_consent"


def voice_item(voice: StoredVoice, models: dict[str, EngineInfo]) -> VoiceItem:
    """A voice of the registry, on the models that are live now and can use clips."""
    statuses = [voice.status_of(info) for info in models.values() if profile_kind(info) is not None]
    return VoiceItem(
        id=voice.id,
        name=voice.name,
        kind="clip",
        description=voice.description,
        status=_overall(statuses),
        models=[
            VoiceModel(model=status.model, status=status.status, kind=status.kind, reason=status.reason)
            for status in statuses
        ],
        created_at=int(voice.created_at.timestamp()),
        language=voice.language,
        public=voice.is_public,
        duration_s=round(voice.clip_s, 3),
        note=voice.note,
        consent=voice.consent_id,
        type="audio_sample",
    )


def consent_item(consent: StoredConsent) -> ConsentItem:
    """A consent as clients see it."""
    return ConsentItem(
        id=consent.id,
        name=consent.name,
        language=consent.language,
        created_at=int(consent.created_at.timestamp()),
    )


def _overall(statuses: list[ModelStatus]) -> StatusName:
    names = {status.status for status in statuses}
    if "ready" in names:
        return "ready"
    return "failed" if names == {"failed"} else "pending"
