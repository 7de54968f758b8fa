"""Kernels that users write in GLSL or bring as SPIR-V."""

import mlx.core as mx
import numpy as np
import pytest

gpu = pytest.mark.gpu


def call(kernel, inputs, shape, n, dtype=mx.float32, group=32, **kw):
    return kernel(
        inputs=inputs,
        output_shapes=[shape],
        output_dtypes=[dtype],
        grid=(n, 1, 1),
        threadgroup=(group, 1, 1),
        **kw,
    )[0]


@gpu
def test_elements_of_a_template_type(rng):
    kernel = mx.fast.vulkan_kernel(
        name="axpy",
        input_names=["a", "x"],
        output_names=["y"],
        header="float twice(float v) { return 2.0 * v; }",
        source="""
            uint i = thread_position_in_grid.x;  // x is an input, .x is not
            y[i] = T(twice(float(x[i])) * a + float(N));
        """,
    )
    x = rng.normal(0, 1, 77).astype(np.float32)
    for dtype in (mx.float32, mx.int32):
        got = call(kernel, [0.5, mx.array(x)], (77,), 77, dtype, template=[("T", dtype), ("N", 3)])
        want = (x + 3).astype(np.int32) if dtype == mx.int32 else x + 3
        np.testing.assert_allclose(np.array(got), want, rtol=1e-6)
    half = mx.array(x).astype(mx.float16)
    np.testing.assert_allclose(
        np.array(call(kernel, [1.0, half], (77,), 77, template=[("T", mx.float32), ("N", 0)])),
        2 * np.array(half, np.float32),
    )


@gpu
def test_shapes_strides_and_initial_values(rng):
    x = rng.normal(0, 1, (5, 7)).astype(np.float32)
    source = """
        uvec3 id = thread_position_in_grid;
        int i = int(id.x) / inp_shape[1], j = int(id.x) % inp_shape[1];
        int at = int(i * inp_strides[0] + j * inp_strides[1]);
        if (i % 2 == 0) out0[id.x] = inp[at] * float(inp_ndim);
        atomicAdd(count[0], 1u);
    """
    for contiguous in (True, False):
        kernel = mx.fast.vulkan_kernel(
            "walk",
            ["inp"],
            ["out0", "count"],
            source,
            ensure_row_contiguous=contiguous,
            atomic_outputs=True,
        )
        out, count = kernel(
            inputs=[mx.array(x).T],
            output_shapes=[(7, 5), (1,)],
            output_dtypes=[mx.float32, mx.uint32],
            grid=(35, 1, 1),
            threadgroup=(16, 1, 1),
            init_value=0,
        )
        want = np.where(np.arange(7)[:, None] % 2 == 0, 2 * x.T, 0)
        np.testing.assert_array_equal(np.array(out), want)
        assert count.item() == 35


@gpu
def test_bfloat16_and_other_ops_around(rng):
    kernel = mx.fast.vulkan_kernel(
        "shift",
        ["x"],
        ["y"],
        """
        uint i = thread_position_in_grid.x;
        y[i] = float_to_bfloat16(bfloat16_to_float(x[i]) + 1.0);
        """,
    )
    x = mx.arange(40).astype(mx.bfloat16)
    got = call(kernel, [x * 2], (40,), 40, mx.bfloat16) - 1
    assert got.tolist() == (2 * np.arange(40)).tolist()


@gpu
def test_code_that_does_not_compile_shows_its_lines():
    kernel = mx.fast.vulkan_kernel("broken", ["x"], ["y"], "y[0] = x[0];\nfloat z = missing;\n")
    y = call(kernel, [mx.ones(1)], (1,), 1)
    with pytest.raises(RuntimeError, match=r"broken(.|\n)*:2: (.|\n)*missing"):
        mx.eval(y)
    # The stream goes on.
    assert (mx.ones(2) + 1).tolist() == [2, 2]


@gpu
def test_spirv():
    """y[i] = 2 * x[i] over uints, assembled by hand: see the listing beside each group of words."""
    kernel = mx.fast.vulkan_kernel("double", ["x"], ["y"], spirv_module())
    x = mx.arange(8).astype(mx.uint32)
    assert call(kernel, [x], (8,), 8, mx.uint32, group=1).tolist() == [2 * i for i in range(8)]


