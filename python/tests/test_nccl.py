"""Groups over NCCL. Libraries that stand in for it and CUDA move memory of the host."""

import pathlib
import re
import shutil
import socket
import subprocess
import sys

import mlx.core as mx
import pytest
from test_distributed import (
    PROGRAMS,
    SHARDED,
    begin,
    environment,
    free_ports,
    launch,
    outputs_of,
)

SOURCES = pathlib.Path(__file__).parent / "stand_in"
COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)

pytestmark = pytest.mark.skipif(
    COMPILER is None or not sys.platform.startswith("linux"), reason="needs a C compiler on Linux"
)


def build(folder, *names):
    """Builds libraries that stand in for others."""
    for name in names:
        source = name.removeprefix("lib").partition(".")[0] + ".c"
        command = [
            COMPILER,
            "-O1",
            "-pthread",
            "-Wall",
            "-Werror",
            "-shared",
            "-fPIC",
            str(SOURCES / source),
        ]
        subprocess.run([*command, "-o", str(folder / name), "-lm", "-lrt"], check=True)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stand_in")
    build(folder, "libcuda.so.1", "libnccl.so.2")
    yield folder
    # Processes that are made to fail leave what they shared.
    for left in pathlib.Path("/dev/shm").glob("mlx-stand-in-*"):
        left.unlink(missing_ok=True)


def run(libraries, program, count, codes=None, file_of=PROGRAMS, ranks=None, own=None, **extra):
    """Output of each process; all have to end well, or with these codes."""
    port = free_ports(1)[0]
    processes = []
    for rank in range(count) if ranks is None else ranks:
        env = environment(
            **{
                "BACKEND": "nccl",
                "LD_LIBRARY_PATH": str(libraries),
                "MLX_RANK": str(rank),
                "MLX_WORLD_SIZE": str(count),
                "NCCL_HOST_IP": "127.0.0.1",
                "NCCL_PORT": str(port),
                **extra,
                **(own[rank] if own else {}),
            }
        )
        processes.append(begin([sys.executable, str(file_of), program], env))
    return outputs_of(processes, codes, seconds=240)


# Processes of one machine meet in memory that they share, or do not.
SWITCH = "MLX_DISTRIBUTED_SHARED_MEMORY"
SHARED = ("shared", ["0", "1"])


@pytest.mark.parametrize(*SHARED)
@pytest.mark.parametrize("count", [2, 4])
def test_everything(libraries, count, shared):
    # Parts that are small, so that arrays go in several.
    extra = {"MLX_DISTRIBUTED_CHUNK": "100000", "STAND_IN_GPUS": str(count)}
    extra |= {SWITCH: shared}
    extra |= {"SHORT": "1"} if count > 2 else {}
    assert all("fine" in o for o in run(libraries, "everything", count, **extra))


# GPUs do not write into each other's memory.
APART = {"MLX_VK_DISABLE": "bridge"}


def copied(told):
    """Bytes of the pieces that went from GPU to GPU."""
    return [int(n) for n in re.findall(r"^copied (\d+)$", told, re.MULTILINE)]


@pytest.mark.gpu
@pytest.mark.parametrize("count", [2, 3])
def test_arrays_that_stay_on_the_gpu(libraries, count):
    """Each operation on dtypes and lengths on both sides of the switch, against NumPy."""
    extra = {"STAND_IN_GPUS": str(count), "STAND_IN_CUDA_TELLS": "1", **APART}
    for told in run(libraries, "on_gpus", count, **extra):
        assert "fine" in told and not copied(told)
        # Memory is imported once for as long as it lives; what is freed is let go.
        imported, gone = told.count("imported "), told.count("let go ")
        assert imported > 3 and gone > 3 and imported - gone < 40


@pytest.mark.gpu
@pytest.mark.parametrize("function", ["cuImportExternalMemory", "cuExternalMemoryGetMappedBuffer"])
def test_memory_that_cannot_be_imported_goes_through_the_host(libraries, function):
    extra = {"STAND_IN_RANK": "1", "STAND_IN_CUDA_FAILS": function, "STAND_IN_GPUS": "2", **APART}
    assert all("fine" in o for o in run(libraries, "on_gpus", 2, **extra))


@pytest.mark.gpu
@pytest.mark.parametrize("count", [2, 3, 4])
def test_gpus_that_write_to_each_other(libraries, count):
    """The same, with commands of the GPUs' streams; only messages go another way."""
    extra = {"STAND_IN_GPUS": str(count), "STAND_IN_CUDA_TELLS": "1"}
    for told in run(libraries, "on_gpus", count, **extra):
        assert "fine" in told and len(copied(told)) > 100 * (count - 1)


