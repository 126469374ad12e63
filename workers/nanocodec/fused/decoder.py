"""Streams decoded by the fused kernels: slots, the batch of a step, and the CUDA graph that replays it.

A step of B streams and n frames runs as a graph made for at least B entries and exactly n frames; entries to
spare work for the idle slot. Which slots and frames it is about lies in a few numbers on the device, written
before the graph is launched: one small copy and one launch a step. Where there is no GPU, Triton's interpreter
runs the same launches one by one, which serves tests only.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workers.nanocodec.archive import CodecArchive
from workers.nanocodec.config import CODES_PER_FRAME, SAMPLES_PER_FRAME
from workers.nanocodec.fused.launches import CONTROL_HEADER, Launch, Memory, StepLaunches
from workers.nanocodec.fused.plan import FRAMES_PER_STEP, make_arena, make_plan
from workers.nanocodec.fused.precision import PRECISIONS, Precision, choose_precision
from workers.nanocodec.fused.tiles import MeasuredTiles, SmallTiles, Tiles
from workers.nanocodec.fused.weights import pack_weights
from workers.nanocodec.slots import SlotTable

_COMPILER_THREADS = 16
_cuda: Any = torch.cuda  # its streams have no types


class FusedStreamingDecoder:
    """`Codec` on one NVIDIA GPU. 0.39 MB a slot in half precision, besides what a step needs.

    A step needs 0.94 GB with 512 slots (1,024 frames of all its streams together), less with fewer; larger steps are
    done in parts. All memory is taken at once and keeps its address. One thread steps, joins and leaves.

    A stream's samples do not depend on its neighbours, bit for bit, among steps of the same size (entries after
    padding, frames a stream); another size may sum in another order.
    """

    def __init__(
        self,
        archive: CodecArchive,
        num_slots: int,
        *,
        device: torch.device,
        precision: Precision | None = None,
        tiles: Tiles | None = None,
    ) -> None:
        """device: the current CUDA device.

        precision: None looks at the weights (precision.py). tiles: None takes the fastest that are known.

        Raises ValueError for num_slots < 1 or beyond what 32-bit offsets reach, and UnsupportedCodec.
        """
        self._slots = SlotTable(num_slots)
        self.num_slots = num_slots
        self.plan = plan = make_plan(archive.config.decoder)
        self._arena = make_arena(plan, num_slots)
        self.precision = precision or choose_precision(archive, device=device)
        dtype = PRECISIONS[self.precision]
        self._device = device
        control_size = CONTROL_HEADER + self._arena.max_batch + self._arena.max_frames
        self._memory = Memory(
            arena=torch.zeros(self._arena.size, dtype=dtype, device=device),
            control=torch.zeros(control_size + control_size % 2, dtype=torch.int32, device=device),
            clamps=torch.zeros(1, dtype=torch.int32, device=device),
            samples=torch.zeros(self._arena.max_frames * SAMPLES_PER_FRAME, device=device),
        )
        self._states = self._memory.arena[: (num_slots + 1) * plan.state_size].view(num_slots + 1, plan.state_size)
        self._is_cuda = device.type == "cuda"
        self._launches = StepLaunches(
            plan,
            self._arena,
            pack_weights(archive, plan, dtype=dtype, device=device),
            self._memory,
            tiles=tiles or (SmallTiles() if dtype == torch.float32 else MeasuredTiles()),
            is_native=self._is_cuda,
        )
        self._batches = _batch_sizes(self._arena.max_batch)
        self._graphs: dict[tuple[int, int], torch.cuda.CUDAGraph] = {}

    @property
    def idle_slot(self) -> int:
        """A slot that no stream gets, for padding a batch; it may come several times."""
        return self.num_slots

    @property
    def num_free_slots(self) -> int:
        return self._slots.num_free

    @property
    def memory_bytes(self) -> int:
        """What the slots and a step take on the device; the weights are not counted."""
        memory = self._memory
        return sum(tensor.nbytes for tensor in (memory.arena, memory.control, memory.clamps, memory.samples))

    def num_clamps(self) -> int:
        """Values so far that were too large for the precision and were clamped; waits for the device."""
        return int(self._memory.clamps.item())

    def join(self) -> int:
        """Begin a stream and return its slot. Raises NoFreeSlot."""
        slot = self._slots.take()
        self.reset(slot)
        return slot

    def leave(self, slot: int) -> None:
        """End the stream of `slot`, finished or not. A decoder has nothing to flush. Raises ValueError."""
        self._slots.give_back(slot)

    def reset(self, slot: int) -> None:
        """Put the slot back to the start of a stream."""
        self._states[slot].zero_()

    def step(self, codes: Tensor, slots: Sequence[int]) -> Tensor:
        """`Codec.step`. Raises ValueError; the streams are then as before."""
        self._slots.check_step(codes, slots)
        batch, _, frames = codes.shape
        store = codes.to(device=self._device, dtype=torch.uint8).transpose(1, 2).reshape(-1, CODES_PER_FRAME)
        rows = [list(range(entry * frames, (entry + 1) * frames)) for entry in range(batch)]
        return self.decode_rows(store.contiguous(), rows, slots).clone()

    def decode_rows(self, frames: Tensor, rows: Sequence[Sequence[int]], slots: Sequence[int]) -> Tensor:
        """`Codec.decode_rows`. Fastest for 1, 2, 4, 8 or 16 frames; other numbers are done in parts.

        Raises ValueError for a store of another kind.
        """
        if frames.dtype != torch.uint8 or frames.shape[1:] != (CODES_PER_FRAME,) or not frames.is_contiguous():
            raise ValueError(
                f"frames are uint8 [R, {CODES_PER_FRAME}] without gaps, got {frames.dtype}, {frames.shape}"
            )
        num_frames = len(rows[0])
        if num_frames in FRAMES_PER_STEP and len(slots) <= self._max_batch(num_frames):
            return self._decode(frames, rows, slots)
        parts = []
        for start, end in _parts(num_frames):
            batch = self._max_batch(end - start)
            # Each part's samples are copied: the next part's take their place.
            samples = [
                self._decode(
                    frames, [row[start:end] for row in rows[first : first + batch]], slots[first : first + batch]
                ).clone()
                for first in range(0, len(slots), batch)
            ]
            parts.append(torch.cat(samples))
        return torch.cat(parts, dim=1)

    def warm_up(self) -> None:
        """Compile the kernels and capture a graph for every size of step; spoils no stream."""
        if not self._is_cuda:
            self._idle(1, 1)
            return
        sizes = [(batch, frames) for frames in FRAMES_PER_STEP for batch in self._batches]
        sizes = [(batch, frames) for batch, frames in sizes if batch <= self._max_batch(frames)]
        programs = {launch.program: launch for size in sizes for launch in self.launches(*size)}
        # The compiler lets go of the interpreter lock for most of its time.
        with ThreadPoolExecutor(min(_COMPILER_THREADS, os.cpu_count() or 1)) as pool:
            list(pool.map(Launch.compile, programs.values()))
        for size in sizes:
            self._graph(*size)

    def launches(self, batch: int, num_frames: int) -> list[Launch]:
        """What a step of that size runs, for measurements; it works on what the last step was about."""
        return self._launches.make(batch, num_frames)

    def _max_batch(self, num_frames: int) -> int:
        return min(self._arena.max_batch, self._arena.max_frames // num_frames)

    def _decode(self, frames: Tensor, rows: Sequence[Sequence[int]], slots: Sequence[int]) -> Tensor:
        """One step of a size that there is a graph for."""
        num_frames = len(rows[0])
        batch = next(size for size in self._batches if size >= len(slots))
        if self._is_cuda:
            graph = self._graph(batch, num_frames)
        spare = batch - len(slots)
        self._set_control(
            frames.data_ptr(),
            [*slots, *[self.idle_slot] * spare],
            [*chain.from_iterable(rows), *[0] * (spare * num_frames)],
        )
        if self._is_cuda:
            graph.replay()
        else:
            self._run(batch, num_frames)
        num_samples = num_frames * SAMPLES_PER_FRAME
        return self._memory.samples[: len(slots) * num_samples].view(len(slots), num_samples)

    def _set_control(self, address: int, slots: Sequence[int], rows: Sequence[int]) -> None:
        """Write what the next step is about: one copy, which does not wait for the device."""
        header = np.array([address, 0], dtype=np.int64).view(np.int32)
        values = torch.from_numpy(np.concatenate((header, np.array([*slots, *rows], dtype=np.int32))))
        if self._is_cuda:
            # PyTorch keeps pinned memory from being used again until the copy is done.
            values = values.pin_memory()
        self._memory.control[: len(values)].copy_(values, non_blocking=True)

    def _run(self, batch: int, num_frames: int) -> None:
        for launch in self.launches(batch, num_frames):
            launch()

    def _idle(self, batch: int, num_frames: int) -> None:
        """A step of the idle slot alone."""
        frame = torch.zeros(1, CODES_PER_FRAME, dtype=torch.uint8, device=self._device)
        self._set_control(frame.data_ptr(), [self.idle_slot] * batch, [0] * (batch * num_frames))
        self._run(batch, num_frames)

    def _graph(self, batch: int, num_frames: int) -> torch.cuda.CUDAGraph:
        """The graph of that size, captured when it is first asked for."""
        graph = self._graphs.get((batch, num_frames))
        if graph is None:
            # Compiles what is not yet compiled: that cannot be done while capturing.
            self._idle(batch, num_frames)
            graph = torch.cuda.CUDAGraph()
            stream = _cuda.Stream(self._device)
            stream.wait_stream(torch.cuda.current_stream(self._device))
            with torch.cuda.stream(stream):
                # Other threads may go on allocating while this one captures.
                graph.capture_begin(capture_error_mode="thread_local")
                self._run(batch, num_frames)
                graph.capture_end()
            torch.cuda.current_stream(self._device).wait_stream(stream)
            self._graphs[batch, num_frames] = graph
        return graph


def _batch_sizes(max_batch: int) -> tuple[int, ...]:
    """Powers of two, and the largest: the sizes that batches are padded to."""
    powers = (1 << exponent for exponent in range(max_batch.bit_length()))
    return (*(size for size in powers if size < max_batch), max_batch)


def _parts(num_frames: int) -> list[tuple[int, int]]:
    """Where the parts of a long or odd number of frames begin and end: the largest sizes first."""
    parts = []
    start = 0
    for size in reversed(FRAMES_PER_STEP):
        while num_frames - start >= size:
            parts.append((start, start + size))
            start += size
    return parts
