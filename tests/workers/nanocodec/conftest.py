"""The tiny archive and what the reference implementation computes with it."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.codec_archive import CODEC_DATA, Pieces


@pytest.fixture(scope="session")
def tiny_archive_path() -> Path:
    return CODEC_DATA / "tiny.nemo"


@pytest.fixture(scope="session")
def goldens() -> dict[str, np.ndarray]:
    with np.load(CODEC_DATA / "golden.npz") as file:
        return dict(file)


@pytest.fixture(scope="session")
def _tiny_pieces(tiny_archive_path: Path) -> Pieces:
    return Pieces.of(tiny_archive_path)


@pytest.fixture
def pieces(_tiny_pieces: Pieces) -> Pieces:
    return _tiny_pieces.copy()
