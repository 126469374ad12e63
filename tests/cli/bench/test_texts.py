"""The texts of a benchmark."""

import itertools

import pytest

from cli.bench.texts import LONGEST_WORDS, SHORTEST_WORDS, composed_texts, read_texts, texts_of
from shared.errors import GepardError


def drawn(texts, count=500):
    return list(itertools.islice(texts, count))


def test_built_in_texts_have_5_to_60_words_and_hardly_repeat():
    texts = drawn(composed_texts(1))
    lengths = [len(text.split()) for text in texts]
    assert min(lengths) >= SHORTEST_WORDS
    assert max(lengths) <= LONGEST_WORDS
    assert min(lengths) < 10
    assert max(lengths) > 50
    # The shortest are a sentence or two, of a few dozen.
    longer = [text for text in texts if len(text.split()) > 20]
    assert len(set(longer)) > 0.95 * len(longer)


def test_the_seed_decides():
    assert drawn(composed_texts(4)) == drawn(composed_texts(4))
    assert drawn(composed_texts(4)) != drawn(composed_texts(5))
    assert drawn(texts_of(["a", "b"], 4)) == drawn(texts_of(["a", "b"], 4))


def test_a_file_has_a_text_a_line(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("One.\n\n  Zwei, Grüße.  \n", encoding="utf-8")
    assert read_texts(path) == ["One.", "Zwei, Grüße."]
    assert set(drawn(texts_of(read_texts(path), 1))) == {"One.", "Zwei, Grüße."}


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xff\xfe\x00"], ids=["empty", "blank", "not UTF-8"])
def test_a_file_without_texts_is_refused(tmp_path, content):
    path = tmp_path / "texts.txt"
    path.write_bytes(content)
    with pytest.raises(GepardError, match=r"texts\.txt"):
        read_texts(path)
