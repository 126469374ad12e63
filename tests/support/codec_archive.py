"""The codec's archive in pieces that a test can damage and put together again. Needs no PyTorch."""

import io
import pickle
import struct
import tarfile
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from workers.nanocodec.tensor_table import StoredTensor, read_tensor_table

CODEC_DATA = Path(__file__).parents[1] / "data" / "nanocodec"

_STORAGES = {"float32": "FloatStorage", "float16": "HalfStorage", "int32": "IntStorage"}


@dataclass(slots=True, kw_only=True)
class Pieces:
    """A `.nemo` archive taken apart. `index` and `weights` override what would be made from the rest."""

    config: bytes
    tensors: dict[str, StoredTensor]
    storages: dict[str, bytes]
    index: bytes | None = None
    weights: bytes | None = None
    byteorder: bytes = b"little"
    compression: int = zipfile.ZIP_STORED
    extra_entries: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path) -> "Pieces":
        with tarfile.open(path) as archive:
            config = archive.extractfile("./model_config.yaml").read()
            weights = archive.extractfile("./model_weights.ckpt").read()
        with zipfile.ZipFile(io.BytesIO(weights)) as checkpoint:
            contents = {name.partition("/")[2]: checkpoint.read(name) for name in checkpoint.namelist()}
        return cls(
            config=config,
            tensors=read_tensor_table(contents["data.pkl"]),
            storages={name.removeprefix("data/"): data for name, data in contents.items() if name.startswith("data/")},
        )

    def copy(self) -> "Pieces":
        return replace(self, tensors=dict(self.tensors), storages=dict(self.storages), extra_entries={})

    def change(self, name: str, **changes: object) -> None:
        self.tensors[name] = replace(self.tensors[name], **changes)

    def set_bytes(self, name: str, data: bytes) -> None:
        self.storages[self.tensors[name].storage] = data

    def checkpoint(self) -> bytes:
        if self.weights is not None:
            return self.weights
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", self.compression) as archive:
            archive.writestr("weights/data.pkl", self.index or index_pickle(self.tensors))
            archive.writestr("weights/byteorder", self.byteorder)
            for key, data in self.storages.items():
                archive.writestr(f"weights/data/{key}", data)
            for name, data in self.extra_entries.items():
                archive.writestr(name, data)
        return buffer.getvalue()

    def members(self) -> dict[str, bytes]:
        return {"model_config.yaml": self.config, "model_weights.ckpt": self.checkpoint()}

    def archive(self) -> bytes:
        return tar_of(self.members())


def tar_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            info.mtime = 1.5  # type: ignore[assignment]  # a fraction makes tarfile write a pax header
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def index_pickle(tensors: dict[str, StoredTensor], *, as_module_state: bool = False) -> bytes:
    """The pickle that torch.save would write; as a module's state dict it is ordered and has `_metadata`."""
    out = io.BytesIO()
    ordered_dict = b"ccollections\nOrderedDict\n)R"
    out.write(b"\x80\x02" + (ordered_dict if as_module_state else b"}") + b"(")
    for name, tensor in tensors.items():
        out.write(_string(name) + b"ctorch._utils\n_rebuild_tensor_v2\n((")
        out.write(_string("storage") + f"ctorch\n{_STORAGES[tensor.dtype]}\n".encode())
        out.write(_string(tensor.storage) + _string("cpu") + _number(tensor.storage_size) + b"tQ")
        out.write(_number(tensor.offset) + _numbers(tensor.shape) + _numbers(tensor.stride))
        out.write(b"\x89" + ordered_dict + b"tR")
    out.write(b"u")
    if as_module_state:
        metadata = ordered_dict + _string("") + b"}" + _string("version") + _number(1) + b"ss"
        out.write(b"}" + _string("_metadata") + metadata + b"sb")
    out.write(b".")
    return out.getvalue()


def _string(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text.encode())) + text.encode()


def _number(value: int) -> bytes:
    return pickle.dumps(value, protocol=2)[2:-1]


def _numbers(values: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(_number(value) for value in values) + b"t"
