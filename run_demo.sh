#!/usr/bin/env bash
# From a bare machine to the main job running: makes an environment, installs the wheel that lies in dist/
# or builds one (Rust and a C++ compiler are needed for that), trains a classifier of handwritten digits, then a
# small language model that writes text, which mlx-lm goes on with in 4 bits.
#
#   ./run_demo.sh [--device gpu|cpu] [--steps N] [--seed N] [--out out/digits.png]
#
# The options are those of examples/digits.py; the language model takes the device. The environment and the
# build live in ${XDG_CACHE_HOME:-~/.cache}/mlx-vulkan; CARGO_TARGET_DIR is respected where it is set. The
# pictures go to out/digits.png (or --out) and out/transformer_lm.png.
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
mkdir -p "$cache"
if ! "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
echo "=== environment: $venv"
"$venv/bin/python" -m pip install --quiet numpy scikit-learn matplotlib tqdm

wheel="$(ls -t dist/mlx_vulkan-*.whl 2>/dev/null | head -1 || true)"
if [ -n "$wheel" ] && "$venv/bin/python" -m pip install --quiet --force-reinstall --no-deps "$wheel"; then
    echo "=== wheel: $wheel"
else
    for tool in cargo c++; do
        command -v "$tool" >/dev/null || {
            echo "run_demo.sh: $tool was not found (without a wheel in dist/, Rust and a C++ compiler are needed)" >&2
            exit 1
        }
    done
    echo "=== build (the first one compiles the shader compiler, about 12 minutes of processor time)"
    "$venv/bin/python" -m pip install --quiet "maturin>=1.9,<2" cmake ninja
    wheels="$(mktemp -d)"
    trap 'rm -rf "$wheels"' EXIT
    "$venv/bin/maturin" build --release --interpreter "$venv/bin/python" --out "$wheels"
    "$venv/bin/python" -m pip install --quiet --force-reinstall --no-deps "$wheels"/*.whl
fi

device=()
for ((i = 1; i <= $#; i++)); do
    case "${!i}" in
    --device) next=$((i + 1)) && device=(--device "${!next:-}") ;;
    --device=*) device=("${!i}") ;;
    esac
done
mkdir -p out
echo "=== digits"
"$venv/bin/python" examples/digits.py "$@"
echo "=== language model (a minute or two on two processors)"
"$venv/bin/python" examples/transformer_lm.py ${device[@]+"${device[@]}"} --save out/model --out out/transformer_lm.png
if "$venv/bin/python" -c 'import mlx_lm' 2>/dev/null || "$venv/bin/python" -m pip install --quiet mlx-lm; then
    echo "=== the same model in 4 bits, with mlx-lm"
    "$venv/bin/python" examples/generate.py ${device[@]+"${device[@]}"}
else
    echo "=== mlx-lm could not be installed: examples/generate.py shows the model in 4 bits with it"
fi
echo "=== docs/next.md says what to try next"
