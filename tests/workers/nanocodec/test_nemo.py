"""Our codec beside NeMo's own, on the same archive. NeMo's package set is heavy: pytest -m nemo."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: make test-gepard")

from workers.nanocodec.archive import read_archive
from workers.nanocodec.decoder import CodecDecoder
from workers.nanocodec.encoder import CodecEncoder
from workers.nanocodec.quantizer import pack, unpack

pytestmark = pytest.mark.nemo


@pytest.fixture(scope="module")
def nemo(tiny_archive_path: Path) -> Any:
    """NeMo's model of the tiny archive."""
    # Its imports warn of much that is not ours.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = pytest.importorskip(
            "nemo.collections.tts.models", reason="needs NeMo: pip install -e '.[nemo]'", exc_type=ImportError
        )
        # Not strict, as NeMo itself does: the archive also holds what only training needs.
        return models.AudioCodecModel.restore_from(str(tiny_archive_path), map_location="cpu", strict=False).eval()


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    time_s = np.arange(22050) / 22050
    noise = np.random.default_rng(3).standard_normal(22050)
    return (0.2 * np.sin(2 * np.pi * 180 * time_s) + 0.05 * noise).astype(np.float32)


def test_codes_equal_those_of_nemo(nemo, tiny_archive_path, samples):
    with torch.inference_mode():
        ids, _ = nemo.encode(audio=torch.from_numpy(samples)[None], audio_len=torch.tensor([len(samples)]))
        codes = CodecEncoder(read_archive(tiny_archive_path, parts=["audio_encoder"])).encode(torch.from_numpy(samples))
    assert torch.equal(pack(codes), ids[0].long())


def test_the_waveform_is_that_of_nemo(nemo, tiny_archive_path):
    ids = torch.from_numpy(np.random.default_rng(5).integers(0, 2016, (8, 40)))
    with torch.inference_mode():
        expected, _ = nemo.decode(tokens=ids[None].int(), tokens_len=torch.tensor([40]))
        samples = CodecDecoder(read_archive(tiny_archive_path, parts=["audio_decoder"])).decode(unpack(ids))
    assert float((samples.reshape(-1) - expected.reshape(-1)).abs().max()) <= 1e-4
