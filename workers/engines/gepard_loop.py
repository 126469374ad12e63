"""The thread that steps the model and the codec for every running stream.

It owns both: all that touches them is posted to its inbox as a call and runs between two steps, so a stream
joins or leaves within one step, and the event loop never waits for a step.
"""

import asyncio
import queue
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from shared.errors import EngineBroken, EngineError
from shared.telemetry import get_logger
from workers.engines.base import Samples
from workers.gepard.generate import FinishReason, FrameGenerator, GenerationRequest, StreamId
from workers.nanocodec.streaming import StreamingDecoder

_FIRST_FRAMES = 2
_LARGEST_FRAMES = 8

log = get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """Samples [1024 n] float32 at 22,050 Hz of n frames, n >= 0, and their codes [n, C], one byte each.

    `finished`: why nothing follows; None as long as something does.
    """

    samples: Samples
    codes: bytes
    num_frames: int
    finished: FinishReason | None


@dataclass(slots=True, eq=False)
class _Stream:
    """A running request. `frames`: codes [C] on the CPU, of which `num_decoded` have become sound."""

    request: GenerationRequest
    loop: asyncio.AbstractEventLoop
    results: asyncio.Queue[Spoken | Exception] = field(default_factory=asyncio.Queue)
    name: StreamId | None = None
    slot: int | None = None
    frames: list[Tensor] = field(default_factory=list)
    num_decoded: int = 0
    finished: FinishReason | None = None

    @property
    def num_due(self) -> int:
        """Frames to decode now: a whole chunk, or what is left at the end."""
        waiting = len(self.frames) - self.num_decoded
        chunk = chunk_frames(self.num_decoded)
        if waiting >= chunk:
            return chunk
        return waiting if self.finished else 0

    def deliver(self, result: Spoken | Exception) -> None:
        # Bounded: one segment, which is at most `frame_limit` frames of 4 KiB. A closed loop waits for nothing.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.results.put_nowait, result)


def chunk_frames(num_before: int) -> int:
    """Frames decoded at once after `num_before`: few at first for an early sound, then more for less work.

    It depends on nothing else, so that a stream is cut, and rounds, the same whoever else is served.
    """
    return min(max(_FIRST_FRAMES, num_before), _LARGEST_FRAMES)


class StepLoop:
    """Many requests to sound. `generator` and `codec` belong to it from `start` to `stop`."""

    def __init__(self, generator: FrameGenerator, codec: StreamingDecoder, *, device: torch.device) -> None:
        """`codec` has a slot for each stream of `generator`; both are on `device`."""
        self._generator = generator
        self._codec = codec
        self._device = device
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._streams: dict[StreamId, _Stream] = {}
        self._thread = threading.Thread(target=self._run, name="gepard-steps", daemon=True)
        self._broken: EngineBroken | None = None
        self.num_steps = 0
        """Steps taken so far."""

    @property
    def num_streams(self) -> int:
        """Streams in the model now."""
        return len(self._streams)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after its step; streams still running get EngineError. Blocks for a step."""
        self._inbox.put(None)
        self._thread.join()

    async def speak(self, request: GenerationRequest) -> AsyncGenerator[Spoken, None]:
        """Generate and decode one request; the last item says why it ended.

        Closing or cancelling frees its place before the next step. Raises EngineError.
        """
        stream = _Stream(request, asyncio.get_running_loop())
        self._inbox.put(partial(self._join, stream))
        try:
            while True:
                result = await stream.results.get()
                if isinstance(result, Exception):
                    raise result
                yield result
                if result.finished is not None:
                    return
        finally:
            self._inbox.put(partial(self._leave, stream))

    # --- In the thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            try:
                if not self._obey():
                    break
                self._step()
            except Exception as error:  # noqa: BLE001 - the seam to foreign code
                self._fail(error)
        for stream in list(self._streams.values()):
            self._leave(stream)
            stream.deliver(EngineError("the engine was stopped"))

    def _obey(self) -> bool:
        """Run what was posted; waits for something to do when no stream runs. False: stop."""
        while True:
            try:
                call = self._inbox.get(block=not self._streams)
            except queue.Empty:
                return True
            if call is None:
                return False
            call()

    def _join(self, stream: _Stream) -> None:
        if self._broken is not None:
            stream.deliver(self._broken)
            return
        try:
            stream.name = self._generator.add(stream.request)
        except EngineError as error:
            stream.deliver(error)
            return
        except ValueError as error:
            stream.deliver(EngineError(f"the model refused the request: {error}"))
            return
        self._streams[stream.name] = stream
        stream.slot = self._codec.join()
        if stream.request.codes is not None:
            stream.frames.extend(stream.request.codes.cpu())

    def _leave(self, stream: _Stream) -> None:
        """Free the stream's places; nothing to do for one that has ended or never joined."""
        if stream.name is None or self._streams.pop(stream.name, None) is None:
            return
        self._generator.remove(stream.name)
        if stream.slot is not None:
            self._codec.leave(stream.slot)

    def _step(self) -> None:
        self.num_steps += 1
        for step in self._generator.step():
            stream = self._streams[step.stream]
            if step.codes is not None:
                stream.frames.append(step.codes.cpu())
            stream.finished = step.finished
        while due := self._due():
            for num_frames, streams in due.items():
                self._decode(streams, num_frames)
        for stream in [stream for stream in self._streams.values() if stream.finished is not None]:
            # First its place, then the news: whoever hears of the end can have it.
            self._leave(stream)
            stream.deliver(Spoken(samples=np.zeros(0, np.float32), codes=b"", num_frames=0, finished=stream.finished))

    def _due(self) -> dict[int, list[_Stream]]:
        """Streams with frames to decode, by how many."""
        due: dict[int, list[_Stream]] = {}
        for stream in self._streams.values():
            if stream.num_due:
                due.setdefault(stream.num_due, []).append(stream)
        return due

    def _decode(self, streams: list[_Stream], num_frames: int) -> None:
        """Turn the next `num_frames` of each stream into sound."""
        codes = torch.stack(
            [torch.stack(stream.frames[stream.num_decoded :][:num_frames], dim=-1) for stream in streams]
        )
        slots = [stream.slot for stream in streams if stream.slot is not None]
        sound = self._codec.step(codes, slots).cpu().numpy()
        for stream, samples, chunk in zip(streams, sound, codes, strict=True):
            stream.num_decoded += num_frames
            stream.deliver(
                Spoken(
                    samples=samples.copy(),
                    codes=chunk.t().to(torch.uint8).numpy().tobytes(),
                    num_frames=num_frames,
                    finished=None,
                )
            )

    def _fail(self, error: Exception) -> None:
        """End every running stream; on an accelerator, which an error may have left unusable, the engine too."""
        name = type(error).__name__
        if self._device.type != "cpu" and not isinstance(error, torch.OutOfMemoryError):
            self._broken = EngineBroken(f"the model failed on {self._device}: {name}")
        log.error("gepard_step_failed", error=name, streams=len(self._streams), broken=self._broken is not None)
        for stream in list(self._streams.values()):
            self._leave(stream)
            stream.deliver(self._broken or EngineError(f"the model failed: {name}"))
