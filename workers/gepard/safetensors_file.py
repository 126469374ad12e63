"""Reading safetensors with nothing trusted: the header is checked whole before a byte of data is read.

Format: 8 bytes header length, little endian; JSON {name: {dtype, shape, data_offsets}}; the tensors' bytes,
which the offsets must tile without gap or overlap up to the end of the file.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Annotated, BinaryIO, Self

import msgspec
from msgspec import Meta

from shared.errors import CheckpointError

MAX_HEADER_BYTES = 16 << 20
ITEM_BYTES: Mapping[str, int] = {"BF16": 2, "F32": 4}
"""The formats a Gepard checkpoint may store."""

_LENGTH_BYTES = 8
_EMPTY_HEADER = "{}"
_MAX_NAME = 120
_METADATA = "__metadata__"
_PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")

_Size = Annotated[int, Meta(ge=0)]


class TensorEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tensor: where its bytes are, relative to the end of the header."""

    dtype: str
    shape: Annotated[tuple[_Size, ...], Meta(max_length=8)]
    data_offsets: tuple[_Size, _Size]

    @property
    def num_bytes(self) -> int:
        """Bytes between the offsets."""
        return self.data_offsets[1] - self.data_offsets[0]


class SafetensorsFile:
    """An open file whose header holds; a context manager. One file handle, so nothing can be swapped later.

    Raises CheckpointError from `__init__` and `read_into`; the message names the file and the tensor.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise CheckpointError(f"{path}: missing, or not a regular file")
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read ({error.strerror})") from error
        try:
            self.header, self.entries = self._read_header()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()

    def read_into(self, name: str, buffer: memoryview) -> None:
        """Fill `buffer`, of exactly the tensor's bytes."""
        self._file.seek(_LENGTH_BYTES + len(self.header) + self.entries[name].data_offsets[0])
        filled = 0
        while filled < len(buffer):
            count = self._file.readinto(buffer[filled:])  # type: ignore[attr-defined]
            if not count:
                raise CheckpointError(f"{self.path}: ends within {shorten(name)}")
            filled += count

    def _read_header(self) -> tuple[bytes, dict[str, TensorEntry]]:
        file_bytes = self.path.stat().st_size
        start = self._file.read(_LENGTH_BYTES)
        if start.startswith(_PICKLE_STARTS):
            raise CheckpointError(f"{self.path}: a pickle, not safetensors; pickles are never loaded")
        header_bytes = int.from_bytes(start, "little")
        largest = min(MAX_HEADER_BYTES, file_bytes - _LENGTH_BYTES)
        if not len(_EMPTY_HEADER) <= header_bytes <= largest:
            raise CheckpointError(
                f"{self.path}: not safetensors, or truncated (header of {header_bytes} bytes, file of {file_bytes})"
            )
        header = self._file.read(header_bytes)
        try:
            raw = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
            raw.pop(_METADATA, None)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CheckpointError(f"{self.path}: header is no JSON object ({error})") from error
        entries = {name: self._entry(name, description) for name, description in raw.items()}
        self._check_tiling(entries, data_bytes=file_bytes - _LENGTH_BYTES - header_bytes)
        return header, entries

    def _entry(self, name: str, description: msgspec.Raw) -> TensorEntry:
        try:
            entry = msgspec.json.decode(description, type=TensorEntry)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CheckpointError(f"{self.path}: {shorten(name)}: {error}") from error
        if entry.dtype not in ITEM_BYTES:
            raise CheckpointError(
                f"{self.path}: {shorten(name)} is {shorten(entry.dtype)}, read are {', '.join(ITEM_BYTES)}"
            )
        needed = math.prod(entry.shape) * ITEM_BYTES[entry.dtype]
        if entry.num_bytes != needed:
            raise CheckpointError(
                f"{self.path}: {shorten(name)} {list(entry.shape)} {entry.dtype} needs {needed} bytes, "
                f"its offsets span {entry.num_bytes}"
            )
        return entry

    def _check_tiling(self, entries: Mapping[str, TensorEntry], data_bytes: int) -> None:
        position = 0
        for name, entry in sorted(entries.items(), key=lambda item: item[1].data_offsets):
            if entry.data_offsets[0] != position:
                raise CheckpointError(
                    f"{self.path}: {shorten(name)} starts at {entry.data_offsets[0]}, expected {position}"
                )
            position = entry.data_offsets[1]
            if position > data_bytes:
                raise CheckpointError(
                    f"{self.path}: truncated, {shorten(name)} ends at {position} of {data_bytes} data bytes"
                )
        if position != data_bytes:
            raise CheckpointError(f"{self.path}: {data_bytes - position} bytes belong to no tensor")


def shorten(name: str) -> str:
    """A name from a file, fit for a message."""
    return name if len(name) <= _MAX_NAME and name.isprintable() else ascii(name[:_MAX_NAME]) + "..."