@pytest.mark.gpu
def test_arrays_of_several_pieces(libraries):
    extra = {"STAND_IN_GPUS": "2", "STAND_IN_CUDA_TELLS": "1"}
    for told in run(libraries, "pieces", 2, **extra):
        assert "fine" in told and {16 << 20, 32 << 20} <= set(copied(told))


REFUSED = ["cuMemGetAllocationGranularity", "cuMemCreate", "cuMemExportToShareableHandle"]
REFUSED += ["cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"]
REFUSED += ["cuStreamWaitValue32", "cuStreamWriteValue32", "cuMemcpyDtoDAsync", "cuStreamCreate:2"]


@pytest.mark.gpu
@pytest.mark.parametrize("function", REFUSED)
def test_where_one_process_cannot_none_does(libraries, function):
    own = [{"STAND_IN_CUDA_TELLS": "1"}, {"STAND_IN_CUDA_FAILS": function}]
    extra = {"STAND_IN_GPUS": "2", "MLX_DISTRIBUTED_TIMEOUT": "15", "SHORT": "1"}
    told = run(libraries, "on_gpus", 2, own=own, **extra)
    # No more than a trial.
    assert all("fine" in o for o in told) and len(copied(told[0])) <= 5


@pytest.mark.gpu
@pytest.mark.parametrize("how", ["CORRUPTS", "HANGS"])
def test_what_comes_is_looked_at_before_it_counts(libraries, how):
    extra = {f"STAND_IN_CUDA_{how}": "1", "STAND_IN_CUDA_TELLS": "1", "STAND_IN_GPUS": "2"}
    for told in run(libraries, "on_gpus", 2, MLX_DISTRIBUTED_TIMEOUT="15", SHORT="1", **extra):
        assert "fine" in told and len(copied(told)) <= 5


def test_large_arrays_go_in_parts(libraries):
    extra = {"ROWS": "2", "MLX_DISTRIBUTED_CHUNK": "500003"}
    assert all("fine" in o for o in run(libraries, "large", 2, **extra))


def test_parts_of_models_equal_whole_ones(libraries):
    assert all("fine" in o for o in run(libraries, "sharded", 2, file_of=SHARDED))


@pytest.mark.parametrize(*SHARED)
@pytest.mark.parametrize("program", ["dies", "dies_amid", "differs"])
def test_a_failure_reaches_all_of_three(libraries, program, shared):
    codes = [0, 3, 0] if "dies" in program else None
    extra = {SWITCH: shared}
    for rank, out in enumerate(run(libraries, program, 3, codes=codes, **extra)):
        assert "raised after" in out or codes and codes[rank]


@pytest.mark.parametrize(*SHARED)
@pytest.mark.parametrize("program", ["differs_in_dtype", "differs_in_order", "receives_another"])
def test_different_programs_are_told_apart(libraries, program, shared):
    extra = {SWITCH: shared}
    assert all("raised after" in o for o in run(libraries, program, 2, **extra))


@pytest.mark.parametrize(*SHARED)
def test_a_process_that_ended_is_not_waited_for(libraries, shared):
    run(libraries, "ends", 2, **{SWITCH: shared})


@pytest.mark.parametrize(*SHARED)
def test_a_process_that_does_what_it_began(libraries, shared):
    extra = {SWITCH: shared}
    assert all("fine" in o for o in run(libraries, "begins", 3, **extra))


def test_a_process_that_never_comes_is_named(libraries):
    run(libraries, "waits", 2, MLX_DISTRIBUTED_TIMEOUT="2")


def test_one_process_without_shared_memory_keeps_all_from_it(libraries):
    """All meet by TCP then."""
    for alone in range(2):
        own = [{SWITCH: str(int(rank != alone))} for rank in range(3)]
        extra = {"STAND_IN_GPUS": "3", "SHORT": "1"}
        assert all("fine" in o for o in run(libraries, "everything", 3, own=own, **extra))


@pytest.mark.parametrize(
    ("variables", "own", "others"),
    [
        (
            {"STAND_IN_NCCL_FAILS": "ncclAllReduce:2"},
            "of NCCL failed: unhandled system error (2)",
            "rank 1 failed: a call of NCCL failed",
        ),
        (
            {"STAND_IN_NCCL_HANGS": "ncclAllReduce", "MLX_DISTRIBUTED_TIMEOUT": "15"},
            "NCCL did not end a call within 15 s",
            "NCCL did not end",
        ),
    ],
)
def test_a_failure_within_nccl(libraries, variables, own, others):
    extra = {"STAND_IN_RANK": "1", "OWN": own, "OTHERS": others, **variables}
    extra |= {SWITCH: "0"}
    assert all("raised after" in o for o in run(libraries, "fails_within", 3, **extra))


