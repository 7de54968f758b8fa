"""Products of one row that follow each other: one kernel on GPUs that take PTX, else several."""

import functools
import os
import threading

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
import test_eval_joined as t
import test_eval_joined_dense as dense

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("none_disabled")]

#: Hidden size, queries, keys and values, hidden size of the gated unit.
SHAPES = [
    (1024, 2048, 1024, 3072),
    (384, 512, 64, 640),
    (2560, 4096, 1024, 9728),
    (4096, 4096, 1024, 12288),
    (64, 128, 16, 192),
    (5120, 5120, 1024, 13824),
]


#: Matrices of codes of eight bits.
OCTETS = functools.partial(t.Matrix, group_size=64, bits=8)
#: Codes that lie across words.
ODD = [{"group_size": g, "bits": b} for g, b in ((64, 6), (32, 5), (64, 3), (128, 2), (128, 6))]


def can(*lengths):
    """Whether the device has such a kernel for rows so long."""
    name = mx.device_info(mx.gpu)["device_name"]
    hopper = any(chip in name for chip in ("H100", "H200", "GH200", "H800"))
    return hopper and os.environ.get("MLX_VK_QMM", "native") == "native" and min(lengths) >= 1024


def listed(a):
    return [a] if isinstance(a, mx.array) else a


class Layer:
    """What stands between the attention of one layer and that of the next."""

    def __init__(self, rng, hidden, q, kv, inner, dtype="bfloat16", make=t.Matrix):
        self.dtype = dtype
        self.o, self.down = (make(rng, hidden, n, dtype) for n in (q, inner))
        self.gate, self.up = (make(rng, inner, hidden, dtype) for _ in range(2))
        self.qkv = [make(rng, n, hidden, dtype) for n in (q, kv, kv)]
        self.w = [1 + t.normal(rng, hidden, dtype=dtype, scale=0.1) for _ in range(2)]
        self.x, self.attended = (t.normal(rng, 1, 1, n, dtype=dtype) for n in (hidden, q))
        mx.eval(self.w)

    def __call__(self, x=None, attended=None):
        x = self.x if x is None else x
        after = x + self.o(self.attended if attended is None else attended)
        row = mx.fast.rms_norm(after, self.w[0], 1e-5)
        out = after + self.down(t.swiglu(self.gate(row), self.up(row)))
        row = mx.fast.rms_norm(out, self.w[1], 1e-5)
        return [out, *(m(row) for m in self.qkv)]

    def expected(self):
        """The same in float64, rounded where arrays lie between."""
        r = lambda a: t.rounded(a, self.dtype).astype(np.float64)  # noqa: E731
        values = lambda a: h.to_np(a).astype(np.float64).reshape(1, -1)  # noqa: E731
        after = r(values(self.x) + r(self.o.of(values(self.attended))))
        row = t.rms(after, h.to_np(self.w[0]), self.dtype)
        g, u = (r(m.of(row)) for m in (self.gate, self.up))
        out = r(after + r(self.down.of(r(r(g / (1 + np.exp(-g))) * u))))
        row = t.rms(out, h.to_np(self.w[1]), self.dtype)
        return [out, *(m.of(row) for m in self.qkv)]


def chains(ran):
    return sum(n for k, n in ran.items() if k.startswith(("qmm_chain", "gemv_chain")))


@pytest.mark.parametrize("make", [t.Matrix, OCTETS, dense.Layer], ids=["codes", "octets", "dense"])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [(s, "bfloat16") for s in SHAPES] + [(s, "float16") for s in SHAPES[:3]],
    ids=lambda s: s if isinstance(s, str) else "x".join(map(str, s)),
)
def test_a_layer_between_attentions(rng, shape, dtype, make):
    shape = h.fit(*shape) if shape[0] > 2048 else shape
    layer = Layer(rng, *shape, dtype=dtype, make=make)
    got, ran = h.kernels(layer)
    if can(shape[0], shape[1], shape[3]):
        assert chains(ran) == 1 and sum(ran.values()) == 1, ran
    for a, b in zip(got, layer.expected(), strict=True):
        t.close(a.reshape(1, -1), b, dtype, units=4)
    apart = h.apart(layer, "qmm_chain", "gemv_chain")
    for a, b in zip(got, apart, strict=True):
        t.close(a, h.to_np(b).astype(np.float64), dtype, units=4)
    for _ in range(3):
        # Together, as before: a product alone may be another kernel's.
        again = layer()
        mx.eval(again)
        assert all(np.array_equal(h.to_np(a), h.to_np(b)) for a, b in zip(again, got, strict=True))


