#!/usr/bin/env bash
# From a bare machine (Python >= 3.11, Rust, a C++ compiler) to all tests passed.
#
#   ./run_tests.sh                 every step, in the order below
#   ./run_tests.sh cpu gpu ...     only the named steps (of what is already built)
#
# Steps: format clippy imports rust build installs ruff stubs cpu gpu widths oracle validation fuzz chips masks drivers groups examples docs
#
# The Python environment and Cargo's target folder live outside the clone, in
# ${XDG_CACHE_HOME:-~/.cache}/mlx-vulkan, so that a second run, or a second clone, starts warm.
# CARGO_TARGET_DIR is respected where it is set. Where a Vulkan driver is missing and apt may be
# used, Mesa's software driver and the Khronos validation layer are installed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1

STEPS=(format clippy imports rust build installs ruff stubs cpu gpu widths oracle validation fuzz chips masks drivers groups examples docs)
cache="${XDG_CACHE_HOME:-$HOME/.cache}/mlx-vulkan"
venv="$cache/venv-tests"
official="$cache/venv-official"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$cache/target}"
export CARGO_INCREMENTAL=0 # nothing of an interrupted build is taken over
export PATH="$venv/bin:$PATH:$HOME/.cargo/bin"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1
unset PYTHONPATH
export MLX_VK_CACHE_MB=4096 # all kernels of all tests are more than a user's 256
scratch="$(mktemp -d)"
trap 'kill $(jobs -pr) 2>/dev/null; rm -rf "$scratch"' EXIT