def spirv_module():
    """A module with the interface that prebuilt kernels see, as bytes."""
    words = [0x07230203, 0x00010500, 0, 60, 0]

    def op(code, *args):
        words.extend([(len(args) + 1) << 16 | code, *args])

    def text(s):
        raw = s.encode() + b"\0" * (4 - len(s) % 4)
        return [int.from_bytes(raw[i : i + 4], "little") for i in range(0, len(raw), 4)]

    main, void, fn, uint, ulong, vec, in_ptr, gid, table_t, table_p = range(1, 11)
    arr, arg_t, arg_p, push_t, push_p, push, member_p, c0, c1, c2, long_p, elem_p = range(11, 23)
    label, table, id3, i, slot0, slot1, a0, a1, x, y, xe, ye, v, w, arr64 = range(23, 38)
    for capability in (1, 11, 5347):  # Shader, Int64, PhysicalStorageBufferAddresses
        op(17, capability)
    op(10, *text("SPV_KHR_physical_storage_buffer"))
    op(14, 5348, 1)  # PhysicalStorageBuffer64, GLSL450
    op(15, 5, main, *text("main"), gid, push)
    op(16, main, 17, 1, 1, 1)  # LocalSize
    op(71, gid, 11, 28)  # GlobalInvocationId
    op(71, push_t, 2)
    op(72, push_t, 0, 35, 0)
    op(71, table_t, 2)
    op(72, table_t, 0, 35, 0)
    op(71, arr64, 6, 8)
    op(71, arg_t, 2)
    op(72, arg_t, 0, 35, 0)
    op(71, arr, 6, 4)
    op(19, void)
    op(33, fn, void)
    op(21, uint, 32, 0)
    op(21, ulong, 64, 0)
    op(23, vec, uint, 3)
    op(32, in_ptr, 1, vec)
    op(29, arr64, ulong)
    op(30, table_t, arr64)
    op(32, table_p, 5349, table_t)
    op(29, arr, uint)
    op(30, arg_t, arr)
    op(32, arg_p, 5349, arg_t)
    op(30, push_t, table_p)
    op(32, push_p, 9, push_t)
    op(32, member_p, 9, table_p)
    op(32, long_p, 5349, ulong)
    op(32, elem_p, 5349, uint)
    op(43, uint, c0, 0)
    op(43, uint, c1, 1)
    op(43, uint, c2, 2)
    op(59, in_ptr, gid, 1)
    op(59, push_p, push, 9)
    op(54, void, main, 0, fn)
    op(248, label)
    op(65, member_p, 38, push, c0)
    op(61, table_p, table, 38)
    op(61, vec, id3, gid)
    op(81, uint, i, id3, 0)
    for k, slot, a, p in ((c0, slot0, a0, x), (c1, slot1, a1, y)):
        op(65, long_p, slot, table, c0, k)
        op(61, ulong, a, slot, 2, 8)
        op(120, arg_p, p, a)  # OpConvertUToPtr
    op(65, elem_p, xe, x, c0, i)
    op(61, uint, v, xe, 2, 4)
    op(132, uint, w, v, c2)
    op(65, elem_p, ye, y, c0, i)
    op(62, ye, w, 2, 4)
    op(253)
    op(56)
    return b"".join(w.to_bytes(4, "little") for w in words)


def test_bad_definitions():
    make = mx.fast.vulkan_kernel
    for names in (["a b"], ["1a"], ["y"]):
        with pytest.raises(ValueError, match="identifiers"):
            make("f", names, ["y"], "")
    with pytest.raises(ValueError, match="at least one output"):
        make("f", ["x"], [], "")
    with pytest.raises(ValueError, match="no SPIR-V"):
        make("f", ["x"], ["y"], b"12345678")
    with pytest.raises(TypeError):
        make("f", ["x"], ["y"], 3)
    kernel = make("f", ["x"], ["y"], "y[0] = x[0];")
    with pytest.raises(ValueError, match="Only supports the GPU"):
        call(kernel, [mx.ones(1)], (1,), 1, stream=mx.cpu)


@gpu
def test_bad_calls():
    kernel = mx.fast.vulkan_kernel("f", ["x"], ["y"], "y[0] = x[0];")
    x = mx.ones(1)
    with pytest.raises(ValueError, match="expected 1 inputs, got 2"):
        call(kernel, [x, x], (1,), 1)
    with pytest.raises(ValueError, match="must be positive"):
        call(kernel, [x], (1,), 0)
    with pytest.raises(ValueError, match="must be positive"):
        call(kernel, [x], (1,), 1, group=-1)
    with pytest.raises(ValueError, match="threadgroups"):
        mx.eval(call(kernel, [x], (1,), 1, group=1 << 20))
    with pytest.raises(ValueError, match="init_value"):
        mx.eval(call(kernel, [x], (1,), 1, mx.int64, init_value=1))
    with pytest.raises(ValueError, match="vjp"):
        mx.grad(lambda x: call(kernel, [x], (1,), 1).sum())(x)


@gpu
def test_verbose_prints_the_code(capsys):
    kernel = mx.fast.vulkan_kernel("f", ["x"], ["y"], "y[0] = x[0] + 41.0;")
    assert call(kernel, [mx.ones(1)], (1,), 1, verbose=True).item() == 42
    assert "+ 41.0" in capsys.readouterr().out
