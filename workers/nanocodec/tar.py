"""The table of contents of a tar archive, read without trusting it.

`tarfile` would do, but its header parser has had endless loops, quadratic regular expressions and unbounded
reads on hostile input, and a checkpoint needs two regular files of it. Format: POSIX.1-1988 ustar, the pax
extended headers that Python's `tarfile` writes by default, and GNU long names. Nothing is extracted to disk.
"""

import re
from dataclasses import dataclass
from typing import BinaryIO

from shared.errors import CheckpointError

_BLOCK = 512
_MAX_HEADERS = 256
_MAX_EXTENSION_BYTES = 64 * 1024

_REGULAR = (b"0", b"\0")
_DIRECTORY = b"5"
_PAX = b"x"
_PAX_GLOBAL = b"g"
_GNU_LONG_NAME = b"L"


@dataclass(frozen=True, slots=True)
class Member:
    """Where the bytes of a regular file lie in the archive."""

    offset: int
    size: int


def read_members(file: BinaryIO, total_bytes: int) -> dict[str, Member]:
    """Regular files by name, without a leading `./`. `file` is seekable and `total_bytes` long.

    Raises CheckpointError for a broken or truncated archive and for anything but plain files and folders
    with relative names: links, devices, sparse files, `..`, a name that comes twice.
    """
    members: dict[str, Member] = {}
    offset = 0
    long_name: str | None = None
    for _ in range(_MAX_HEADERS):
        file.seek(offset)
        header = file.read(_BLOCK)
        if not header.strip(b"\0"):
            return members
        kind, size = _check_header(header)
        data = offset + _BLOCK
        if data + size > total_bytes:
            raise CheckpointError("the archive is truncated, or a member claims more bytes than there are")
        offset = data + -(-size // _BLOCK) * _BLOCK

        if kind in (_PAX, _PAX_GLOBAL, _GNU_LONG_NAME):
            if size > _MAX_EXTENSION_BYTES:
                raise CheckpointError(f"a tar header extension claims {size} bytes")
            file.seek(data)
            extension = file.read(size)
            if kind == _GNU_LONG_NAME:
                long_name = _text(extension)
            elif (path := _pax_path(extension)) is not None:
                long_name = path
            continue

        name = _relative(long_name if long_name is not None else _header_name(header))
        long_name = None
        if kind == _DIRECTORY:
            continue
        if kind not in _REGULAR:
            raise CheckpointError(f"member {name[:120]!r} is no plain file (tar type {kind!r})")
        if name in members:
            raise CheckpointError(f"member {name[:120]!r} comes twice")
        members[name] = Member(data, size)
    raise CheckpointError(f"the archive has more than {_MAX_HEADERS} tar headers")


def _check_header(header: bytes) -> tuple[bytes, int]:
    """Type flag and size of a header block whose checksum is right."""
    if len(header) < _BLOCK:
        raise CheckpointError("the archive is truncated inside a tar header")
    checksum = sum(header[:148]) + 8 * ord(" ") + sum(header[156:])
    if _number(header[148:156]) != checksum:
        raise CheckpointError("not a tar archive, or a damaged one (header checksum)")
    return header[156:157], _number(header[124:136])


def _number(field: bytes) -> int:
    if field.startswith(b"\x80"):  # GNU base-256, for what octal digits cannot hold
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0") or b"0"
    if not re.fullmatch(b"[0-7]+", digits):  # int() alone would take a minus sign
        raise CheckpointError("not a tar archive, or a damaged one (header number)")
    return int(digits, 8)


def _header_name(header: bytes) -> str:
    name = _text(header[:100])
    prefix = _text(header[345:500]) if header[257:263] == b"ustar\0" else ""
    return f"{prefix}/{name}" if prefix else name


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "replace")


def _pax_path(extension: bytes) -> str | None:
    """The name that a pax header gives its member, if any; times and owners are of no interest here."""
    path = None
    while extension:
        # One record: its whole length in decimal digits, a space, key=value, a newline.
        start = re.match(b"([0-9]{1,5}) ", extension)
        length = int(start[1]) if start else 0
        if start is None or not start.end() < length <= len(extension):
            raise CheckpointError("a pax header is damaged")
        key, _, value = extension[start.end() : length].partition(b"=")
        extension = extension[length:]
        if key in (b"size", b"linkpath") or key.startswith(b"GNU.sparse"):
            raise CheckpointError(f"a pax header sets {key[:40]!r}, which no checkpoint needs")
        if key == b"path":
            path = value.removesuffix(b"\n").decode("utf-8", "replace")
    return path


def _relative(name: str) -> str:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts:
        raise CheckpointError(f"member {name[:120]!r} points outside the archive")
    return "/".join(parts)
