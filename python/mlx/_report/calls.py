"""Calls that reach the kernels of a device, for `python -m mlx.info --compile`.

Nothing names a kernel. Rows come from the elementwise table, dtypes from the module, and every
family is called over a grid of sizes and options that its tables choose by; `variants` are taken
out one by one, so that what would run instead is reached too. A call that a dtype does not allow
raises, and that is no kernel.
"""

import itertools

import mlx.core as mx

__all__ = ["FAMILIES", "calls"]

DTYPES = [
    mx.float32,
    mx.float16,
    mx.bfloat16,
    mx.int32,
    mx.bool_,
    mx.complex64,
    mx.uint8,
    mx.uint16,
    mx.uint32,
    mx.uint64,
    mx.int8,
    mx.int16,
    mx.int64,
]
FEW = [mx.float32, mx.float16, mx.int32]
FLOATS = [mx.float32, mx.float16, mx.bfloat16]


def _array(shape, dtype, layout="dense"):
    """Zeros that lie in memory as told."""
    if layout == "offset":
        return mx.zeros((shape[0] + 1, *shape[1:]), dtype)[1:]
    if layout == "strided":
        return mx.zeros((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2]
    if layout == "reversed":
        return mx.zeros(shape, dtype)[..., ::-1]
    if layout == "transposed":
        return mx.zeros(shape[::-1], dtype).T
    if layout == "broadcast":
        return mx.broadcast_to(mx.zeros((*shape[:-1], 1), dtype), shape)
    return mx.zeros(shape, dtype)


def _elementwise(full):
    layouts = [((4096,), "dense")]
    if full:
        layouts += [
            ((64, 48), "strided"),
            ((999,), "offset"),
            ((8, 6, 10), "transposed"),
            ((3, 4, 5, 6, 7), "transposed"),
        ]
    for name, arity in mx.vulkan._elementwise():
        f = getattr(mx, name)
        for dtype, (shape, layout) in itertools.product(DTYPES if full else [mx.float32], layouts):
            xs = [lambda d=dtype, s=shape, k=layout: _array(s, d, k)] * arity
            yield name, lambda f=f, xs=xs: f(*[x() for x in xs])
            if arity == 2 and layout == "dense" and full:
                number = mx.zeros((), dtype)
                yield name, lambda f=f, x=xs[0], n=number: (f(x(), n), f(n, x()))
        if arity == 2 and (full or name == "add"):
            column = [lambda: mx.zeros((64, 48)), lambda: _array((64, 48), mx.float32, "broadcast")]
            yield name, lambda f=f, xs=column: f(*[x() for x in xs])


def _casts(full):
    kinds = DTYPES if full else [*FLOATS, mx.int32, mx.bool_, mx.uint8]
    for a, b in itertools.product(kinds, kinds):
        yield "astype", lambda a=a, b=b: mx.zeros(4096, a).astype(b)
        if full:
            yield "astype", lambda a=a, b=b: _array((64, 48), a, "strided").astype(b)
    for dtype, layout in itertools.product(kinds, ["strided", "reversed", "transposed"]):
        for shape in [(64, 48), (4, 64, 48), (2, 3, 4, 5, 6)]:
            x = (dtype, layout, shape)
            yield "contiguous", lambda x=x: mx.contiguous(_array(x[2], x[0], x[1]))
        yield "contiguous", lambda d=dtype: mx.contiguous(mx.zeros((4, 64, 48), d).swapaxes(1, 2))
        yield "where", lambda d=dtype: mx.where(mx.zeros(64, mx.bool_), mx.zeros(64, d), 1)
        for shape, widths in [((9, 3, 1), (16, 16)), ((9, 3, 1), (3, 5)), ((9,), (2, 1))]:
            x = (dtype, shape, widths)
            yield "concatenate", lambda x=x: _side_by_side(*x)
        for axes in range(1, 6) if full else (2,):
            x = (dtype, axes)
            yield "pad", lambda x=x: mx.pad(mx.zeros((7, 5, 3, 2, 4)[: x[1]], x[0]), 1)


def _side_by_side(dtype, shape, widths):
    return mx.concatenate([mx.zeros((*shape[:-1], w), dtype) for w in widths], -1)


FOLDS = "sum prod min max all any argmin argmax mean var std logsumexp softmax median".split()


def _reductions(full):
    shapes = [
        ((3, 40, 64), -1),
        ((40, 3000), 1),
        ((1 << 20,), 0),
        ((3000, 40), 0),
        ((8, 1 << 17), 1),
    ]
    shapes += [
        ((1 << 17, 8), 0),
        ((6, 5, 4, 3), (0, 2)),
        ((6, 500, 4, 300), (1, 3)),
        ((7, 9), None),
        ((9, 77), -1),
        ((4, 1 << 20), 0),
        ((4, (1 << 20) + 3), 0),
    ]
    names = FOLDS if full else ["sum", "max", "argmax", "all", "softmax", "logsumexp"]
    for name, dtype in itertools.product(names, DTYPES if full else FEW):
        for shape, axes in shapes if full else shapes[:5]:
            x = (getattr(mx, name), shape, dtype, axes)
            yield name, lambda x=x: x[0](mx.zeros(x[1], x[2]), axis=x[3])
        x = (getattr(mx, name), dtype)
        yield name, lambda x=x: x[0](_array((40, 300), x[1], "transposed"), axis=0)
    for name, dtype in itertools.product(names, DTYPES if full else FEW):
        f = getattr(mx, name)
        # Rows of which several are one, and every second element of a row.
        yield name, lambda f=f, d=dtype: f(mx.zeros((120_000, 77), d), axis=0)
        yield name, lambda f=f, d=dtype: f(_array((5, 4000), d, "dense")[:, ::2], axis=1)
    for dtype, n in itertools.product(FLOATS, (9, 1000, 5000, 20_000, 50_257, 100_000)):
        yield "softmax", lambda d=dtype, n=n: mx.softmax(mx.zeros((3, n), d), axis=-1)
        yield "log_softmax", lambda d=dtype, n=n: _log_softmax(mx.zeros((3, n), d))
    for dtype, (shape, axis) in itertools.product(DTYPES if full else FLOATS, shapes):
        for f in (mx.var, mx.std, mx.mean, mx.logsumexp) if full else (mx.var, mx.logsumexp):
            yield "statistics", lambda f=f, s=shape, d=dtype, k=axis: f(mx.zeros(s, d), axis=k)
        if isinstance(axis, int):
            x = (shape, dtype, axis)
            yield "norm", lambda x=x: mx.linalg.norm(mx.zeros(x[0], x[1]), axis=x[2])


def _log_softmax(x):
    mx.eval(x)
    return x - mx.logsumexp(x, axis=-1, keepdims=True)


def _scans(full):
    names = ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"]
    shapes = [((5, 300), 1), ((300, 5), 0), ((1 << 20,), 0), ((4, 1 << 16), 1), ((1 << 16, 4), 0)]
    for name, dtype in itertools.product(names if full else names[:1], DTYPES if full else FEW):
        for (shape, axis), back in itertools.product(shapes, [False, True] if full else [False]):
            x = (getattr(mx, name), shape, dtype, axis, back)
            yield (
                name,
                lambda x=x: x[0](mx.zeros(x[1], x[2]), axis=x[3], reverse=x[4], inclusive=not x[4]),
            )


def _router(dtype, n, k, how):
    """The choice of experts: by a softmax of all scores or of those that are chosen, by the scores
    themselves, by the least of them, or by numbers that only decide."""
    x, others = mx.zeros((2, n), dtype), mx.zeros((2, n))
    mx.eval(x, others)
    gates = mx.softmax(x, axis=-1) if how == "first" else x
    ranked = {"last": -gates, "others": others}.get(how, gates)
    if how in ("last", "least"):
        places = mx.argpartition(ranked, kth=k - 1, axis=-1)[..., :k]
    else:
        places = mx.argpartition(ranked, kth=-k, axis=-1)[..., -k:]
    scores = mx.take_along_axis(gates, places, axis=-1)
    del gates, ranked
    if how == "last":
        return places, mx.softmax(scores, axis=-1)
    return places, scores / scores.sum(axis=-1, keepdims=True) if how == "first" else scores


def _ends(order, x):
    """The first elements and the last ones, in an order."""
    shape, dtype, axis = x
    how = (1, axis) if order is mx.argpartition else (axis,)
    whole = (slice(None),) * axis
    return [
        order(mx.zeros(shape, dtype), *how)[(*whole, part)] for part in (slice(3), slice(-3, None))
    ]


ROUTERS = ["first", "last", "bare", "least", "others"]


def _sorts(full):
    sizes = [60, 128, 1024] if full else [128]
    for dtype, n, how in itertools.product(FLOATS, sizes, ROUTERS):
        yield "router", lambda x=(dtype, n, 8, how): _router(*x)
    shapes = [((7, 33), 1), ((5, 3000), 1), ((1 << 18,), 0), ((3000, 5), 0), ((64, 20_000), 1)]
    shapes += [((9, 500), 0)] if full else []
    for dtype, (shape, axis) in itertools.product(DTYPES if full else FEW, shapes):
        x = (shape, dtype, axis)
        for f in (mx.sort, mx.argsort):
            yield f.__name__, lambda f=f, x=x: f(mx.zeros(x[0], x[1]), axis=x[2])
        k = shape[axis] // 3
        for f in (mx.partition, mx.argpartition):
            yield f.__name__, lambda f=f, x=x, k=k: f(mx.zeros(x[0], x[1]), k, axis=x[2])
        yield "topk", lambda x=x: mx.topk(mx.zeros(x[0], x[1]), 3, axis=x[2])
        yield "places", lambda x=x: _ends(mx.argpartition, x)
        yield "least", lambda x=x: _ends(mx.sort, x)
    for dtype in DTYPES if full else FEW:
        for n in (8, 100_000):
            x = (dtype, n)
            yield (
                "searchsorted",
                lambda x=x: mx.searchsorted(mx.zeros(x[1], x[0]), mx.zeros(77, x[0])),
            )


def _products(full):
    sizes = [1, 2, 8, 33, 64, 512, 4096] if full else [1, 8, 64, 4096]
    dtypes = [*FLOATS, mx.complex64] if full else FLOATS
    yield "complex", lambda: _product(mx.complex64, 64, 64, 64, "nt")
    for dtype, m, n, k in itertools.product(dtypes, sizes, sizes, [7, 64, 256, 1024, 8192]):
        if not full and k not in (64, 1024):
            continue
        for form in (
            ["nn", "nt", "tn", "tt"] if full or (m, n) in ((64, 64), (4096, 4096)) else ["nt"]
        ):
            x = (dtype, m, n, k, form)
            yield "matmul", lambda x=x: _product(*x)
    many = 1 << 16  # rows, on any device
    for dtype, (k, n) in itertools.product(
        FLOATS, [(3, 3), (7, 5), (16, 16)] if full else [(3, 3)]
    ):
        x = (dtype, k, n)
        yield "short", lambda x=x: mx.zeros((many, 3, x[1]), x[0]) @ mx.zeros((many, x[1], 2), x[0])
        yield "short", lambda x=x: mx.zeros((many, x[1]), x[0]) @ mx.zeros((x[1], x[2]), x[0])
    for dtype, m in itertools.product(dtypes, [1, 33, 256]):
        x = (dtype, m)
        yield (
            "addmm",
            lambda x=x: mx.addmm(
                mx.zeros(64, x[0]), mx.zeros((x[1], 96), x[0]), mx.zeros((96, 64), x[0]), 0.5, 2.0
            ),
        )
        yield "batched", lambda x=x: mx.zeros((6, x[1], 40), x[0]) @ mx.zeros((6, 40, 72), x[0])
        yield "broadcast", lambda x=x: mx.zeros((6, x[1], 40), x[0]) @ mx.zeros((40, 72), x[0])
        for tall, order in itertools.product([1, 64], [False, True]):
            y = (*x, tall, order)
            yield "gather_mm", lambda y=y: _gathered(*y)
        yield (
            "segmented_mm",
            lambda x=x: mx.segmented_mm(
                mx.zeros((x[1], 64), x[0]),
                mx.zeros((64, 48), x[0]),
                mx.array([[0, 16], [16, 64]], mx.uint32),
            ),
        )
        yield (
            "block_masked_mm",
            lambda x=x: mx.block_masked_mm(
                mx.zeros((64, 64), x[0]), mx.zeros((64, 64), x[0]), 32, mx.ones((2, 2), mx.bool_)
            ),
        )


def _product(dtype, m, n, k, form):
    a = mx.zeros((k, m), dtype).T if form[0] == "t" else mx.zeros((m, k), dtype)
    b = mx.zeros((n, k), dtype).T if form[1] == "t" else mx.zeros((k, n), dtype)
    return a @ b


def _gathered(dtype, rows, tall, order):
    picks = mx.zeros((rows,), mx.uint32)
    a, b = mx.zeros((rows, tall, 64), dtype), mx.zeros((8, 64, 96), dtype)
    return mx.gather_mm(a, b, rhs_indices=picks, sorted_indices=order)


def _convolutions(full):
    dtypes = FLOATS if full else FLOATS[:2]
    images = [((2, 16, 16, 8), (8, 3, 3, 8), {}), ((2, 16, 16, 32), (32, 3, 3, 1), {"groups": 32})]
    images += [((8, 64, 64, 64), (64, 3, 3, 64), {"padding": 1}), ((2, 9, 9, 8), (4, 1, 1, 8), {})]
    images += [((2, 16, 16, 8), (8, 5, 5, 4), {"groups": 2, "stride": 2, "dilation": 2})]
    for dtype, (x, w, options) in itertools.product(dtypes, images):
        y = (dtype, x, w, options)
        yield "conv2d", lambda y=y: mx.conv2d(mx.zeros(y[1], y[0]), mx.zeros(y[2], y[0]), **y[3])

        def loss(a, b, options=options):
            return mx.conv2d(a, b, **options).astype(mx.float32).sum()

        both = mx.grad(loss, argnums=(0, 1))
        yield "grad", lambda y=y, g=both: g(mx.zeros(y[1], y[0]), mx.zeros(y[2], y[0]))
    for dtype in dtypes:
        yield "conv1d", lambda d=dtype: mx.conv1d(mx.zeros((2, 50, 8), d), mx.zeros((6, 5, 8), d))
        yield (
            "conv3d",
            lambda d=dtype: mx.conv3d(mx.zeros((1, 6, 6, 6, 4), d), mx.zeros((5, 2, 2, 2, 4), d)),
        )
        yield (
            "transpose",
            lambda d=dtype: mx.conv_transpose2d(
                mx.zeros((2, 9, 9, 8), d), mx.zeros((4, 3, 3, 8), d), stride=2
            ),
        )


MODES = [("affine", g, b) for g in (32, 64, 128) for b in (2, 3, 4, 5, 6, 8)]
MODES += [("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)]


def _quantized(full):
    modes = MODES if full else [("affine", 64, 4), ("affine", 32, 8), ("mxfp4", 32, 4)]
    for dtype, (mode, group, bits) in itertools.product(FLOATS, modes):
        how = {"group_size": group, "bits": bits, "mode": mode}
        w = (lambda d=dtype, how=how: mx.quantize(mx.zeros((512, 1024), d), **how), dtype, how)
        yield "quantize", w[0]
        yield "dequantize", lambda w=w: mx.dequantize(*w[0](), **w[2])
        rows = [1, 2, 3, 4, 6, 8, 12, 16, 32, 48, 64, 300] if full else [1, 4, 33, 300]
        for m, t in itertools.product(rows, [True, False]):
            yield (
                "quantized_matmul",
                lambda w=w, m=m, t=t: mx.quantized_matmul(
                    mx.zeros((m, 1024 if t else 512), w[1]), *w[0](), transpose=t, **w[2]
                ),
            )
        for m, order in itertools.product([1, 40], [False, True]):
            yield "gather_qmm", lambda w=w, m=m, order=order: _picked(w[1], w[2], m, order)


def _picked(dtype, how, m, order):
    w = mx.quantize(mx.zeros((4, 96, 256), dtype), **how)
    picks = mx.zeros((m,), mx.uint32)
    x = mx.zeros((m, 1, 256), dtype)
    return mx.gather_qmm(x, *w, rhs_indices=picks, transpose=True, sorted_indices=order, **how)


def _attention(full):
    heads = [64, 72, 80, 96, 128, 256] if full else [64, 128]
    masks = [None, "causal", mx.bool_, "same"]
    grid = itertools.product(FLOATS, heads, [1, 4, 20, 128, 1024], [128, 4096], masks)
    for dtype, head, queries, keys, mask in grid:
        if not full and (mask not in (None, "causal") or queries in (4, 1024)):
            continue
        x = (dtype, head, queries, keys, mask)
        yield "sdpa", lambda x=x: _attend(*x)
    for dtype, queries in itertools.product(FLOATS, [1, 128]):
        x = (dtype, 64, queries)
        for mask in (mx.bool_, "same"):
            yield "masked", lambda x=x, mask=mask: _attend(*x, 4096, mask)
        yield "sinks", lambda x=x: _attend(*x, 4096, "causal", sinks=True)
        yield "strided", lambda x=x: _attend(*x, 4096, None, layout="strided")
    # More parts than the last workgroup joins, on devices of any size that cut the keys.
    for dtype, mask in itertools.product(FLOATS, masks if full else [None, "same"]):
        for queries, sinks in [(1, False), (2, True)] if full else [(1, True)]:
            x = (dtype, 128, queries, 1 << 16, mask)
            yield "long", lambda x=x, sinks=sinks: _attend(*x, sinks=sinks, heads=(2, 1))
    for dtype, head in itertools.product(FLOATS, heads):
        q = (dtype, head)

        def loss(a, b, c):
            y = mx.fast.scaled_dot_product_attention(a, b, c, scale=1.0, mask="causal")
            return y.astype(mx.float32).sum()

        both = mx.grad(loss, argnums=(0, 1, 2))
        yield "grad", lambda q=q, g=both: g(*[mx.zeros((1, 4, 64, q[1]), q[0])] * 3)


def _attend(dtype, head, queries, keys, mask, sinks=False, heads=(8, 2), layout="dense"):
    q = mx.zeros((1, heads[0], queries, head), dtype)
    shape = (1, heads[1], max(keys, queries), head)
    k, v = (_array(shape, dtype, layout) for _ in range(2))
    if mask not in (None, "causal"):
        mask = mx.zeros((queries, k.shape[2]), dtype if mask == "same" else mask)
    more = {"sinks": mx.zeros(heads[0], dtype)} if sinks else {}
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=1.0, mask=mask, **more)


def _fast(full):
    widths = [64, 1000, 4096, 20_000] if full else [1000, 20_000]
    for dtype, n in itertools.product(FLOATS, widths):
        x = (dtype, n)
        yield (
            "rms_norm",
            lambda x=x: mx.fast.rms_norm(mx.zeros((9, x[1]), x[0]), mx.ones(x[1], x[0]), 1e-5),
        )
        yield (
            "layer_norm",
            lambda x=x: mx.fast.layer_norm(
                mx.zeros((9, x[1]), x[0]), mx.ones(x[1], x[0]), mx.ones(x[1], x[0]), 1e-5
            ),
        )
        for f, count in ((mx.fast.rms_norm, 1), (mx.fast.layer_norm, 2)):

            def loss(a, *w, f=f):
                return f(a, *w, 1e-5).astype(mx.float32).sum()

            g = mx.grad(loss, argnums=list(range(count + 1)))
            yield (
                "grad",
                lambda x=x, g=g, c=count: g(mx.zeros((9, x[1]), x[0]), *[mx.ones(x[1], x[0])] * c),
            )
        yield (
            "cross_entropy",
            lambda x=x: mx.fast.cross_entropy(mx.zeros((9, x[1]), x[0]), mx.zeros(9, mx.int32)),
        )
    for dtype, old, dims in itertools.product(FLOATS, [False, True], [64, 48]):
        x = (dtype, old, dims)
        yield (
            "rope",
            lambda x=x: mx.fast.rope(
                mx.zeros((2, 4, 5, 64), x[0]),
                x[2],
                traditional=x[1],
                base=10000.0,
                scale=1.0,
                offset=3,
            ),
        )
        yield "hadamard", lambda x=x: mx.hadamard_transform(mx.zeros((7, 28 * x[2] // 4), x[0]))
    for dtype, n in itertools.product(FLOATS, [2, 64, 2048, 12 * 256, 28 * 512, 1 << 15]):
        x = (dtype, n)
        yield "hadamard", lambda x=x: mx.hadamard_transform(mx.zeros((7, x[1]), x[0]))


def _transforms(full):
    sizes = (
        [8, 240, 1024, 4096, 1 << 14, 1 << 18, 97, 1009, 10_007]
        if full
        else [240, 4096, 97, 1 << 18]
    )
    for n in sizes:
        yield "fft", lambda n=n: mx.fft.fft(mx.zeros((3, n), mx.complex64))
        yield "ifft", lambda n=n: mx.fft.ifft(mx.zeros((3, n), mx.complex64))
        yield "rfft", lambda n=n: mx.fft.rfft(mx.zeros((3, n)))
        yield "irfft", lambda n=n: mx.fft.irfft(mx.zeros((3, n), mx.complex64))
        yield "fft0", lambda n=n: mx.fft.fft(mx.zeros((n, 3), mx.complex64), axis=0)
    if hasattr(mx.fft, "stft"):
        yield "stft", lambda: mx.fft.stft(mx.zeros((2, 800)), 64)
        yield "istft", lambda: mx.fft.istft(mx.zeros((2, 33, 20), mx.complex64), 64)
    yield "fft2", lambda: mx.fft.fft2(mx.zeros((3, 60, 64), mx.complex64))


def _random(full):
    r = mx.random
    kinds = [lambda d: r.normal((1000,), d), lambda d: r.uniform(shape=(1000,), dtype=d)]
    kinds += [lambda d: r.gumbel((1000,), d), lambda d: r.laplace((1000,), d)]
    kinds += [lambda d: r.truncated_normal(-1, 1, (1000,), d), lambda d: r.randint(0, 9, (77,), d)]
    for kind, dtype in itertools.product(kinds, DTYPES if full else FEW):
        yield "random", lambda f=kind, d=dtype: f(d)
    yield "bernoulli", lambda: r.bernoulli(0.3, (999,))
    yield "categorical", lambda: r.categorical(mx.zeros((5, 99)))
    yield "permutation", lambda: (r.permutation(99), r.permutation(mx.zeros((9, 4))))
    yield "split", lambda: r.split(r.key(3), 5)


def _indexing(full):
    for dtype in DTYPES if full else FEW:
        for index in (mx.int32, mx.uint32, mx.int64) if full else (mx.int32,):
            x = (dtype, index)
            yield "take", lambda x=x: mx.take(mx.zeros((50, 64), x[0]), mx.zeros(33, x[1]), axis=0)
            yield "take", lambda x=x: mx.take(mx.zeros((50, 64), x[0]), mx.zeros(33, x[1]), axis=1)
            yield (
                "gather",
                lambda x=x: mx.zeros((9, 8, 7), x[0])[mx.zeros(5, x[1]), :, mx.zeros(5, x[1])],
            )
            yield (
                "take_along_axis",
                lambda x=x: mx.take_along_axis(
                    mx.zeros((9, 8), x[0]), mx.zeros((9, 3), x[1]), axis=1
                ),
            )
            yield (
                "put_along_axis",
                lambda x=x: mx.put_along_axis(
                    mx.zeros((9, 8), x[0]), mx.zeros((9, 3), x[1]), mx.ones((9, 3), x[0]), axis=1
                ),
            )
            for n, name in itertools.product(
                (5, 5000, 200_000), ("add", "multiply", "maximum", "minimum", "subtract", "divide")
            ):
                y = (*x, n, name)
                yield "at", lambda y=y: _updated(*y)
            yield "assign", lambda x=x: _assigned(x[0], mx.zeros(7, x[1]))
            yield "assign", lambda x=x: _numbers(*x)
        yield "columns", lambda d=dtype: _columns(d)
        yield "mask", lambda d=dtype: _assigned(d, mx.zeros(50, mx.bool_))
        for n in (50, 20_000):
            yield "masked", lambda x=(dtype, n): _masked(*x)
        yield (
            "slices",
            lambda d=dtype: (_assigned(d, slice(1, 40, 3)), mx.zeros((5, 6), d)[1:4, ::-2]),
        )
        yield "slice", lambda d=dtype: mx.slice(mx.zeros((5, 6), d), mx.array([1]), (0,), (2, 6))


def _updated(dtype, index, n, name):
    rows = mx.zeros((max(50, n // 2), 4), dtype)
    return getattr(rows.at[mx.zeros(n, index)], name)(mx.ones((n, 4), dtype))


def _numbers(dtype, index):
    """Many single elements, some of which meet."""
    x = mx.zeros(1000, dtype)
    x[mx.zeros(5000, index)] = mx.ones(5000, dtype)
    return x


def _columns(dtype):
    """Every second one of an array that stays."""
    x = mx.zeros((50, 8), dtype)
    y = x[:]
    y[:, ::2] = mx.ones((50, 4), dtype)
    return x, y


def _masked(dtype, n):
    """A value for each row that a mask picks."""
    x = mx.zeros((n, 4), dtype)
    x[mx.zeros(n, mx.bool_)] = mx.ones((n, 4), dtype)
    return x


def _assigned(dtype, index):
    x = mx.zeros((50, 4), dtype)
    x[index] = mx.ones((), dtype)
    return x


def _compiled(full):
    for dtype, n in itertools.product(FLOATS, [64, 1000, 20_000] if full else [1000]):
        x = (dtype, n)
        yield (
            "fused",
            lambda x=x: mx.compile(lambda a, b: mx.tanh(a * b + 1) * mx.exp(-a))(
                mx.zeros(x[1], x[0]), mx.ones(x[1], x[0])
            ),
        )
        yield (
            "rows",
            lambda x=x: mx.compile(
                lambda a: mx.exp(a - a.max(-1, keepdims=True)) / mx.exp(a).sum(-1, keepdims=True)
            )(mx.zeros((40, x[1]), x[0])),
        )
        for m in (1, 64, 2048):
            y = (*x, m)
            yield (
                "product",
                lambda y=y: mx.compile(lambda a, b, c: mx.maximum(a @ b + c, 0))(
                    mx.zeros((y[2], 256), y[0]), mx.zeros((256, y[1]), y[0]), mx.zeros(y[1], y[0])
                ),
            )
    modes = MODES if full else MODES[7:8]
    for dtype, (mode, group, bits) in itertools.product(FLOATS, modes):
        how = {"group_size": group, "bits": bits, "mode": mode}
        for unit in UNITS:
            yield "joined", lambda d=dtype, how=how, unit=unit: _layer(d, how, unit)
            yield "experts", lambda d=dtype, how=how, unit=unit: _experts(d, how, unit)
    for dtype, unit in itertools.product(FLOATS, UNITS):
        yield "joined", lambda d=dtype, unit=unit: _layer(d, None, unit)
    for dtype, head in itertools.product(FLOATS, [64, 128]):
        yield "sequences", lambda d=dtype, n=head: _sequences(d, n)
    yield "long", lambda: mx.zeros((2**16, 2**15 + 8), mx.uint8) + mx.ones((), mx.uint8)
    yield (
        "gated_delta",
        lambda: mx.fast.gated_delta_update(
            *[mx.zeros((1, 7, 2, 64))] * 2, mx.zeros((1, 7, 4, 64)), *[mx.zeros((1, 7, 4))] * 2
        ),
    )


def _sequences(dtype, head):
    """Attention of a token of each of some sequences, with the steps before it."""
    q, k, v = (mx.zeros((4, 1, n, head), dtype) for n in (8, 2, 2))
    starts, mask = mx.array([5, 3, 0, 4]), mx.ones((4, 1, 1, 300), mx.bool_)
    weight = mx.ones(head, dtype)
    keys, values = mx.zeros((4, 2, 300, head), dtype), mx.zeros((4, 2, 300, head), dtype)
    mx.eval(q, k, v, starts, mask, weight, keys, values)

    def turned(x):
        x = mx.fast.rms_norm(x, weight, 1e-5).transpose(0, 2, 1, 3)
        return mx.fast.rope(x, head, traditional=False, base=1e4, scale=1.0, offset=starts)

    keys[..., 5:6, :], values[..., 5:6, :] = turned(k), v.transpose(0, 2, 1, 3)
    return mx.fast.scaled_dot_product_attention(turned(q), keys, values, scale=0.1, mask=mask)


def _codes(shape, dtype, how):
    """A quantised matrix that is there before what is done with it."""
    codes = mx.quantize(mx.zeros(shape, dtype), **how)
    mx.eval(codes)
    return codes


def _gated(gate, up):
    return gate * mx.sigmoid(gate) * up


# What follows the products of a gate: one step, several, and a compiled function as mlx-lm has it.
UNITS = [mx.multiply, _gated, mx.compile(_gated, shapeless=True)]


def _layer(dtype, how, unit):
    """A token through a layer of a language model (`how` none: no codes): steps that one kernel
    computes."""

    def dense(x, rows=512):
        if how is None:
            w = mx.zeros((rows, x.shape[-1]), dtype)
            mx.eval(w)
            return x @ w.T
        return mx.quantized_matmul(x, *_codes((rows, x.shape[-1]), dtype, how), **how)

    def heads(x):
        x = mx.fast.rms_norm(x.reshape(1, 1, 8, 64), mx.ones(64, dtype), 1e-5)
        return turned(x.transpose(0, 2, 1, 3))

    def turned(x):
        return mx.fast.rope(x, 64, traditional=False, base=1e4, scale=1.0, offset=5)

    x = mx.zeros((1, 1, 512), dtype)
    y = mx.fast.rms_norm(x, mx.ones(512, dtype), 1e-5)
    q, k, v = heads(dense(y)), heads(dense(y)), dense(y).reshape(1, 8, 1, 64)
    keys, values = mx.zeros((1, 8, 16, 64), dtype), mx.zeros((1, 8, 16, 64), dtype)
    keys[..., 5:6, :], values[..., 5:6, :] = k, v
    seen = mx.fast.scaled_dot_product_attention(q, keys[..., :6, :], values[..., :6, :], scale=0.1)
    x = x + dense(seen.reshape(1, 1, 512))
    y = mx.fast.rms_norm(x, mx.ones(512, dtype), 1e-5)
    return x + dense(unit(dense(y, 1024), dense(y, 1024)))


def _experts(dtype, how, unit):
    """A token by matrices of picked experts: two of them and what follows, one of the row that each
    pick has and what follows, and two alone."""
    x, picks = mx.zeros((1, 1, 512), dtype), mx.zeros(2, mx.uint32)
    rest = mx.zeros((2, 1, 512), dtype)
    mx.eval(x, picks, rest)

    def product(x, rows):
        w = _codes((3, rows, x.shape[-1]), dtype, how)
        return mx.gather_qmm(x, *w, rhs_indices=picks, **how)

    gated = unit(product(x, 128), product(x, 128))
    return product(gated, 512) * rest, product(x, 64), product(x, 64)


FAMILIES = {
    "elementwise": (_elementwise, ["elementwise_wide"]),
    "casts and copies": (_casts, ["copy_transpose", "join"]),
    "reductions": (_reductions, ["reduce", "softmax", "log_softmax", "statistics"]),
    "scans": (_scans, ["scan"]),
    "sorts": (_sorts, ["sort"]),
    "products": (_products, ["matmul", "gemv", "gather_mm"]),
    "convolutions": (_convolutions, ["conv"]),
    "quantised products": (_quantized, ["qmm"]),
    "attention": (_attention, ["sdpa"]),
    "fast": (_fast, ["norm", "rope"]),
    "transforms": (_transforms, ["fft"]),
    "random": (_random, ["random"]),
    "indexing": (_indexing, ["scatter", "interleave"]),
    "compiled": (
        _compiled,
        [
            "matmul_epilogue",
            "qmm_joined",
            "gemv_joined",
            "rope_rows",
            "sdpa_rope",
            "sdpa_token",
            "sdpa_turns",
            "sort_select",
        ],
    ),
}


def calls(full, families=None):
    """Family, variants that are out of the choice, name of the function, and the call, in turn."""
    variants = [name for name, _ in mx.vulkan._environment()[1]]
    for family, (make, prefixes) in FAMILIES.items():
        if families and family not in families:
            continue
        own = [v for v in variants if any(v.startswith(p) for p in prefixes)]
        for off in [(), *((v,) for v in own), tuple(own[: len(own) - 1])]:
            if off and not full and len(off) > 1:
                continue
            for name, call in make(full and not off):
                yield family, off, name, call
