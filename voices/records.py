"""Voices and consents as the rest of the program sees them."""

import secrets
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NewType

from shared.contracts import EngineInfo, ProfileKind

Owner = NewType("Owner", str)
"""The id of the API key that made something."""

ANONYMOUS = Owner("anonymous")
"""Everyone, where there are no keys."""

StatusName = Literal["pending", "ready", "failed"]

VOICE_PREFIX = "voice_"
CONSENT_PREFIX = "cons_"

_TIME_DIGITS = 12
_RANDOM_BYTES = 6
_MAX_REVISION_CHARS = 200


def new_id(prefix: str) -> str:
    """An id; later ones sort behind earlier ones, so that a list can go on behind a deleted one."""
    return f"{prefix}{time.time_ns() // 1_000_000:0{_TIME_DIGITS}x}{secrets.token_hex(_RANDOM_BYTES)}"


def looks_like_id(text: str, prefix: str) -> bool:
    """Whether a text has the form of an id."""
    digits = text.removeprefix(prefix)
    return (
        len(digits) == len(text) - len(prefix) == _TIME_DIGITS + 2 * _RANDOM_BYTES
        and set(digits) <= set("0123456789abcdef")
    )  # fmt: skip


def profile_kind(info: EngineInfo) -> ProfileKind | None:
    """What an engine makes of a clip; None: nothing."""
    if info.can_clone:
        return "cloned"
    return "matched" if info.can_match else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatus:
    """What one revision of a model made of a voice. `reason`: why it failed."""

    model: str
    revision: str
    status: StatusName
    kind: ProfileKind | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVoice:
    """A voice of the registry. `note`: what was done to the upload."""

    id: str
    owner: Owner
    name: str
    description: str
    language: str | None
    is_public: bool
    sha256: str
    clip_s: float
    note: str | None
    consent_id: str | None
    created_at: datetime
    statuses: tuple[ModelStatus, ...]

    def status_of(self, info: EngineInfo) -> ModelStatus:
        """What this revision of a model made of it; pending if it has not tried."""
        revision = revision_of(info)
        for status in self.statuses:
            if (status.model, status.revision) == (info.model, revision):
                return status
        return ModelStatus(model=info.model, revision=revision, status="pending")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVoice:
    """What a client says of a voice it makes; not yet checked."""

    name: str
    consent: str
    description: str = ""
    language: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredConsent:
    """A recorded consent."""

    id: str
    name: str
    language: str
    created_at: datetime


def revision_of(info: EngineInfo) -> str:
    """What a status is about: a new revision of model or compressor has not tried yet."""
    return f"{info.revision}:{info.compressor_revision}"[:_MAX_REVISION_CHARS]
