"""A host put together: the loop, its threads, the sockets. The process around it is cli/host_process.py."""

import asyncio
import os
import socket
import uuid
from collections.abc import Callable
from pathlib import Path

from shared.contracts import HostFigures
from shared.telemetry import get_logger
from workers.gepard.generate import GenerationRequest
from workers.gepard.sampling import SamplingParams
from workers.host.delivery import Delivery
from workers.host.loop import HostStream, StepLoop
from workers.host.model import LoadedModel
from workers.host.schedule import CodecLimits
from workers.host.server import HostServer
from workers.host.sound import sound_maker
from workers.host.watchdog import Watchdog

_CHUNK_S = 0.001
"""What a chunk costs a worker, from the socket to its event in Redis; see Schedule."""

_CPU_STEP_FRAMES = 16
"""Of the codec at once: on a CPU a frame takes long, whatever goes with it, and others would wait."""

_CPU_TIMEOUT_S, _CUDA_TIMEOUT_S = 120.0, 30.0

_WARM_UP_FRAMES = 4

log = get_logger()


class EngineHost:
    """Serves one loaded model. Use it once, on the event loop that makes it."""

    def __init__(
        self,
        model: LoadedModel,
        *,
        num_workers: int = 1,
        step_timeout_s: float | None = None,
        limits: CodecLimits | None = None,
        on_failure: Callable[[Exception], None],
    ) -> None:
        """`limits`: of a step of the codec; None: by the device.

        `on_failure`: told, in any thread, what made the model or the device unusable. Nothing works afterwards.
        """
        is_cpu = model.device.type == "cpu"
        limits = limits or (CodecLimits(max_step_frames=_CPU_STEP_FRAMES) if is_cpu else CodecLimits())
        self._model = model
        figures = HostFigures(
            host=f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}",
            backend=model.backend_name,
            device=model.device_name,
            capacity=model.max_streams,
        )
        self._delivery = Delivery()
        self.steps = StepLoop(
            model.backend,
            sound_maker(model.codec, model.device, max_step_frames=limits.max_step_frames),
            self._delivery,
            limits=limits,
            chunk_s=_CHUNK_S / num_workers,
            on_failure=on_failure,
        )
        self._server = HostServer(model, self.steps, self._delivery, figures, on_failure=on_failure)
        self._watchdog = Watchdog(
            self.steps,
            timeout_s=step_timeout_s or (_CPU_TIMEOUT_S if is_cpu else _CUDA_TIMEOUT_S),
            on_hang=on_failure,
        )

    async def serve(self, path: Path) -> None:
        """Warm up, then take workers at `path` until cancelled. Raises OSError for a path that cannot be."""
        self._delivery.start(self._server.post)
        self.steps.start()
        try:
            await self._warm_up()
            # Only now: what the first steps compile takes its time.
            self._watchdog.start()
            log.info(
                "host_ready",
                host=self._server.figures().host,
                backend=self._model.backend_name,
                device=self._model.device_name,
                capacity=self._model.max_streams,
            )
            await self._server.serve(path)
        finally:
            await asyncio.to_thread(self._stop)

    async def _warm_up(self) -> None:
        """Speak some frames; the first worker shall not wait for what only the first steps do."""
        await asyncio.to_thread(self._model.codec.warm_up)
        listener = _Listener()
        generation = GenerationRequest(
            prompt_ids=self._model.warm_up_ids,
            prefix=next(iter(self._model.starters.values())),
            seed=0,
            sampling=SamplingParams(max_frames=_WARM_UP_FRAMES, stop_threshold=1.0),
        )
        self.steps.begin(HostStream(listener, 0, generation))
        await listener.ended.wait()

    def _stop(self) -> None:
        self._watchdog.stop()
        self.steps.stop()
        self._delivery.stop()
        self._model.backend.close()


class _Listener:
    """Owns the stream of the warm-up and hears only its end."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def write(self, data: bytearray) -> None:
        """Nobody listens."""

    def forget(self, stream: HostStream) -> None:  # noqa: ARG002 - there is one
        self.ended.set()
