"""Write a codec archive with random weights in the format of the released one, for measurements without it.

    python -m benchmarks.random_codec codec.nemo

Sizes are those of the released codec: 250 MB, 62.6 million parameters. It makes noise, at the real cost.
"""

import argparse
import io
import tarfile
from collections import OrderedDict
from pathlib import Path

import torch
import yaml
from torch import Tensor

from workers.nanocodec.archive import PARTS
from workers.nanocodec.config import (
    CODES_PER_FRAME,
    LEVELS,
    NUM_GROUPS,
    SAMPLE_RATE_HZ,
    SAMPLES_PER_FRAME,
    parse_config,
)
from workers.nanocodec.layout import MAGNITUDE, TensorSpec, part_tensors, quantizer_tensors


def write_random_codec(path: Path, *, decoder_channels: int = 864, encoder_channels: int = 24, seed: int = 0) -> None:
    """Write the archive; smaller channel counts (decoder: a multiple of 32) make a smaller codec."""
    config = _config(decoder_channels, encoder_channels)
    generator = torch.Generator().manual_seed(seed)
    state: OrderedDict[str, Tensor] = OrderedDict()
    parsed = parse_config(config)
    for part in PARTS:
        for name, spec in part_tensors(parsed, part).items():
            state[name] = _random(name, spec, generator)
    base = torch.tensor([1, *LEVELS[:-1]], dtype=torch.int32).cumprod(0, dtype=torch.int32)
    levels = torch.tensor(LEVELS, dtype=torch.int32)
    for name, spec in quantizer_tensors().items():
        state[name] = (levels if name.endswith("num_levels") else base).clone().reshape(spec.shape)

    weights = io.BytesIO()
    torch.save(state, weights)
    with tarfile.open(path, "w") as archive:
        for name, data in (("model_config.yaml", config), ("model_weights.ckpt", weights.getvalue())):
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def _random(name: str, spec: TensorSpec, generator: torch.Generator) -> Tensor:
    if name.endswith(MAGNITUDE):
        # Neither silence nor clipping after all layers; the decoder's snake adds power, the encoder has none.
        return torch.full(spec.shape, 0.6 if name.startswith("audio_decoder.") else 1.0)
    if name.endswith("alpha"):
        return 0.5 + torch.rand(spec.shape, generator=generator)
    scale = 0.02 if name.endswith("bias") else 1.0
    return scale * torch.randn(spec.shape, generator=generator)


def _config(decoder_channels: int, encoder_channels: int) -> bytes:
    modules = "nemo.collections.tts.modules.audio_codec_modules"
    document = {
        "target": "nemo.collections.tts.models.audio_codec.AudioCodecModel",
        "sample_rate": SAMPLE_RATE_HZ,
        "samples_per_frame": SAMPLES_PER_FRAME,
        "audio_encoder": {
            "_target_": f"{modules}.HiFiGANEncoder",
            "down_sample_rates": [2, 2, 4, 8, 8],
            "encoded_dim": CODES_PER_FRAME,
            "base_channels": encoder_channels,
            "activation": "lrelu",
            "pad_mode": "replicate",
        },
        "audio_decoder": {
            "_target_": f"{modules}.CausalHiFiGANDecoder",
            "up_sample_rates": [8, 8, 4, 2, 2],
            "input_dim": CODES_PER_FRAME,
            "base_channels": decoder_channels,
            "activation": "half_snake",
            "output_activation": "clamp",
            "pad_mode": "zeros",
            "n_groups_equal_to_out_channels": True,
        },
        "vector_quantizer": {
            "_target_": f"{modules}.GroupFiniteScalarQuantizer",
            "num_groups": NUM_GROUPS,
            "num_levels_per_group": list(LEVELS),
        },
    }
    return yaml.safe_dump(document, sort_keys=False).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    write_random_codec(arguments.path, seed=arguments.seed)


if __name__ == "__main__":
    main()