@pytest.mark.parametrize("how", ODD, ids=lambda h: f"{h['bits']}-{h['group_size']}")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_layer_of_codes_across_words(rng, how, dtype):
    test_a_layer_between_attentions(rng, SHAPES[0], dtype, functools.partial(t.Matrix, **how))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("kinds", ["4844888", "44d4844", "d8444dd", "6433666"])
def test_a_layer_of_several_kinds(rng, kinds, dtype):
    """The output's, down, gate, up, and the three behind: of codes, or of elements."""
    odd = {str(n): functools.partial(t.Matrix, group_size=64, bits=n) for n in (3, 6)}
    makes = iter((odd | {"4": t.Matrix, "8": OCTETS, "d": dense.Layer})[k] for k in kinds)
    layer = Layer(rng, *SHAPES[0], dtype=dtype, make=lambda *a: next(makes)(*a))
    got, ran = h.kernels(layer)
    for a, b in zip(got, layer.expected(), strict=True):
        t.close(a.reshape(1, -1), b, dtype, units=4)
    apart, several = h.kernels(lambda: h.apart(layer, "qmm_chain_mixed"))
    if can(*SHAPES[0]) and kinds[2] == kinds[3] and len(set(kinds[4:])) == 1:
        assert chains(ran) == 1 and sum(ran.values()) == 1, ran
        assert sum(several.values()) > 1, several
    # How a row is added up follows from its length and kind.
    for a, b in zip(got, apart, strict=True):
        t.close(a, h.to_np(b).astype(np.float64), dtype, units=4)


def test_layers_one_behind_the_other(rng):
    """As in a loop of generation: memory comes back, graphs are built while others run."""
    layers = [Layer(rng, 1024, 1024, 256, 2048) for _ in range(6)]

    def token(x):
        for layer in layers:
            x, q, k, v = layer(x)
            x = x + mx.tanh(q) * (k.sum() + v.sum())
        return x * 0.1

    def tokens():
        x = layers[0].x
        out = []
        for _ in range(8):
            x = token(x)
            mx.async_eval(x)
            out.append(x)
        return out

    got = [h.to_np(a) for a in tokens()]
    again = [h.to_np(a) for a in tokens()]
    assert all(np.array_equal(a, b) for a, b in zip(got, again, strict=True))
    apart = [h.to_np(a).astype(np.float64) for a in h.apart(tokens, "qmm_chain")]
    # Roundings of one token are the next one's row.
    t.close(mx.array(got[0]), apart[0], "bfloat16", units=16)
    assert all(np.isfinite(a).all() for a in got)


