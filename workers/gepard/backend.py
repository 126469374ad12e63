"""What a backend of the model offers to whoever makes sound of its frames: requests in, frames out.

Frames do not travel: their codes stay in a store on the backend's device, and a step tells by row where they
are. So a codec on the same device reads them there, and nothing waits for a copy.
"""

from typing import NamedTuple, Protocol

from torch import Tensor

from workers.gepard.generate import FinishReason, GenerationRequest, StreamId

KEPT_FRAMES = 64
"""Further frames of every stream that a backend makes, at the least, before it writes a row again."""


class FrameStep(NamedTuple):
    """What one step gave one stream: a frame, the end, or both.

    row: where the frame's codes are in `Backend.frames`; None when only the end is told.
    """

    stream: StreamId
    row: int | None
    finished: FinishReason | None


class Backend(Protocol):
    """Many streams of one model, advanced together; one thread owns it.

    A stream that begins with codes (GenerationRequest.codes) reports only the frames that follow them.
    """

    max_streams: int

    @property
    def frames(self) -> Tensor:
        """Codes [rows, C] uint8 on the backend's device, at a fixed address.

        Written before `step` returns, as seen by work that the calling thread queues on the device
        afterwards; a row is used again at the earliest after KEPT_FRAMES further frames of every stream.
        """
        ...

    @property
    def num_streams(self) -> int:
        """Streams running. No `__len__`: a backend without streams would be false."""
        ...

    def add(self, request: GenerationRequest) -> StreamId:
        """Take a request; its first frame comes with one of the next steps.

        Raises EngineError when all places are taken, ValueError for a request that does not fit the model.
        """
        ...

    def remove(self, stream: StreamId) -> None:
        """Drop a stream and all it holds, before the next step; unknown and finished ones are ignored."""
        ...

    def step(self) -> list[FrameStep]:
        """Advance every stream by at most one frame. Streams whose end is told are gone."""
        ...

    def close(self) -> None:
        """Free the device. Nothing else may be called afterwards."""
        ...
