"""Compile the sampler's kernel for a Hopper GPU, which needs none, and print its PTX. For a process of its own."""

import sys
from typing import Any

TYPES = {
    "logits_stride": "i32",
    "slots": "*i32",
    "lengths": "*i32",
    "tokens": "*i64",
    "num_sampled": "*i32",
    "num_rows": "i32",
    "table": "*i32",
    "head_sizes": "*i32",
    "head_offsets": "*i32",
    "frames": "*u8",
    "faults": "*i32",
}
CONSTANTS = {
    "LANE_ROWS": 924,
    "FRAME0": 248_832,
    "EOS": 0,
    "NUM_LOGITS": 216,
    "HEADS": 32,
    "HEADS_BLOCK": 32,
    "WIDTH": 8,
    "COLUMNS": 16,
}


def ptx(logits: str) -> str:
    """PTX of the kernel for logits of that Triton type."""
    from triton import compile as compile_kernel  # noqa: PLC0415  # the caller decides how triton is first imported
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.compiler import ASTSource  # noqa: PLC0415

    from workers.gepard.vllm_backend.sampler_kernel import _sample  # noqa: PLC0415

    signature = {"logits": logits, **TYPES, **dict.fromkeys(CONSTANTS, "constexpr")}
    names = [param.name for param in _sample.params]
    source = ASTSource(
        fn=_sample,
        signature={name: signature[name] for name in names},
        constexprs={(names.index(name),): value for name, value in CONSTANTS.items()},
    )
    options = {"num_warps": 4, "enable_fp_fusion": False}
    compiled: Any = compile_kernel(source, target=GPUTarget("cuda", 90, 32), options=options)
    return compiled.asm["ptx"]


if __name__ == "__main__":
    sys.stdout.write(ptx(sys.argv[1]))
