"""Segments fit the budget, lose nothing and can all be spoken."""

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from gateway.text import has_speech, segment
from shared.contracts import TextBudget

BUDGET = TextBudget(minimum=20, first=60, target=200, maximum=300)

LANGUAGES = {
    "en": "The first thing to say, and it should be said early, is rhythm. It has pauses! Has it? Yes. ",
    "de": "Das ist ein Satz, z. B. ein kurzer. Am 3. März kam er um 5 Uhr; niemand hatte es erwartet. ",
    "fr": "« Bonjour ! » dit-elle, et puis elle partit. Il faisait froid : personne ne sortait. ",
    "es": "¿Qué tal? ¡Muy bien! Hoy vamos al mercado, después a casa. ",
    "ru": "Привет, как дела? Всё хорошо. Сегодня мы идём гулять, потом домой. ",
    "el": "Καλημέρα σας. Τι κάνετε; Είμαι καλά, ευχαριστώ. ",
    "ar": "مرحبا، كيف حالك؟ أنا بخير. شكرا لك على السؤال. ",
    "he": "שלום, מה שלומך? אני בסדר. תודה רבה לך. ",
    "fa": "سلام، حال شما چطور است؟ من خوبم و می\u200cخواهم بروم. ",
    "hi": "नमस्ते, आप कैसे हैं? मैं ठीक हूँ। आज हम बाज़ार जाएँगे। ",
    "bn": "আপনি কেমন আছেন? আমি ভালো আছি। ",
    "ta": "வணக்கம். நீங்கள் எப்படி இருக்கிறீர்கள்? ",
    "zh": "你好，今天天气怎么样？我很好！我们去市场，然后回家。",
    "ja": "こんにちは、元気ですか？はい、元気です。今日は市場へ行きます。",
    "ko": "안녕하세요, 잘 지내세요? 네, 잘 지내요. 오늘은 시장에 갑니다. ",
    "th": "สวัสดีครับ วันนี้อากาศดีมาก เราจะไปตลาด แล้วกลับบ้าน ",
    "my": "မင်္ဂလာပါ။ နေကောင်းလား။ ",
    "am": "ሰላም። እንዴት ነህ? ደህና ነኝ። ",
    "ka": "გამარჯობა, როგორ ხარ? კარგად ვარ. ",
    "hy": "Բարև ձեզ։ Ինչպե՞ս եք։ ",
}

HOSTILE = {
    "digits": "7" * 4096,
    "letters": "x" * 4096,
    "words": "word " * 800,
    "han-without-punctuation": "你好世界" * 500,
    "thai-without-spaces": "สวัสดีครับวันนี้อากาศดี" * 60,
    "combining": "e\u0301\u0323" * 700,
    "emoji-sequences": "a👩\u200d👩\u200d👧\u200d👦 " * 120,
    "right-to-left": "\u202eشكرا\u202c " * 200,
    "nul": "a\x00b " * 300,
    "lone-surrogates": "word\ud800 \udfff" * 100,
    "quotes": "“Hello " * 300,
    "brackets": "((((a " * 200,
    "line-ends": "line\n" * 200,
    "paragraphs": "p\n\n" * 200,
    "commas": "a," * 1500,
    "stops": "a." * 1500,
    "abbreviations": "e.g. i.e. Dr. " * 100,
    "long-clauses": ("word " * 90 + "and then, ") * 4,
}

BUDGETS = {
    "usual": BUDGET,
    "tiny": TextBudget(minimum=1, first=5, target=8, maximum=10),
    "narrow": TextBudget(minimum=50, first=60, target=60, maximum=70),
    "wide": TextBudget(minimum=0, first=400, target=1000, maximum=2000),
    "odd": TextBudget(minimum=30, first=10, target=20, maximum=25),
}


def bare(text):
    return "".join(text.split())


def check(text, budget, language=None, *, whole=True):
    segments = segment(text, budget, language=language)
    for piece in segments:
        assert has_speech(piece.text)
        assert len(piece.text) <= budget.maximum
        assert piece.text == " ".join(piece.text.split())
    joined = "".join(bare(piece.text) for piece in segments)
    kept = text.encode("utf-16", "surrogatepass").decode("utf-16", "ignore")
    if whole:
        assert joined == (bare(kept) if has_speech(kept) else "")
    spoken = regex.compile(r"[\p{L}\p{N}]")
    assert spoken.findall(joined) == spoken.findall(kept)
    assert [piece.boundary for piece in segments].count("end") == bool(segments)
    assert not segments or segments[-1].boundary == "end"
    return segments


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS.keys())
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_fits_the_budget_and_loses_nothing(language, budget):
    check(LANGUAGES[language] * 12, budget, language)
    check(f"{LANGUAGES[language]}\n\n" * 4, budget, language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_segment_is_short_where_it_can_be_helped(language):
    segments = check(LANGUAGES[language] * 12, BUDGET, language)
    assert len(segments) > 1
    assert all(len(piece.text) >= BUDGET.minimum for piece in segments)


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS.keys())
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_fits_the_budget_and_loses_nothing(text, budget):
    check(text, budget)


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS.keys())
def test_a_grapheme_longer_than_the_budget_keeps_its_letter(budget):
    check("Before e" + "\u0301" * 5000 + " after.", budget, whole=False)


