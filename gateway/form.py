"""Multipart forms, read into memory: nothing is spooled to a temporary folder, which may be read-only."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from litestar import Request
from multipart import MultipartSegment, ParserError, ParserLimitReached, PushMultipartParser, parse_options_header

from gateway.errors import ApiError

FORM_OVERHEAD_BYTES = 256 * 1024
"""What a form may have beside its file: texts, headers, boundaries."""

_MAX_TEXT_BYTES = 64 * 1024
_MAX_PARTS = 32
_MAX_BOUNDARY_CHARS = 200


@dataclass(slots=True)
class Form:
    """The known parts of a form, by name."""

    texts: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """A text. Raises ApiError when it was not sent."""
        if name not in self.texts:
            raise missing(name)
        return self.texts[name]


def missing(name: str) -> ApiError:
    """The refusal of a form without a part."""
    return ApiError("missing_required_parameter", f"Missing required parameter: '{name}'.", param=name)


async def read_form(
    request: Request[Any, Any, Any], *, texts: frozenset[str], files: frozenset[str], max_file_bytes: int
) -> Form:
    """Read a form's texts and files of these names; other parts are skipped, as clients send extras.

    Raises ApiError for what is no form, for a part that comes twice, and for one that is too large.
    """
    limits = {**dict.fromkeys(texts, _MAX_TEXT_BYTES), **dict.fromkeys(files, max_file_bytes)}
    parts = _Parts(limits)
    parser = PushMultipartParser(_boundary(request), max_segment_count=_MAX_PARTS)
    try:
        with parser:
            async for chunk in request.stream():
                if chunk and not parser.closed:
                    for event in parser.parse(chunk):
                        parts.feed(event)
    except ParserLimitReached as error:
        raise ApiError("bad_request", "The form has too many parts, or a part has too many headers.") from error
    except ParserError as error:
        raise ApiError("bad_request", "The request body is not a whole multipart/form-data form.") from error
    form = Form()
    for name, data in parts.data.items():
        if name in files:
            form.files[name] = bytes(data)
        else:
            form.texts[name] = _decoded(name, data)
    return form


class _Parts:
    """Collects the parts a parser finds."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._limits = limits
        self._seen: Counter[str] = Counter()
        self._name: str | None = None
        self.data: dict[str, bytearray] = {}

    def feed(self, event: MultipartSegment | bytes | bytearray | None) -> None:
        """Take a header, a piece of the part it opened, or the part's end. Raises ApiError."""
        if isinstance(event, MultipartSegment):
            self._open(event.name)
        elif event is None:
            self._name = None
        elif self._name is not None:
            data, limit = self.data[self._name], self._limits[self._name]
            if len(data) + len(event) > limit:
                raise _too_large(self._name, limit)
            data += event

    def _open(self, name: str) -> None:
        self._name = name if name in self._limits else None
        if self._name is None:
            return
        self._seen[name] += 1
        if self._seen[name] > 1:
            raise ApiError("invalid_value", f"'{name}' was sent more than once.", param=name)
        self.data[name] = bytearray()


def _boundary(request: Request[Any, Any, Any]) -> str:
    content_type, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get("boundary", "")
    if content_type != "multipart/form-data" or not 0 < len(boundary) <= _MAX_BOUNDARY_CHARS:
        raise ApiError("bad_request", "Send the request body as multipart/form-data, with its boundary.")
    return str(boundary)


def _too_large(name: str, limit: int) -> ApiError:
    if limit == _MAX_TEXT_BYTES:
        return ApiError("string_above_max_length", f"'{name}' is longer than {limit} bytes.", param=name)
    return ApiError("clip_too_large", f"The file is larger than {limit} bytes.", param=name)


def _decoded(name: str, data: bytearray) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ApiError("invalid_value", f"'{name}' is not UTF-8.", param=name) from error
