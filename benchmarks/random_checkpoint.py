"""Write a full-size Gepard checkpoint with random weights, for speed work without the real ones.

    python -m benchmarks.random_checkpoint FOLDER [--dtype float32] [--seed N] [--codec FILE]

It speaks noise. Real are the files, names, shapes and dtypes, the special ids, and that it never stops of
itself, so that runs have a fixed length. The tokenizer has a token a byte, three to four times the usual.
"""

import argparse
import importlib
import importlib.util
import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from tokenizers import pre_tokenizers
from torch import Tensor

from workers.gepard.checkpoint import TORCH_DTYPES, WEIGHTS_FILE
from workers.gepard.config import Dtype, GepardConfig, read_config
from workers.gepard.tensors import Shape, expected_tensors

FULL_SIZE = Path(__file__).parents[1] / "tests" / "data" / "gepard" / "full"
"""Where the configuration files of a full-size checkpoint are."""

_WEIGHT_STD = 0.02
_NEVER_STOP = -30.0
_STORED: Mapping[Dtype, str] = {"bfloat16": "BF16", "float32": "F32"}


def write_checkpoint(folder: Path, *, configuration: Path = FULL_SIZE, dtype: Dtype, seed: int) -> None:
    """Write the files of a checkpoint into `folder`, made if absent. Memory: one tensor in float32."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "gepard_config.json"):
        shutil.copyfile(configuration / name, folder / name)
    config = read_config(folder)
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer(config)))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    _write_weights(folder / WEIGHTS_FILE, config, dtype, torch.Generator().manual_seed(seed))


def _write_weights(path: Path, config: GepardConfig, dtype: Dtype, generator: torch.Generator) -> None:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    position = 0
    shapes = expected_tensors(config)
    for name, shape in shapes.items():
        end = position + math.prod(shape) * TORCH_DTYPES[dtype].itemsize
        header[name] = {"dtype": _STORED[dtype], "shape": shape, "data_offsets": [position, end]}
        position = end
    encoded = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(encoded).to_bytes(8, "little"))
        file.write(encoded)
        for name, shape in shapes.items():
            tensor = _random(name, shape, generator).to(TORCH_DTYPES[dtype])
            file.write(tensor.view(torch.uint8).numpy().data)


def _random(name: str, shape: Shape, generator: torch.Generator) -> Tensor:
    """float32 weights near those of a fresh model."""
    if name == "stop_head.bias":
        return torch.full(shape, _NEVER_STOP)
    if name.endswith("scale"):
        return torch.full(shape, _WEIGHT_STD)
    is_norm = "norm" in name
    if is_norm and name.startswith("ref_compressor."):
        return torch.ones(shape)
    if is_norm or name.endswith("bias"):
        return torch.zeros(shape)
    return torch.randn(shape, generator=generator) * _WEIGHT_STD


def _tokenizer(config: GepardConfig) -> dict[str, object]:
    """Byte-level BPE without merges, the vocabulary filled up to the special ids."""
    special = config.special_tokens
    names = {
        special.start_of_speech: "<|audio_start|>",
        special.end_of_speech: "<|audio_end|>",
        special.start_of_text: "<tts_text_bos>",
        special.end_of_text: "<tts_text_eod>",
        special.tts_pad: "<|audio_pad|>",
    }
    tokens = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens += [f"<unused {index}>" for index in range(len(tokens), min(names))]
    added = [
        {
            "id": index,
            "content": names.get(index, f"<|special {index}|>"),
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for index in range(min(names), max(names) + 1)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": {token: index for index, token in enumerate(tokens)}, "merges": []},
    }


def _write_codec(path: Path, seed: int) -> None:
    """The codec's own program makes the matching archive."""
    importlib.import_module("benchmarks.random_codec").write_random_codec(path, seed=seed)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Write a full-size Gepard checkpoint with random weights.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dtype", choices=list(TORCH_DTYPES), default="bfloat16")
    parser.add_argument("--seed", type=int, default=0)
    if importlib.util.find_spec("benchmarks.random_codec") is not None:
        parser.add_argument("--codec", type=Path, help="also write a codec archive with random weights")
    arguments = parser.parse_args()
    write_checkpoint(arguments.folder, dtype=arguments.dtype, seed=arguments.seed)
    if getattr(arguments, "codec", None) is not None:
        _write_codec(arguments.codec, arguments.seed)


if __name__ == "__main__":
    main()
