"""The engine's state behind the audio, from one attempt to the next."""

import pytest

from workers.resume import ResumeShares


def test_the_shares_of_one_attempt_are_the_state_of_the_next():
    first = ResumeShares(b"")
    first.add(0, b"ab")
    share = first.take()
    first.add(0, b"c")
    first.add(1, b"de")
    share += first.take()
    second = ResumeShares(share)
    assert (second.of(0), second.of(1), second.of(2)) == (b"abc", b"de", b"")


def test_what_the_next_attempt_knows_is_not_told_again():
    first = ResumeShares(b"")
    first.add(0, b"abc")
    known = first.take()
    second = ResumeShares(known)
    second.add(0, b"ab")
    assert second.take() == b""
    second.add(0, b"cd")
    second.add(1, b"ef")
    third = ResumeShares(known + second.take())
    assert (third.of(0), third.of(1)) == (b"abcd", b"ef")


def test_an_engine_without_state_sends_none():
    shares = ResumeShares(b"")
    shares.add(0, b"")
    assert shares.take() == b""


@pytest.mark.parametrize("cut", [1, 7, 9])
def test_a_state_that_is_cut_off_is_refused(cut):
    shares = ResumeShares(b"")
    shares.add(0, b"abc")
    with pytest.raises(ValueError, match="cut off"):
        ResumeShares(shares.take()[:cut])
