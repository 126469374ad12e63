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

_SPEECH_CODES = (
    *_BODY_CODES,
    "broker_unavailable",
    "client_too_slow",
    "engine_error",
    "insufficient_quota",
    "model_not_found",
    "model_unavailable",
    "nothing_to_speak",
    "rate_limit_exceeded",
    "server_overloaded",
    "string_above_max_length",
    "unsupported_language",
    "unsupported_parameter",
    "unsupported_sample_rate",
    "voice_not_found",
    "worker_lost",
)

ROUTE_CODES: dict[str, tuple[str, ...]] = {
    "createSpeech": _SPEECH_CODES,
    "synthesize": _SPEECH_CODES,
    "retrieveModel": ("model_not_found", "not_found"),
    "ready": ("model_unavailable",),
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
                content={"audio/wav": OpenAPIMediaType(schema=_binary())},
            )
        for response in responses.values():
            response.headers = {**_COMMON_HEADERS, **(response.headers or {})}
        if operation.operation_id in _NEED_NO_KEY:
            operation.security = []
        key_codes = () if operation.operation_id in _NEED_NO_KEY else _KEY_CODES
        codes = (*_GUARD_CODES, *key_codes, *ROUTE_CODES.get(operation.operation_id or "", ()))
        operation.responses = {**responses, **_error_responses(codes)}


def _operations(document: OpenAPI) -> Iterator[Operation]:
    for item in (document.paths or {}).values():
        if isinstance(item, PathItem):
            yield from filter(None, (item.get, item.post, item.put, item.patch, item.delete))


def _binary() -> Schema:
    return Schema(type=OpenAPIType.STRING, content_media_type="application/octet-stream")


def _speech_response() -> OpenAPIResponse:
    content = {spec.content_type: OpenAPIMediaType(schema=_binary()) for spec in FORMATS.values()}
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
