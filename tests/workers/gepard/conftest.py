import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DATA = Path(__file__).parents[2] / "data" / "gepard"


@pytest.fixture(scope="session")
def tiny() -> Path:
    """A small random checkpoint in the real format."""
    return DATA / "tiny"


@pytest.fixture(scope="session")
def full() -> Path:
    """The configuration files of a full-size checkpoint; no weights."""
    return DATA / "full"


@pytest.fixture(scope="session")
def manifest() -> dict[str, tuple[list[int], str]]:
    """Shape and dtype of every tensor of a full-size checkpoint."""
    return json.loads((DATA / "full_manifest.json").read_text())


@pytest.fixture(scope="session")
def facts() -> dict[str, Any]:
    """golden.json"""
    return json.loads((DATA / "golden.json").read_text())


@pytest.fixture(scope="session")
def golden() -> dict[str, np.ndarray]:
    """golden.npz"""
    with np.load(DATA / "golden.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="session")
def checkpoint(tiny: Path) -> Any:
    """The tiny checkpoint in float32, shared: nothing changes a loaded model."""
    import torch  # noqa: PLC0415  # this file is read where torch is absent, too

    from workers.gepard.checkpoint import load_checkpoint  # noqa: PLC0415

    torch.set_num_threads(1)
    return load_checkpoint(tiny)


@pytest.fixture(scope="session")
def checkpoint_bf16(tiny: Path) -> Any:
    """The tiny checkpoint in bfloat16: rounding is coarse enough there for any difference to show."""
    from workers.gepard.checkpoint import load_checkpoint  # noqa: PLC0415

    return load_checkpoint(tiny, dtype="bfloat16")


@pytest.fixture(scope="session")
def prefixes(golden: dict[str, np.ndarray], checkpoint: Any) -> dict[str | None, Any]:
    """The golden voice prefixes by name of the reference; None is no voice."""
    import torch  # noqa: PLC0415

    return {None: None, "A": torch.from_numpy(golden["prefix_A"]), "B": torch.from_numpy(golden["prefix_B"])}
