"""The cache of compiled kernels is a trust boundary: what others could have written is neither read
nor written through, and folder and memory keep within their bounds."""

import os
import pathlib
import stat
import subprocess
import sys
import textwrap
import threading
import time

import helpers as h
import numpy as np
import pytest

pytestmark = pytest.mark.gpu

# Prints how many kernels came from the cache and how many were compiled.
PROGRAM = """
import mlx.core as mx
mx.set_default_device(mx.gpu)
x = mx.arange(100, dtype=mx.float32)
assert mx.sum(mx.sqrt(x * x)).item() == 4950
assert mx.exp(mx.zeros((4, 3)).T).tolist() == [[1.0] * 4] * 3
spirv = mx.vulkan.stats()["spirv"]
print(spirv["hits"], spirv["misses"])
"""


class Place:
    """A cache folder and a state folder of a test."""

    def __init__(self, root):
        self.cache, self.state = root / "cache", root / "state" / "mlx-vulkan"
        self.env = {
            "MLX_VK_CACHE_DIR": str(self.cache),
            "XDG_STATE_HOME": str(root / "state"),
            "MLX_VK_SHADER_DIR": "",
        }

    def run(self, **env):
        """Hits, misses and what was said on stderr."""
        done = h.python(PROGRAM, env={**self.env, **env})
        hits, misses = map(int, done.stdout.split())
        return hits, misses, done.stderr

    def kernels(self):
        return sorted(self.cache.glob("*.spv"))


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.fixture
def filled(place):
    """A cache with the program's kernels."""
    hits, misses, said = place.run()
    assert hits == 0 and misses > 3 and not said
    assert place.run() == (misses, 0, "")
    return place


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def test_folders_and_files_are_the_users_alone(filled):
    assert mode(filled.cache) == mode(filled.state) == 0o700
    files = list(filled.cache.iterdir()) + list(filled.state.iterdir())
    assert len(files) > 4 and {mode(f) for f in files} == {0o600}
    assert len((filled.state / "cache.key").read_bytes()) == 32


def test_a_folder_that_others_can_write_is_not_used(filled):
    before = [f.read_bytes() for f in filled.kernels()]
    for bits in (0o777, 0o770, 0o1777):
        filled.cache.chmod(bits)
        hits, misses, said = filled.run()
        assert hits == 0 and misses == len(before)
        assert said.count("Compiled kernels are not kept") == 1 and "other users" in said
    filled.cache.chmod(0o700)
    filled.state.chmod(0o777)
    assert filled.run()[0] == 0
    filled.state.chmod(0o700)
    assert filled.run() == (len(before), 0, "")
    assert [f.read_bytes() for f in filled.kernels()] == before


def test_a_folder_of_another_user_is_not_used(filled):
    if os.geteuid() != 0:
        foreign = pathlib.Path("/")  # somebody else's, whoever we are
    else:
        foreign = filled.cache
        os.chown(foreign, 12345, -1)
    hits, misses, said = filled.run(MLX_VK_CACHE_DIR=str(foreign))
    assert hits == 0 and misses > 3
    assert said.count("Compiled kernels are not kept") == 1 and "another user" in said


def test_a_link_in_place_of_the_folder_is_not_followed(filled, tmp_path):
    moved = filled.cache.rename(tmp_path / "moved")
    filled.cache.symlink_to(moved)
    for name in (str(filled.cache), f"{filled.cache}/"):
        hits, misses, said = filled.run(MLX_VK_CACHE_DIR=name)
        assert hits == 0 and misses > 3 and "is a link" in said


def test_planted_files_are_passed_over_and_their_targets_stay(filled, tmp_path):
    names = [f.name for f in filled.kernels()]
    target = tmp_path / "precious"
    target.write_text("precious")
    for name in names:
        (filled.cache / name).unlink()
    os.mkfifo(filled.cache / names[0])
    (filled.cache / names[1]).symlink_to("/dev/zero")
    (filled.cache / names[2]).symlink_to(target)
    (filled.cache / names[3]).mkdir()
    with open(filled.cache / names[4], "wb") as huge:
        huge.truncate(1 << 39)
    (filled.cache / names[4]).chmod(0o600)
    # A sweep that finds the huge file might remove by its name what takes its place meanwhile.
    assert filled.run(MLX_VK_CACHE_MB=str(1 << 20)) == (0, len(names), "")
    assert target.read_text() == "precious"
    # All but the folder were replaced.
    assert filled.run() == (len(names) - 1, 1, "")


def test_only_what_this_user_wrote_for_this_kernel_is_read(filled):
    first, second, *others = filled.kernels()
    first.write_bytes(second.read_bytes())
    assert filled.run()[:2] == (1 + len(others), 1)
    second.chmod(0o644)
    assert filled.run()[:2] == (1 + len(others), 1)
    assert mode(second) == 0o600
    key = filled.state / "cache.key"
    key.unlink()
    assert filled.run()[0] == 0, "signed with another key"
    assert filled.run()[1] == 0
    for harm in (lambda: key.write_bytes(bytes(31)), lambda: key.chmod(0o644)):
        harm()
        hits, misses, said = filled.run()
        assert hits == 0 and misses > 3 and said.count("cache.key is no key") == 1
        key.chmod(0o600)
        key.write_bytes(bytes(32))


def test_the_pipeline_cache_is_held_to_the_same(filled):
    (blob,) = filled.cache.glob("pipelines-*.bin")
    good = blob.read_bytes()
    for bad in (b"", good[:-1], good[:-1] + bytes([good[-1] ^ 1]), os.urandom(200)):
        blob.write_bytes(bad)
        hits, misses, _ = filled.run()
        assert hits > 3 and misses == 0
        assert blob.read_bytes() != bad


