"""Errors as clients of the OpenAI API expect them. One table for replies as bytes and as SSE.

Never 409: the SDKs retry it.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec
from litestar import MediaType, Request, Response
from litestar.exceptions import HTTPException, SerializationException, ValidationException
from redis.exceptions import RedisError

from gateway.schemas import choices_of
from shared.errors import ClipRefused, ClipStoreError, DatabaseError, IntakeBusy, VoiceRefused
from shared.telemetry import get_logger

log = get_logger()


class ErrorKind(NamedTuple):
    """What a code means over HTTP. `retry_after_s` is sent where waiting helps."""

    status: int
    type: str
    retry_after_s: int | None = None


ERRORS: dict[str, ErrorKind] = {
    # The request cannot be served as it is.
    "invalid_json": ErrorKind(400, "invalid_request_error"),
    "invalid_type": ErrorKind(400, "invalid_request_error"),
    "invalid_value": ErrorKind(400, "invalid_request_error"),
    "missing_required_parameter": ErrorKind(400, "invalid_request_error"),
    "string_above_max_length": ErrorKind(400, "invalid_request_error"),
    "nothing_to_speak": ErrorKind(400, "invalid_request_error"),
    "unsupported_bit_rate": ErrorKind(400, "invalid_request_error"),
    "unsupported_language": ErrorKind(400, "invalid_request_error"),
    "unsupported_parameter": ErrorKind(400, "invalid_request_error"),
    "unsupported_sample_rate": ErrorKind(400, "invalid_request_error"),
    "voice_not_found": ErrorKind(400, "invalid_request_error"),
    "clip_clipped": ErrorKind(400, "invalid_request_error"),
    "clip_not_audio": ErrorKind(400, "invalid_request_error"),
    "clip_silent": ErrorKind(400, "invalid_request_error"),
    "clip_too_long": ErrorKind(400, "invalid_request_error"),
    "clip_too_short": ErrorKind(400, "invalid_request_error"),
    "clip_undecodable": ErrorKind(400, "invalid_request_error"),
    "clip_unusable": ErrorKind(400, "invalid_request_error"),
    "consent_in_use": ErrorKind(400, "invalid_request_error"),
    "consent_not_found": ErrorKind(400, "invalid_request_error"),
    "too_many_consents": ErrorKind(400, "invalid_request_error"),
    "too_many_voices": ErrorKind(400, "invalid_request_error"),
    "voice_exists": ErrorKind(400, "invalid_request_error"),
    "bad_request": ErrorKind(400, "invalid_request_error"),
    "invalid_api_key": ErrorKind(401, "invalid_request_error"),
    "forbidden_host": ErrorKind(403, "invalid_request_error"),
    "forbidden_origin": ErrorKind(403, "invalid_request_error"),
    "model_not_found": ErrorKind(404, "invalid_request_error"),
    "not_found": ErrorKind(404, "invalid_request_error"),
    "method_not_allowed": ErrorKind(405, "invalid_request_error"),
    "request_too_large": ErrorKind(413, "invalid_request_error"),
    "clip_too_large": ErrorKind(413, "invalid_request_error"),
    "range_not_satisfiable": ErrorKind(416, "invalid_request_error"),
    # The key has used up what it may.
    "rate_limit_exceeded": ErrorKind(429, "requests", retry_after_s=2),
    "insufficient_quota": ErrorKind(429, "insufficient_quota"),
    # The service cannot serve it now.
    "server_overloaded": ErrorKind(503, "server_error", retry_after_s=2),
    "model_unavailable": ErrorKind(503, "server_error", retry_after_s=2),
    "broker_unavailable": ErrorKind(503, "server_error", retry_after_s=2),
    "database_unavailable": ErrorKind(503, "server_error", retry_after_s=2),
    "storage_unavailable": ErrorKind(503, "server_error", retry_after_s=2),
    "voice_not_ready": ErrorKind(503, "server_error", retry_after_s=2),
    "profile_unavailable": ErrorKind(503, "server_error", retry_after_s=1),
    "worker_lost": ErrorKind(503, "server_error", retry_after_s=1),
    # The service failed on it.
    "client_too_slow": ErrorKind(500, "server_error"),
    "engine_error": ErrorKind(500, "server_error"),
    "internal_error": ErrorKind(500, "server_error"),
}

_INTERNAL = "internal_error"
_INTERNAL_MESSAGE = "The server had an error while processing the request."

# Litestar's own HTTP errors, by status.
_CODES_BY_STATUS = {404: "not_found", 405: "method_not_allowed", 413: "request_too_large"}


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """The inner object of an error answer."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Every error answer, whatever its status."""

    error: ErrorBody


