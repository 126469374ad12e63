"""What no backend of the tiny model takes: changes of a request that fits."""

from typing import Any

import pytest
import torch

from workers.gepard.sampling import SamplingParams

CHANGES: list[Any] = [
    pytest.param({"codes": torch.full((2, 32), 7)}, id="codes"),
    pytest.param({"codes": torch.zeros((2, 8), dtype=torch.int64)}, id="packed codes"),
    pytest.param({"prefix": torch.zeros((8, 32))}, id="prefix width"),
    pytest.param({"prefix": torch.zeros(64)}, id="prefix axes"),
    pytest.param(
        {"codes": torch.zeros((3, 32), dtype=torch.int64), "sampling": SamplingParams(max_frames=2)},
        id="more codes than frames",
    ),
    pytest.param({"prompt_ids": []}, id="no prompt"),
    pytest.param({"prompt_ids": [387] * 2049}, id="long prompt"),
    pytest.param({"prompt_ids": [387, 448]}, id="id beyond the vocabulary"),
    pytest.param({"prompt_ids": [-1, 387]}, id="negative id"),
]
