"""What carries a reference clip from the intake to an engine."""

import numpy as np
import pytest

from shared.clip import MAX_CLIP_BYTES, Clip


def _clip(rate_hz: int = 22050) -> Clip:
    return Clip(samples=np.linspace(-1, 1, 1000, dtype=np.float32), rate_hz=rate_hz)


def test_a_clip_comes_back_as_it_was_sent() -> None:
    back = Clip.from_bytes(_clip().to_bytes())
    assert back.rate_hz == 22050
    assert back.samples.dtype == np.float32
    assert np.array_equal(back.samples, _clip().samples)


def test_the_name_of_a_clip_is_its_sound_and_rate() -> None:
    assert _clip().sha256 == _clip().sha256 != _clip(24000).sha256
    assert len(_clip().sha256) == 64


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(_clip().to_bytes()[:4], id="no sample"),
        pytest.param(_clip().to_bytes()[:-1], id="half a sample"),
        pytest.param(bytes(8), id="no rate"),
        pytest.param(Clip(samples=np.array([np.nan], np.float32), rate_hz=1).to_bytes(), id="not finite"),
        pytest.param(bytes([1, 0, 0, 0]) + bytes(MAX_CLIP_BYTES), id="too large"),
    ],
)
def test_what_is_no_clip_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="a clip has"):
        Clip.from_bytes(data)
