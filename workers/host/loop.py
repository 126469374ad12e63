"""The thread that steps the model and the codec for every stream of every worker.

It owns both: all that touches them is posted to its inbox as a call and runs between two passes, so a stream
joins or leaves within one pass. What it makes goes to an outbox, which must not hold it up.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from shared.errors import EngineError
from workers.gepard.backend import Backend
from workers.gepard.generate import FinishReason, GenerationRequest, StreamId
from workers.host.schedule import Chunk, CodecLimits, DecodeStep, Line, Schedule
from workers.host.sound import Pending, SoundMaker
from workers.nanocodec.config import CODES_PER_FRAME, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME

_AVERAGE = 0.1
"""Share of the newest step in the average that is reported."""


class Owner(Protocol):
    """Whom the news of streams go to: a worker's connection. Its calls belong to the event loop."""

    def write(self, data: bytearray) -> None:
        """Send messages."""
        ...

    def forget(self, stream: "HostStream") -> None:
        """The stream has ended."""
        ...


@dataclass(slots=True, eq=False)
class HostStream:
    """A request of a worker. `owner`: whom its news go to. `given`: codes [n, 32] that the request brings.

    The rest is the loop's: its places in model and codec, and the rows of frames that are not decoded yet.
    """

    owner: Owner
    number: int
    request: GenerationRequest
    given: NDArray[np.uint8] | None = None
    slot: int = field(init=False)
    line: "Line[HostStream]" = field(init=False)
    name: StreamId | None = None
    rows: list[int] = field(default_factory=list)
    finished: FinishReason | None = None


@dataclass(frozen=True, slots=True)
class SoundNews:
    """Rows of a step: row r has `counts[r]` of its `num_frames` frames for `streams[r]`."""

    pending: Pending
    streams: list[HostStream]
    counts: list[int]
    num_frames: int


@dataclass(frozen=True, slots=True)
class EndNews:
    """A stream has ended and freed its places."""

    stream: HostStream
    reason: FinishReason


@dataclass(frozen=True, slots=True)
class RefusedNews:
    """A stream was not taken, or not any further; its places are free."""

    stream: HostStream
    message: str


News = SoundNews | EndNews | RefusedNews


class Outbox(Protocol):
    """Takes news in their order; called from the thread of the loop."""

    def put(self, news: News) -> None: ...


