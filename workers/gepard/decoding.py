"""Running the network over sequences of frames, in calls of one fixed shape.

A matrix product's rounding depends on its shape: one row alone and the same row among seven others differ in
the last bits, which in time flips a draw. So every call that several requests may share has exactly `rows`
rows, unused ones being padding, and everything else (prefill, attention) is done for one sequence at a time.
A request's states are then the same bits whoever else is served, and a sequence fed with frames it
produced earlier, several to a call, continues as if it had never been interrupted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workers.gepard.backbone import KeyValueCache, Span
from workers.gepard.model import GepardModel


@dataclass(slots=True)
class Branch:
    """One sequence: its cache, how many positions are filled, and the last normed state [hidden]."""

    cache: KeyValueCache
    length: int
    state: Tensor


class Decoder:
    """Executes; decides nothing. Call it inside torch.inference_mode and from one thread at a time."""

    def __init__(self, model: GepardModel, rows: int) -> None:
        if rows < 1:
            raise ValueError(f"rows must be 1 or more, got {rows}")
        self.model = model
        self.rows = rows

    def prefill(self, ids: list[int], prefix: Tensor | None, max_frames: int) -> Branch:
        """Read `[prefix?] ids`; the state is that of the last id. Room is kept for `max_frames` more."""
        inputs = self.model.embed_prompt(ids, prefix)
        length = inputs.shape[0]
        cache = self.model.backbone.new_cache(length + max_frames)
        states = self.model.backbone(inputs, [Span(cache, 0, length)])
        return Branch(cache, length, states[-1])

    def feed(self, feeds: Sequence[tuple[Branch, Tensor]]) -> None:
        """Append frames, codes [k >= 1, C] int64 each; a branch's state becomes that of its last frame."""
        pending: list[tuple[Branch, Tensor]] = [(branch, frame) for branch, codes in feeds for frame in codes]
        for start in range(0, len(pending), self.rows):
            group = pending[start : start + self.rows]
            codes = torch.stack([frame for _, frame in group])
            spans = []
            for branch, _ in group:
                spans.append(Span(branch.cache, branch.length, 1))
                branch.length += 1
            states = self.model.backbone(self.model.frame_embedding(self._padded(codes)), spans)
            for row, (branch, _) in enumerate(group):
                branch.state = states[row]

    def heads(self, branches: Sequence[Branch]) -> tuple[Tensor, Tensor]:
        """Code logits [N, sum of head sizes] float32 and stop logits [N] of the branches' states."""
        logits, stops = [], []
        for start in range(0, len(branches), self.rows):
            states = torch.stack([branch.state for branch in branches[start : start + self.rows]])
            codes, stop = self.model.heads(self._padded(states))
            logits.append(codes[: states.shape[0]])
            stops.append(stop[: states.shape[0]])
        return torch.cat(logits), torch.cat(stops)

    def _padded(self, rows: Tensor) -> Tensor:
        """[n, ...] to [self.rows, ...] with zeros."""
        padded = rows.new_zeros((self.rows, *rows.shape[1:]))
        padded[: rows.shape[0]] = rows
        return padded
