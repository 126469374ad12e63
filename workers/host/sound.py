"""A step of the codec, and its sound on the way from the device to the host's memory.

On a GPU both run beside the model on a stream of their own, in order; nothing here waits for them but `read`,
which belongs to another thread. As many steps may be under way as there are buffers, the next waits.
"""

import queue
import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workers.nanocodec.codec import Codec
from workers.nanocodec.config import CODES_PER_FRAME, SAMPLES_PER_FRAME

_FULL_SCALE = 32768
_NUM_BUFFERS = 8

Pcm = NDArray[np.int16]
Codes = NDArray[np.uint8]


class Pending(Protocol):
    """Sound under way. `read`, then `release`, once each; the arrays are gone with it."""

    def read(self) -> tuple[Pcm, Codes]:
        """Samples [B, 1024 n] and codes [B, n, 32]; blocks until they are there."""
        ...

    def release(self) -> None: ...


class SoundMaker(Protocol):
    """The codec as the loop uses it. `codec_ms`: what a step took of late; frames, rows, slots: see Codec."""

    codec_ms: float

    def join(self) -> int: ...
    def leave(self, slot: int) -> None: ...

    def decode(self, frames: Tensor, rows: Sequence[Sequence[int]], slots: Sequence[int]) -> Pending:
        """Begin a step. Frames may be overwritten by what the caller queues on the device once 8 more began."""
        ...


def sound_maker(codec: Codec, device: torch.device, *, max_step_frames: int) -> SoundMaker:
    """For a codec on that device, in steps of at most so many frames."""
    return _OnCuda(codec, device, max_step_frames) if device.type == "cuda" else _OnCpu(codec)


def _integers(samples: Tensor) -> Tensor:
    """Samples [B, T] in -1..1 to 16 bits; full scale is 32768, as for the encoders (workers/audio/samples.py)."""
    return (samples * _FULL_SCALE).round_().clamp_(-_FULL_SCALE, _FULL_SCALE - 1).to(torch.int16)


class _Done(NamedTuple):
    pcm: Pcm
    codes: Codes

    def read(self) -> tuple[Pcm, Codes]:
        return self

    def release(self) -> None:
        """The arrays are of this step alone."""


class _OnCpu:
    def __init__(self, codec: Codec) -> None:
        self.codec_ms = 0.0
        self._codec = codec
        self.join, self.leave = codec.join, codec.leave

    @torch.inference_mode()
    def decode(self, frames: Tensor, rows: Sequence[Sequence[int]], slots: Sequence[int]) -> Pending:
        began = time.perf_counter()
        pcm = _integers(self._codec.decode_rows(frames, rows, slots)).numpy()
        self.codec_ms = 1000 * (time.perf_counter() - began)
        return _Done(pcm, frames[torch.tensor(rows)].numpy())


class _Buffer:
    """Page-locked memory for one step, and the events around it."""

    def __init__(self, max_frames: int) -> None:
        self.pcm = torch.empty(max_frames * SAMPLES_PER_FRAME, dtype=torch.int16, pin_memory=True)
        self.codes = torch.empty(max_frames * CODES_PER_FRAME, dtype=torch.uint8, pin_memory=True)
        self.began = torch.cuda.Event(enable_timing=True)
        # Sleeping, not spinning: a thread that asks the driver all the time slows down the one that launches.
        self.ended = torch.cuda.Event(enable_timing=True, blocking=True)


class _OnCuda:
    def __init__(self, codec: Codec, device: torch.device, max_frames: int) -> None:
        self.codec_ms = 0.0
        self._codec = codec
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._free: queue.SimpleQueue[_Buffer] = queue.SimpleQueue()
        for _ in range(_NUM_BUFFERS):
            self._free.put(_Buffer(max_frames))

    def join(self) -> int:
        with torch.cuda.stream(self._stream):
            return self._codec.join()

    def leave(self, slot: int) -> None:
        self._codec.leave(slot)

    @torch.inference_mode()
    def decode(self, frames: Tensor, rows: Sequence[Sequence[int]], slots: Sequence[int]) -> Pending:
        buffer = self._free.get()
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            buffer.began.record()
            pcm = _integers(self._codec.decode_rows(frames, rows, slots))
            # From page-locked memory: any other copy to the device would wait for the codec.
            index = torch.tensor(rows).pin_memory().to(self._device, non_blocking=True)
            codes = frames[index]
            to_pcm = buffer.pcm[: pcm.numel()].view(pcm.shape)
            to_codes = buffer.codes[: codes.numel()].view(codes.shape)
            to_pcm.copy_(pcm, non_blocking=True)
            to_codes.copy_(codes, non_blocking=True)
            # What the caller's stream made for this step alone must not be used anew before it is over.
            frames.record_stream(self._stream)
            buffer.ended.record()
        return _UnderWay(self, buffer, to_pcm, to_codes)

    def done(self, buffer: _Buffer) -> None:
        """A step is over and its buffer free."""
        self.codec_ms = buffer.began.elapsed_time(buffer.ended)
        self._free.put(buffer)


class _UnderWay(NamedTuple):
    maker: _OnCuda
    buffer: _Buffer
    pcm: Tensor
    codes: Tensor

    def read(self) -> tuple[Pcm, Codes]:
        self.buffer.ended.synchronize()
        return self.pcm.numpy(), self.codes.numpy()

    def release(self) -> None:
        self.maker.done(self.buffer)
