"""The ids around a text, as the model was trained on them, and how long its speech may become.

A sequence is `[voice prefix?] ([SOT] text [EOT]) x R [SOS] frame 0, frame 1, ...`.
"""

from collections.abc import Sequence
from typing import Literal, assert_never

from workers.gepard.config import RepetitionPolicy, SpecialTokens

UncondMode = Literal["empty_text", "audio_only"]
"""What the unconditional branch of guidance reads instead of the text."""

_FRAME_RATE_HZ = 21.5
_PAUSE_S = 0.7
_SECONDS_PER_WORD = 0.4
_SLACK = 4
_TOKENS_PER_WORD = 4
MIN_FRAME_CAP = 80
MAX_FRAME_CAP = 860  # 40 s: no training clip was longer

MAX_FRAMES = 2000
"""The most frames one request may ask for (93 s), the reference's own default; it bounds the cache."""


def repetitions(num_text_tokens: int, policy: RepetitionPolicy) -> int:
    """How often the text is written: short texts are brought near `target_text_tokens`, >= 1."""
    if not policy.enabled or num_text_tokens <= 0:
        return 1
    if num_text_tokens >= min(policy.apply_below, policy.target_text_tokens):
        return 1
    return min(-(-policy.target_text_tokens // num_text_tokens), policy.max_repeats)


def prompt_ids(text_ids: Sequence[int], special: SpecialTokens, policy: RepetitionPolicy) -> list[int]:
    """Ids of a text, start of speech included; the voice prefix comes before them."""
    block = [special.start_of_text, *text_ids, special.end_of_text]
    return block * repetitions(len(text_ids), policy) + [special.start_of_speech]


def unconditional_ids(mode: UncondMode, special: SpecialTokens) -> list[int]:
    """Ids of the unconditional branch of guidance; never repeated."""
    match mode:
        case "empty_text":
            return [special.start_of_text, special.end_of_text, special.start_of_speech]
        case "audio_only":
            return [special.start_of_speech]
        case _:
            assert_never(mode)


def frame_cap(text: str, num_text_tokens: int) -> int:
    """Frames after which speech of `text` must be a runaway: four times the expected length, 80 to 860.

    The expectation, 0.7 s and 0.4 s a word, is the one that bounded the model's preference-tuning rollouts.
    Those stopped at 300 frames (14 s); that would cut a long sentence, so the bound here is the longest
    training clip. Text without blanks counts a word for every four tokens.
    """
    words = max(1, len(text.split()), -(-num_text_tokens // _TOKENS_PER_WORD))
    expected_s = _PAUSE_S + _SECONDS_PER_WORD * words
    return min(max(int(_SLACK * expected_s * _FRAME_RATE_HZ), MIN_FRAME_CAP), MAX_FRAME_CAP)
