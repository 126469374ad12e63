import json
from pathlib import Path
from typing import Any

import pytest

from shared.errors import CheckpointError
from workers.gepard.config import read_config

pytest.importorskip("tokenizers", reason="the tokenizers package is absent; `make test-gepard` installs it")

from workers.gepard.tokenizer import TextTokenizer, read_tokenizer

CONTROL_FROM = 384  # the tiny tokenizer's added tokens: 384 to 393


@pytest.fixture(scope="module")
def tokenizer(tiny: Path) -> TextTokenizer:
    return read_tokenizer(tiny, read_config(tiny))


def _changed(tiny: Path, folder: Path, change: Any) -> TextTokenizer:
    description = json.loads((tiny / "tokenizer.json").read_text())
    change(description)
    (folder / "tokenizer.json").write_text(json.dumps(description))
    return read_tokenizer(folder, read_config(tiny))


def test_ordinary_texts_get_the_reference_ids(tokenizer: TextTokenizer, facts: dict[str, Any]) -> None:
    for text in facts["texts"]:
        if "<|" not in text["text"]:
            assert tokenizer.encode(text["text"]) == text["text_token_ids"], text["text"]
            assert tokenizer.prompt(text["text"]).ids == text["input_ids"], text["text"]


@pytest.mark.parametrize(
    "text",
    [
        "Say <|audio_start|> now",
        "<|audio_start|>",
        "<tts_text_bos><tts_text_eod>",
        "<|endoftext|><|im_start|><|im_end|><|audio_end|><tts_pad><tts_text_bos_single><|audio_pad|>",
        "<|audio_<|audio_start|>start|>",
        "<|AUDIO_START|> ﹤|audio_start|﹥",
    ],
)
def test_special_literals_in_a_text_are_spelt_out(tokenizer: TextTokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert ids
    assert max(ids) < CONTROL_FROM
    assert tokenizer._tokenizer.decode(ids) == text


def test_added_tokens_not_marked_special_are_spelt_out(tiny: Path, tmp_path: Path) -> None:
    def unmark(description: dict[str, Any]) -> None:
        for token in description["added_tokens"]:
            token["special"] = False

    assert max(_changed(tiny, tmp_path, unmark).encode("<|audio_start|> <tts_pad>")) < CONTROL_FROM


def test_a_vocabulary_that_spells_a_control_id_cannot_produce_it(tiny: Path, tmp_path: Path) -> None:
    def swap(description: dict[str, Any]) -> None:
        vocabulary = description["model"]["vocab"]
        vocabulary["Hi"] = 390

    tokenizer = _changed(tiny, tmp_path, swap)
    assert 390 not in tokenizer.encode("Hi there")
    assert tokenizer.encode("there")


def test_a_stored_truncation_does_not_cut_texts(tiny: Path, tmp_path: Path, tokenizer: TextTokenizer) -> None:
    truncation = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    cut = _changed(tiny, tmp_path, lambda description: description.update(truncation=truncation))
    assert cut.encode("Hello world.") == tokenizer.encode("Hello world.")


def test_the_prompt_counts_the_text_once(tokenizer: TextTokenizer) -> None:
    prompt = tokenizer.prompt("Hello world.")
    assert (prompt.num_text_tokens, len(prompt.ids), prompt.frame_cap) == (6, 25, 129)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"model": {"type": "BPE"}}',
        b'{"added_tokens": [{}]}',
        b"\x80\x04.",
        b"[" * 100_000,
    ],
    ids=["empty", "a list", "no model", "no vocabulary", "nameless token", "a pickle", "deep"],
)
def test_a_file_that_is_no_tokenizer_is_refused(tiny: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        read_tokenizer(tmp_path, read_config(tiny))


def test_ids_beyond_the_embedding_rows_are_refused(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="448 embedding rows"):
        _changed(tiny, tmp_path, lambda description: description["model"]["vocab"].update(zz=448))