@given(st.text(max_size=400), st.sampled_from(sorted(BUDGETS)))
def test_any_text_fits_the_budget_and_loses_no_letter(text, budget):
    check(text, BUDGETS[budget], whole=False)


@given(st.text(alphabet="aZ 9.,!?\n\"'(你。\u0301-", max_size=300), st.sampled_from(sorted(BUDGETS)))
def test_any_mix_of_signs_fits_the_budget_and_loses_no_letter(text, budget):
    check(text, BUDGETS[budget], whole=False)


@pytest.mark.parametrize("text", ["", " ", "\n\n", "!?.", "!" * 5000, "😀 😀", "\ud800", "\u0301"])
def test_nothing_to_speak_makes_no_segments(text):
    assert segment(text, BUDGET, language=None) == ()


def texts(text, budget=BUDGET, language="en"):
    return [piece.text for piece in segment(text, budget, language=language)]


def test_a_short_text_is_one_segment():
    assert texts("Hi.") == ["Hi."]


def test_sentences_stay_whole():
    sentence = "This is one sentence of about eighty characters, it has a comma and it goes on here."
    assert all(piece.endswith((".", ",")) for piece in texts(" ".join([sentence] * 9)))


def test_a_long_first_sentence_is_cut_at_a_clause_for_an_early_sound():
    text = (
        "When the long rain had stopped at last, everybody in the village came out of the houses and looked at the sky."
    )
    assert texts(text)[0] == "When the long rain had stopped at last,"


def test_a_long_first_sentence_without_a_clause_stays_whole():
    text = "Everybody in the village came out of the houses and looked for a long time at the sky and the hills."
    assert texts(text) == [text]


def test_a_first_sentence_a_little_too_long_is_not_cut():
    text = "When the rain had stopped at last, everybody came out and looked."
    assert BUDGET.first < len(text) < 1.5 * BUDGET.first
    assert texts(text) == [text]


def test_later_sentences_are_packed_near_the_target():
    lengths = [len(piece) for piece in texts("A sentence with some words. " * 60)]
    assert all(150 <= length <= BUDGET.target for length in lengths[1:-1])


def test_short_sentences_join_a_neighbour():
    assert texts("Yes. No. I do not know what you are talking about, my friend.")[0].startswith("Yes. No. I do")
    long = "This sentence fills the budget of a segment very nearly, and so there is no room. "
    assert texts(long * 2 + "Yes.")[-1].endswith("there is no room. Yes.")


def test_a_short_paragraph_joins_and_a_long_one_stands_alone():
    text = "Title\n\nThis is the first paragraph of the text.\n\nThis is the second paragraph of it."
    assert segment_pairs(text) == [
        ("Title This is the first paragraph of the text.", "paragraph"),
        ("This is the second paragraph of it.", "end"),
    ]


def segment_pairs(text):
    return [(piece.text, piece.boundary) for piece in segment(text, BUDGET, language="en")]


def test_boundaries_say_what_follows():
    text = (
        "When the long rain had stopped at last, everybody in the village came out and looked at the sky. "
        + "It was a clear and quiet evening in October. " * 5
        + "\n\nThe next morning it rained again."
    )
    assert [boundary for _, boundary in segment_pairs(text)] == ["clause", "sentence", "paragraph", "end"]


def test_stray_punctuation_joins_what_it_follows():
    assert texts('She said nothing at all. "!" ... - He left the room.')[0].startswith('She said nothing at all. "!"')


def test_signs_too_many_for_any_segment_are_dropped():
    pieces = texts("Hello there, my good friend. " + "! " * 2000 + "Bye then, and see you soon again.")
    assert all(len(piece) <= BUDGET.maximum for piece in pieces)
    assert pieces[-1].endswith("see you soon again.")


def test_words_are_not_cut():
    words = {"alpha", "beta", "gamma", "delta"}
    for piece in texts("alpha beta gamma delta " * 100):
        assert set(piece.split()) <= words


def test_graphemes_are_not_cut():
    for text in ("e\u0301\u0323" * 700, "👩\u200d👩\u200d👧a" * 200, "नि" * 500):
        clusters = set(regex.findall(r"\X", text))
        for piece in texts(text):
            assert set(regex.findall(r"\X", piece)) <= clusters
