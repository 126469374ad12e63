"""What an engine makes of a clip travels through caches."""

import pytest

from tests.support.engines import engine_info
from workers.engines.base import SpeakerProfile

PROFILE = SpeakerProfile(model_revision="test", compressor_revision="", kind="matched", payload=b"\x00\xff")


def test_a_profile_comes_back_as_it_was_stored() -> None:
    assert SpeakerProfile.from_bytes(PROFILE.to_bytes()) == PROFILE


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x80", PROFILE.to_bytes()[:-1]])
def test_what_is_no_profile_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no speaker profile"):
        SpeakerProfile.from_bytes(data)


def test_a_profile_fits_the_revisions_it_was_made_with() -> None:
    assert PROFILE.fits(engine_info())
    other = SpeakerProfile(model_revision="other", compressor_revision="", kind="matched", payload=b"")
    assert not other.fits(engine_info())