def test_memory_that_is_not_there(libraries):
    extra = {"STAND_IN_CUDA_FAILS": "cuMemAlloc", "OWN": "out of memory", "OTHERS": "out of memory"}
    extra |= {SWITCH: "0"}
    assert all("raised after" in o for o in run(libraries, "fails_within", 2, **extra))


@pytest.mark.parametrize("function", ["ncclGetUniqueId", "ncclCommInitRank"])
def test_a_group_that_does_not_form(libraries, function):
    # The first process, which all others need, may be gone before they hear why; they look for
    # it as long as they may.
    first = function == "ncclGetUniqueId"
    rank, told = (
        ("0", "Cannot form the group: ") if first else ("1", f"{function} of NCCL failed: ")
    )
    extra = {"STAND_IN_NCCL_FAILS": f"{function}:1", "STAND_IN_RANK": rank, "EXPECT": told}
    extra["MLX_DISTRIBUTED_TIMEOUT"] = "20"
    assert f"{function} of NCCL failed" in "".join(run(libraries, "never_forms", 2, **extra))


def test_processes_that_are_not_there(libraries):
    late = {"MLX_DISTRIBUTED_TIMEOUT": "2"}
    run(libraries, "never_forms", 2, ranks=[1], EXPECT="could not reach rank 0", **late)
    told = "nothing came from rank 1, rank 2 within 2 s"
    run(libraries, "never_forms", 3, ranks=[0], EXPECT=told, **late)


def test_an_address_that_is_taken(libraries):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = f"address 127.0.0.1:{port}"
        run(libraries, "never_forms", 2, ranks=[0], NCCL_PORT=str(port), EXPECT=told)
        # Whoever listens there is no process of this library.
        late = {"MLX_DISTRIBUTED_TIMEOUT": "2", "EXPECT": "does not answer rank 1"}
        run(libraries, "never_forms", 2, ranks=[1], NCCL_PORT=str(port), **late)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"NCCL_PORT": ""}, "NCCL_PORT is not set"),
        ({"MLX_RANK": "two"}, "MLX_RANK=two"),
        ({"MLX_RANK": "2"}, "MLX_RANK=2 is none of the MLX_WORLD_SIZE=2"),
        ({"NCCL_PORT": "none"}, "no address"),
        ({"MLX_NCCL_LIBNAME": "libnone.so"}, "Cannot initialize NCCL"),
        ({"STAND_IN_GPUS": "0"}, "Cannot initialize NCCL"),
    ],
)
def test_an_environment_that_is_wrong(libraries, variables, message):
    run(libraries, "never_forms", 2, ranks=[0], EXPECT=message, **variables)


def test_availability(libraries, tmp_path):
    """In the environment's folders, and in those of packages."""
    code = "import mlx.core as mx; print(mx.distributed.is_available('nccl'))"

    def found(**extra):
        env = environment(**extra)
        command = [sys.executable, "-c", code]
        return subprocess.run(command, env=env, capture_output=True, text=True).stdout.strip()

    assert found(LD_LIBRARY_PATH=str(libraries)) == "True"
    assert found(LD_LIBRARY_PATH=str(libraries), STAND_IN_GPUS="0") == "False"
    alone = tmp_path / "driver"
    alone.mkdir()
    shutil.copy(libraries / "libcuda.so.1", alone)
    package = tmp_path / "packages" / "nvidia" / "nccl" / "lib"
    package.mkdir(parents=True)
    shutil.copy(libraries / "libnccl.so.2", package)
    paths = f"{pathlib.Path(mx.__file__).parents[1]}:{tmp_path / 'packages'}"
    assert found(LD_LIBRARY_PATH=str(alone), PYTHONPATH=paths) == "True"


def test_launching(libraries):
    code = "import mlx.core as mx; d = mx.distributed; print(d.all_sum(d.init().rank() + 1).item())"
    port = str(free_ports(1)[0])
    words = ("--backend", "nccl", "--nccl-port", port, "-n", "2", "--", "python", "-c", code)
    done = launch(*words, LD_LIBRARY_PATH=str(libraries))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] 3", "[1] 3"]