class StepLoop:
    """Many requests to sound. `backend` and `sound` belong to it from `start` to `stop`."""

    def __init__(
        self,
        backend: Backend,
        sound: SoundMaker,
        outbox: Outbox,
        *,
        limits: CodecLimits,
        chunk_s: float,
        on_failure: Callable[[Exception], None],
    ) -> None:
        """`sound` has a slot for each stream of `backend`. `chunk_s`: see Schedule.

        `on_failure` is told what a step raised, in the loop's thread, which then ends: neither the model nor the
        codec is to be trusted any more.
        """
        self._backend = backend
        self._sound = sound
        self._outbox = outbox
        self._on_failure = on_failure
        self._schedule: Schedule[HostStream] = Schedule(
            limits, frame_s=SAMPLES_PER_FRAME / SAMPLE_RATE_HZ, chunk_s=chunk_s
        )
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._streams: set[HostStream] = set()
        self._by_name: dict[StreamId, HostStream] = {}
        self._thread = threading.Thread(target=self._run, name="steps", daemon=True)
        self.num_passes = 0
        """Passes begun so far; it stands still while nothing runs."""
        self.num_frames = 0
        """Frames that have become sound."""
        self.step_ms = 0.0

    @property
    def num_streams(self) -> int:
        """Streams in model and codec now."""
        return len(self._streams)

    @property
    def num_waiting_frames(self) -> int:
        """Frames that are not decoded yet."""
        return sum(len(stream.rows) for stream in tuple(self._streams))

    @property
    def codec_ms(self) -> float:
        """What a step of the codec took of late."""
        return self._sound.codec_ms

    @property
    def num_late(self) -> int:
        """Chunks that came after their stream's player had run dry."""
        return self._schedule.num_late

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after its pass. Blocks for a pass; streams that run hear nothing more."""
        self._inbox.put(None)
        self._thread.join()

    def begin(self, stream: HostStream) -> None:
        """Take a stream; its news come through the outbox. Any thread."""
        self._inbox.put(partial(self._join, stream))

    def leave(self, stream: HostStream) -> None:
        """Free a stream's places before the next step; one that has ended is ignored. Any thread."""
        self._inbox.put(partial(self._leave, stream))

    # --- In the thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._obey():
                self._pass()
        except Exception as error:  # noqa: BLE001 - the seam to foreign code
            self._on_failure(error)

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

    def _join(self, stream: HostStream) -> None:
        if len(self._streams) >= self._backend.max_streams:
            self._outbox.put(RefusedNews(stream, f"all {self._backend.max_streams} streams are in use"))
            return
        self._streams.add(stream)
        stream.slot = self._sound.join()
        num_given = 0 if stream.given is None else len(stream.given)
        stream.line = self._schedule.add(stream, num_given=num_given)
        if not num_given:
            self._add(stream)

    def _add(self, stream: HostStream) -> None:
        """Let the model begin. Not before what the stream brings is decoded: the model's frames do not wait long."""
        try:
            stream.name = self._backend.add(stream.request)
        except (EngineError, ValueError) as error:
            self._leave(stream)
            self._outbox.put(RefusedNews(stream, f"the model refused the request: {error}"))
            return
        self._by_name[stream.name] = stream

    def _leave(self, stream: HostStream) -> None:
        if stream not in self._streams:
            return
        self._schedule.remove(stream)
        if stream.name is not None:
            del self._by_name[stream.name]
            self._backend.remove(stream.name)
        self._sound.leave(stream.slot)
        # Last: whoever counts the streams finds all places of those that are gone free.
        self._streams.remove(stream)

    def _pass(self) -> None:
        self.num_passes += 1
        began = time.perf_counter()
        is_making = bool(self._by_name)
        if is_making:
            self._step(began)
        for step in self._schedule.plan(time.perf_counter()):
            self._decode(step)
        for stream in list(self._finished()):
            # First its places, then the news: whoever hears of the end can have them.
            self._leave(stream)
            if stream.finished is not None:
                self._outbox.put(EndNews(stream, stream.finished))
        if is_making:
            self._schedule.passed(time.perf_counter() - began)

    def _step(self, began: float) -> None:
        by_name = self._by_name
        for name, row, finished in self._backend.step():
            stream = by_name[name]
            line = stream.line
            if row is not None:
                stream.rows.append(row)
                line.num_waiting += 1
            if finished is not None:
                stream.finished = finished
                line.is_ended = True
        self.step_ms += _AVERAGE * (1000 * (time.perf_counter() - began) - self.step_ms)

    def _finished(self) -> Iterator[HostStream]:
        return (stream for stream in self._streams if stream.finished is not None and not stream.rows)

    def _decode(self, step: DecodeStep[HostStream]) -> None:
        # A worker's rows lie together, so that its share of the sound is one piece.
        chunks = sorted(step.chunks, key=_owner)
        streams = [chunk.line.key for chunk in chunks]
        counts = [chunk.num_frames for chunk in chunks]
        slots = [stream.slot for stream in streams]
        if step.given:
            frames, rows = self._given(chunks)
        else:
            frames, rows = self._backend.frames, [_rows(chunk, step.num_frames) for chunk in chunks]
        pending = self._sound.decode(frames, rows, slots)
        self.num_frames += sum(counts)
        self._outbox.put(SoundNews(pending, streams, counts, step.num_frames))
        if step.given:
            for chunk in chunks:
                if not chunk.line.num_given:
                    self._add(chunk.line.key)

    def _given(self, chunks: list[Chunk[HostStream]]) -> tuple[torch.Tensor, list[list[int]]]:
        """Codes of earlier attempts, brought to the device, and the rows of each stream in them."""
        parts = []
        for chunk in chunks:
            given = chunk.line.key.given
            assert given is not None  # noqa: S101 - it has frames in the schedule
            start = len(given) - chunk.line.num_given - chunk.num_frames
            parts.append(given[start : start + chunk.num_frames])
        frames = torch.from_numpy(np.concatenate(parts)).view(-1, CODES_PER_FRAME).to(self._backend.frames.device)
        size = chunks[0].num_frames
        return frames, [list(range(start, start + size)) for start in range(0, len(frames), size)]


def _owner(chunk: Chunk[HostStream]) -> int:
    return id(chunk.line.key.owner)


def _rows(chunk: Chunk[HostStream], size: int) -> list[int]:
    """The rows of a chunk, which the stream has no more; the last one again for what the step has more."""
    rows = chunk.line.key.rows
    taken = rows[: chunk.num_frames]
    del rows[: chunk.num_frames]
    return taken if len(taken) == size else taken + [taken[-1]] * (size - len(taken))
