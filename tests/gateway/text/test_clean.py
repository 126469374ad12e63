"""Emoji, markup and typography, in any language."""

import emoji
import pytest

from gateway.text import clean, has_speech, normalize

MARKUP = {
    "emphasis": ("**Bold**, *it*, __b__, _i_, ***both*** and ~~gone~~.", "Bold, it, b, i, both and gone."),
    "star-as-sign": ("23*5 and 2 * 3", "23*5 and 2 * 3"),
    "snake-case": ("snake_case", "snake_case"),
    "inline-code": ("Use `pip` now.", "Use pip now."),
    "link": ("See [the docs](https://a.b/c_(d)?e=f).", "See the docs."),
    "reference-link": ("See [the docs][1].\n\n[1]: https://a.b", "See the docs."),
    "image": ("![a cat](cat.png)", "a cat"),
    "footnote": ("True[^1].", "True."),
    "citation": ("It is known.[1] And [sic] this[2, 3].", "It is known. And [sic] this."),
    "escaped": (r"5 \* 3 \# 1", "5 * 3 # 1"),
    "heading": ("# Title\n\nText", "Title.\n\nText"),
    "closed-heading": ("## Title ##\nText", "Title.\n\nText"),
    "setext-heading": ("Title\n=====\nText", "Title.\n\nText"),
    "bullets": ("Buy:\n- eggs\n* milk\n+ bread!\n", "Buy:\neggs.\nmilk.\nbread!"),
    "tasks": ("- [x] done\n- [ ] open", "done.\nopen"),
    "numbered": ("1. Eggs\n2) Milk", "1, Eggs.\n2, Milk"),
    "date-alone": ("3. März", "3. März"),
    "quote": ("> quoted\n> text", "quoted text"),
    "nested-quote": ("> > deep", "deep"),
    "rule": ("a\n\n---\n\nb", "a.\n\nb"),
    "table": ("| Name | Age |\n|:---|---:|\n| Bob | 5 |", "Name, Age.\n\nBob, 5"),
    "fence": ("```python\nprint(1)\n```", "print(1)"),
    "fence-of-tildes": ("~~~\ncode\n~~~", "code"),
    "wrapped-line": (
        "A line that is long enough to be wrapped\nGoes on.",
        "A line that is long enough to be wrapped Goes on.",
    ),
    "lower-case-goes-on": ("short\nline", "short line"),
    "verse": ("Roses are red\nViolets are blue", "Roses are red,\nViolets are blue"),
    "chinese-lines": ("# 标题\n正文", "标题。\n\n正文"),
    "chinese-wrapped": (
        "这是用来测试换行的很长很长的中文句子它在这里\n换行了",
        "这是用来测试换行的很长很长的中文句子它在这里换行了",
    ),
    "tags": ("<p>Hello <b>W</b>orld</p><p>Bye<br/>now</p>", "Hello World.\n\nBye now"),
    "attributes": ('<a href="x" class=\'y\'>go</a>', "go"),
    "comment": ("a<!-- hidden -->b", "a b"),
    "script": ("a<script>alert('x')</script>b<style>p{}</style>c", "a b c"),
    "unclosed-comment": ("a <!-- b", "a <! — b"),
    "entities": ("Tom &amp; Jerry&nbsp;&lt;3 &#8212; &copy;", "Tom & Jerry <3 —"),
    "invisible-entity": ("pre&shy;fix&#8203;ed", "prefixed"),
    "huge-entity": ("&#" + "9" * 50 + ";", "&#" + "9" * 50 + ";"),
    "comparison-is-no-tag": ("a <b and c> d", "a <b and c> d"),
    "ssml": ("<speak>Hi <break time='1s'/> there</speak>", "Hi there"),
    "html-table": ("<table><tr><td>a</td><td>b</td></tr></table>", "a, b"),
}  # fmt: skip

