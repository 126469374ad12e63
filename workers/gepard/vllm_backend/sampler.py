"""The fused sampler as vLLM's model runner calls it."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from vllm.v1.worker.gpu.sample.output import SamplerOutput

from workers.gepard.vllm_backend.sampler_kernel import FrameSampler


class GepardSampler:
    """Stands in for vLLM's Sampler: the calls and attributes that its model runner uses.

    Buffers are taken in turn: what a step sampled is copied to the host while the next one samples.
    """

    def __init__(self, req_states: Any, sampler: FrameSampler, max_rows: int, device: torch.device) -> None:
        self.req_states = req_states
        # vLLM counts sampled ids for its penalties, in a table as wide as the vocabulary, unless there is none.
        self.penalties_state = SimpleNamespace(output_bin_counts=None)
        self.compute_nans = False
        self._sampler = sampler
        self._buffers = [
            (
                torch.zeros((max_rows, 1), dtype=torch.int64, device=device),
                torch.zeros(max_rows, dtype=torch.int32, device=device),
            )
            for _ in range(_NUM_BUFFERS)
        ]
        self._none_rejected = torch.zeros(max_rows, dtype=torch.int32, device=device)
        self._turn = 0

    def add_request(self, *_: Any) -> None:
        """Nothing: the model state has written the slot."""

    def apply_staged_writes(self) -> None:
        """Nothing is staged."""

    def get_logprobs_dims(self, *_: Any) -> tuple[None, None]:
        """No log-probabilities."""
        return None, None

    def __call__(self, logits: Tensor, input_batch: Any, *_: Any) -> SamplerOutput:
        """Draw a frame, or the end, for every row of the batch."""
        rows = logits.shape[0]
        self._turn = (self._turn + 1) % _NUM_BUFFERS
        tokens, num_sampled = self._buffers[self._turn]
        self._sampler(logits, input_batch.idx_mapping, input_batch.seq_lens, tokens, num_sampled)
        return SamplerOutput(
            sampled_token_ids=tokens[:rows],
            logprobs_tensors=None,
            num_nans=None,
            num_sampled=num_sampled[:rows],
            num_rejected=self._none_rejected[:rows],
        )


_NUM_BUFFERS = 4
"""One being written, one being copied, and as many again: more than steps are ever in flight."""
