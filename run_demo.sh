#!/usr/bin/env bash
# From a bare machine (Python >= 3.11, Rust, a C++ compiler) to the main job running: makes an
# environment, builds mlx-vulkan, trains a classifier of handwritten digits, then a small language model that
# writes text.
#
#   ./run_demo.sh [--device gpu|cpu] [--steps N] [--seed N] [--out out/digits.png]
#
# The environment and the build live in ${XDG_CACHE_HOME:-~/.cache}/mlx-vulkan; CARGO_TARGET_DIR is
# respected where it is set. The pictures go to out/digits.png (or --out) and out/transformer_lm.png.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

cache="${XDG_CACHE_HOME:-$HOME/.cache}/mlx-vulkan"
venv="$cache/venv-demo"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$cache/target}"
export PATH="$venv/bin:$PATH:$HOME/.cargo/bin"
export PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONPATH

python=""
for p in python3 python3.14 python3.13 python3.12 python3.11 python; do
    if command -v "$p" >/dev/null && "$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        python="$p"
        break
    fi
done
[ -n "$python" ] || { echo "run_demo.sh: Python 3.11 or newer is needed" >&2; exit 1; }
for tool in cargo c++; do
    command -v "$tool" >/dev/null || { echo "run_demo.sh: $tool was not found (Rust and a C++ compiler are needed)" >&2; exit 1; }
done

mkdir -p "$cache"
if ! "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
echo "=== environment: $venv"
"$venv/bin/python" -m pip install --quiet "maturin>=1.9,<2" cmake ninja numpy scikit-learn matplotlib tqdm
echo "=== build (the first one compiles the shader compiler, about ten CPU minutes)"
wheels="$(mktemp -d)"
trap 'rm -rf "$wheels"' EXIT
"$venv/bin/maturin" build --release --interpreter "$venv/bin/python" --out "$wheels"
"$venv/bin/python" -m pip install --quiet --force-reinstall --no-deps "$wheels"/*.whl
echo "=== digits"
mkdir -p out
"$venv/bin/python" examples/digits.py "$@"
echo "=== language model"
"$venv/bin/python" examples/transformer_lm.py --steps 200 --out out/transformer_lm.png
