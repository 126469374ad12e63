"""The plain PyTorch model as a backend: the codes of each frame go into a store beside the model."""

import torch
from torch import Tensor

from workers.gepard.backend import KEPT_FRAMES, FrameStep
from workers.gepard.generate import FrameGenerator, GenerationRequest, StreamId


class TorchBackend:
    """Implements workers.gepard.backend.Backend over a FrameGenerator, which is its own from now on."""

    def __init__(self, generator: FrameGenerator, *, num_channels: int, device: torch.device) -> None:
        self.max_streams = generator.max_streams
        self._generator = generator
        # One frame more than is kept: the newest.
        num_rows = (KEPT_FRAMES + 1) * generator.max_streams
        self._frames = torch.zeros((num_rows, num_channels), dtype=torch.uint8, device=device)
        self._next_row = 0

    @property
    def frames(self) -> Tensor:
        return self._frames

    @property
    def num_streams(self) -> int:
        return len(self._generator)

    def add(self, request: GenerationRequest) -> StreamId:
        return self._generator.add(request)

    def remove(self, stream: StreamId) -> None:
        self._generator.remove(stream)

    def step(self) -> list[FrameStep]:
        steps = []
        for step in self._generator.step():
            row = None
            if step.codes is not None:
                row, self._next_row = self._next_row, (self._next_row + 1) % len(self._frames)
                self._frames[row] = step.codes
            steps.append(FrameStep(step.stream, row, step.finished))
        return steps

    def close(self) -> None:
        """Nothing is held but memory."""
