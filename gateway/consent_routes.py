"""Recorded consents, as the OpenAI SDKs make and list them."""

from typing import Any

from litestar import Request, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from gateway.access import owner_of
from gateway.admission import Admission
from gateway.errors import ApiError, blaming
from gateway.form import missing, read_form
from gateway.pages import After, Limit, checked_limit, cut
from gateway.voice_schemas import ConsentDeleted, ConsentItem, ConsentList, Rename, consent_item
from shared.settings import Settings
from voices.consents import ConsentRegistry
from voices.records import CONSENT_PREFIX, StoredConsent, looks_like_id

_ALL = "/v1/audio/voice_consents"
_ONE = f"{_ALL}/{{consent_id:str}}"
_RECORDING = "recording"


@post(_ALL, operation_id="createVoiceConsent", tags=["Voices"], status_code=200)
async def create_consent(
    request: Request[Any, Any, Any],
    settings: NamedDependency[Settings],
    consents: NamedDependency[ConsentRegistry],
    uploads: NamedDependency[Admission],
) -> ConsentItem:
    """Keep a recording in which a speaker agrees to have a voice made."""
    with uploads.waiting():
        return consent_item(await _upload(request, settings, consents))


async def _upload(request: Request[Any, Any, Any], settings: Settings, consents: ConsentRegistry) -> StoredConsent:
    form = await read_form(
        request,
        texts=frozenset({"name", "language"}),
        files=frozenset({_RECORDING}),
        max_file_bytes=settings.clips.max_upload_bytes,
    )
    name, language = form.text("name"), form.text("language")
    if _RECORDING not in form.files:
        raise missing(_RECORDING)
    with blaming(_RECORDING):
        return await consents.create(owner_of(request), name, language, form.files[_RECORDING])


@get(_ALL, operation_id="listVoiceConsents", tags=["Voices"])
async def list_consents(
    request: Request[Any, Any, Any],
    consents: NamedDependency[ConsentRegistry],
    after: After = None,
    limit: Limit = None,
) -> ConsentList:
    """List a page of your consents."""
    size = checked_limit(limit)
    if after is not None and not looks_like_id(after, CONSENT_PREFIX):
        raise ApiError("invalid_value", "'after' must be the id of a consent.", param="after")
    found, has_more = cut(await consents.page(owner_of(request), after=after or "", limit=size + 1), size)
    items = [consent_item(consent) for consent in found]
    return ConsentList(
        data=items,
        first_id=items[0].id if items else None,
        last_id=items[-1].id if items else None,
        has_more=has_more,
    )


@get(_ONE, operation_id="retrieveVoiceConsent", tags=["Voices"])
async def retrieve_consent(
    request: Request[Any, Any, Any], consents: NamedDependency[ConsentRegistry], consent_id: FromPath[str]
) -> ConsentItem:
    """Get one consent of yours."""
    return consent_item(await consents.get(owner_of(request), consent_id))


@post(_ONE, operation_id="updateVoiceConsent", tags=["Voices"], status_code=200)
async def rename_consent(
    request: Request[Any, Any, Any],
    data: JSONBody[Rename],
    consents: NamedDependency[ConsentRegistry],
    consent_id: FromPath[str],
) -> ConsentItem:
    """Give a consent another label."""
    return consent_item(await consents.rename(owner_of(request), consent_id, data.name))


@delete(_ONE, operation_id="deleteVoiceConsent", tags=["Voices"], status_code=200)
async def delete_consent(
    request: Request[Any, Any, Any], consents: NamedDependency[ConsentRegistry], consent_id: FromPath[str]
) -> ConsentDeleted:
    """Delete a consent of yours with its recording; voices that rest on it must be deleted first."""
    await consents.delete(owner_of(request), consent_id)
    return ConsentDeleted(id=consent_id)


CONSENT_ROUTES = [create_consent, list_consents, retrieve_consent, rename_consent, delete_consent]
