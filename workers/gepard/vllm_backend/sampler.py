"""The sampler as vLLM's model runner calls it."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from vllm.v1.worker.gpu.sample.output import SamplerOutput

from workers.gepard.sampling import draw, guided_logits, gumbel_noise, seen_values, shape_logits, split_heads
from workers.gepard.vllm_backend.derived import EngineShape
from workers.gepard.vllm_backend.slots import SlotTable
from workers.gepard.vllm_backend.token_space import STOP


class GepardSampler:
    """Stands in for vLLM's Sampler: the same calls, other contents."""

    def __init__(self, req_states: Any, slots: SlotTable, model: Any, shape: EngineShape) -> None:  # noqa: ANN401
        self.req_states = req_states
        # vLLM counts sampled ids for its penalties, in a table as wide as the vocabulary, unless there is none.
        self.penalties_state = SimpleNamespace(output_bin_counts=None)
        self.sampling_states = None
        self.compute_nans = False
        self._slots = slots
        self._model = model
        self._shape = shape

    def add_request(self, *_: Any) -> None:  # noqa: ANN401  # (index, prompt length?, parameters) by release
        """Nothing: the model state has written the slot."""

    def apply_staged_writes(self) -> None:
        """Nothing is staged."""

    def get_logprobs_dims(self, *_: Any) -> tuple[None, None]:  # noqa: ANN401
        """No log-probabilities."""
        return None, None

    def __call__(self, logits: Tensor, input_batch: Any, *_: Any) -> SamplerOutput:  # noqa: ANN401  # vLLM's
        """Draw a frame, or the end, for every row of the batch."""
        rows = logits.shape[0]
        tokens = torch.zeros(rows, dtype=torch.int64, device=logits.device)
        lengths = input_batch.seq_lens
        slots = input_batch.idx_mapping
        num_sampled = self._sample(logits, slots, lengths, tokens)
        return SamplerOutput(
            sampled_token_ids=tokens[:, None],
            logprobs_tensors=None,
            num_nans=None,
            num_sampled=num_sampled,
            num_rejected=torch.zeros_like(num_sampled),
        )

    def _sample(self, logits: Tensor, slots: Tensor, lengths: Tensor, tokens: Tensor) -> Tensor:
        config = self._model.config
        space = self._shape.space
        store = self._model.embedding.store
        table = self._slots.rows[slots.long()]
        reals = table[:, :4].view(torch.float32)
        by_slot = {int(slot): row for row, slot in enumerate(slots)}
        drawn = torch.zeros(len(slots), dtype=torch.int32)
        for row in range(len(slots)):
            (temperature, penalty, scale, threshold), whole = reals[row].tolist(), table[row, 4:].tolist()
            top_k, window, guided, _, prompt, known, partner, is_uncond, _, low, high, origin = whole
            length = int(lengths[row])
            drawn[row] = length >= prompt + known and prompt > 0
            if is_uncond or not drawn[row]:
                continue
            frame = length - prompt
            code_logits, stop = logits[row, :-1].float()[None], logits[row, -1]
            if partner >= 0 and frame < guided:
                other = logits[by_slot[partner], :-1].float()[None]
                code_logits = guided_logits(code_logits, other, torch.tensor(scale))
            if frame > 0 and float(stop.sigmoid()) > threshold:
                tokens[row] = STOP
            else:
                lane, start = divmod(origin, space.lane_rows)
                padded = split_heads(code_logits, config.head_sizes)
                history_rows = [space.row(lane, start, i) for i in range(max(0, frame - window), frame)]
                history = store[history_rows].long() if penalty != 1.0 else store[:0].long()
                shaped = shape_logits(
                    padded,
                    seen=seen_values(history, 0, padded.shape[-1])[None],
                    penalty=torch.tensor([penalty]),
                    temperature=torch.tensor([temperature]),
                    top_k=torch.tensor([min(top_k, 64)]),
                )
                seed = (low & 0xFFFFFFFF) | (high & 0xFFFFFFFF) << 32
                noise = gumbel_noise([seed], [frame], padded.shape[1], padded.shape[2])
                place = space.row(lane, start, frame)
                store[place] = draw(shaped, noise, torch.tensor([temperature]))[0].to(torch.uint8)
                tokens[row] = space.first_frame + place
            if partner >= 0 and partner in by_slot:
                tokens[by_slot[partner]] = tokens[row]
        return drawn
