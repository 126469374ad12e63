#!/usr/bin/env bash
# Build the two archives that bring vLLM to a GPU host without a network, beside PyTorch's own image.
#   usage: benchmarks/gpu/pack_vllm.sh FOLDER
#          on the host, for both:  tar xJf ARCHIVE -C SITE; then PYTHONPATH=SITE VLLM_USE_FLASHINFER_SAMPLER=0 python3 ...
# The host has Python 3.12 on x86-64, a Hopper GPU, torch 2.11.0+cu130, triton 3.6.0 and transformers 5. Each archive
# and the checkout stay under 64 MiB together, which is what such machines are sent at most.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

platforms=()
for version in 2_35 2_34 2_31 2_28 2_27 2_26 2_24 2_17 2_5; do platforms+=(--platform "manylinux_${version}_x86_64"); done
fetch() {
    python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
        "${platforms[@]}" --platform manylinux2014_x86_64 --platform manylinux1_x86_64 "$@"
}
fetch -d "$work/vllm" vllm==0.25.1
fetch -d "$work/wheels" -r "$here/vllm-requirements.txt"

core=$work/core deps=$work/deps
mkdir -p "$core" "$deps/vllm/vllm_flash_attn"
unzip -qo "$work"/vllm/*.whl -d "$core"
for wheel in "$work"/wheels/*.whl; do unzip -qo "$wheel" -d "$deps"; done

# FlashAttention 3 goes with the rest, for the balance; of the other libraries only those that are always imported stay.
mv "$core"/vllm/vllm_flash_attn/_vllm_fa3_C*.so "$deps/vllm/vllm_flash_attn/"
find "$core" -name '*.so' ! -name '_C_stable_libtorch*' ! -name 'cumem_allocator*' ! -name 'spinloop*' \
    ! -name 'fs_io_C*' ! -name '_rust_tool_parser*' -delete
rm -rf "$core"/vllm/vllm-rs "$core"/vllm/third_party/deep_gemm/include "$core"/*.data "$deps"/*/tests
mv "$core/vllm/third_party" "$deps/vllm/"
find "$core" "$deps" -name __pycache__ -prune -exec rm -rf {} +

# A filter for machine code, and a dictionary as large as the largest library.
tar cf - -C "$core" . | xz --x86 --lzma2=preset=9e,dict=64MiB > "$out/1-vllm.tar.xz"
tar cf - -C "$deps" . | xz --x86 --lzma2=preset=9e,dict=64MiB > "$out/2-vllm-deps.tar.xz"
ls -l "$out"
