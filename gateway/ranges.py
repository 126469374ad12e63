"""Range requests (RFC 9110, section 14): players ask for the first two bytes before they play at all."""

import re

from litestar import Response

from gateway.errors import ApiError

_SINGLE = re.compile(r"bytes=(?P<first>\d{0,18})-(?P<last>\d{0,18})", re.ASCII)


def ranged(data: bytes, media_type: str, *, etag: str, wanted: str | None, if_range: str | None) -> Response[bytes]:
    """An answer with the part of `data` that the header `Range` names, or all of it; for GET and HEAD.

    Raises ApiError for a range beyond the end.
    """
    quoted = f'"{etag}"'
    headers = {"accept-ranges": "bytes", "etag": quoted, "cache-control": "private, no-cache"}
    part = None if if_range not in (None, quoted) else byte_range(wanted, len(data))
    if part is None:
        return Response(data, media_type=media_type, headers=headers)
    headers["content-range"] = f"bytes {part.start}-{part.stop - 1}/{len(data)}"
    return Response(data[part.start : part.stop], status_code=206, media_type=media_type, headers=headers)


def byte_range(wanted: str | None, size: int) -> range | None:
    """The bytes a `Range` header asks for; None for all of them. Raises ApiError for none.

    Several ranges, other units and nonsense are ignored, as the standard allows: the answer is whole.
    """
    match = _SINGLE.fullmatch(wanted.strip()) if wanted is not None else None
    if match is None:
        return None
    first, last = match["first"], match["last"]
    if not first and not last:
        return None
    if not first:
        length = int(last)
        start, end = max(0, size - length), size
    else:
        start = int(first)
        end = min(int(last) + 1, size) if last else size
        if last and int(last) < start:
            return None
    if start >= size or start >= end:
        raise ApiError(
            "range_not_satisfiable", f"There are {size} bytes.", headers={"content-range": f"bytes */{size}"}
        )
    return range(start, end)
