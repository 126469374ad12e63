"""From a batch's logits to its frames in one launch: what sampling.py computes, drawn alike to the last code."""

from collections.abc import Sequence

import torch
from torch import Tensor

from workers.gepard.vllm_backend.slots import SlotTable


class FrameSampler:
    """Draws the frames of a batch and keeps them. Fixed addresses, no allocation, no waiting: fits a CUDA graph.

    head_sizes: values a head, H heads. num_rows: frames the store holds; a launch of B rows takes the next B,
    used or not, and begins again at the end. A frame is read again (as input, and by the repetition penalty)
    while its request runs, so num_rows is at least slots x MAX_FRAMES where penalties may look back that far.
    frame0: the token of store row 0; eos: the token of an end. Both are int32.
    """

    frames: Tensor
    """[num_rows, H] uint8, the store; row r is token frame0 + r."""
    faults: Tensor
    """[1] int32: guided rows met without their partner. They drew nothing and were ended; must stay 0."""

    def __init__(self, *, head_sizes: Sequence[int], slots: SlotTable, num_rows: int, frame0: int, eos: int) -> None:
        """Raises ValueError for sizes the kernel cannot hold."""
        raise NotImplementedError

    def set_history(self, slot: int, rows: Sequence[int]) -> None:
        """Tell where the frames 0..n-1 of a request are that comes with frames (SlotParams.known_frames = n).

        The penalty looks back at them. Does not wait for the device.
        """
        raise NotImplementedError

    def __call__(self, logits: Tensor, slots: Tensor, positions: Tensor, tokens: Tensor) -> None:
        """One frame, or the end, for every row.

        logits: [B, sum(head_sizes) + 1], the stop logit last, float32 or bfloat16, unit column stride; the stop
        probability is rounded to this dtype. slots: [B] int32, slots.NONE for rows that are padding. positions:
        [B] int64, the sequence position each row's logits were computed at. tokens: [B] int64, written: the token
        of the new frame; eos at the end, and for rows that draw nothing (padding, unfinished prefill: those at
        positions before prompt_length + known_frames - 1). Rows of a pair get one token.
        """
        raise NotImplementedError
