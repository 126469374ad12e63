"""What the framework cannot know of our answers: audio bodies, headers, and every error of every route."""

from collections.abc import Iterable, Iterator
from http import HTTPStatus

from litestar.openapi.spec import (
    Example,
    OpenAPI,
    OpenAPIHeader,
    OpenAPIMediaType,
    OpenAPIResponse,
    Operation,
    PathItem,
    Reference,
    Schema,
)
from litestar.openapi.spec.enums import OpenAPIType

from gateway.errors import ERRORS, ApiError
from gateway.openapi_voices import AUDIO_TYPES, FORMS, binary, ranged_responses
from shared.formats import FORMATS

_GUARD_CODES = ("forbidden_host", "forbidden_origin")
"""Any route may answer these: they come from the layers around the application."""

_KEY_CODES = ("database_unavailable", "invalid_api_key")
_NEED_NO_KEY = frozenset({"health", "ready"})

_BODY_CODES = (
    "bad_request",
    "internal_error",
    "invalid_json",
    "invalid_type",
    "invalid_value",
    "missing_required_parameter",
    "request_too_large",
)

_CLIP_CODES = (
    "clip_clipped",
    "clip_not_audio",
    "clip_silent",
    "clip_too_large",
    "clip_too_long",
    "clip_too_short",
    "clip_undecodable",
    "server_overloaded",
)

_REGISTRY_CODES = ("broker_unavailable", "database_unavailable", "internal_error", "storage_unavailable")

_SPEECH_CODES = (
    *_BODY_CODES,
    *_CLIP_CODES,
    "broker_unavailable",
    "clip_unusable",
    "client_too_slow",
    "database_unavailable",
    "engine_error",
    "insufficient_quota",
    "model_not_found",
    "model_unavailable",
    "nothing_to_speak",
    "profile_unavailable",
    "storage_unavailable",
    "rate_limit_exceeded",
    "string_above_max_length",
    "unsupported_bit_rate",
    "unsupported_language",
    "unsupported_parameter",
    "unsupported_sample_rate",
    "voice_not_found",
    "voice_not_ready",
    "worker_lost",
)

_FORM_CODES = (
    *_REGISTRY_CODES,
    *_CLIP_CODES,
    "bad_request",
    "invalid_value",
    "missing_required_parameter",
    "request_too_large",
    "string_above_max_length",
)
_RENAME_CODES = (*_BODY_CODES, *_REGISTRY_CODES, "not_found", "string_above_max_length")

_VOICE_CODES: dict[str, tuple[str, ...]] = {
    "listVoices": ("database_unavailable", "invalid_value"),
    "createVoice": (*_FORM_CODES, "consent_not_found", "too_many_voices", "voice_exists"),
    "retrieveVoice": ("database_unavailable", "not_found"),
    "updateVoice": (*_RENAME_CODES, "voice_exists"),
    "deleteVoice": (*_REGISTRY_CODES, "not_found"),
    "retrieveVoiceClip": (*_REGISTRY_CODES, "not_found", "range_not_satisfiable"),
    "previewVoice": (*_SPEECH_CODES, "not_found", "range_not_satisfiable"),
}
"""Under both paths: `listAudioVoices` as `listVoices`."""

ROUTE_CODES: dict[str, tuple[str, ...]] = {
    "createSpeech": _SPEECH_CODES,
    "synthesize": _SPEECH_CODES,
    "retrieveModel": ("model_not_found", "not_found"),
    "ready": ("model_unavailable",),
    **_VOICE_CODES,
    **{name.replace("Voice", "AudioVoice", 1): codes for name, codes in _VOICE_CODES.items()},
    "createVoiceConsent": (*_FORM_CODES, "too_many_consents"),
    "listVoiceConsents": ("database_unavailable", "invalid_value"),
    "retrieveVoiceConsent": ("database_unavailable", "not_found"),
    "updateVoiceConsent": _RENAME_CODES,
    "deleteVoiceConsent": (*_REGISTRY_CODES, "consent_in_use", "not_found"),
}
"""The errors of each operation, beside those of the guard; a test compares them with what is raised."""

_ERROR_SCHEMA = Schema(
    type=OpenAPIType.OBJECT,
    required=["error"],
    properties={
        "error": Schema(
            type=OpenAPIType.OBJECT,
            required=["message", "type", "param", "code"],
            properties={
                "message": Schema(type=OpenAPIType.STRING),
                "type": Schema(type=OpenAPIType.STRING),
                "param": Schema(type=[OpenAPIType.STRING, OpenAPIType.NULL]),
                "code": Schema(type=[OpenAPIType.STRING, OpenAPIType.NULL]),
            },
        )
    },
)

