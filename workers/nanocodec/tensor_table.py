"""The index of a PyTorch checkpoint: which tensor lies where, read without unpickling.

`torch.save` writes a state dict as a pickle (protocol 2) that calls `torch._utils._rebuild_tensor_v2` for
each tensor and names its bytes by a persistent id. The few opcodes that this takes are interpreted here on
plain Python data. Nothing is imported or called: the few names that a pickle may mention are recognised as
words, and every other name or opcode is an error. (`torch.load(weights_only=True)` does similar work but
allocates what the file asks for, and has had a way round it: CVE-2025-32434.)
"""

import io
import pickletools
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
    machine = _Machine()
    try:
        result = machine.run(pickled)
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

    def __init__(self) -> None:
        self._stack: list[object] = []
        self._memo: dict[int, object] = {}
        self._operations: dict[str, Callable[[object], None]] = {
            "PROTO": lambda _: None,
            "MARK": lambda _: self._stack.append(_Mark()),
            "GLOBAL": self._global,
            "BINPERSID": self._persistent,
            "REDUCE": self._reduce,
            "BUILD": self._build,
            "SETITEM": lambda _: self._set_items([self._stack.pop(-2), self._stack.pop()]),
            "SETITEMS": lambda _: self._set_items(self._pop_to_mark()),
            "EMPTY_DICT": lambda _: self._stack.append({}),
            "NONE": lambda _: self._stack.append(None),
            "NEWTRUE": lambda _: self._stack.append(True),
            "NEWFALSE": lambda _: self._stack.append(False),
            "EMPTY_TUPLE": lambda _: self._stack.append(()),
            "TUPLE": lambda _: self._stack.append(tuple(self._pop_to_mark())),
            "TUPLE1": lambda _: self._tuple(1),
            "TUPLE2": lambda _: self._tuple(2),
            "TUPLE3": lambda _: self._tuple(3),
        }
        for name in ("BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE", "BINFLOAT"):
            self._operations[name] = self._stack.append
        for name in ("BINPUT", "LONG_BINPUT"):
            self._operations[name] = self._put
        for name in ("BINGET", "LONG_BINGET"):
            self._operations[name] = lambda index: self._stack.append(self._memo[_integer(index)])

    def run(self, pickled: bytes) -> object:
        # genops only cuts the bytes into opcodes and their inline arguments.
        for count, (opcode, argument, _) in enumerate(pickletools.genops(io.BytesIO(pickled))):
            if count > _MAX_OPCODES:
                raise CheckpointError(f"weights: the index has more than {_MAX_OPCODES} opcodes")
            if opcode.name == "STOP":
                return self._stack.pop()
            operation = self._operations.get(opcode.name)
            if operation is None:
                raise CheckpointError(f"weights: the index uses {opcode.name}, which no state dict needs")
            operation(argument)
        raise CheckpointError("weights: the index (data.pkl) is truncated")

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

    def _put(self, index: object) -> None:
        self._memo[_integer(index)] = self._stack[-1]

    def _global(self, argument: object) -> None:
        name = str(argument).replace(" ", ".", 1)
        if name not in (_ORDERED_DICT, _REBUILD_TENSOR) and name not in _DTYPES:
            raise CheckpointError(f"weights: the index asks for {name[:120]!r}; only plain tensors are read")
        self._stack.append(_Global(name))

    def _persistent(self, _: object) -> None:
        match self._stack.pop():
            case ("storage", _Global(name), str(key), str(), int(size)) if name in _DTYPES:
                self._stack.append(_Storage(key, size, _DTYPES[name]))
            case _:
                raise CheckpointError("weights: a reference in the index is not to a tensor's bytes")

    def _reduce(self, _: object) -> None:
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

    def _build(self, _: object) -> None:
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
