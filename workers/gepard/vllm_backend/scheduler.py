"""The planner as vLLM's engine core calls it (`scheduler_cls`)."""

from copy import copy
from typing import Any

import torch
from vllm import SamplingParams as VllmSamplingParams
from vllm.v1.core.sched.interface import PauseState, SchedulerInterface
from vllm.v1.core.sched.output import CachedRequestData, NewRequestData, SchedulerOutput

from workers.gepard.generate import GenerationRequest
from workers.gepard.vllm_backend.planner import Branch, Plan, Planner, Stream
from workers.gepard.vllm_backend.slots import SlotParams
from workers.gepard.vllm_backend.state import SETUP, RowSetup


class GepardScheduler(SchedulerInterface):
    """Plans with a Planner; `planner` and `requests` are the engine's to set and to fill.

    Requests do not come through vLLM's own `Request`, which is made for text, so the calls about those are not
    supported.
    """

    connector = None
    ec_connector = None
    pause_state = PauseState.UNPAUSED

    def __init__(self, vllm_config: Any, kv_cache_config: Any, *_: Any, **__: Any) -> None:
        self.num_blocks: int = kv_cache_config.num_blocks
        self.block_size: int = kv_cache_config.kv_cache_groups[0].kv_cache_spec.block_size
        self._no_blocks: list[None] = []
        self.planner: Planner
        self.requests: dict[int, GenerationRequest] = {}

    def schedule(self, throttle_prefills: bool = False) -> SchedulerOutput:
        """The next step, empty when nothing can advance."""
        return self._output(self.planner.plan())

    def update_from_output(self, scheduler_output: SchedulerOutput, model_runner_output: Any) -> Any:
        """What the step gave the streams: a list of FrameStep."""
        return self.planner.tell(model_runner_output.req_ids, model_runner_output.sampled_token_ids)

    def _output(self, plan: Plan) -> SchedulerOutput:
        output = SchedulerOutput.make_empty()
        output.scheduled_new_reqs = [data for stream in plan.new for data in self._new_requests(stream)]
        if len(self._no_blocks) != len(plan.continuing):
            self._no_blocks = [None] * len(plan.continuing)
        output.scheduled_cached_reqs = CachedRequestData(
            req_ids=plan.continuing,
            resumed_req_ids=set(),
            new_token_ids=[],
            all_token_ids={},
            new_block_ids=self._no_blocks,
            num_computed_tokens=plan.num_computed,
            num_output_tokens=plan.num_computed,
        )
        output.num_scheduled_tokens = plan.tokens
        output.total_num_scheduled_tokens = plan.num_tokens
        output.finished_req_ids = plan.finished
        return output

    def _new_requests(self, stream: Stream) -> list[NewRequestData]:
        request = self.requests.pop(stream.stream)
        space = self.planner.space
        origin = space.row(stream.lane, stream.frame_start, 0)
        data = []
        for branch in stream.branches:
            is_first = branch is stream.conditional
            params = SlotParams(
                sampling=request.sampling,
                seed=request.seed,
                prompt_length=len(branch.ids) - stream.num_given,
                known_frames=stream.num_given,
                is_unconditional=not is_first,
                origin=origin,
            )
            setup = RowSetup(
                params=params,
                partner=None if is_first else stream.conditional.name,
                voice=self._voice(stream, request) if is_first else None,
                codes=self._codes(stream, request) if is_first else None,
            )
            data.append(_new_request(branch, setup))
        return data

    def _voice(self, stream: Stream, request: GenerationRequest) -> tuple[int, torch.Tensor] | None:
        if not stream.fills_voice or request.prefix is None:
            return None
        return stream.voice * self.planner.space.voice_length, request.prefix

    def _codes(self, stream: Stream, request: GenerationRequest) -> tuple[list[int], torch.Tensor] | None:
        if not stream.num_given or request.codes is None:
            return None
        space = self.planner.space
        rows = [space.row(stream.lane, stream.frame_start, frame) for frame in range(stream.num_given)]
        return rows, request.codes

    # --- What else vLLM asks of a scheduler --------------------------------------------------------------

    def get_grammar_bitmask(self, scheduler_output: SchedulerOutput) -> None:
        """There is no grammar."""
        return

    def has_finished_requests(self) -> bool:
        """The planner tells of finished rows with its next step."""
        return False

    def get_num_unfinished_requests(self) -> int:
        """Streams, waiting ones included."""
        return len(self.planner)

    def get_request_counts(self) -> tuple[int, int]:
        """Running and waiting streams together, as the planner counts them."""
        return len(self.planner), 0

    def make_stats(self) -> None:
        """None are kept."""
        return

    def shutdown(self) -> None:
        """Nothing to free."""

    def reset_prefix_cache(self, reset_running_requests: bool = False, reset_connector: bool = False) -> bool:
        """There is no prefix cache."""
        return True

    def reset_encoder_cache(self) -> None:
        """There is no encoder."""

    def add_request(self, request: Any) -> None:
        """See the class."""
        raise NotImplementedError

    def finish_requests(self, request_ids: Any, finished_status: Any) -> Any:
        """See the class."""
        raise NotImplementedError

    def set_pause_state(self, pause_state: Any) -> None:
        """See the class."""
        raise NotImplementedError

    def update_draft_token_ids(self, draft_token_ids: Any) -> None:
        """See the class."""
        raise NotImplementedError

    def update_draft_token_ids_in_output(self, draft_token_ids: Any, scheduler_output: Any) -> None:
        """See the class."""
        raise NotImplementedError


_NO_PARAMS = VllmSamplingParams(max_tokens=1)
"""What vLLM's runner reads of them does not matter here; a copy is ten times cheaper than a new one."""


def _new_request(branch: Branch, setup: RowSetup) -> NewRequestData:
    params = copy(_NO_PARAMS)
    params.extra_args = {SETUP: setup}
    return NewRequestData(
        req_id=branch.name,
        prompt_token_ids=branch.ids,
        mm_features=[],
        sampling_params=params,
        pooling_params=None,
        block_ids=(branch.blocks,),
        num_computed_tokens=0,
        lora_request=None,
        prefill_token_ids=branch.ids,
    )
