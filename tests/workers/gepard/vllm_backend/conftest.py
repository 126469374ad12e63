from typing import Any

import pytest


@pytest.fixture(scope="session")
def device() -> Any:
    """Where the kernels run: the GPU, or the CPU in Triton's interpreter."""
    import torch  # noqa: PLC0415  # this file is read where torch is absent, too

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
