"""Reader of the `.nemo` archive: configuration and weights of the codec as numpy arrays.

The file comes from the network and is not trusted: nothing of it is executed or unpickled, nothing is
written under the names in it, every declared size is checked before it is used, and memory is bounded by the
tensors that the checked configuration implies.
"""

import gzip
import stat
import tempfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from shared.errors import CheckpointError
from workers.nanocodec.bounded_file import BoundedFile
from workers.nanocodec.config import LEVELS, CodecConfig, parse_config
from workers.nanocodec.layout import (
    DIRECTION,
    MAGNITUDE,
    Part,
    TensorSpec,
    part_tensors,
    quantizer_tensors,
)
from workers.nanocodec.tar import read_members
from workers.nanocodec.tensor_table import StoredTensor
from workers.nanocodec.torch_file import TorchFile

PARTS: tuple[Part, ...] = ("audio_decoder", "audio_encoder")

_CONFIG = "model_config.yaml"
_WEIGHTS = "model_weights.ckpt"
_MAX_CONFIG_BYTES = 256 * 1024
_MAX_PARAMETERS = 250_000_000  # 1 GB; the released codec has 62.6 million
_GZIP_MAGIC = b"\x1f\x8b"
# Trained float32 weights shrink by a tenth; what grows more than this is a bomb.
_MAX_EXPANSION = 4
_COPY_BYTES = 1 << 20

# Parts of the training set-up that a release may carry; never needed to encode or decode.
_IGNORED = (
    "discriminator.",
    "mel_loss_fn.",
    "stft_loss_fn.",
    "slm_encoder.",
    "slm_predictor.",
    "speaker_encoder.",
)

# Weight norm as PyTorch spelled it before 2.0.
_OLD_NAMES = {".conv.weight_g": f".conv.{MAGNITUDE}", ".conv.weight_v": f".conv.{DIRECTION}"}


@dataclass(frozen=True, slots=True)
class CodecArchive:
    """A checked archive. `tensors` holds float32 arrays of the parts asked for, by their full names."""

    config: CodecConfig
    tensors: Mapping[str, NDArray[np.float32]]


def read_archive(path: Path, parts: Collection[Part] = PARTS) -> CodecArchive:
    """Load the weights of `parts` (about 125 MB each); names, shapes and dtypes of all parts are checked.

    Raises CheckpointError, also when the file cannot be opened.
    """
    try:
        with _open_tar(path) as (file, size):
            return _read_tar(file, size, parts)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror or error}") from error


@contextmanager
def _open_tar(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """The seekable tar and its size; an older, gzipped archive is unpacked to a temporary file first."""
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for its writer
        raise CheckpointError("not a regular file")
    with path.open("rb") as file:
        magic = file.read(len(_GZIP_MAGIC))
        if magic != _GZIP_MAGIC:
            yield file, path.stat().st_size
            return
        file.seek(0)
        with tempfile.TemporaryFile() as unpacked:
            yield unpacked, _unpack(file, unpacked, _MAX_EXPANSION * path.stat().st_size)


def _unpack(file: BinaryIO, target: BinaryIO, max_bytes: int) -> int:
    """Decompress and return the number of bytes written."""
    size = 0
    try:
        with gzip.GzipFile(fileobj=file) as source:
            while chunk := source.read(_COPY_BYTES):
                size += len(chunk)
                if size > max_bytes:
                    raise CheckpointError(f"unpacks to more than {_MAX_EXPANSION} times its size")
                target.write(chunk)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CheckpointError("the gzip stream is damaged or truncated") from error
    return size


def _read_tar(file: BinaryIO, total_bytes: int, parts: Collection[Part]) -> CodecArchive:
    members = read_members(file, total_bytes)
    for name in (_CONFIG, _WEIGHTS):
        if name not in members:
            raise CheckpointError(f"the archive has no {name}")
    if members[_CONFIG].size > _MAX_CONFIG_BYTES:
        raise CheckpointError(f"{_CONFIG} has more than {_MAX_CONFIG_BYTES} bytes")
    file.seek(members[_CONFIG].offset)
    config = parse_config(file.read(members[_CONFIG].size))
    weights = BoundedFile(file, members[_WEIGHTS].offset, members[_WEIGHTS].size)
    return CodecArchive(config, _read_weights(weights, config, parts))


def _read_weights(file: BoundedFile, config: CodecConfig, parts: Collection[Part]) -> dict[str, NDArray[np.float32]]:
    expected = {part: part_tensors(config, part) for part in PARTS}
    num_parameters = sum(_numel(spec) for specs in expected.values() for spec in specs.values())
    if num_parameters > _MAX_PARAMETERS:
        raise CheckpointError(f"config: asks for {num_parameters} parameters, allowed are {_MAX_PARAMETERS}")
    constants = quantizer_tensors()

    with TorchFile(file) as checkpoint:
        stored = _wanted(checkpoint.tensors)
        all_specs = {**expected["audio_decoder"], **expected["audio_encoder"], **constants}
        _same_names(set(stored), set(all_specs))
        for name, spec in all_specs.items():
            checkpoint.check(stored[name], spec, name)
        for name, spec in constants.items():
            _check_constant(name, checkpoint.read(stored[name], spec, name))
        return {
            name: cast("NDArray[np.float32]", checkpoint.read(stored[name], spec, name))
            for part in parts
            for name, spec in expected[part].items()
        }


def _wanted(tensors: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    """What is not training ballast, under today's names."""
    wanted: dict[str, StoredTensor] = {}
    for stored_name, tensor in tensors.items():
        if stored_name.startswith(_IGNORED):
            continue
        name = stored_name
        for old, new in _OLD_NAMES.items():
            if stored_name.endswith(old):
                name = stored_name.removesuffix(old) + new
        if name in wanted:
            raise CheckpointError(f"weights: {stored_name[:120]!r} comes twice")
        wanted[name] = tensor
    return wanted


def _same_names(found: set[str], expected: set[str]) -> None:
    for adjective, names in (("missing", expected - found), ("unknown", found - expected)):
        if names:
            first = min(names)
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise CheckpointError(f"weights: tensor {first[:120]!r}{more} {adjective}")


def _check_constant(name: str, values: NDArray[np.generic]) -> None:
    """The quantiser's constants repeat the configuration: levels, or their running product from 1."""
    right = LEVELS if name.endswith("num_levels") else tuple(accumulate((1, *LEVELS[:-1]), mul))
    if tuple(values.ravel().tolist()) != right:
        raise CheckpointError(f"weights: {name} is not {list(right)}")


def _numel(spec: TensorSpec) -> int:
    return int(np.prod(spec.shape, dtype=np.int64))
