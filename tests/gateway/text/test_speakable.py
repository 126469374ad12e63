"""Whether there is something to speak, and in which script."""

import pytest

from gateway.text import foreign_script, has_speech


@pytest.mark.parametrize("text", ["a", "7", "你", "ก", "١", "½", "Ⅳ", "...a"])
def test_a_letter_or_digit_is_speech(text):
    assert has_speech(text)


@pytest.mark.parametrize("text", ["", " \n", "!?.", "😀", "\u0301", "---", "\u200b", "$%&", "<>"])
def test_signs_alone_are_no_speech(text):
    assert not has_speech(text)


@pytest.mark.parametrize(
    ("text", "scripts", "script"),
    [
        ("Hello", ["Latin"], None),
        ("", ["Latin"], None),
        ("123 !?", ["Latin"], None),
        ("你好世界", ["Latin"], "Han"),
        ("Привет", ["Latin"], "Cyrillic"),
        ("Привет", ["Latin", "Cyrillic"], None),
        ("The word 你好 means hello.", ["Latin"], None),
        ("ab 你好", ["Latin"], None),
        ("ab 你好吗", ["Latin"], "Han"),
        ("こんにちは世界", ["Latin"], "Hiragana"),
        ("สวัสดี", ["Latin"], "Thai"),
        ("Ωmega", ["Latin"], None),
        ("ʰʲ", ["Latin"], None),
        ("𐎀𐎁𐎂", ["Latin"], "other"),
        ("Hello", ["Han"], "Latin"),
        ("é ñ ü", ["Latin"], None),
    ],
)
def test_a_script_is_foreign_if_most_letters_are_of_it(text, scripts, script):
    assert foreign_script(text, scripts) == script
