"""What is checked of kernels that users bring: no SPIR-V, and more than the device has."""

import mlx.core as mx
import numpy as np
import pytest
from spirv_module import triple

pytestmark = pytest.mark.gpu


def define(module):
    return mx.fast.vulkan_kernel("triple", ["x"], ["y"], module)


def call(kernel, x, group=32, **kw):
    return kernel(
        inputs=[x],
        output_shapes=[x.shape],
        output_dtypes=[x.dtype],
        grid=(x.size, 1, 1),
        threadgroup=(group, 1, 1),
        **kw,
    )[0]


def words(module):
    return np.frombuffer(module, np.uint32).copy()


def instructions(module):
    """(position, opcode, words) of each instruction."""
    w, at = words(module), 5
    while at < len(w):
        n = int(w[at] >> 16)
        yield at, int(w[at] & 0xFFFF), w[at : at + n]
        at += n


def replaced(module, opcode, change):
    """The module with the first instruction of an opcode changed in place."""
    w = words(module)
    for at, code, inst in instructions(module):
        if code == opcode:
            inst = change(inst.copy())
            return np.concatenate([w[:at], inst, w[at + int(w[at] >> 16) :]]).tobytes()
    raise AssertionError(opcode)


def test_workgroups_of_any_size_run_a_module_that_leaves_it_open(rng):
    x = rng.normal(size=100).astype(np.float32)
    for group in (1, 32, 50):
        got = call(define(triple()), mx.array(x), group)
        np.testing.assert_array_equal(np.array(got), np.float32(3) * x)


def test_modules_cut_anywhere_are_refused():
    module = triple()
    for n in [*range(0, 64), *range(64, len(module), 4), *range(len(module) - 12, len(module))]:
        with pytest.raises(ValueError, match="SPIR-V"):
            define(module[:n])
    with pytest.raises(ValueError, match="SPIR-V"):
        define(module + b"\0\0\0\0")


def test_modules_with_changed_words_are_refused_or_valid(rng):
    """No change of a word makes the process fall: the definition raises, or the module is one."""
    module = triple()
    refused = 0
    for k in range(len(module) // 4):
        for value in (0, 0xFFFFFFFF, int(rng.integers(0, 1 << 32)), int(rng.integers(0, 60))):
            w = words(module)
            w[k] = value
            try:
                define(w.tobytes())
            except ValueError as e:
                assert "SPIR-V" in str(e)
                refused += 1
    assert refused > len(module) // 4


def test_the_reason_is_told():
    module = triple()
    w = words(module)
    for k, value, reason in [
        (0, 1, "no SPIR-V"),
        (1, 0x00020000, "version"),
        (3, 0, "ids"),
        (3, 0xFFFFFFFF, "ids"),
        (5, 0, "does not end"),
    ]:
        changed = w.copy()
        changed[k] = value
        with pytest.raises(ValueError, match=reason):
            define(changed.tobytes())
    with pytest.raises(ValueError, match="expected at most"):
        define(module + bytes(8 << 20))

    def other_name(inst):
        inst[3:5] = np.frombuffer(b"mean\0\0\0\0", np.uint32)
        return inst

    with pytest.raises(ValueError, match="no compute entry point named main"):
        define(replaced(module, 15, other_name))
    # A result type that does not exist: found by the validator, with the instruction.
    with pytest.raises(ValueError, match=r"not valid: (.|\n)*instruction \d+"):
        define(replaced(module, 61, lambda inst: np.array([inst[0], 1, *inst[2:]], np.uint32)))


def test_bound_buffers_are_refused():
    binding = np.array([4 << 16 | 71, 1, 33, 0], np.uint32)
    with pytest.raises(ValueError, match="descriptor"):
        define(replaced(triple(), 71, lambda inst: np.concatenate([binding, inst])))


def test_a_fixed_workgroup_size_is_the_only_one():
    from test_custom_kernel import spirv_module

    kernel = mx.fast.vulkan_kernel("double", ["x"], ["y"], spirv_module())
    x = mx.arange(8).astype(mx.uint32)
    assert call(kernel, x, 1).tolist() == [2 * i for i in range(8)]
    with pytest.raises(ValueError, match=r"made for threadgroups of \[1, 1, 1\]"):
        call(kernel, x, 2)


def test_capabilities_that_are_not_offered_are_refused_by_name():
    sparse = np.array([2 << 16 | 17, 41], np.uint32)  # SparseResidency
    module = replaced(triple(), 17, lambda inst: np.concatenate([inst, sparse]))
    y = call(define(module), mx.ones(4))
    with pytest.raises(RuntimeError, match="triple needs the SPIR-V capability 41"):
        mx.eval(y)
    assert (mx.ones(2) + 1).tolist() == [2, 2]


def test_shared_memory_beyond_the_device_is_refused():
    kernel = mx.fast.vulkan_kernel(
        "greedy",
        ["x"],
        ["y"],
        "big[thread_index_in_threadgroup] = x[0]; barrier(); y[0] = big[N - 1];",
        header="shared float big[N];",
    )
    with pytest.raises(RuntimeError, match="greedy asks for 4000000 bytes of shared memory"):
        mx.eval(call(kernel, mx.ones(1), 1, template=[("N", 1_000_000)]))


def test_lines_of_the_header_and_of_the_source_are_told_apart():
    def broken(header, source):
        kernel = mx.fast.vulkan_kernel("broken", ["x"], ["y"], source, header=header)
        with pytest.raises(RuntimeError) as e:
            mx.eval(call(kernel, mx.ones(1)))
        return str(e.value)

    assert "header:2: error" in broken("float f() {\nreturn missing;\n}", "y[0] = f();")
    assert "source:3: error" in broken("float f() { return 1.0; }", "\n\ny[0] = g();")


def test_kernels_in_transforms(rng):
    """Under grad, vmap and compile by way of custom_function, and next to other operations."""
    kernel = mx.fast.vulkan_kernel(
        "cube", ["x"], ["y"], "uint i = thread_position_in_grid.x; y[i] = x[i] * x[i] * x[i];"
    )

    @mx.custom_function
    def cube(x):
        return call(kernel, x)

    cube.vjp(lambda x, cotangent, output: cotangent * 3 * x * x)
    cube.jvp(lambda x, tangent: 3 * x * x * tangent)
    cube.vmap(lambda x, axis: (cube(x), axis))
    x = rng.normal(size=(4, 5)).astype(np.float32)
    a = mx.array(x)
    slope = mx.grad(lambda v: cube(v).sum())
    np.testing.assert_allclose(np.array(slope(a)), 3 * x * x, rtol=1e-5)
    np.testing.assert_allclose(np.array(mx.vmap(slope)(a)), 3 * x * x, rtol=1e-5)
    np.testing.assert_allclose(np.array(mx.vmap(cube, 1, 1)(a)), x**3, rtol=1e-5)
    step = mx.compile(lambda v: v - 0.5 * slope(v))
    for _ in range(2):
        np.testing.assert_allclose(np.array(step(a)), x - 1.5 * x * x, rtol=1e-4, atol=1e-6)
    (_,), (tangent,) = mx.jvp(cube, [a], [mx.ones_like(a)])
    np.testing.assert_allclose(np.array(tangent), 3 * x * x, rtol=1e-5)
