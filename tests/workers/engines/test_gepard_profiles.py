"""Clips to voices."""

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: make test-gepard")

from shared.errors import EngineError
from tests.support.tiny_gepard import clip_of
from workers.engines.gepard_profiles import ProfileMaker


class FullDevice:
    def encode(self, samples):
        raise torch.OutOfMemoryError("no memory left")


def test_a_device_without_memory_is_not_the_fault_of_the_clip():
    """An EngineError marks the voice as failed, for good."""
    maker = ProfileMaker(
        encoder=FullDevice(),
        compressor=None,
        device=torch.device("cpu"),
        model_revision="m",
        compressor_revision="c",
    )
    with pytest.raises(torch.OutOfMemoryError) as raised:
        maker.make(clip_of(150))
    assert not isinstance(raised.value, EngineError)