class ApiError(Exception):
    """A refusal or failure with its answer. `code` is a key of ERRORS; `message` goes to the client."""

    def __init__(
        self, code: str, message: str, *, param: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        # A code this gateway does not know comes from a newer worker: its failure, not the client's.
        self.kind = ERRORS.get(code, ERRORS[_INTERNAL])
        self.code = code
        self.message = message
        self.param = param
        self._headers = headers or {}

    def answer(self) -> ErrorAnswer:
        """The body."""
        return ErrorAnswer(error=ErrorBody(message=self.message, type=self.kind.type, param=self.param, code=self.code))

    def headers(self) -> dict[str, str]:
        """Headers beside the body."""
        waiting = {} if self.kind.retry_after_s is None else {"retry-after": str(self.kind.retry_after_s)}
        return {**waiting, **self._headers}


@contextmanager
def blaming(param: str) -> Iterator[None]:
    """Name the parameter that a refused clip, or a clip nothing can be made of, came in."""
    try:
        yield
    except ClipRefused as refused:
        raise ApiError(refused.code, refused.message, param=param) from refused
    except VoiceRefused as refused:
        own = param if refused.code == "clip_unusable" else None
        raise ApiError(refused.code, refused.message, param=refused.param or own) from refused


def handle_error(request: Request[Any, Any, Any], error: Exception) -> Response[ErrorAnswer]:
    """The one exception handler of the application."""
    api_error = to_api_error(request, error)
    request.scope["state"]["outcome"] = api_error.code
    if api_error.code == _INTERNAL and not isinstance(error, ApiError):
        log.error("request_failed", exc_info=error)
    # The framework names the allowed methods of a 405.
    framework_headers = error.headers or {} if isinstance(error, HTTPException) else {}
    return Response(
        api_error.answer(),
        status_code=api_error.kind.status,
        headers={**framework_headers, **api_error.headers()},
        media_type=MediaType.JSON,
    )


def to_api_error(request: Request[Any, Any, Any], error: Exception) -> ApiError:
    """Translate what the framework raises."""
    if (own := _own_error(error)) is not None:
        return own
    if isinstance(error, ValidationException):
        return _invalid_body(error)
    if isinstance(error, SerializationException) or isinstance(error.__cause__, SerializationException):
        return ApiError("invalid_json", f"The request body is not valid JSON: {error.__cause__ or error}.")
    if isinstance(error, HTTPException):
        # Chunked bodies over the limit come as 400 from the multipart reader.
        status = (
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE if error.detail == "Request Entity Too Large" else error.status_code
        )
        fallback = _INTERNAL if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "bad_request"
        code = _CODES_BY_STATUS.get(status, fallback)
        return ApiError(code, _framework_message(request, code, error))
    return ApiError(_INTERNAL, _INTERNAL_MESSAGE)


def _own_error(error: Exception) -> ApiError | None:
    """For what this project raises: refusals, and parts of the service that are away, full or busy."""
    match error:
        case ApiError():
            return error
        case ClipRefused():
            return ApiError(error.code, error.message)
        case VoiceRefused():
            return ApiError(error.code, error.message, param=error.param)
    unavailable = _unavailable(error)
    if unavailable is not None:
        log.warning("part_unavailable", code=unavailable.code, error=type(error).__name__, reason=str(error))
    return unavailable


def _unavailable(error: Exception) -> ApiError | None:
    match error:
        case IntakeBusy():
            return ApiError("server_overloaded", "Too many clips are being taken in; try again later.")
        case DatabaseError():
            return ApiError("database_unavailable", "The registry of voices cannot be used at the moment.")
        case ClipStoreError():
            return ApiError("storage_unavailable", "Clips cannot be kept or read at the moment.")
        case RedisError():
            return ApiError("broker_unavailable", "The message broker cannot be reached.")
    return None


def _framework_message(request: Request[Any, Any, Any], code: str, error: HTTPException) -> str:
    if code in ("not_found", "method_not_allowed"):
        return f"Invalid URL ({request.method} {request.url.path})"
    if code == "request_too_large":
        return "The request body is too large."
    return _INTERNAL_MESSAGE if code == _INTERNAL else error.detail


_MISSING = re.compile(r"missing required field `(?P<name>[^`]+)`")
_WHOLE_BODY = "data"


def _invalid_body(error: ValidationException) -> ApiError:
    """Translate a failed decoding of the body: which parameter, and what is wrong with it.

    `error.extra` holds msgspec's message ("Expected `int`, got `str`") and the name of the field.
    """
    extra = error.extra
    fault = extra[0] if isinstance(extra, list) and extra else None
    if not isinstance(fault, dict) or "message" not in fault:
        return ApiError("bad_request", error.detail)
    message, key = str(fault["message"]), str(fault.get("key", _WHOLE_BODY))
    # msgspec names the value of a mapping "lexicon[...]".
    param = None if key == _WHOLE_BODY else key.removesuffix("[...]")
    if message == f"'{_WHOLE_BODY}'":
        return ApiError("invalid_json", "The request body is empty; send a JSON object.")
    if missing := _MISSING.search(message):
        name = f"{param}.{missing['name']}" if param else missing["name"]
        return ApiError("missing_required_parameter", f"Missing required parameter: '{name}'.", param=name)
    if param is None:
        return ApiError("invalid_type", f"The request body must be a JSON object: {message}.")
    if message.startswith("Invalid enum value") and (choices := choices_of(param)):
        return ApiError("invalid_value", f"{message} for '{param}'; it is one of {', '.join(choices)}.", param=param)
    code = "invalid_type" if message.startswith("Expected `") and ", got `" in message else "invalid_value"
    return ApiError(code, f"'{param}': {message}.", param=param)
