"""What the codec is, and the hyper-parameters that its archive declares.

The constants are the format that a language model on top of this codec speaks; an archive that declares
another format is refused. Channel counts, rates and kernels come from the archive, within bounds.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import yaml

from shared.errors import CheckpointError

SAMPLE_RATE_HZ: Final = 22_050
SAMPLES_PER_FRAME: Final = 1024
FRAME_RATE_HZ: Final = SAMPLE_RATE_HZ / SAMPLES_PER_FRAME  # 21.533; the "21.5" of the name is rounded
NUM_GROUPS: Final = 8
LEVELS: Final = (8, 7, 6, 6)  # of the four scalar codes of one group
IDS_PER_GROUP: Final = math.prod(LEVELS)
CODES_PER_FRAME: Final = NUM_GROUPS * len(LEVELS)

_MAX_CHANNELS = 4096
_MAX_KERNEL = 31
_MAX_DILATION = 64
_MAX_RATE = 16
_MAX_LIST = 8
_MAX_DEPTH = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class HifiGanConfig:
    """One HiFi-GAN stack. `rates` multiply the sample count of the decoder, divide that of the encoder."""

    base_channels: int
    rates: tuple[int, ...]
    in_kernel: int
    out_kernel: int
    residual_kernels: tuple[int, ...]
    dilations: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecConfig:
    """Both stacks; everything else about the codec is constant."""

    decoder: HifiGanConfig
    encoder: HifiGanConfig


def parse_config(document: bytes) -> CodecConfig:
    """Read `model_config.yaml`. Sections of training (losses, discriminators, optimiser) are not looked at.

    Raises CheckpointError for what is no YAML mapping, for another codec format and for sizes out of bounds.
    """
    root = _Section("", _load_mapping(document))
    root.require("sample_rate", str(SAMPLE_RATE_HZ))
    root.require("samples_per_frame", str(SAMPLES_PER_FRAME))

    quantizer = root.section("vector_quantizer", "GroupFiniteScalarQuantizer")
    quantizer.require("num_groups", str(NUM_GROUPS))
    if quantizer.integers("num_levels_per_group", 2, 64) != LEVELS:
        raise CheckpointError(f"config: vector_quantizer.num_levels_per_group is not {list(LEVELS)}")

    # Where the file is silent, NeMo's constructors decide; those of their defaults that this implementation
    # does not have (tanh, reflect) are refused like any other unsupported value.
    decoder = root.section("audio_decoder", "CausalHiFiGANDecoder")
    decoder.require("input_dim", str(CODES_PER_FRAME))
    decoder.require("activation", "half_snake", default="lrelu")
    decoder.require("output_activation", "clamp", default="tanh")
    decoder.require("pad_mode", "zeros", default="zeros")
    decoder.require("n_groups_equal_to_out_channels", "true", default="true")
    encoder = root.section("audio_encoder", "HiFiGANEncoder")
    encoder.require("encoded_dim", str(CODES_PER_FRAME))
    encoder.require("activation", "lrelu", default="lrelu")
    encoder.require("pad_mode", "replicate", default="reflect")

    config = CodecConfig(
        decoder=decoder.stack("up_sample_rates", out_kernel=3),
        encoder=encoder.stack("down_sample_rates", out_kernel=7),
    )
    if config.decoder.base_channels % 2 ** len(config.decoder.rates):
        raise CheckpointError("config: audio_decoder.base_channels cannot be halved at every stage")
    if config.encoder.base_channels << len(config.encoder.rates) > _MAX_CHANNELS:
        raise CheckpointError(f"config: audio_encoder ends with more than {_MAX_CHANNELS} channels")
    return config


class _Section:
    """One mapping of the document and its dotted name for messages."""

    def __init__(self, name: str, values: Mapping[object, object]) -> None:
        self._name = name
        self._values = values

    def section(self, key: str, class_name: str) -> "_Section":
        values = self._values.get(key)
        if not isinstance(values, dict):
            raise CheckpointError(f"config: section {key} is missing")
        target = str(values.get("_target_", ""))[:120]
        if target.rpartition(".")[2] != class_name:
            raise CheckpointError(f"config: {key}._target_ is {target!r}, supported is {class_name}")
        return _Section(f"{self._name}{key}.", values)

    def require(self, key: str, supported: str, *, default: str | None = None) -> None:
        value = self._values.get(key, default)
        if not isinstance(value, str) or value.lower() != supported:
            raise CheckpointError(f"config: {self._name}{key} is {_shown(value)}, supported is {supported}")

    def integer(self, key: str, low: int, high: int, *, default: int | None = None) -> int:
        if key not in self._values and default is not None:
            return default
        return self._bounded(key, self._values.get(key), low, high)

    def integers(self, key: str, low: int, high: int, *, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        if key not in self._values and default is not None:
            return default
        values = self._values.get(key)
        if not isinstance(values, list) or not 1 <= len(values) <= _MAX_LIST:
            raise CheckpointError(f"config: {self._name}{key} is not a list of 1 to {_MAX_LIST} integers")
        return tuple(self._bounded(key, value, low, high) for value in values)

    def stack(self, rates_key: str, *, out_kernel: int) -> HifiGanConfig:
        config = HifiGanConfig(
            base_channels=self.integer("base_channels", 1, _MAX_CHANNELS),
            rates=self.integers(rates_key, 2, _MAX_RATE),
            in_kernel=self.integer("in_kernel_size", 1, _MAX_KERNEL, default=7),
            out_kernel=self.integer("out_kernel_size", 1, _MAX_KERNEL, default=out_kernel),
            residual_kernels=self.integers("resblock_kernel_sizes", 1, _MAX_KERNEL, default=(3, 7, 11)),
            dilations=self.integers("resblock_dilation_sizes", 1, _MAX_DILATION, default=(1, 3, 5)),
        )
        if any(kernel % 2 == 0 for kernel in (config.in_kernel, config.out_kernel, *config.residual_kernels)):
            raise CheckpointError(f"config: {self._name}* has an even kernel size")
        if math.prod(config.rates) != SAMPLES_PER_FRAME:
            raise CheckpointError(f"config: {self._name}{rates_key} do not multiply to {SAMPLES_PER_FRAME}")
        return config

    def _bounded(self, key: str, value: object, low: int, high: int) -> int:
        if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value) and low <= int(value) <= high:
            return int(value)
        name = f"{self._name}{key}"
        raise CheckpointError(f"config: {name} is {_shown(value)}, expected an integer from {low} to {high}")


class _FlatLoader(yaml.BaseLoader):
    """Makes strings, lists and dicts only: no tags, no merge keys, no huge numbers, no deep nesting."""

    def __init__(self, document: bytes) -> None:
        super().__init__(document)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        # The scanner's work on a token grows with the depth it is at: stop before a long row of brackets.
        if self._depth > _MAX_DEPTH:
            raise yaml.YAMLError(f"nested deeper than {_MAX_DEPTH}")
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _load_mapping(document: bytes) -> Mapping[object, object]:
    try:
        root: object = yaml.load(document, Loader=_FlatLoader)  # noqa: S506
    except (yaml.YAMLError, ValueError) as error:
        raise CheckpointError("config: not a readable YAML document") from error
    if not isinstance(root, dict):
        raise CheckpointError("config: not a YAML mapping")
    return root


def _shown(value: object) -> str:
    # A list or mapping may be arbitrarily deep or (through aliases) wide: only strings are printed.
    if value is None:
        return "missing"
    return repr(value[:80]) if isinstance(value, str) else f"a {type(value).__name__}"