def test_chains_of_two_streams(rng):
    """Workgroups of a chain wait for each other: two at once must not keep each other's out."""
    layers = [Layer(rng, 1024, 1024, 256, 2048) for _ in range(2)]
    want = [[h.to_np(a) for a in layer()] for layer in layers]
    wrong = []

    def run(layer, expected):
        with mx.stream(mx.new_stream(mx.gpu)):
            for _ in range(60):
                got = layer()
                mx.async_eval(got)
                if not all(
                    np.array_equal(h.to_np(a), b) for a, b in zip(got, expected, strict=True)
                ):
                    wrong.append(layer)

    threads = [threading.Thread(target=run, args=a) for a in zip(layers, want, strict=True)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


def test_two_streams_of_one_thread_that_take_turns(rng):
    layer = Layer(rng, 1024, 1024, 256, 2048)
    want = [h.to_np(a) for a in layer()]
    streams = [mx.new_stream(mx.gpu) for _ in range(3)]
    all_of = []
    for i in range(30):
        with mx.stream(streams[i % 3]):
            all_of.append(layer())
            mx.async_eval(all_of[-1])
    for got in all_of:
        assert all(np.array_equal(h.to_np(a), b) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [("bfloat16", s) for s in (1e-20, 1e12, 1e30)] + [("float16", s) for s in (1e-4, 1e3)],
)
def test_rows_far_from_one(rng, dtype, scale):
    """Elements that a factor of 2^100 takes beyond the largest number, and small ones."""
    x = t.normal(rng, 1, 2048, dtype=dtype, scale=scale)
    for how in ({}, *ODD[2:4]):
        a, b = t.Matrix(rng, 1024, 2048, dtype, **how), t.Matrix(rng, 256, 1024, dtype, **how)
        got, ran = h.kernels(lambda a=a, b=b: b(a(x)))
        if can(1024):
            assert chains(ran) == 1, ran
        middle = t.rounded(a.of(h.to_np(x).astype(np.float64)), dtype).astype(np.float64)
        t.close(got, b.of(middle), dtype, units=4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_no_numbers(rng, value, dtype):
    a, b = t.Matrix(rng, 1024, 1088, dtype), t.Matrix(rng, 256, 1024, dtype)
    x = h.to_np(t.normal(rng, 1, 1088, dtype=dtype))
    x[0, 77] = value
    x = mx.array(x).astype(getattr(mx, dtype))
    f = lambda: (lambda y: [y, b(y)])(a(x))  # noqa: E731
    got = [h.to_np(y) for y in f()]
    with mx.stream(mx.cpu):
        want = [h.to_np(y) for y in f()]
    # A GPU may give NaN where an infinity meets codes of both signs (docs/guide.md).
    for y, z in zip(got, want, strict=True):
        assert not np.isfinite(y[~np.isfinite(z)]).any()
    assert not np.isfinite(got[0]).any()


def test_what_others_read_is_there(rng):
    """Rows between products, and normalised ones, that the caller keeps."""
    layer = Layer(rng, 1024, 2048, 512, 3072)

    def kept():
        after = layer.x + layer.o(layer.attended)
        row = mx.fast.rms_norm(after, layer.w[0], 1e-5)
        y = t.swiglu(layer.gate(row), layer.up(row))
        return [after, row, y, after + layer.down(y)]

    got = kept()
    mx.eval(got)
    for a, b in zip(got, h.apart(kept, "qmm_chain"), strict=True):
        t.close(a, h.to_np(b).astype(np.float64), "bfloat16", units=4)


def test_products_that_do_not_follow_stay_apart(rng):
    """A row from elsewhere, rows that are no whole tiles, other dtypes."""
    a, b = t.Matrix(rng, 1024, 1088, "bfloat16"), t.Matrix(rng, 256, 1024, "bfloat16")
    odd = t.Matrix(rng, 202, 1024, "bfloat16")
    eight = t.Matrix(rng, 256, 1024, "bfloat16", group_size=64, bits=8)
    x, z = t.normal(rng, 1, 1088, dtype="bfloat16"), t.normal(rng, 1, 1024, dtype="bfloat16")
    single = [t.Matrix(rng, n, k, "float32") for n, k in ((1024, 1088), (256, 1024))]
    for f in (
        lambda: [a(x), b(z)],
        lambda: odd(a(x)),
        lambda: eight(a(x)),
        lambda: single[1](single[0](x.astype(mx.float32))),
        lambda: b(mx.sin(a(x))),
        lambda: b(a(x)[:, ::-1]),
    ):
        got, ran = h.kernels(f)
        # Of codes of four bits and of eight there is one.
        mixed = any("q4g64_q8g64" in name for name in ran)
        assert sum(n for k, n in ran.items() if "qmm" in k) == 2 - mixed, ran
        for u, v in zip(*map(listed, (got, h.apart(f, "qmm_chain"))), strict=True):
            t.close(u, h.to_np(v).astype(np.float64), "bfloat16", units=4)


def test_more_products_than_a_kernel_takes(rng):
    """Seven in a row are two kernels; a row that is used again later is still right."""
    mats = [t.Matrix(rng, 1024, 1024, "bfloat16") for _ in range(7)]
    x = t.normal(rng, 1, 1024, dtype="bfloat16")

    def f():
        y, rows = x, []
        for m in mats:
            y = m(y) + y
            rows.append(y)
        return rows

    got, ran = h.kernels(f)
    if can(1024):
        assert chains(ran) == 2 and sum(ran.values()) == 2, ran
    y = h.to_np(x).astype(np.float64)
    for m, a in zip(mats, got, strict=True):
        y = t.rounded(t.rounded(m.of(y), "bfloat16").astype(np.float64) + y, "bfloat16").astype(
            np.float64
        )
        t.close(a, y, "bfloat16", units=8)
