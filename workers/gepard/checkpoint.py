"""A checkpoint folder to a model that is ready to run. No code of the folder is run, no size is believed.

The folder holds `gepard_config.json`, `tokenizer.json` and `model.safetensors`; other files are not opened.
What the tensors must be follows from the configuration, and the header of the weights is compared with that
before memory is taken.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from shared.errors import CheckpointError
from workers.gepard.backbone import RopeFreqDtype
from workers.gepard.config import (
    CONFIG_FILE,
    MAX_CONFIG_BYTES,
    MAX_PARAMETERS,
    Dtype,
    GepardConfig,
    read_config,
    read_small_file,
)
from workers.gepard.model import GepardModel
from workers.gepard.safetensors_file import SafetensorsFile, shorten
from workers.gepard.tensors import SCALARS, TRAINING_ONLY, Shape, expected_tensors
from workers.gepard.tokenizer import MAX_TOKENIZER_BYTES, TOKENIZER_FILE, TextTokenizer, read_tokenizer

WEIGHTS_FILE = "model.safetensors"

TORCH_DTYPES: Mapping[Dtype, torch.dtype] = {"bfloat16": torch.bfloat16, "float32": torch.float32}
_STORED_DTYPES: Mapping[str, torch.dtype] = {"BF16": torch.bfloat16, "F32": torch.float32}
_MAX_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A loaded model and its text side. `revision`: 16 hex digits of the SHA-256 of what was loaded."""

    model: GepardModel
    tokenizer: TextTokenizer
    config: GepardConfig
    revision: str


def load_checkpoint(
    folder: Path,
    *,
    device: torch.device | str = "cpu",
    dtype: Dtype | None = None,
    rope_freq_dtype: RopeFreqDtype | None = None,
) -> Checkpoint:
    """Load a checkpoint; the weights are cast once to `dtype` (None: as the configuration says).

    `rope_freq_dtype` None takes the reference's: that of the weights. CPUs without bf16 instructions run
    float32 faster, the prefill most of all. Peak memory is the model and one tensor. Raises CheckpointError
    that names the file and the tensor or field.
    """
    config = read_config(folder)
    tokenizer = read_tokenizer(folder, config)
    dtype = dtype or config.dtype
    device = torch.device(device)
    digest = hashlib.sha256()
    digest.update(read_small_file(folder, CONFIG_FILE, MAX_CONFIG_BYTES))
    digest.update(read_small_file(folder, TOKENIZER_FILE, MAX_TOKENIZER_BYTES))
    with SafetensorsFile(folder / WEIGHTS_FILE) as file:
        check_tensors(file, config)
        digest.update(file.header)
        tensors = {
            name: tensor.to(device, TORCH_DTYPES[dtype])
            for name, tensor in _read_tensors(file, expected_tensors(config), digest.update)
        }
    with torch.device("meta"):
        model = GepardModel(config)
    model.load_state_dict(_fused(tensors, len(config.head_sizes)), assign=True)
    model.set_tables(rope_freq_dtype or ("bf16" if dtype == "bfloat16" else "fp32"))
    model.requires_grad_(False).eval()
    return Checkpoint(model=model, tokenizer=tokenizer, config=config, revision=digest.hexdigest()[:16])


def check_tensors(file: SafetensorsFile, config: GepardConfig) -> None:
    """Compare the header with what the configuration asks for. Raises CheckpointError."""
    expected = expected_tensors(config)
    if sum(math.prod(shape) for shape in expected.values()) > MAX_PARAMETERS:
        raise CheckpointError(f"{file.path}: the configuration asks for more than {MAX_PARAMETERS} parameters")
    found = {name for name in file.entries if not name.startswith(TRAINING_ONLY)}
    adapters = [name for name in found if _is_adapter(name)]
    if adapters:
        raise CheckpointError(f"{file.path}: unmerged adapter, merge it first: {_named(adapters)}")
    if expected.keys() - found:
        raise CheckpointError(f"{file.path}: missing {_named(expected.keys() - found)}")
    if found - expected.keys():
        raise CheckpointError(f"{file.path}: tensors this model does not have: {_named(found - expected.keys())}")
    for name, shape in expected.items():
        stored = file.entries[name].shape
        if stored != shape and not (name in SCALARS and stored == ()):
            raise CheckpointError(f"{file.path}: {name} is {list(stored)}, expected {list(shape)}")


def _is_adapter(name: str) -> bool:
    return name.endswith((".lora_A", ".lora_B")) or ".base.weight" in name


def _named(names: set[str] | list[str]) -> str:
    """The first few names in order, and how many more there are."""
    ordered = sorted(names)
    more = f" and {len(ordered) - _MAX_NAMED} more" if len(ordered) > _MAX_NAMED else ""
    return ", ".join(shorten(name) for name in ordered[:_MAX_NAMED]) + more


def _read_tensors(
    file: SafetensorsFile, expected: Mapping[str, Shape], digest: Callable[[memoryview], None]
) -> Iterator[tuple[str, Tensor]]:
    """The tensors one by one in their stored dtype, on the CPU; scalars as `[1]`."""
    for name, shape in expected.items():
        entry = file.entries[name]
        raw = torch.empty(entry.num_bytes, dtype=torch.uint8)
        view = raw.numpy().data
        file.read_into(name, view)
        digest(view)
        yield name, raw.view(_STORED_DTYPES[entry.dtype]).view(shape)


def _fused(tensors: dict[str, Tensor], num_channels: int) -> dict[str, Tensor]:
    """Stored names to the model's: the channels' tables and heads are joined, channel order kept."""
    tables = [tensors.pop(f"audio_embeddings.{i}.weight") for i in range(num_channels)]
    heads = [f"codebook_heads.{i}" for i in range(num_channels)] + ["stop_head"]
    state = {
        "frame_embedding.table.weight": torch.cat(tables),
        "frame_embedding.scale": tensors.pop("audio_embed_scale"),
        "heads.proj.weight": torch.cat([tensors.pop(f"{head}.weight") for head in heads]),
        "heads.proj.bias": torch.cat([tensors.pop(f"{head}.bias") for head in heads]),
    }
    renamed = {
        "model.": "backbone.",
        "audio_embed_proj.": "frame_embedding.proj.",
        "ref_compressor.": "compressor.",
    }
    for name, tensor in tensors.items():
        prefix = next((old for old in renamed if name.startswith(old)), "")
        state[renamed.get(prefix, "") + name.removeprefix(prefix)] = tensor
    return state
