"""Tensors of a file that `torch.save` wrote, read one by one without PyTorch.

Format: an uncompressed zip with `NAME/data.pkl` (the index), `NAME/data/KEY` (one storage each, raw) and,
since PyTorch 2.1, `NAME/byteorder`.
"""

import math
import re
import struct
import zipfile
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from shared.errors import CheckpointError
from workers.nanocodec.bounded_file import BoundedFile
from workers.nanocodec.layout import TensorSpec
from workers.nanocodec.tensor_table import StoredTensor, read_tensor_table

_MAX_INDEX_BYTES = 4 << 20
_CHUNK_BYTES = 1 << 20
_ENCRYPTED = 0x1

# What zipfile raises on damaged input, besides its own error.
_ZIP_ERRORS = (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, EOFError, struct.error)


class TorchFile:
    """The open checkpoint; a context manager. `file` stays the caller's."""

    def __init__(self, file: BoundedFile) -> None:
        try:
            self._zip = zipfile.ZipFile(file)
        except _ZIP_ERRORS as error:
            raise CheckpointError("weights: not a file of torch.save, or truncated") from error
        self._entries = self._index_entries()
        self.tensors: Mapping[str, StoredTensor] = read_tensor_table(
            self._bytes("data.pkl", max_bytes=_MAX_INDEX_BYTES)
        )
        if "byteorder" in self._entries and self._bytes("byteorder", max_bytes=16) != b"little":
            raise CheckpointError("weights: saved on a big-endian machine, which is not supported")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    def check(self, stored: StoredTensor, spec: TensorSpec, name: str) -> None:
        """Raise CheckpointError unless the tensor `name` is what `spec` says and all its bytes are there."""
        if stored.shape != spec.shape:
            shape = list(stored.shape[:8])
            raise CheckpointError(f"weights: {name} has shape {shape}, expected {list(spec.shape)}")
        if stored.dtype != spec.dtype:
            raise CheckpointError(f"weights: {name} is {stored.dtype}, expected {spec.dtype}")
        if not _is_contiguous(stored):
            raise CheckpointError(f"weights: {name} is not stored contiguously")
        entry = self._entries.get(f"data/{stored.storage}")
        if entry is None:
            raise CheckpointError(f"weights: the bytes of {name} are missing")
        claimed_bytes = stored.storage_size * np.dtype(spec.dtype).itemsize
        end = stored.offset + math.prod(spec.shape)
        if entry.file_size != claimed_bytes or end > stored.storage_size:
            raise CheckpointError(f"weights: {name} claims another size than its bytes have")

    def read(self, stored: StoredTensor, spec: TensorSpec, name: str) -> NDArray[np.generic]:
        """The tensor, checked before; takes as much memory as `spec` says. Refuses infinities and NaN."""
        dtype = np.dtype(spec.dtype).newbyteorder("<")
        buffer = bytearray(math.prod(spec.shape) * dtype.itemsize)
        self._read_into(self._entries[f"data/{stored.storage}"], stored.offset * dtype.itemsize, buffer, name)
        array = np.frombuffer(buffer, dtype).reshape(spec.shape)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise CheckpointError(f"weights: {name} holds values that are not finite")
        return array

    def _index_entries(self) -> dict[str, zipfile.ZipInfo]:
        """Entries without their common first folder."""
        indexes = [name for name in self._zip.namelist() if re.fullmatch("[^/]+/data[.]pkl", name)]
        if len(indexes) != 1:
            raise CheckpointError("weights: no single data.pkl inside; saved by a PyTorch before 1.6?")
        prefix = indexes[0].removesuffix("data.pkl")
        entries: dict[str, zipfile.ZipInfo] = {}
        for entry in self._zip.infolist():
            name = entry.filename.removeprefix(prefix)
            if name in entries or not entry.filename.startswith(prefix):
                raise CheckpointError(f"weights: unexpected zip entry {entry.filename[:120]!r}")
            if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & _ENCRYPTED:
                # torch.save never compresses; refusing leaves no room for a decompression bomb.
                raise CheckpointError(f"weights: zip entry {name[:120]!r} is compressed or encrypted")
            entries[name] = entry
        return entries

    def _bytes(self, name: str, *, max_bytes: int) -> bytes:
        entry = self._entries[name]
        if entry.file_size > max_bytes:
            raise CheckpointError(f"weights: {name} has {entry.file_size} bytes, allowed are {max_bytes}")
        buffer = bytearray(entry.file_size)
        self._read_into(entry, 0, buffer, name)
        return bytes(buffer)

    def _read_into(self, entry: zipfile.ZipInfo, start: int, buffer: bytearray, name: str) -> None:
        try:
            with self._zip.open(entry) as source:
                if start:
                    source.seek(start)
                filled = 0
                while filled < len(buffer):
                    chunk = source.read(min(_CHUNK_BYTES, len(buffer) - filled))
                    if not chunk:
                        raise CheckpointError(f"weights: the bytes of {name} are truncated")
                    buffer[filled : filled + len(chunk)] = chunk
                    filled += len(chunk)
        except _ZIP_ERRORS as error:
            raise CheckpointError(f"weights: the bytes of {name} are damaged") from error


def _is_contiguous(stored: StoredTensor) -> bool:
    """Row-major without gaps; the stride of a dimension of size 1 means nothing."""
    if len(stored.stride) != len(stored.shape):
        return False
    step = 1
    for size, stride in zip(reversed(stored.shape), reversed(stored.stride), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True