want=("$@")
[ ${#want[@]} -eq 0 ] && want=("${STEPS[@]}")
for s in "${want[@]}"; do
    if [[ " ${STEPS[*]} " != *" $s "* ]]; then
        echo "run_tests.sh: no step '$s'; steps are: ${STEPS[*]}" >&2
        exit 2
    fi
done

wanted() { [[ " ${want[*]} " == *" $1 "* ]]; }

maker="" # the process that makes the wheel
names=() results=() seconds=() notes=()
failed=0

# run STEP HEADING COMMAND...: runs the step if it is wanted; keeps its log and its result.
run() {
    local name="$1" heading="$2" begin status note
    shift 2
    wanted "$name" || return 0
    printf '\n=== %s: %s\n' "$name" "$heading"
    begin=$SECONDS
    "$@" 2>&1 | tee "$scratch/$name.log"
    status=${PIPESTATUS[0]}
    note="$(grep -aE '(passed|failed|error).* in [0-9.]+s|^NOT ' "$scratch/$name.log" | tail -1 | tr -d =)"
    names+=("$name") seconds+=($((SECONDS - begin))) notes+=("$note")
    if [ "$status" -eq 0 ]; then results+=(ok); else results+=(FAILED) failed=1; fi
    printf -- '--- %s: %s in %d s (%d s since the beginning)\n' "$name" "${results[-1]}" "${seconds[-1]}" "$SECONDS"
    return "$status"
}

# --- the machine ---------------------------------------------------------------------------------

find_python() {
    local p
    for p in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if command -v "$p" >/dev/null && "$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
            command -v "$p"
            return 0
        fi
    done
    echo "run_tests.sh: Python 3.11 or newer is needed" >&2
    return 1
}

present() { compgen -G "$1" >/dev/null; }

missing_packages() {
    [[ "$(ldconfig -p 2>/dev/null)" == *libvulkan.so.1* ]] || present '/usr/lib*/libvulkan.so.1' ||
        present '/usr/local/lib/libvulkan.so.1' || echo libvulkan1
    present '/usr/share/vulkan/icd.d/*.json' || present '/etc/vulkan/icd.d/*.json' ||
        echo mesa-vulkan-drivers
    present '/usr/share/vulkan/explicit_layer.d/*hronos_validation*.json' ||
        present '/etc/vulkan/explicit_layer.d/*hronos_validation*.json' ||
        present "${VK_LAYER_PATH:-/nonexistent}/*hronos_validation*.json" || echo vulkan-validationlayers
}

install_packages() {
    local packages sudo=""
    mapfile -t packages < <(missing_packages)
    [ ${#packages[@]} -eq 0 ] && return 0
    if ! command -v apt-get >/dev/null; then
        echo "missing: ${packages[*]} (this system has no apt-get; install their equivalents)"
        return 0
    fi
    if [ "$(id -u)" -ne 0 ]; then
        sudo -n true 2>/dev/null || {
            echo "missing, and root is needed to install them: ${packages[*]}"
            return 0
        }
        sudo="sudo -n"
    fi
    echo "installing ${packages[*]}"
    $sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${packages[@]}"
}

prepare() {
    local python tool
    printf '=== machine\n'
    python="$(find_python)" || return 1
    for tool in cargo c++; do
        if ! command -v "$tool" >/dev/null; then
            echo "run_tests.sh: $tool was not found (Rust and a C++ compiler are needed)" >&2
            return 1
        fi
    done
    install_packages
    mkdir -p "$cache"
    if ! "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        rm -rf "$venv"
        "$python" -m venv "$venv" || return 1
    fi
    "$venv/bin/python" -m pip install --quiet --upgrade \
        "maturin>=1.9,<2" cmake ninja numpy scipy pytest pytest-xdist pytest-timeout scikit-learn matplotlib tqdm ruff mypy \
        nbconvert ipykernel || return 1
    printf '%s; %s; %s\n' "$("$venv/bin/python" --version)" "$(rustc --version)" "$(c++ --version | head -1)"
}

# --- the steps -----------------------------------------------------------------------------------

step_format() { cargo fmt --all -- --check && "$venv/bin/python" tools/sizes.py; }

step_imports() {
    "$venv/bin/python" tools/imports.py && "$venv/bin/python" tools/house.py
}

# Always --release: the C++ shader compiler among the dependencies is then built once for all steps.
step_clippy() {
    cargo clippy --release --all-targets --features python,vulkan -- -D warnings &&
        cargo check --release --lib --no-default-features # without Vulkan, for the CPU alone
}

# Most of these tests compile shaders; code generation for our own crate would take longer than it saves.
rust_tests() {
    timeout -k 10 2400 cargo test --lib --release --no-default-features --features vulkan \
        --config profile.release.package.mlx_vulkan.opt-level=1 \
        --config profile.release.package.mlx_vulkan.codegen-units=12 "$@"
}

step_rust() { rust_tests; }

# The wheel is one unit of code generation, minutes of one core: it is made while the Rust tests run.
begin_wheel() {
    wanted rust && wanted build || return 0
    rust_tests --no-run >/dev/null 2>&1 # Cargo builds one thing at a time; what fails here is told by the step rust
    make_wheel >"$scratch/wheel.log" 2>&1 &
    maker=$!
}

make_wheel() { "$venv/bin/maturin" build --release --interpreter "$venv/bin/python" --out "$scratch/wheels"; }

step_build() {
    if [ -n "$maker" ]; then
        while kill -0 "$maker" 2>/dev/null; do sleep 1; done # whether it failed is told by the wheel
        cat "$scratch/wheel.log"
    else
        make_wheel || return 1
    fi
    "$venv/bin/python" -m pip install --quiet --force-reinstall --no-deps "$scratch"/wheels/*.whl &&
        (cd "$scratch" && "$venv/bin/python" -c 'import mlx.core as mx; print("mlx.core", mx.__version__)')
}

# The wheel beside upstream's package and its clients, each order in an environment of its own.
step_installs() {
    local wheel
    wheel="$(ls -t "$scratch"/wheels/*.whl dist/mlx_vulkan-*.whl 2>/dev/null | head -1)"
    [ -n "$wheel" ] || { echo "NOT RUN: no wheel (add the step build)"; return 0; }
    "$venv/bin/python" tools/installs.py --wheel "$wheel"
}

step_ruff() { "$venv/bin/ruff" check . && "$venv/bin/ruff" format --check . && "$venv/bin/python" tools/place.py; }

step_stubs() {
    "$venv/bin/python" tools/stubs.py --check && "$venv/bin/python" tools/support.py --check &&
        "$venv/bin/python" tools/env_table.py --check && "$venv/bin/python" tools/licences.py --check &&
        (cd "$scratch" && "$venv/bin/python" -m mypy.stubtest mlx.core) &&
        "$venv/bin/python" -m mypy -p mlx.nn -p mlx.optimizers -m mlx.utils -p mlx._distributed_utils
}

# A test that hangs ends its process, and a second process takes over. Of a worker what the former says is lost ("node down"): the
# stacks of all threads are shown before.
tests_of() {
    "$venv/bin/python" -m pytest -o addopts= -o faulthandler_timeout=290 -ra --durations=15 -p no:cacheprovider \
        --timeout 300 --timeout-method thread "$@"
}

tests() { tests_of python/tests "$@"; }

step_cpu() { tests --device cpu -n 2 --dist worksteal; }

has_gpu() {
    "$venv/bin/python" -c 'import sys, mlx.core as mx; sys.exit(not mx.is_available(mx.gpu))' || {
        echo "no Vulkan device: install a driver, or Mesa's software driver (mesa-vulkan-drivers)"
        return 1
    }
}

# Two processes: a software driver compiles its kernels on one thread each. What evaluates a lot runs with the thread
# that records graphs, as cards have it and software drivers have not; without it, validation has a part of that, too.
step_gpu() {
    local status=0 recorded="test_eval or test_compile or test_fast or test_threads or test_language_model or test_memory \
        or test_chain or test_autograd or test_optimizers"
    "$venv/bin/python" tools/mesa.py >/dev/null 2>&1 # tests of AMD's compiler want the newer one, where it can be had
    has_gpu || return 1
    tests --device gpu -n 2 --dist worksteal -k "not ($recorded)" || status=1
    MLX_VK_RECORDER=1 MLX_VK_COMMAND_THREAD=1 tests --device gpu -n 2 --dist worksteal -k "$recorded" || status=1
    return "$status"
}

# Mesa's software driver with subgroups of 4 and of 16 lanes in place of 8, wherever there is one.
step_widths() {
    local width
    export MLX_VK_DEVICE=llvmpipe
    if ! "$venv/bin/python" -c 'import sys, mlx.core as mx
sys.exit(mx.vulkan.describe()["kind"] != "software")' 2>/dev/null; then
        echo "NOT TESTED: there is no software driver (mesa-vulkan-drivers)"
        return 0
    fi
    for width in 128 512; do
        LP_NATIVE_VECTOR_WIDTH=$width "$venv/bin/python" -m mlx.info --selftest | grep -A99 'self-test on Device(gpu' &&
            LP_NATIVE_VECTOR_WIDTH=$width "$venv/bin/python" -m pytest -o addopts= -q -p no:cacheprovider -n 2 \
                --timeout 300 --device gpu -m validation -k "not test_reduce or float32" python/tests/test_reduce.py \
                python/tests/test_fft.py python/tests/test_gather_mm.py || return 1
    done
}

# The official implementation, for the CPU, in an environment of its own.
official_mlx() {
    "$official/bin/python" -c 'import numpy, mlx.core' 2>/dev/null && return 0
    rm -rf "$official"
    "$venv/bin/python" -m venv "$official" &&
        "$official/bin/python" -m pip install --quiet "mlx[cpu]==0.32.4" numpy &&
        "$official/bin/python" -c 'import mlx.core'
}

step_oracle() {
    local device status=0
    if ! official_mlx; then
        echo "NOT COMPARED: mlx[cpu]==0.32.4 could not be installed on this machine"
        return 0
    fi
    for device in cpu gpu; do
        if [ "$device" = gpu ]; then has_gpu || return 1; fi
        "$venv/bin/python" python/tests/oracle/differential.py \
            --official "$official/bin/python" --device "$device" || status=1
        "$venv/bin/python" python/tests/oracle/behaviour.py --quiet \
            --official "$official/bin/python" --device "$device" || status=1
        "$venv/bin/python" python/tests/oracle/contract.py \
            --official "$official/bin/python" --device "$device" || status=1
    done
    OFFICIAL="$official/bin/python" "$venv/bin/python" -m pytest python/tests/oracle/ring.py --device cpu || status=1
    return "$status"
}

# One part of the files, with messages and output in a folder of its own.
# The settings file switches synchronisation validation on under the names of old and new layers.
validated() {
    local part="$1" parts="$2" dir="$scratch/validation$1" i all=(python/tests/test_*.py) files=()
    for ((i = part; i < ${#all[@]}; i += parts)); do files+=("${all[i]}"); done
    mkdir -p "$dir"
    cat >"$dir/vk_layer_settings.txt" <<-SETTINGS
		khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
		khronos_validation.report_flags = error,warn
		khronos_validation.log_filename = $dir/messages.txt
		khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
		khronos_validation.validate_sync = true
	SETTINGS
    VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation VK_LAYER_SETTINGS_PATH="$dir" \
        VK_LAYER_ENABLES=VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT \
        tests_of "${files[@]}" --device gpu -m validation -s >"$dir/output.txt" 2>&1
    echo $? >"$dir/status"
}

# Parts of the files, two at a time. The layer writes its log file as soon as it is loaded: no file means that nothing
# was checked.
step_validation() {
    local part dir parts=8 status=0 begin=$SECONDS
    has_gpu || return 1
    for ((part = 0; part < parts; part++)); do
        if [ "$(jobs -rp | wc -l)" -ge 2 ]; then wait -n; fi
        validated "$part" "$parts" &
    done
    wait
    for ((part = 0; part < parts; part++)); do
        dir="$scratch/validation$part"
        if [ "$(cat "$dir/status")" = 0 ]; then
            grep -aE '(passed|failed|error).* in ' "$dir/output.txt" | tail -1
        else
            status=1
            tail -150 "$dir/output.txt"
        fi
        if [ ! -e "$dir/messages.txt" ]; then
            echo "the Khronos validation layer was not loaded (package vulkan-validationlayers)"
            return 1
        fi
        grep -ahE 'Validation (Error|Warning)|VUID-|UNASSIGNED-|SYNC-HAZARD' \
            "$dir/messages.txt" "$dir/output.txt" >>"$scratch/objections.txt"
    done
    if [ -s "$scratch/objections.txt" ]; then
        head -40 "$scratch/objections.txt"
        echo "validation messages: $(wc -l <"$scratch/objections.txt")"
        return 1
    fi
    echo "validation messages: 0"
    echo "$(grep -ahoE '[0-9]+ passed' "$scratch"/validation?/output.txt | awk '{ n += $1 } END { print n }') passed in $((SECONDS - begin))s"
    return "$status"
}

# Where Python finds mlx-lm, and what it needs: packages that the step installs has fetched.
mlx_lm() {
    local clients
    clients="$(ls -d "$cache"/clients-*/site 2>/dev/null | head -1)"
    [ -n "$clients" ] || return 1
    [ -d "$scratch/mlx-lm/mlx_lm" ] ||
        "$venv/bin/python" -m pip install --quiet --no-deps --target "$scratch/mlx-lm" mlx-lm >&2 || return 1
    echo "$scratch/mlx-lm:$clients"
}

# A model that hardly learned writes no sense, but it writes.
mlx_lm_generates() {
    local path
    path="$(mlx_lm)" || {
        echo "NOT RUN: examples/generate.py (mlx-lm could not be installed)"
        return 0
    }
    PYTHONPATH="$path" "$venv/bin/python" examples/generate.py --device cpu --tokens 20 \
        --model "$scratch/model" --out "$scratch/model-4bit"
}

# The notebook with mlx-lm, with fewer steps.
language_notebook() {
    local path
    path="$(mlx_lm)" || return 0
    mkdir -p "$scratch/short/notebooks" && ln -sfn "$PWD/examples" "$scratch/short/examples"
    sed 's/steps, context, batch = 600/steps, context, batch = 40/' notebooks/language_model.ipynb \
        >"$scratch/short/notebooks/language_model.ipynb"
    PYTHONPATH="$path" "$venv/bin/python" -m nbconvert \
        --to notebook --execute --inplace "$scratch/short/notebooks/language_model.ipynb"
}

# Kernels for GPUs that are not there: Mesa's AMD compiler, from the distribution's backports.
step_chips() {
    "$venv/bin/python" tools/portability.py page --check && "$venv/bin/python" tools/tested_devices.py --check || return 1
    "$venv/bin/python" tools/mesa.py || return 0
    "$venv/bin/python" tools/portability.py chips
}

# Twelve targets, two at a time. Eight seconds of each are some 80,000 cases; longer runs: fuzz/run.py --help.
step_fuzz() { "$venv/bin/python" fuzz/run.py --seconds 8 --jobs 2; }

# The features and limits of other devices, on the software driver; refused devices take no time.
step_masks() { has_gpu && "$venv/bin/python" tools/portability.py masks; }

# The newest software driver of the distribution's backports beside the system's.
step_drivers() {
    local mesa
    mesa="$("$venv/bin/python" tools/mesa.py)" || {
        echo "$mesa"
        return 0
    }
    VK_DRIVER_FILES="$mesa/lvp.json" VK_ICD_FILENAMES="$mesa/lvp.json" \
        LD_LIBRARY_PATH="$mesa/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        tests --device gpu -n 2 -m validation -k "test_blas or test_conv or test_quantized or test_reduce \
            or test_scatter or test_fft or test_random or test_gather_mm or test_large_arrays"
}

# MPI of the distribution, both families where they can be had within two minutes.
has_mpi() {
    command -v mpirun >/dev/null && return 0
    command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ] &&
        DEBIAN_FRONTEND=noninteractive timeout 120 apt-get install -y -qq --no-install-recommends openmpi-bin mpich
    command -v mpirun >/dev/null
}

step_groups() {
    local path status=0
    if path="$(mlx_lm)"; then
        PYTHONPATH="$path" \
            "$venv/bin/python" -m pytest python/tests/oracle/sharded_lm.py --device cpu || status=1
    else
        echo "NOT RUN: generation on several processes (mlx-lm could not be installed)"
    fi
    if has_mpi; then
        "$venv/bin/python" -m pytest python/tests/oracle/mpi.py --device cpu || status=1
    else
        echo "NOT RUN: there is no mpirun (packages openmpi-bin and mpich)"
    fi
    return "$status"
}

step_examples() {
    local device
    for device in cpu gpu; do
        if [ "$device" = gpu ]; then has_gpu || return 1; fi
        "$venv/bin/python" examples/digits.py --device "$device" --steps 300 --out "$scratch/$device.png" &&
            [ -s "$scratch/$device.png" ] || return 1
        "$venv/bin/python" examples/image_pipeline.py --device "$device" --images 2000 --batch 300 \
            --out "$scratch/images.png" && [ -s "$scratch/images.png" ] || return 1
        "$venv/bin/python" examples/profile_step.py --device "$device" --small --out "$scratch/profile" || return 1
    done
    "$venv/bin/python" examples/classifier.py --device cpu --steps 100 --out "$scratch/classifier.png" &&
        "$venv/bin/python" examples/transformer_lm.py --device cpu --steps 60 --batch 8 --context 32 \
            --sample 20 --save "$scratch/model" --out "$scratch/transformer_lm.png" &&
        mlx_lm_generates &&
        "$venv/bin/python" examples/lora.py --device cpu --steps 40 --batch 8 \
            --out "$scratch/lora.safetensors" &&
        "$venv/bin/python" -m nbconvert --to notebook --execute --output-dir "$scratch" \
            notebooks/quickstart.ipynb notebooks/profiling.ipynb notebooks/custom_kernel.ipynb &&
        language_notebook
}

# The site as readers get it, and a look at it in a browser.
step_docs() {
    "$venv/bin/python" -m pip install --quiet -r docs/requirements.txt || {
        echo "NOT RUN: the generator of the site could not be installed"
        return 0
    }
    NO_MKDOCS_2_WARNING=1 "$venv/bin/python" tools/docs_site.py --out "$scratch/site" &&
        "$venv/bin/python" tools/docs_look.py --site "$scratch/site" --out "$scratch/pictures"
}

# --- all of it -----------------------------------------------------------------------------------

prepare || exit 1
run format "rustfmt --check, sizes that nobody checked" step_format
run clippy "clippy, warnings are errors" step_clippy
run imports "no import points up, no circle that is not listed, no file or folder too long" step_imports
begin_wheel
run rust "cargo test, the core without Python" step_rust
if ! run build "wheel, installed into $venv" step_build; then
    want=(format clippy imports rust build ruff)
fi
run installs "the wheel in fresh environments with upstream's clients" step_installs
run ruff "ruff check and format --check, links to the place of publication" step_ruff
run stubs "stubs and support matrix are up to date, mypy stubtest agrees" step_stubs
run cpu "pytest on the CPU" step_cpu
run gpu "pytest on the GPU or the software driver" step_gpu
run widths "kernels with subgroups of 4 and 16 lanes" step_widths
run oracle "random cases against the official implementation" step_oracle
run validation "Khronos validation with synchronisation validation" step_validation
run chips "kernels compiled for chips of AMD that are not there" step_chips
run fuzz "damaged files, hostile memory and programs" step_fuzz
run masks "tests with the features and limits of other devices" step_masks
run drivers "kernels' tests on the newest software driver" step_drivers
run groups "processes over Open MPI and MPICH, mlx-lm on several" step_groups
run examples "the examples" step_examples
run docs "the documentation site, its links, a look in a browser" step_docs

printf '\n=== summary\n'
for i in "${!names[@]}"; do
    printf '%-11s %-7s %5d s  %s\n' "${names[i]}" "${results[i]}" "${seconds[i]}" "${notes[i]}"
done
if [ "$failed" -eq 0 ]; then
    printf 'all steps passed in %d s\n' "$SECONDS"
else
    printf 'FAILED in %d s\n' "$SECONDS"
fi
exit "$failed"
