"""The part of preparation that no caller can switch off."""

import pytest

from gateway.text import sanitize

CASES = {
    "plain": ("Hello, world!", "Hello, world!"),
    "nothing-expanded": ("$5 **bold** <b> 😀 [x](y)", "$5 **bold** <b> 😀 [x](y)"),
    "nul": ("a\x00b", "a b"),
    "control": ("a\x07b\x1bc\x7fd\x9fe", "a b c d e"),
    "tab": ("a\tb", "a b"),
    "windows-line-end": ("a\r\nb\rc", "a\nb\nc"),
    "line-separator": ("a\u2028b\u2029c\x85d", "a\nb\n\nc\nd"),
    "no-break-space": ("a\u00a0b\u202fc\u3000d", "a b c d"),
    "lone-surrogates": ("a\ud800b\udc00c", "abc"),
    "surrogate-pair": ("a\ud83d\ude00b", "a😀b"),
    "decomposed": ("e\u0301", "é"),
    "stacked-marks": ("e" + "\u0323" * 500, "ẹ" + "\u0323" * 7),
    "private-use": ("a\ue000b", "a b"),
    "object-replacement": ("a\ufffcb\ufffdc", "a b c"),
    "hangul-filler": ("a\u3164b\u115fc", "abc"),
    "interlinear": ("a\ufff9b\ufffac\ufffbd", "abcd"),
    "persian-joiner": ("می\u200cخواهم", "می\u200cخواهم"),
    "hindi-joiner": ("नमस्\u200dते", "नमस्\u200dते"),
    "joiner-at-the-edge": ("می\u200c x", "می x"),
    "emoji-joiner": ("👩\u200d🚀", "👩🚀"),
    "four-letters": ("Hmmmm", "Hmmmm"),
    "five-letters": ("Hmmmmm", "Hmmm"),
    "long-number": ("1" * 100, "1" * 100),
    "han-laughter": ("哈哈哈哈", "哈哈哈哈"),
    "empty": ("", ""),
}


@pytest.mark.parametrize(("text", "safe"), CASES.values(), ids=CASES.keys())
def test_only_what_no_engine_may_see_is_removed(text, safe):
    assert sanitize(text) == safe
