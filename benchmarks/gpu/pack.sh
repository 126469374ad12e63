#!/usr/bin/env bash
# Build one archive of what the product needs on a GPU host without a network, beside PyTorch's own image.
#   usage: benchmarks/gpu/pack.sh OUT.tar.xz
#          on the host:  tar xJf OUT.tar.xz -C SITE; PYTHONPATH=SITE python3 -m benchmarks.gpu.product ...
# The host has Python 3.12 on x86-64 and the packages of a usual PyTorch image: numpy, scipy, onnxruntime, tokenizers,
# httpx, click, jinja2, multidict, prometheus-client, pyyaml, regex, rich, uvloop. Versions are those of
# constraints.txt. The product's own code is not in it, only its metadata: it comes from the checkout.
set -euo pipefail
out=$(realpath -m "$1")
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Markers are read for this Python, not for the host's: take the lines that Python 3.12 takes.
grep -v "python_full_version < '3.12'" "$root/constraints.txt" | sed 's/ ;.*//' > "$work/constraints.txt"
platforms=()
for version in 2_35 2_34 2_31 2_28 2_27 2_24 2_17; do platforms+=(--platform "manylinux_${version}_x86_64"); done
python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
    "${platforms[@]}" --platform manylinux2014_x86_64 --platform manylinux1_x86_64 \
    -c "$work/constraints.txt" -r "$here/product-requirements.txt" -d "$work/wheels"
python3 -m pip wheel --quiet --no-deps -w "$work/own" "$root"

mkdir "$work/site"
for wheel in "$work"/wheels/*.whl; do unzip -qo "$wheel" -d "$work/site"; done
unzip -qo "$work"/own/*.whl '*.dist-info/*' -d "$work/site"
cd "$work/site"
# Nothing that runs: source maps of the documentation page, headers, command wrappers, tests.
find . -name '*.map' -delete
rm -rf -- *.data */tests test
mkdir -p "$(dirname "$out")"
tar cf - . | xz -9e -T0 > "$out"
size=$(stat -c %s "$out")
echo "$out: $size bytes"
# Machines of this kind are sent 64 MiB at most, the checkout included.
[ "$size" -le $((54 * 1024 * 1024)) ] || { echo "over 54 MiB" >&2; exit 1; }
