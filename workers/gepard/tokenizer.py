"""Text to ids with the checkpoint's byte-level BPE; user text never becomes a control id."""

import json
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from shared.errors import CheckpointError
from workers.gepard.config import GepardConfig, SpecialTokens, read_small_file
from workers.gepard.layout import frame_cap, prompt_ids

TOKENIZER_FILE = "tokenizer.json"
MAX_TOKENIZER_BYTES = 128 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A text laid out. `num_text_tokens` counts the text once, without control ids and repetitions."""

    ids: list[int]
    num_text_tokens: int
    frame_cap: int


class TextTokenizer:
    """Encodes text as it stands: blanks are tokens, nothing but the tokenizer's own NFC is normalised."""

    def __init__(self, tokenizer: Tokenizer, control_ids: frozenset[int], config: GepardConfig) -> None:
        self._tokenizer = tokenizer
        self._control_ids = control_ids
        self._special = config.special_tokens
        self._policy = config.text_repetition

    def prompt(self, text: str) -> Prompt:
        """Encode one text and lay it out."""
        ids = self.encode(text)
        return Prompt(
            ids=prompt_ids(ids, self._special, self._policy),
            num_text_tokens=len(ids),
            frame_cap=frame_cap(text, len(ids)),
        )

    def encode(self, text: str) -> list[int]:
        """Ids of `text` without specials; literals such as `<|audio_start|>` are spelt out."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        # The added tokens are gone (below), so this drops an id only where a vocabulary itself spells one.
        return [token for token in ids if token not in self._control_ids]


def read_tokenizer(folder: Path, config: GepardConfig) -> TextTokenizer:
    """Read `tokenizer.json`. Raises CheckpointError."""
    path = folder / TOKENIZER_FILE
    data = read_small_file(folder, TOKENIZER_FILE, MAX_TOKENIZER_BYTES)
    try:
        description = json.loads(data)
        added = description.get("added_tokens", [])
        added_ids = frozenset(int(token["id"]) for token in added)
        # Without its added tokens the tokenizer cannot find their literals in a text. Splitting only those
        # marked special (encode_special_tokens) would leave the others.
        description.update(added_tokens=[], truncation=None, padding=None, post_processor=None)
        tokenizer = Tokenizer.from_str(json.dumps(description))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path}: no tokenizer description ({error})") from error
    except Exception as error:  # the library raises bare Exception
        raise CheckpointError(f"{path}: {error}") from error
    highest = max(tokenizer.get_vocab(with_added_tokens=False).values(), default=-1)
    if not 0 <= highest < config.backbone_config.vocab_size:
        raise CheckpointError(f"{path}: ids up to {highest} for {config.backbone_config.vocab_size} embedding rows")
    return TextTokenizer(tokenizer, added_ids | _control_ids(config.special_tokens), config)


def _control_ids(special: SpecialTokens) -> frozenset[int]:
    return frozenset(getattr(special, name) for name in SpecialTokens.__struct_fields__)
