"""Groups over the MPI libraries of this machine: Open MPI's and MPICH's mpirun, whichever is there.

python -m pytest python/tests/oracle/mpi.py
"""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from test_distributed import PROGRAMS, TESTS, environment, launch  # noqa: E402

# More processes than cores, as any user.
OPEN_MPI = ["--oversubscribe", "--allow-run-as-root"]


def command(family, path, count, *program):
    """Starts so many processes of a Python program."""
    options = OPEN_MPI if family == "openmpi" else []
    return [path, *options, "-n", str(count), sys.executable, *program]


def starts(family, path):
    """Whether it starts two processes here: it may want ssh, shared memory, a name of the host."""
    try:
        words = command(family, path, 2, "-c", "")
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        print(f"NOT RUN: {path} starts no processes within a minute")
        return False
    if done.returncode:
        print(f"NOT RUN: {path} starts no processes: {done.stderr[-500:]}")
    return done.returncode == 0


def found():
    """The mpirun of each family that works."""
    by_family = {}
    for name in ("mpirun.openmpi", "mpirun.mpich", "mpirun"):
        path = shutil.which(name)
        if path:
            text = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
            family = (
                "openmpi" if "open mpi" in text.lower() or "openrte" in text.lower() else "mpich"
            )
            if family not in by_family and starts(family, path):
                by_family[family] = path
    return by_family


MPIRUN = found()
FAMILIES = sorted(MPIRUN)


def run(family, program, count, code=0, **extra):
    """The output of mpirun, which has to end with this code; None stands for any."""
    env = environment(BACKEND="mpi", **extra)
    process = subprocess.Popen(
        command(family, MPIRUN[family], count, str(PROGRAMS), program),
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output = process.communicate(timeout=240)[0]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert code is None or process.returncode == code, output
    return output


@pytest.mark.parametrize(
    ("family", "count"), [(f, n) for f in FAMILIES for n in ((2, 4, 8) if f == "openmpi" else (4,))]
)
def test_everything(family, count):
    output = run(family, "everything", count, **({"SHORT": "1"} if count == 8 else {}))
    assert output.count("fine") == count, output


@pytest.mark.parametrize("family", FAMILIES)
def test_large_arrays_go_in_parts(family):
    # No part is a whole number of rows or elements.
    extra = {"ROWS": "3", "MLX_DISTRIBUTED_CHUNK": "500003"}
    assert run(family, "large", 2, **extra).count("fine") == 2


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "program", ["differs", "differs_in_dtype", "differs_in_order", "receives_another"]
)
def test_different_programs_are_told_apart(family, program):
    assert run(family, program, 2).count("raised after") == 2


@pytest.mark.parametrize("family", FAMILIES)
def test_a_process_that_does_not_come_is_waited_for_so_long(family):
    # MPI cannot be finalized after that, and mpirun objects to it.
    output = run(family, "waits", 2, code=None, MLX_DISTRIBUTED_TIMEOUT="4")
    assert "raised after" in output and "nothing came from rank 1 within 4 s" in output


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("program", ["dies", "raises"])
def test_the_end_of_one_process_ends_all(family, program):
    # The code is mpirun's own.
    assert "never" not in run(family, program, 3, code=None)


@pytest.mark.skipif(len(FAMILIES) < 2, reason="needs Open MPI and MPICH")
@pytest.mark.parametrize("family", FAMILIES)
def test_the_library_of_another_mpirun_is_refused(family):
    name = "libmpich.so.12" if family == "openmpi" else "libmpi.so.40"
    output = run(family, "refused", 2, MLX_MPI_LIBNAME=name)
    assert output.count("finds 1: it is another MPI's") == 2


@pytest.mark.parametrize("family", FAMILIES)
def test_a_library_that_is_not_there(family):
    extra = {"MLX_MPI_LIBNAME": "libnone.so", "EXPECT": "Cannot initialize MPI"}
    assert run(family, "refused", 2, **extra).count("raised after") == 2


@pytest.mark.skipif(not FAMILIES, reason="needs an mpirun that works")
def test_launching():
    example = TESTS.parents[1] / "examples" / "distributed" / "data_parallel.py"
    arguments = [w for o in OPEN_MPI for w in ("--mpi-arg=" + o,)]
    mpirun = subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout
    arguments = arguments if "open" in mpirun.lower() else []
    done = launch("--backend", "mpi", "-n", "2", *arguments, "--", str(example))
    assert done.returncode == 0 and "2 processes, loss" in done.stdout, done.stderr
