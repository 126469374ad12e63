"""Random numbers as a pure function of a counter: Philox-4x32-10.

Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011. Any device computes the same words, in
any order, and Triton has the same function (`tl.philox`), so that noise keyed by (seed, frame, head) does not
depend on batching or on the engine.
"""

import torch
from torch import Tensor

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_MASK32 = 0xFFFFFFFF
_MASK16 = 0xFFFF


def philox(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
    """Four words for each counter and key; all int64 tensors of broadcastable shapes holding 0..2^32-1."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        high0, low0 = _multiply(_MULTIPLIERS[0], c0)
        high1, low1 = _multiply(_MULTIPLIERS[1], c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + _KEY_STEPS[0]) & _MASK32, (k1 + _KEY_STEPS[1]) & _MASK32
    return c0, c1, c2, c3


def _multiply(factor: int, word: Tensor) -> tuple[Tensor, Tensor]:
    """High and low word of a 32 x 32 bit product; by halves, since int64 lacks the top bit."""
    low = (word & _MASK16) * factor
    middle = (word >> 16) * factor + (low >> 16)
    return middle >> 16, ((middle & _MASK16) << 16) | (low & _MASK16)


def split_seed(seed: int) -> tuple[int, int]:
    """The key of a seed: its low 64 bits as two words, low word first. Negative seeds are valid."""
    return seed & _MASK32, (seed >> 32) & _MASK32


def unit_interval(words: Tensor) -> Tensor:
    """Words to float32 in the open interval (0, 1): the top 23 bits, at the middle of their cell, exact."""
    return ((words >> 9).to(torch.float32) + 0.5) * 2.0**-23
