"""Faults reported about other text-to-speech products, each with its report."""

import pytest

from gateway.text import clean, normalize, sanitize, segment
from shared.contracts import TextBudget

BUDGET = TextBudget(minimum=20, first=60, target=200, maximum=300)


def test_m_is_metres_million_or_minutes_by_its_context():
    """O1: https://github.com/mavlink/qgroundcontrol/issues/5455"""
    text = "Stand 3m back. The pump cost $3m and ran 2-3 mins at 5 m/s."
    assert normalize(text, language="en") == (
        "Stand three metres back. The pump cost three million dollars and ran two to three minutes "
        "at five metres per second."
    )


INVISIBLE = ["\u00ad", "\u200b", "\u200e", "\u200f", *map(chr, range(0x202A, 0x202F)), "\u2060", "\ufeff"]
INVISIBLE += [
    "\u200c",
    "\u200d",
    "\u034f",
    "\u180e",
    "\ufe0f",
    *map(chr, range(0x2066, 0x206A)),
    "\U000e0041",
]


def test_words_broken_by_invisible_characters_are_whole_again():
    """O2: https://github.com/ken107/read-aloud/issues/425"""
    text = "The gen\u200beral pre\u00adreq\u00adui\u00adsites are sim\u2060ple, said \u2068Anna\u2069."
    plain = "The general prerequisites are simple, said Anna."
    assert sanitize(text) == clean(text) == normalize(text, language="en") == plain


@pytest.mark.parametrize("mark", INVISIBLE, ids=[f"U+{ord(mark):04X}" for mark in INVISIBLE])
def test_an_invisible_character_changes_nothing(mark):
    """O2: https://github.com/ken107/read-aloud/issues/425"""
    text = f"{mark}The gen{mark}eral fee{mark} is ${mark}5{mark}0, on 3/{mark}5/2024.{mark}"
    assert normalize(text, language="en") == normalize(text.replace(mark, ""), language="en")


def test_a_code_is_digits_and_a_quantity_is_a_number():
    """O3: https://github.com/mitchib1440/SpeakThat/issues/147"""
    text = "Your verification code is 276983. The town has 276983 people. PIN: 0042."
    assert normalize(text, language="en") == (
        "Your verification code is two seven six nine eight three. "
        "The town has two hundred seventy-six thousand nine hundred eighty-three people. "
        "PIN: zero zero four two."
    )


def test_sums_keep_their_signs_and_emphasis_does_not():
    """O4: https://github.com/Ichigo3766/Open-Relay/issues/53"""
    text = "23 x 5 = 115, so 23*5 > 100 and 7 ÷ 2 ≠ 3. It is *really* a 4x4."
    assert normalize(text, language="en") == (
        "twenty-three times five equals one hundred fifteen, so twenty-three times five greater than "
        "one hundred and seven divided by two is not equal to three. It is really a four by four."
    )


@pytest.mark.parametrize(
    ("shout", "spoken"),
    [
        ("Z" + "O" * 600 + "M", "ZOOOM"),
        ("Stop" + "!" * 2000, "Stop!"),
        ("a" * 4000, "aaa"),
        ("aA" * 2000, "aAa"),
        ("ha" * 2000, "hahaha"),
        ("哈" * 4000, "哈" * 8),
        ("Why" + "?!" * 1000, "Why?!"),
        ("Wait" + "." * 3000, "Wait..."),
        ("Yes" + "—" * 3000 + "no", "Yes — no"),
    ],
    ids=[
        "letters-in-a-word",
        "exclamation",
        "one-letter",
        "two-cases",
        "syllables",
        "han",
        "mixed",
        "dots",
        "dashes",
    ],
)
def test_an_endless_word_is_cut_short(shout, spoken):
    """O5: https://github.com/ancsemi/Haven/issues/192"""
    assert normalize(shout, language="en") == spoken
    assert len(segment(sanitize(shout), BUDGET, language="en")) == 1
