"""Which rows of a decoder's store carry streams."""

from collections.abc import Sequence

from torch import Tensor

from shared.errors import GepardError
from workers.nanocodec.config import CODES_PER_FRAME
from workers.nanocodec.quantizer import check_codes


class NoFreeSlot(GepardError):
    """Every slot carries a stream."""


class SlotTable:
    """Slots 0 to num_slots - 1, handed out one by one; `num_slots` itself is nobody's."""

    def __init__(self, num_slots: int) -> None:
        if num_slots < 1:
            raise ValueError(f"num_slots is at least 1, got {num_slots}")
        self.num_slots = num_slots
        self._free = list(reversed(range(num_slots)))
        self._joined: set[int] = set()

    @property
    def num_free(self) -> int:
        return len(self._free)

    def take(self) -> int:
        """Raises NoFreeSlot."""
        if not self._free:
            raise NoFreeSlot(f"all {self.num_slots} slots carry streams")
        slot = self._free.pop()
        self._joined.add(slot)
        return slot

    def give_back(self, slot: int) -> None:
        """Raises ValueError for a slot that was not taken."""
        if slot not in self._joined:
            raise ValueError(f"slot {slot} carries no stream")
        self._joined.remove(slot)
        self._free.append(slot)

    def check_step(self, codes: Tensor, slots: Sequence[int]) -> None:
        """Raise ValueError unless `codes` [B, 32, n] are in range and `slots` names B different streams."""
        check_codes(codes)
        if codes.dim() != 3 or not codes.numel() or codes.shape[0] != len(slots):  # noqa: PLR2004
            raise ValueError(f"codes have shape [{len(slots)}, {CODES_PER_FRAME}, n], n >= 1, got {list(codes.shape)}")
        if len(set(slots)) != len(slots) or not self._joined.issuperset(slots):
            raise ValueError(f"slots {list(slots)} repeat, or carry no stream")
