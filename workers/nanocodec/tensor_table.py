"""The index of a PyTorch checkpoint: which tensor lies where, read without unpickling.

`torch.save` writes a state dict as a pickle (protocol 2) that calls `torch._utils._rebuild_tensor_v2` for
each tensor and names its bytes by a persistent id. The few opcodes that this takes are interpreted here on
plain Python data. Nothing is imported or called: the few names that a pickle may mention are recognised as
words, and every other name or opcode is an error. (`torch.load(weights_only=True)` does similar work but
allocates what the file asks for, and has had a way round it: CVE-2025-32434.)
"""

import pickle  # only for the names of its opcodes
from collections.abc import Callable
from dataclasses import dataclass

from shared.errors import CheckpointError

_MAX_OPCODES = 500_000  # a released codec archive has about 50,000

_ORDERED_DICT = "collections.OrderedDict"
_REBUILD_TENSOR = "torch._utils._rebuild_tensor_v2"
_DTYPES = {
    "torch.DoubleStorage": "float64",
    "torch.FloatStorage": "float32",
    "torch.HalfStorage": "float16",
    "torch.BFloat16Storage": "bfloat16",
    "torch.LongStorage": "int64",
    "torch.IntStorage": "int32",
    "torch.ShortStorage": "int16",
    "torch.CharStorage": "int8",
    "torch.ByteStorage": "uint8",
    "torch.BoolStorage": "bool",
}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor as the pickle describes it; sizes and offsets in elements, none of them checked yet."""

    storage: str
    storage_size: int
    dtype: str
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Global:
    name: str


@dataclass(frozen=True, slots=True)
class _Storage:
    key: str
    size: int
    dtype: str


class _Mark:
    """Bottom of the operands of the next opcode that takes many."""


def read_tensor_table(pickled: bytes) -> dict[str, StoredTensor]:
    """Tensors of a state dict by name, in file order.

    Raises CheckpointError for what is no flat state dict of plain tensors.
    """
    try:
        result = _Machine(pickled).run()
    except (ValueError, IndexError, KeyError) as error:
        raise CheckpointError("weights: the index (data.pkl) is damaged") from error
    if not isinstance(result, dict):
        raise CheckpointError("weights: not a state dict")
    for name, value in result.items():
        if not isinstance(value, StoredTensor):
            raise CheckpointError(f"weights: {name[:120]!r} is not a tensor")
    return result


class _Machine:
    """The stack machine of the pickle format, reduced to what a state dict needs."""

    def __init__(self, pickled: bytes) -> None:
        self._input = pickled
        self._position = 0
        self._stack: list[object] = []
        self._memo: dict[int, object] = {}
        # By the names of pickle.py: the opcodes of protocol 2 that torch.save emits for a state dict.
        self._operations: dict[bytes, Callable[[], None]] = {
            pickle.PROTO: lambda: self._skip(1),
            pickle.MARK: lambda: self._stack.append(_Mark()),
            pickle.GLOBAL: self._global,
            pickle.BINPERSID: self._persistent,
            pickle.REDUCE: self._reduce,
            pickle.BUILD: self._build,
            pickle.SETITEM: lambda: self._set_items([self._stack.pop(-2), self._stack.pop()]),
            pickle.SETITEMS: lambda: self._set_items(self._pop_to_mark()),
            pickle.EMPTY_DICT: lambda: self._stack.append({}),
            pickle.NONE: lambda: self._stack.append(None),
            pickle.NEWTRUE: lambda: self._stack.append(True),
            pickle.NEWFALSE: lambda: self._stack.append(False),
            pickle.BININT1: lambda: self._stack.append(self._unsigned(1)),
            pickle.BININT2: lambda: self._stack.append(self._unsigned(2)),
            pickle.BININT: lambda: self._stack.append(self._signed(4)),
            pickle.LONG1: lambda: self._stack.append(self._signed(self._unsigned(1))),
            pickle.BINUNICODE: lambda: self._stack.append(self._take(self._unsigned(4)).decode()),
            pickle.EMPTY_TUPLE: lambda: self._stack.append(()),
            pickle.TUPLE: lambda: self._stack.append(tuple(self._pop_to_mark())),
            pickle.TUPLE1: lambda: self._tuple(1),
            pickle.TUPLE2: lambda: self._tuple(2),
            pickle.TUPLE3: lambda: self._tuple(3),
            pickle.BINPUT: lambda: self._put(self._unsigned(1)),
            pickle.LONG_BINPUT: lambda: self._put(self._unsigned(4)),
            pickle.BINGET: lambda: self._stack.append(self._memo[self._unsigned(1)]),
            pickle.LONG_BINGET: lambda: self._stack.append(self._memo[self._unsigned(4)]),
        }

    def run(self) -> object:
        for _ in range(_MAX_OPCODES):
            opcode = self._take(1)
            if opcode == pickle.STOP:
                return self._stack.pop()
            operation = self._operations.get(opcode)
            if operation is None:
                raise CheckpointError(f"weights: the index has opcode {opcode!r}, which no state dict needs")
            operation()
        raise CheckpointError(f"weights: the index has more than {_MAX_OPCODES} opcodes")

    def _take(self, size: int) -> bytes:
        data = self._input[self._position : self._position + size]
        if len(data) < size:
            raise ValueError("truncated")
        self._position += size
        return data

    def _skip(self, size: int) -> None:
        self._take(size)

    def _line(self) -> str:
        return self._take(self._input.index(b"\n", self._position) + 1 - self._position)[:-1].decode()

    def _unsigned(self, size: int) -> int:
        return int.from_bytes(self._take(size), "little")

    def _signed(self, size: int) -> int:
        return int.from_bytes(self._take(size), "little", signed=True)

    def _pop_to_mark(self) -> list[object]:
        items: list[object] = []
        while not isinstance(item := self._stack.pop(), _Mark):
            items.append(item)
        items.reverse()
        return items

    def _tuple(self, size: int) -> None:
        if len(self._stack) < size:
            raise IndexError(size)
        items = tuple(self._stack[-size:])
        del self._stack[-size:]
        self._stack.append(items)

    def _put(self, index: int) -> None:
        self._memo[index] = self._stack[-1]

    def _global(self) -> None:
        name = f"{self._line()}.{self._line()}"
        if name not in (_ORDERED_DICT, _REBUILD_TENSOR) and name not in _DTYPES:
            raise CheckpointError(f"weights: the index asks for {name[:120]!r}; only plain tensors are read")
        self._stack.append(_Global(name))

    def _persistent(self) -> None:
        match self._stack.pop():
            case ("storage", _Global(name), str(key), str(), int(size)) if name in _DTYPES:
                self._stack.append(_Storage(key, size, _DTYPES[name]))
            case _:
                raise CheckpointError("weights: a reference in the index is not to a tensor's bytes")

    def _reduce(self) -> None:
        arguments = self._stack.pop()
        match self._stack.pop(), arguments:
            case _Global(name), () if name == _ORDERED_DICT:
                self._stack.append({})
            case (
                _Global(name),
                (_Storage() as storage, int(offset), tuple(shape), tuple(stride), *_),
            ) if name == _REBUILD_TENSOR:
                self._stack.append(
                    StoredTensor(
                        storage=storage.key,
                        storage_size=storage.size,
                        dtype=storage.dtype,
                        offset=offset,
                        shape=tuple(_integer(size) for size in shape),
                        stride=tuple(_integer(step) for step in stride),
                    )
                )
            case _:
                raise CheckpointError("weights: the index makes a call that no plain tensor needs")

    def _build(self) -> None:
        # A module's state dict carries version numbers as an attribute; they say nothing about the tensors.
        attributes = self._stack.pop()
        if not isinstance(attributes, dict) or not isinstance(self._stack[-1], dict):
            raise CheckpointError("weights: the index sets attributes on something other than a dict")

    def _set_items(self, items: list[object]) -> None:
        target = self._stack[-1]
        if not isinstance(target, dict):
            raise CheckpointError("weights: the index sets items on something other than a dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str):
                raise CheckpointError("weights: the index has a key that is no string")
            if key in target:
                raise CheckpointError(f"weights: {key[:120]!r} comes twice")
            target[key] = value


def _integer(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise ValueError("not a non-negative integer")
    return value