def test_old_and_many_files_go(filled):
    def plant(name, size, days):
        path = filled.cache / name
        path.touch()
        os.truncate(path, size)
        os.utime(path, (time.time() - days * 86400,) * 2)
        return path

    def run(**env):
        """Something is written, so that somebody looks."""
        for kernel in mine[1:]:
            kernel.unlink()
        assert filled.run(**env)[1] > 0
        return sorted((f.name[:16], f.stat().st_size) for f in filled.cache.iterdir())

    mine = filled.kernels()
    old = [plant("a" * 64 + ".spv", 10, 100), plant(".tmp-7-8-9", 10, 1)]
    kept = [plant("notes.txt", 10, 1000), plant("b" * 64 + ".spv", 10, 80)]
    left = run()
    assert not any(f.exists() for f in old) and all(f.exists() for f in kept), left
    # Whatever else lies there, as the cache of a driver, is little beside these.
    plant("pipelines-of-a-driver.bin", 3_000_000, 0)
    large = [plant(f"{i:064x}.spv", 15_000_000, 10 + i) for i in range(5)]
    mine[0].touch()
    left = run(MLX_VK_CACHE_MB="48")
    there = [f.exists() for f in large]
    assert there == [True] * sum(there) + [False] * (5 - sum(there)), "least recently used go first"
    assert 0 < sum(there) < 4, left
    assert mine[0].exists() and sum(size for _, size in left) < 48 << 20, left
    left = run(MLX_VK_CACHE_DAYS="5")
    assert not any(f.exists() for f in large), left


def test_nothing_is_kept_where_nothing_may_be(place):
    assert place.run(MLX_VK_CACHE_MB="0")[0] == 0
    assert not place.cache.exists() and not place.state.exists()


# Each of many kernels is compiled by one process and found by the other, or compiled by both.
FIGHT = """
import sys, time
import mlx.core as mx
import numpy as np
mx.set_default_device(mx.gpu)
end, n = time.time() + float(sys.argv[1]), 0
x = mx.arange(64, dtype=mx.float32)
while time.time() < end or n <= 10:
    source = f"y[thread_position_in_grid.x] = x[thread_position_in_grid.x] * {n % 40}.0 + {n}.0;"
    kernel = mx.fast.vulkan_kernel("fight", ["x"], ["y"], source)
    (y,) = kernel(inputs=[x], grid=(64, 1, 1), threadgroup=(32, 1, 1), output_shapes=[(64,)],
                  output_dtypes=[mx.float32])
    assert np.array_equal(np.array(y), np.arange(64, dtype=np.float32) * (n % 40) + n), n
    n += 1
print(n)
"""


def fight(place, seconds):
    """Two processes and a vandal over one cache; how many kernels each of the two ran."""
    env = {**os.environ, **place.env, "MLX_VK_CACHE_MB": "1"}
    command = [sys.executable, "-c", textwrap.dedent(FIGHT), str(seconds)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    runs = [subprocess.Popen(command, env=env, **pipes) for _ in range(2)]
    done = threading.Event()

    def vandal():
        rng = np.random.default_rng(5)
        while not done.wait(0.01):
            files = [f for f in place.cache.glob("*") if not f.name.startswith(".")]
            if files:
                file = files[rng.integers(len(files))]
                try:
                    data = bytearray(file.read_bytes())
                    data[rng.integers(len(data))] ^= 1 << rng.integers(8)
                    file.write_bytes(data[: rng.integers(1, len(data) + 1)])
                except FileNotFoundError:
                    pass  # swept

    thread = threading.Thread(target=vandal)
    thread.start()
    outputs = [run.communicate(timeout=seconds + 120) for run in runs]
    done.set()
    thread.join()
    assert [run.returncode for run in runs] == [0, 0], outputs
    assert not any(said for _, said in outputs), outputs
    assert sum(f.stat().st_size for f in place.cache.iterdir()) < 3 << 20
    return [int(out) for out, _ in outputs]


def test_two_processes_fight_over_one_cache(place):
    assert min(fight(place, 4)) > 10


def test_kernels_in_memory_have_a_bound(place):
    """Far more kernels than may be kept, some used again: results stay right, memory stays flat."""
    code = """
    import gc
    import mlx.core as mx
    import numpy as np
    mx.set_default_device(mx.gpu)
    x, base = mx.arange(64, dtype=mx.float32), np.arange(64, dtype=np.float32)

    def resident():
        return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20

    def run(n):
        source = f"y[thread_position_in_grid.x] = x[thread_position_in_grid.x] * {n % 7}.0 + {n}.0;"
        kernel = mx.fast.vulkan_kernel(f"bound{n}", ["x"], ["y"], source)
        return kernel(inputs=[x], grid=(64, 1, 1), threadgroup=(32, 1, 1), output_shapes=[(64,)],
                      output_dtypes=[mx.float32])[0]

    def check(numbers):
        results = [run(n) for n in numbers]
        kept = mx.exp(x * 0) + x  # kernels of the library are forgotten and made again too
        mx.async_eval(results, kept)
        for n, y in zip(numbers, results):
            assert np.array_equal(np.array(y), base * (n % 7) + n), n
        assert np.array_equal(np.array(kept), base + 1)

    for start in range(0, 120, 10):
        check(list(range(start, start + 10)) + [0, 1])
    before = resident()
    for start in range(120, 400, 10):
        check(list(range(start, start + 10)) + [start - 100, 0])
    print(resident() - before)
    assert mx.vulkan.stats()["kernels"]
    """
    grown = int(h.python(code, env={**place.env, "MLX_VK_MAX_PIPELINES": "32"}, timeout=300).stdout)
    assert grown < 40, grown
