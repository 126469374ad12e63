"""Preparation takes linear time on any input, never fails and leaves nothing unspeakable behind."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text import clean, normalize, sanitize, segment
from shared.contracts import TextBudget

BUDGET = TextBudget(minimum=20, first=60, target=200, maximum=300)

UNITS = [
    "1", "[", "]", "(", ")", ".", " ", "a", "$", "@", "<", ">", "*", "://", "-", "_", "`", "#", "|", "&",
    '"', "“", "«",
    "\n", "1 ", "a ", "1-", "1,", "1.", "1/", "1:", "a.", "a@", "a/", "/a", "http://", "<a ", "<a =",
    "<!--", "<script",
    "[a](", "![", "[^", "&#", "1 to ", "12:", "+1 ", "\u0301", "e\u0301", "\u200d", "😀", "你。", "A1", "A-",
    "code: ",
    "code 1 and ", "No. ", "St. ", "March 1 ", "5 km ", "$5 to ", "1x", "= ", "^", "½", "\\", "- ", "> ",
    "| a ", "1. ",
    "ab", "<|", "1 1/2 ", "100,", "www.", "a.com/", "1h", "U.S. ", "5 pm. ", "1999 ", "(555) ", "\n- ",
    "\n|", "\x00",
    "0 ", "01 ", "020 ", "+", "+1", "911 ", "call 911 or ", "555 123 ", "x1", "ext. ", "1-800-", "1-800-A", "A-",
    "Mon-", "Mon - ", "May 5 - ", "5-", "Q1-", "2019/", "1/2 ", "1/2-", "1/2 in ", '1/2" ', "½ in ", "1 1/", "1/2nd",
    "Henry ", "Henry V ", "Pope A ", "Part I ", "Aa ", "Aa II", "I", "X", "MCM", "(ii) ", "; (ii)", "Ii ",
    "XX century ",
    "JSON ", "JSON.", "UPS ", "IP", "IPv", "IT ", "a1", "1a", "1a2b3c4d", "aB", "aBc", "AbCd", "a.b", "ab.", "ab.ab()",
    "()", "a::", ":", "1::", "::1", "f:", "a:b:", "0x", "0xf", "#f0f0f0", "#a", "1.1.1.1/", "1.1.1.1:1", "-rc", "1-rc",
    "RTX4090-", "A100", "CVE-2021-", "Boeing 7", "Boeing 747-", "1080p", "12A ", "seat 12A and ", "1 000", "1 000 ",
    "1 000 000,0", "0,5 ", "3,50 € ", "€1.000.", "1'000'", "1.000,", "the 5 V rail ", "a) ", "\na) ", "\n(1) ",
    "[pause", "\ud800", "is your ", "**a", "'90s ", "a $5 b ",
]  # fmt: skip

SIZE = 10_000
LIMIT_S = 2.0
"""About ten times what the slowest takes on a slow machine; a quadratic pattern takes minutes."""


def repeated(unit, size):
    return (unit * (size // len(unit) + 1))[:size]


@pytest.mark.parametrize("unit", UNITS)
def test_time_is_bounded_for_repeated(unit):
    text = repeated(unit, SIZE)
    started = time.perf_counter()
    spoken = normalize(text, language="en")
    segment(spoken, BUDGET, language="en")
    segment(text, BUDGET, language="en")
    assert time.perf_counter() - started < LIMIT_S


MEGABYTE_LIMIT_S = 30.0
"""Digits take 5 s; a quadratic pattern takes hours. No request is longer than `max_input_chars`."""


@pytest.mark.parametrize("unit", ["1", "[", "]", "(", "."])
def test_a_megabyte_of_one_sign_is_prepared_in_its_time(unit):
    started = time.process_time()
    normalize(unit * 1_000_000, language="en")
    assert time.process_time() - started < MEGABYTE_LIMIT_S


@pytest.mark.parametrize(
    "unit",
    [
        "1",
        "1,",
        "[a",
        "a.",
        "://",
        "$1 ",
        "<a ",
        "-1",
        "0 ",
        "1/2 ",
        "Aa II",
        "a1",
        "aBc",
        "ab.",
        "1 000",
        "f:",
        "Mon-",
    ],
)
def test_four_times_the_text_takes_four_times_as_long(unit):
    def seconds(size):
        text = repeated(unit, size)
        started = time.process_time()
        normalize(text, language="en")
        return time.process_time() - started

    # Twice the fair share for noise; a quadratic pattern would take sixteen times as long.
    assert seconds(80_000) < 8 * seconds(20_000) + 0.2


def test_ordinary_text_takes_milliseconds():
    text = "Dr. Smith paid $3.50 for 2 kg of apples on March 3rd, 2024, at 7:30 pm. See https://example.com. " * 2
    normalize(text, language="en")
    started = time.process_time()
    for _ in range(20):
        normalize(text, language="en")
    assert (time.process_time() - started) / 20 < 0.03


@given(st.text(max_size=300), st.sampled_from(["en", "de", None]))
def test_any_text_is_prepared_without_failing(text, language):
    spoken = normalize(text, language=language)
    assert not set(spoken) & set("<>[]{}|\\^~*_`#\x00\u200b\u00ad")
    spoken.encode()


@given(st.text(alphabet="0123456789.,:/-$€%xkm +=()[]#@'\"amp°²½", max_size=80))
def test_no_digit_is_left_in_english(text):
    spoken = normalize(f"The value {text} is", language="en")
    assert not set(spoken) & set("0123456789$€%=+@")


@given(st.text(max_size=200))
def test_sanitizing_twice_changes_nothing(text):
    assert sanitize(sanitize(text)) == sanitize(text)


@given(st.text(max_size=200))
def test_cleaned_text_is_trimmed(text):
    cleaned = clean(text)
    assert cleaned == cleaned.strip()
    assert "  " not in cleaned
    assert "\n\n\n" not in cleaned