_COMMON_HEADERS = {
    "x-request-id": OpenAPIHeader(
        description="Id of this request in the logs.", schema=Schema(type=OpenAPIType.STRING), required=True
    ),
    "openai-processing-ms": OpenAPIHeader(
        description="Milliseconds to the first byte.", schema=Schema(type=OpenAPIType.INTEGER), required=True
    ),
}
_RETRY_AFTER = OpenAPIHeader(description="Seconds to wait.", schema=Schema(type=OpenAPIType.INTEGER))
_SPEECH_HEADERS = {
    "x-sample-rate": OpenAPIHeader(description="Hz.", schema=Schema(type=OpenAPIType.INTEGER), required=True),
    "x-channels": OpenAPIHeader(description="Always 1.", schema=Schema(type=OpenAPIType.INTEGER), required=True),
}
_LIMIT_HEADERS = {
    f"x-ratelimit-{what}-{of}": OpenAPIHeader(description=description, schema=Schema(type=kind))
    for of, unit in (("requests", "requests a minute"), ("tokens", "characters a day"))
    for what, kind, description in (
        ("limit", OpenAPIType.INTEGER, f"The key's limit of {unit}; absent where it has none."),
        ("remaining", OpenAPIType.INTEGER, f"What is left of the {unit}."),
        ("reset", OpenAPIType.STRING, "Until all of it is there again, e.g. 12ms, 1s, 6m0s."),
    )
}
_SSE_EXAMPLE = (
    'data: {"type":"speech.audio.delta","audio":"<base64>"}\n\n'
    'data: {"type":"speech.audio.done","usage":{"input_tokens":31,"output_tokens":148,"total_tokens":179}}\n\n'
)


def complete(document: OpenAPI) -> None:
    """Add to a generated document what clients need to know; it is changed in place."""
    document.components.schemas["Error"] = _ERROR_SCHEMA
    for operation in _operations(document):
        responses = {
            status: response
            for status, response in (operation.responses or {}).items()
            if isinstance(response, OpenAPIResponse) and HTTPStatus.OK <= int(status) < HTTPStatus.MULTIPLE_CHOICES
        }
        if operation.operation_id == "createSpeech":
            responses["200"] = _speech_response()
        elif operation.operation_id == "synthesize":
            responses["200"] = OpenAPIResponse(
                description="The whole wav.",
                headers=dict(_LIMIT_HEADERS),
                content={"audio/wav": OpenAPIMediaType(schema=binary())},
            )
        if (audio_type := AUDIO_TYPES.get(_family_free(operation))) is not None:
            responses = ranged_responses(audio_type)
        if (form := FORMS.get(_family_free(operation))) is not None:
            operation.request_body = form
        for response in responses.values():
            response.headers = {**_COMMON_HEADERS, **(response.headers or {})}
        if operation.operation_id in _NEED_NO_KEY:
            operation.security = []
        key_codes = () if operation.operation_id in _NEED_NO_KEY else _KEY_CODES
        codes = (*_GUARD_CODES, *key_codes, *ROUTE_CODES.get(operation.operation_id or "", ()))
        operation.responses = {**responses, **_error_responses(codes)}


def _family_free(operation: Operation) -> str:
    """An operation's id, the same for both paths of voices."""
    return (operation.operation_id or "").replace("AudioVoice", "Voice", 1)


def _operations(document: OpenAPI) -> Iterator[Operation]:
    for item in (document.paths or {}).values():
        if isinstance(item, PathItem):
            yield from filter(None, (item.get, item.post, item.put, item.patch, item.delete))


def _speech_response() -> OpenAPIResponse:
    content = {spec.content_type: OpenAPIMediaType(schema=binary()) for spec in FORMATS.values()}
    content["text/event-stream"] = OpenAPIMediaType(
        schema=Schema(type=OpenAPIType.STRING), examples={"events": Example(value=_SSE_EXAMPLE)}
    )
    return OpenAPIResponse(
        description="Audio in the asked format, streamed; with stream_format sse, slices of it as events.",
        headers={**_SPEECH_HEADERS, **_LIMIT_HEADERS},
        content=content,
    )


def _error_responses(codes: Iterable[str]) -> dict[str, OpenAPIResponse]:
    """One response a status, with an example for each of its codes."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(ERRORS[code].status, []).append(code)
    return {str(status): _error_response(status, names) for status, names in sorted(by_status.items())}


def _error_response(status: int, codes: list[str]) -> OpenAPIResponse:
    headers = dict(_COMMON_HEADERS)
    if any(ERRORS[code].retry_after_s is not None for code in codes):
        headers["retry-after"] = _RETRY_AFTER
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        headers.update(_LIMIT_HEADERS)
    return OpenAPIResponse(
        description=f"{HTTPStatus(status).phrase}: {', '.join(sorted(codes))}.",
        headers=dict(headers),
        content={
            "application/json": OpenAPIMediaType(
                schema=Reference(ref="#/components/schemas/Error"),
                examples={code: Example(value=_example(code)) for code in sorted(codes)},
            )
        },
    )


def _example(code: str) -> dict[str, object]:
    error = ApiError(code, "What is wrong, and what would be right.").answer().error
    return {"error": {"message": error.message, "type": error.type, "param": error.param, "code": error.code}}
