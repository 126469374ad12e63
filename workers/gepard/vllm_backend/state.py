"""What the model runner keeps of each request: its slot for the sampler, and the voice and frames it brings."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from vllm.v1.worker.gpu.model_states.default import DefaultModelState

from workers.gepard.sampling import SamplingParams
from workers.gepard.vllm_backend.derived import EngineShape
from workers.gepard.vllm_backend.sampler import GepardSampler
from workers.gepard.vllm_backend.sampler_kernel import FrameSampler
from workers.gepard.vllm_backend.slots import SlotParams, SlotTable
from workers.gepard.vllm_backend.token_space import STOP

SETUP = "gepard"
"""The key of a RowSetup in vLLM's `SamplingParams.extra_args`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSetup:
    """What a row of the batch brings when it is first seen.

    partner: of an unconditional row, the name of the conditional one, which is set up before. voice: the table's
    first row to fill and the vectors [k, hidden]; None when they are there. codes: [n, C] and the store's rows.
    """

    params: SlotParams
    partner: str | None = None
    voice: tuple[int, Tensor] | None = None
    codes: tuple[list[int], Tensor] | None = None


class GepardModelState(DefaultModelState):
    """Implements vLLM's ModelState."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.slots = SlotTable(self.max_num_reqs, self.device)
        self._embedding = self.model.embedding
        self._rows: dict[str, tuple[int, SlotParams]] = {}

    def custom_sampler(self, sampler: Any) -> tuple[Any, None]:
        """Ours instead of `sampler`; there is no speculation."""
        space = EngineShape.of(self.model_config.hf_config).space
        self.frame_sampler = FrameSampler(
            head_sizes=self.model.config.head_sizes,
            slots=self.slots,
            frames=self._embedding.store,
            lane_rows=space.lane_rows,
            frame0=space.first_frame,
            eos=STOP,
        )
        return GepardSampler(sampler.req_states, self.frame_sampler, self.max_num_reqs, self.device), None

    def add_request(self, req_index: int, new_req_data: Any) -> None:
        """Write the slot, and what its row brings."""
        setup = _setup_of(new_req_data)
        params = setup.params
        if setup.partner is not None:
            partner, partner_params = self._rows[setup.partner]
            params = replace(params, partner=partner)
            self._write(setup.partner, partner, replace(partner_params, partner=req_index))
        self._write(new_req_data.req_id, req_index, params)
        if setup.voice is not None:
            row, vectors = setup.voice
            self._embedding.voices[row : row + vectors.shape[0]].copy_(vectors, non_blocking=True)
        if setup.codes is not None:
            rows, codes = setup.codes
            self._embedding.store[torch.tensor(rows, device=self.device)] = codes.to(self.device, torch.uint8)

    def apply_staged_writes(self) -> None:
        """All slots of a step in one copy."""
        self.slots.apply()

    def remove_request(self, req_id: str) -> None:
        """Forget the row."""
        self._rows.pop(req_id, None)

    @property
    def num_rows(self) -> int:
        """Rows that a request holds."""
        return len(self._rows)

    def _write(self, name: str, slot: int, params: SlotParams) -> None:
        self._rows[name] = slot, params
        self.slots.write(slot, params)


def _setup_of(new_req_data: Any) -> RowSetup:
    """The row's setup; vLLM's own warm-up requests have none, and any will do for them."""
    extra = new_req_data.sampling_params.extra_args or {}
    found: RowSetup | None = extra.get(SETUP)
    if found is not None:
        return found
    prompt_length = len(new_req_data.prompt_token_ids)
    return RowSetup(params=SlotParams(sampling=SamplingParams(), seed=0, prompt_length=prompt_length))