TYPOGRAPHY = {
    "quotes": ("“It’s” ‘fine’ „so“", '"It\'s" \'fine\' "so"'),
    "ellipsis": ("Wait… what", "Wait... what"),
    "em-dash": ("word—word – word -- word", "word — word — word — word"),
    "number-dash": ("10–20 and 5 – 6", "10-20 and 5-6"),
    "hyphens": ("co‐op non‑stop", "co-op non-stop"),
    "full-width": ("ＡＢＣ１２３", "ABC123"),
    "ligature": ("ﬁne ﬂow", "fine flow"),
    "styled-letters": ("𝐇𝐞𝐥𝐥𝐨 𝓦𝓸𝓻𝓵𝓭", "Hello World"),
    "half-width-kana": ("ｶﾞｷﾞ", "ガギ"),
    "chinese-punctuation": ("你好，世界！", "你好，世界！"),
    "exclamations": ("No!!! Why??? What?!?!", "No! Why? What?!"),
    "space-before-stop": ("Hello , world !", "Hello, world!"),
    "emoticons": ("Hi :) there :-D ok ;)", "Hi there ok"),
    "heart": ("I love you <3", "I love you"),
    "kaomoji-free-code": ("(8) x^3", "(8) x^3"),
    "keycap": ("Step 1️⃣ now", "Step now"),
    "flag": ("Go 🇩🇪!", "Go!"),
    "emoji-between-words": ("one😀two", "one two"),
    "copyright": ("Acme™ ©", "Acme"),
    "spaces": ("  a   b  \n\n\n\n  c ", "a b.\n\nc"),
}


@pytest.mark.parametrize(("text", "plain"), MARKUP.values(), ids=MARKUP.keys())
def test_markup_goes_and_its_words_stay(text, plain):
    assert clean(text) == plain


@pytest.mark.parametrize(("text", "plain"), TYPOGRAPHY.values(), ids=TYPOGRAPHY.keys())
def test_typography_becomes_plain(text, plain):
    assert clean(text) == plain


def test_nothing_is_spoken_of_any_emoji():
    left = {name: clean(f"a {name} b") for name in emoji.EMOJI_DATA if clean(f"a {name} b") != "a b"}
    assert not left


@pytest.mark.parametrize(
    "token",
    [
        "<|endoftext|>",
        "<|im_start|>",
        "[INST]",
        "[/INST]",
        "<<SYS>>",
        "<s>",
        "</s>",
        "<pad>",
        "<unk>",
        "<mask>",
    ],
)
def test_special_tokens_vanish(token):
    assert normalize(f"Say {token} hello {token}", language="en") == "Say hello"
    assert not has_speech(normalize(token * 3, language=None))


@pytest.mark.parametrize("text", ["<|endof<|x|>text|>", "[IN[INST]ST] hi", "<<s>s>", "<|im_start", "＜|endoftext|＞"])
def test_no_special_token_is_left_or_put_together(text):
    for language in ("en", "de", "zh", None):
        spoken = normalize(text, language=language)
        assert not set("<>[]|{}") & set(spoken)


@pytest.mark.parametrize(
    ("text", "language", "spoken"),
    [
        ("Das kostet 5 € & 3 km.", "de", "Das kostet 5 € & 3 km."),
        ("我有3个苹果，花了$5。", None, "我有3个苹果，花了$5。"),
        ("Привет, <b>мир</b>! 5 км 😀", None, "Привет, мир! 5 км"),
        ("مرحبا 123", None, "مرحبا 123"),
        ("Il fait 20 °C — **froid**", "fr-FR", "Il fait 20 °C — froid"),
        ("I paid 5 €.", "en-GB", "I paid five euros."),
        ("I paid 5 €.", "EN_us", "I paid five euros."),
        ("I paid 5 €.", None, "I paid five euros."),
        ("42", None, "forty-two"),
    ],
    ids=[
        "german",
        "chinese",
        "russian",
        "arabic",
        "french",
        "british",
        "underscore",
        "no-language",
        "only-digits",
    ],
)
def test_only_english_is_expanded(text, language, spoken):
    assert normalize(text, language=language) == spoken
