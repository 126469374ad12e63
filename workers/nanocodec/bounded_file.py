"""A window of a file that never reads more at once than the machine can spare.

Lengths in the headers of a hostile archive reach `read()` calls of the standard library unchecked; here such
a call fails instead of taking the memory.
"""

import io
from typing import BinaryIO

from shared.errors import CheckpointError

MAX_READ_BYTES = 4 << 20


class BoundedFile(io.RawIOBase):
    """Seekable view of `size` bytes of `file` from `start`; does not own or close `file`.

    Raises CheckpointError for a read of more than MAX_READ_BYTES.
    """

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        super().__init__()
        self._file = file
        self._start = start
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError("seek before the start")
        self._position = base + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        left = max(self._size - self._position, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        if wanted > MAX_READ_BYTES:
            raise CheckpointError(f"a header claims {wanted} bytes, allowed are {MAX_READ_BYTES}")
        self._file.seek(self._start + self._position)
        data = self._file.read(wanted)
        self._position += len(data)
        return data
