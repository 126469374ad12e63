"""Words that are said as their owner writes them."""

import time

import pytest

from gateway.text import Lexicon, LexiconError, normalize
from gateway.text.lexicon import MAX_SPOKEN_CHARS, MAX_WRITTEN_CHARS, replace_words

CASES = {
    "word": ({"Gepard": "gay part"}, "The Gepard runs.", "The gay part runs."),
    "at-the-edges": ({"Gepard": "gay part"}, "Gepard, Gepard", "gay part, gay part"),
    "part-of-a-word": ({"cat": "dog"}, "concatenate cats bobcat", "concatenate cats bobcat"),
    "possessive": ({"Gepard": "gay part"}, "Gepard's", "gay part's"),
    "hyphenated": ({"Gepard": "gay part"}, "Gepard-based", "gay part-based"),
    "lower-case-matches-any-writing": ({"nginx": "engine X"}, "nginx NGINX Nginx", "engine X engine X engine X"),
    "capitals-match-as-written": ({"Polish": "poe lish"}, "Polish polish POLISH", "poe lish polish POLISH"),
    "capitals-win": ({"polish": "shine", "Polish": "poe lish"}, "Polish polish", "poe lish shine"),
    "phrase": ({"San Jose": "san ho zay"}, "in San Jose now", "in san ho zay now"),
    "phrase-over-a-line-end": ({"San Jose": "san ho zay"}, "in San\nJose now", "in san ho zay now"),
    "longest-first": ({"new": "old", "new york": "big apple"}, "New York, new", "big apple, old"),
    "no-second-look": ({"a": "b", "b": "c"}, "a b", "b c"),
    "signs-inside": ({"c++": "see plus plus"}, "C++, C", "see plus plus, C"),
    "dot-in-front": ({".net": "dot net"}, "a .NET app", "a dot net app"),
    "digits": ({"7zip": "seven zip"}, "7zip 17zip", "seven zip 17zip"),
    "curly-apostrophe": ({"O'Shea": "oh shay"}, "O\u2019Shea", "oh shay"),
    "curly-apostrophe-in-the-entry": ({"O\u2019Shea": "oh shay"}, "O'Shea", "oh shay"),
    "accents": ({"Zoë": "zoey"}, "Zoë Zoe\u0308", "zoey Zoe\u0308"),
    "no-blanks-between-words": ({"北京": "背景"}, "我爱北京。", "我爱背景。"),
    "left-out": ({"um": ""}, "It is, um, good.", "It is, , good."),
    "unfinished-phrase": ({"new york city": "nyc"}, "new york town", "new york town"),
    "phrase-after-a-false-start": ({"a a b": "x"}, "a a a b", "a x"),
    "sharp-s": ({"straße": "street"}, "Straße STRASSE", "street STRASSE"),
    "no-entries": ({}, "as it is", "as it is"),
}  # fmt: skip


@pytest.mark.parametrize(("entries", "written", "spoken"), CASES.values(), ids=CASES.keys())
def test_whole_words_are_replaced(entries, written, spoken):
    assert replace_words(written, [Lexicon(entries)]) == spoken


def test_the_earlier_lexicon_wins_for_the_same_word():
    mine, ours = Lexicon({"gepard": "mine"}), Lexicon({"Gepard": "ours", "cat": "dog"})
    assert replace_words("Gepard cat", [mine, ours]) == "mine dog"
    assert replace_words("Gepard cat", [ours, mine]) == "ours dog"


def test_the_longest_entry_of_all_lexicons_wins():
    assert replace_words("new york", [Lexicon({"new": "old"}), Lexicon({"new york": "big apple"})]) == "big apple"


def test_replacements_are_normalised_like_the_rest():
    lexicon = Lexicon({"acme": "ACME No. 5"})
    assert normalize("acme costs $3", language="en", lexicons=[lexicon]) == "ACME Number five costs three dollars"


def test_words_inside_markup_are_replaced_and_markup_is_not():
    lexicon = Lexicon({"gepard": "gay part", "b": "bee"})
    assert normalize("**Gepard** <b>runs</b>", language="de", lexicons=[lexicon]) == "gay part runs"


def test_an_invisible_character_in_an_entry_changes_nothing():
    assert replace_words("Gepard", [Lexicon({"Ge\u00adpard": "gay\u200b part"})]) == "gay part"


BAD = {
    "empty": ({"": "x"}, "no letter or digit"),
    "blank": ({"  ": "x"}, "no letter or digit"),
    "signs": ({"!?": "x"}, "no letter or digit"),
    "long": ({"a" * (MAX_WRITTEN_CHARS + 1): "x"}, f"at most {MAX_WRITTEN_CHARS}"),
    "long-replacement": ({"a": "x" * (MAX_SPOKEN_CHARS + 1)}, f"at most {MAX_SPOKEN_CHARS}"),
}


@pytest.mark.parametrize(("entries", "message"), BAD.values(), ids=BAD.keys())
def test_an_entry_that_cannot_be_used_is_refused(entries, message):
    with pytest.raises(LexiconError, match=message):
        Lexicon(entries)


def test_a_text_that_grows_without_measure_is_refused():
    with pytest.raises(LexiconError, match="twice as long"):
        replace_words("a " * 2000, [Lexicon({"a": "word " * 40})])


@pytest.fixture(scope="module")
def many_entries():
    entries = {f"word{index} {'a ' * (index % 40)}end": "x" for index in range(2000)}
    return Lexicon(entries | {"a " * 49 + "b": "x"})


@pytest.mark.parametrize("unit", ["a ", "ab", "z", "[", "word1 ", "北", "1.", "\n"])
def test_time_is_linear_with_thousands_of_entries(many_entries, unit):
    def seconds(size):
        text = unit * (size // len(unit))
        started = time.process_time()
        replace_words(text, [many_entries])
        return time.process_time() - started

    # Twice the fair share for noise; a quadratic walk would take sixteen times as long.
    assert seconds(80_000) < 8 * seconds(20_000) + 0.1
