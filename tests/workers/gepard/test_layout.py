from typing import Any

import msgspec
import pytest

from workers.gepard.config import RepetitionPolicy, SpecialTokens
from workers.gepard.layout import frame_cap, prompt_ids, repetitions, unconditional_ids

SPECIAL = SpecialTokens(
    start_of_text=248073, end_of_text=248074, start_of_speech=248070, end_of_speech=248071, tts_pad=248076
)
POLICY = RepetitionPolicy(enabled=True)


def test_short_texts_are_repeated_as_in_the_reference(facts: dict[str, Any]) -> None:
    expected = {int(n): count for n, count in facts["target_R_table"].items()}
    assert {n: repetitions(n, POLICY) for n in expected} == expected


def test_the_target_bounds_repetition_where_it_is_below_the_threshold() -> None:
    policy = RepetitionPolicy(enabled=True, target_text_tokens=4, apply_below=13)
    assert [repetitions(n, policy) for n in (3, 4, 5)] == [2, 1, 1]


def test_a_disabled_policy_repeats_nothing() -> None:
    assert repetitions(1, RepetitionPolicy()) == 1


def test_prompts_are_laid_out_as_in_the_reference(facts: dict[str, Any]) -> None:
    special = msgspec.convert(facts["special_tokens"], SpecialTokens)
    for text in facts["texts"]:
        assert prompt_ids(text["text_token_ids"], special, POLICY) == text["input_ids"], text["text"]


@pytest.mark.parametrize(
    ("count", "length"), [(0, 3), (1, 25), (12, 29), (13, 16)], ids=["empty", "one", "twelve", "thirteen"]
)
def test_start_of_speech_comes_once_and_last(count: int, length: int) -> None:
    ids = prompt_ids([5] * count, SPECIAL, POLICY)
    assert len(ids) == length
    assert ids.index(SPECIAL.start_of_speech) == length - 1


def test_the_unconditional_branch_has_no_text() -> None:
    assert unconditional_ids("empty_text", SPECIAL) == [248073, 248074, 248070]
    assert unconditional_ids("audio_only", SPECIAL) == [248070]


@pytest.mark.parametrize(
    ("text", "tokens", "cap"),
    [
        ("", 0, 94),
        ("Hi", 1, 94),
        ("one two three four five", 5, 232),
        (" ".join(["word"] * 20), 26, 748),
        (" ".join(["word"] * 60), 80, 860),
        ("x" * 90, 45, 473),
    ],
    ids=["empty", "one word", "five words", "a sentence", "at most 40 s", "no blanks"],
)
def test_the_frame_cap_follows_the_length_of_the_text(text: str, tokens: int, cap: int) -> None:
    assert frame_cap(text, tokens) == cap
