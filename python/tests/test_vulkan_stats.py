"""Counters of kernels, caches and batches, and the way around each kernel variant."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def none_disabled():
    before = mx.vulkan._set_disabled([])
    yield
    mx.vulkan._set_disabled(before)


def normal(rng, *shape):
    return mx.array(rng.standard_normal(shape, dtype=np.float32))


def hits(f):
    """What `f` gives, and the kernels that ran for it."""
    mx.synchronize()
    mx.vulkan.stats(reset=True)
    out = f()
    mx.eval(out)
    stats = mx.vulkan.stats()  # before the download, which is a command of its own
    return h.to_np(out), stats


def test_counts_follow_what_ran(rng):
    a, b = normal(rng, 40, 30), normal(rng, 30, 50)
    mx.eval(a, b, a @ b)
    out, stats = hits(lambda: mx.tanh(a @ b))
    assert out.shape == (40, 50)
    (kernel,) = stats["matmul"]
    assert kernel.startswith("matmul_tiled_float32") and stats["matmul"][kernel] == 1
    assert stats["dispatches"] == sum(stats["kernels"].values()) == 2
    assert stats["barriers"] >= 1
    assert stats["pipelines"]["hits"] >= 1
    buffers = stats["command_buffers"]
    assert buffers["count"] == 1 and buffers["by_commands"] == {"2": 1}
    assert buffers["commands"] == 2 and buffers["mean_commands"] == 2.0
    assert mx.vulkan.stats(reset=True)["dispatches"] == 2
    assert mx.vulkan.stats()["dispatches"] == 0


def test_quantised_products_and_attention_are_counted_by_size(rng):
    w = normal(rng, 64, 128)
    packed = mx.quantize(w, group_size=64, bits=4)
    x = normal(rng, 3, 128)
    mx.eval(packed, x)
    _, stats = hits(lambda: mx.quantized_matmul(x, *packed, group_size=64, bits=4))
    assert stats["quantized_matmul"] == [
        {"kernel": "rows", "rows": "3-4", "groups": "2", "hits": 1}
    ]
    q, k = normal(rng, 1, 2, 3, 16), normal(rng, 1, 2, 100, 16)
    mx.eval(q, k)
    _, stats = hits(lambda: mx.fast.scaled_dot_product_attention(q, k, k, scale=0.25))
    (row,) = stats["attention"]
    assert (row["kernel"], row["queries"], row["keys"]) == ("vector", "3-4", "65-128")


def test_host_operations_are_counted():
    before = mx.vulkan.stats()["host_ops"]
    mx.eval(mx.ones(3, stream=mx.cpu))
    assert mx.vulkan.stats()["host_ops"] > before


def sdpa(queries, keys):
    def run(rng):
        q, k, v = (
            normal(rng, 1, 2, queries, 32),
            normal(rng, 1, 2, keys, 32),
            normal(rng, 1, 2, keys, 32),
        )
        return lambda: mx.fast.scaled_dot_product_attention(q, k, v, scale=0.2)

    return run


def quantised(rows, transpose=True):
    def run(rng):
        w = normal(rng, 64, 64)
        packed = mx.quantize(w, group_size=32, bits=4)
        x = normal(rng, rows, 64)
        options = {"transpose": transpose, "group_size": 32, "bits": 4}
        return lambda: mx.quantized_matmul(x, *packed, **options)

    return run


def product(m, n, k):
    def run(rng):
        a, b = normal(rng, m, k), normal(rng, k, n)
        return lambda: a @ b

    return run


def conv(groups, kernel):
    def run(rng):
        x, w = normal(rng, 1, 6, 6, 8), normal(rng, 8, kernel, kernel, 8 // groups)
        return lambda: mx.conv2d(x, w, groups=groups)

    return run


def large_conv(rng):
    x, w = normal(rng, 2, 52, 66, 64), 0.1 * normal(rng, 64, 3, 3, 64)
    mx.eval(w)
    return lambda: mx.conv2d(x, w, padding=1)


def one(shape, f):
    def run(rng):
        x = normal(rng, *shape)
        return lambda: f(x)

    return run


def scattered(indices, dtype):
    def run(rng):
        x = normal(rng, 50, 4).astype(dtype)
        i = mx.array(rng.integers(0, 50, indices))
        u = mx.array(rng.integers(0, 9, (indices, 4))).astype(dtype)
        return lambda: x.at[i].add(u)

    return run


# Variant, what computes with it, a kernel that runs only with it, and one that runs only without.
ROUTES = [
    ("gemv", product(4, 40, 30), "gemv", "matmul_tiled"),
    ("matmul_split", product(32, 32, 3000), "_split", None),
    ("conv_depthwise", conv(8, 3), "conv_depthwise", "conv2d_out"),
    ("conv_pointwise", conv(1, 1), "gemv", "conv2d_out"),
    ("conv_winograd", large_conv, "conv_winograd", "conv2d_out"),
    ("qmm_rows", quantised(3), "qmm_rows", "qmm_tiled"),
    ("qmm_cols", quantised(3, transpose=False), "qmm_cols", "qmm_tiled"),
    ("qmm_tiled", quantised(20), "qmm_tiled", "dequantize"),
    ("sdpa", sdpa(3, 70), "sdpa_vector", "softmax"),
    ("sdpa_vector", sdpa(3, 70), "sdpa_vector", "sdpa_tile"),
    ("sdpa_split", sdpa(2, 400), "sdpa_vector_joined", None),
    ("sdpa_tile", sdpa(40, 70), "sdpa_tile", "sdpa_vector"),
    (
        "softmax_registers",
        one((5, 70), lambda x: mx.softmax(x, axis=-1)),
        "softmax_registers",
        "softmax_loop",
    ),
    (
        "norm_registers",
        one((5, 64), lambda x: mx.fast.rms_norm(x, None, 1e-5)),
        "rms_norm_registers",
        "rms_norm_loop",
    ),
    ("reduce_row", one((5, 700), lambda x: mx.sum(x, axis=1)), "_row_", "_general_"),
    ("reduce_column", one((70, 9), lambda x: mx.sum(x, axis=0)), "_column_", "_general_"),
    ("sort_radix", one((9000,), mx.sort), "radix", "sort_merge"),
    ("sort_rows", one((90, 9), mx.sort), "sort_rows", "sort_tile"),
    ("sort_tops", one((2, 3000), lambda x: mx.topk(x, 5)), "sort_greatest", None),
    (
        "random_joined",
        lambda _: lambda: mx.random.uniform(1, 2, (99,), key=mx.random.key(1)),
        "random_unit_fused",
        "random_unit_one",
    ),
    ("copy_transpose", one((40, 50), lambda x: mx.contiguous(x.T)), "transposed", "_2d_v"),
    ("elementwise_wide", one((300,), mx.square), "_v4", "_v1"),
]


@pytest.mark.parametrize("variant, make, with_it, without", ROUTES, ids=[r[0] for r in ROUTES])
def test_a_variant_can_be_routed_around(rng, variant, make, with_it, without):
    f = make(rng)
    mx.eval(f())
    plain, stats = hits(f)
    ran = list(stats["kernels"])
    mx.vulkan._set_disabled([variant])
    other, stats = hits(f)
    instead = list(stats["kernels"])
    if variant == "sort_radix" and not any(with_it in k for k in ran):
        assert ran == instead  # a device without what the radix sort needs
    else:
        assert any(with_it in k for k in ran) and not any(with_it in k for k in instead)
    if without:
        assert any(without in k for k in instead), instead
    np.testing.assert_allclose(other, plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("variant", ["scatter_atomic", "scatter_linked"])
def test_scatters_give_the_same_on_every_way(rng, variant):
    f = scattered(20, mx.int32 if variant == "scatter_atomic" else mx.float32)(rng)
    plain, before = hits(f)
    mx.vulkan._set_disabled([variant])
    other, after = hits(f)
    assert before["kernels"] != after["kernels"]
    np.testing.assert_array_equal(other, plain)


@pytest.mark.parametrize("variant", ["scan_split", "reduce_split", "reduce_last"])
def test_parts_and_widths_do_not_change_results(rng, variant):
    x = normal(rng, 40_000)
    f = {
        "scan_split": lambda: mx.cumsum(x),
    }.get(variant, lambda: mx.sum(x))
    # Parts that the last workgroup joins do not show in the names; those of a second pass do.
    always = ["reduce_last"] if variant == "reduce_split" else []
    mx.vulkan._set_disabled(always)
    plain, before = hits(f)
    mx.vulkan._set_disabled([*always, variant])
    other, after = hits(f)
    assert before["kernels"] != after["kernels"]
    np.testing.assert_allclose(other, plain, rtol=1e-4, atol=1e-3)


def test_variants_are_routed_around_by_the_environment():
    code = """
    import mlx.core as mx
    mx.set_default_device(mx.gpu)
    mx.eval(mx.ones((4, 30)) @ mx.ones((30, 40)))
    print(list(mx.vulkan.stats()["matmul"]))
    """
    assert "gemv" in h.python(code, env={"MLX_VK_DISABLE": ""}).stdout
    other = h.python(code, env={"MLX_VK_DISABLE": "qmm_rows, gemv"}).stdout
    assert "gemv" not in other and "matmul_tiled" in other


def test_unknown_variants_are_refused():
    with pytest.raises(ValueError, match="names no kernel variant"):
        mx.vulkan._set_disabled(["nonsense"])
