"""An interpreter, in NumPy, of the graphs that callbacks of `mx.export_function` are told about. It
knows MLX's primitives by name and argument only, as a converter to another format would.
"""

import mlx.core as mx
import numpy as np

try:
    from scipy.special import erf, erfinv
except ImportError:  # values of both come from the array library then
    erf = erfinv = None

MODES = [np.maximum, np.minimum, np.add, np.multiply]


def _np(a):
    return np.array(a)


def _mx(f):
    """A function of the array library, over NumPy arrays."""

    def run(*args, **kwargs):
        out = f(*(mx.array(a) if isinstance(a, np.ndarray) else a for a in args), **kwargs)
        return [_np(o) for o in out] if isinstance(out, (list, tuple)) else _np(out)

    return run


def _slices(start, stop, step):
    def one(a, b, s):
        return slice(a, None if s < 0 and b < -1 else b, s)

    return tuple(map(one, start, stop, step))


def _threefry(key, n):
    rotations = ([13, 15, 26, 6], [17, 29, 16, 24])
    half = n // 2
    first = np.arange(half + n % 2, dtype=np.uint32)
    second = np.concatenate([np.arange(half) + half + n % 2, np.zeros(n % 2)]).astype(np.uint32)
    ks = [key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA)]
    with np.errstate(over="ignore"):
        a, b = first + ks[0], second + ks[1]
        for i in range(5):
            for r in rotations[i % 2]:
                a = a + b
                b = ((b << np.uint32(r)) | (b >> np.uint32(32 - r))) ^ a
            a = a + ks[(i + 1) % 3]
            b = b + ks[(i + 2) % 3] + np.uint32(i + 1)
    return np.concatenate([a, b])[:n]


def _random_bits(key, shape, width):
    n = int(np.prod(shape))
    words = _threefry(key, -(-n * width // 4))
    return words.view(f"<u{width}")[:n].reshape(shape)


def _gather(x, *indices, axes, sizes):
    shape = indices[0].shape if indices else ()
    out = np.empty((*shape, *sizes), x.dtype)
    for at in np.ndindex(*shape):
        start = [0] * x.ndim
        for axis, i in zip(axes, indices, strict=True):
            start[axis] = int(i[at]) % x.shape[axis]
        out[at] = x[tuple(slice(s, s + n) for s, n in zip(start, sizes, strict=True))]
    return out


def _scatter(x, *rest, mode, axes):
    *indices, updates = rest
    out = x.copy()
    shape = indices[0].shape if indices else ()
    for at in np.ndindex(*shape):
        update = updates[at]
        start = [0] * x.ndim
        for axis, i in zip(axes, indices, strict=True):
            start[axis] = int(i[at]) % x.shape[axis]
        box = tuple(slice(s, s + n) for s, n in zip(start, update.shape, strict=True))
        out[box] = update if mode == 4 else MODES[mode](out[box], update)
    return out


def _scatter_axis(x, indices, values, mode, axis):
    out = x.copy()
    for at in np.ndindex(*indices.shape):
        to = list(at)
        to[axis] = int(indices[at])
        out[tuple(to)] = values[at] if mode == 1 else out[tuple(to)] + values[at]
    return out


def _slice_update(x, update, mode, start, stop, step):
    out = x.copy()
    box = _slices(start, stop, step)
    out[box] = update if mode == 4 else MODES[mode](out[box], update)
    return out


def _dynamic(start, axes, size, shape):
    first = [0] * len(shape)
    for axis, s in zip(axes, start.ravel(), strict=True):
        first[axis] = min(max(int(s), 0), shape[axis] - size[axis])
    return tuple(slice(f, f + n) for f, n in zip(first, size, strict=True))


def _dynamic_update(x, update, start, axes):
    out = x.copy()
    update = update.reshape((1,) * (x.ndim - update.ndim) + update.shape)
    out[_dynamic(start, axes, update.shape, x.shape)] = update
    return out


def _convolution(x, w, stride, low, high, dilation, apart, groups, flip):
    n = len(stride)
    wide = np.zeros(
        (
            x.shape[0],
            *((s - 1) * a + 1 for s, a in zip(x.shape[1:-1], apart, strict=True)),
            x.shape[-1],
        ),
        x.dtype,
    )
    wide[(slice(None), *(slice(None, None, a) for a in apart))] = x
    for i in range(n):
        axis = i + 1
        if low[i] < 0:
            wide = np.take(wide, range(-low[i], wide.shape[axis]), axis)
        if high[i] < 0:
            wide = np.take(wide, range(wide.shape[axis] + high[i]), axis)
    pads = [(0, 0), *((max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)), (0, 0)]
    wide = np.pad(wide, pads)
    if flip:
        w = w[(slice(None), *(slice(None, None, -1) for _ in range(n)))]
    kernel = w.shape[1:-1]
    out = [
        (wide.shape[i + 1] - (kernel[i] - 1) * dilation[i] - 1) // stride[i] + 1 for i in range(n)
    ]
    inside, outside = x.shape[-1] // groups, w.shape[0] // groups
    result = np.zeros((x.shape[0], *out, w.shape[0]), np.float64)
    for k in np.ndindex(*kernel):
        box = tuple(
            slice(k[i] * dilation[i], k[i] * dilation[i] + (out[i] - 1) * stride[i] + 1, stride[i])
            for i in range(n)
        )
        part = wide[(slice(None), *box)]
        for g in range(groups):
            rows = slice(g * outside, (g + 1) * outside)
            result[..., rows] += (
                part[..., g * inside : (g + 1) * inside] @ w[rows][(slice(None), *k)].T
            )
    return result


def _fft(x, axes, inverse, real, _, shape):
    if real and inverse:
        return np.fft.irfftn(x, [shape[a] for a in axes], axes)
    if real:
        return np.fft.rfftn(x, axes=axes)
    return (np.fft.ifftn if inverse else np.fft.fftn)(x, axes=axes)


def _softmax(x, _):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _scan(x, kind, axis, reverse, inclusive):
    f = [np.maximum, np.minimum, np.add, np.multiply, np.logaddexp][kind]
    start = [-np.inf, np.inf, 0, 1, -np.inf][kind]
    x = np.flip(x, axis) if reverse else x
    out = f.accumulate(x, axis)
    if not inclusive:
        shape = list(x.shape)
        shape[axis] = 1
        out = np.concatenate([np.full(shape, start, x.dtype), out], axis)
        out = np.take(out, range(x.shape[axis]), axis)
    return np.flip(out, axis) if reverse else out


def _hadamard(x, scale):
    n = x.shape[-1]
    h = np.ones((1, 1))
    while len(h) < n:
        h = np.block([[h, h], [h, -h]])
    return x @ h * scale


def _pad(x, value, axes, low, high):
    width = [(0, 0)] * x.ndim
    for a, lo, hi in zip(axes, low, high, strict=True):
        width[a] = (lo, hi)
    return np.pad(x, width, constant_values=value)


def _gather_mm(a, b, i, j, *_):
    a, b = a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:])
    return a[i] @ b[j]


def _block_masked(a, b, mask, block):
    wide = np.kron(mask, np.ones((block, block)))
    return a @ b * wide[: a.shape[-2], : b.shape[-1]]


MODE_NAMES = ["affine", "mxfp4", "mxfp8", "nvfp4"]


def _format(group, bits, mode):
    return {"group_size": group, "bits": bits, "mode": MODE_NAMES[mode]}


def _quantize(args, group, bits, mode, back):
    return _mx(mx.dequantize if back else mx.quantize)(*args, **_format(group, bits, mode))


def _quantized_matmul(args, group, bits, mode, transpose):
    return _mx(mx.quantized_matmul)(*args, transpose=transpose, **_format(group, bits, mode))


def _gather_qmm(args, group, bits, mode, transpose, *_):
    *own, lhs, rhs = args
    indices = {"lhs_indices": mx.array(lhs), "rhs_indices": mx.array(rhs)}
    return _mx(mx.gather_qmm)(*own, transpose=transpose, **indices, **_format(group, bits, mode))


def _equal(a, b, nan):
    return (a == b) | (np.isnan(a) & np.isnan(b)) if nan else a == b


def _unflatten(x, axis, sizes):
    return x.reshape(x.shape[:axis] + tuple(sizes) + x.shape[axis + 1 :])


def _flatten(x, i, j):
    return x.reshape(*x.shape[:i], -1, *x.shape[j + 1 :])


def _inverse(x, triangular, upper):
    return np.linalg.inv((np.triu if upper else np.tril)(x) if triangular else x)


def _eigh(x, triangle, vectors):
    return list(np.linalg.eigh(x, triangle)) if vectors else [np.linalg.eigvalsh(x, triangle)]


def _cholesky(x, upper):
    low = np.linalg.cholesky(x)
    return low.swapaxes(-1, -2) if upper else low


def _svd(x, vectors):
    return list(np.linalg.svd(x)) if vectors else [np.linalg.svd(x, compute_uv=False)]


def _as_strided(x, shape, strides, offset):
    steps = [s * x.itemsize for s in strides]
    return np.lib.stride_tricks.as_strided(x.ravel()[offset:], shape, steps)


# Of the values of the inputs, the arguments, and the shape and the dtype of the first output.
ELEMENTWISE = {
    "Abs": np.abs,
    "Add": np.add,
    "ArcCos": np.arccos,
    "ArcCosh": np.arccosh,
    "ArcSin": np.arcsin,
    "ArcSinh": np.arcsinh,
    "ArcTan": np.arctan,
    "ArcTan2": np.arctan2,
    "ArcTanh": np.arctanh,
    "BitwiseInvert": np.invert,
    "Ceil": np.ceil,
    "Conjugate": np.conj,
    "Cos": np.cos,
    "Cosh": np.cosh,
    "Divide": np.divide,
    "Erf": erf or _mx(mx.erf),
    "ErfInv": erfinv or _mx(mx.erfinv),
    "Exp": np.exp,
    "Expm1": np.expm1,
    "Floor": np.floor,
    "FloorDivide": np.floor_divide,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Imag": np.imag,
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Log1p": np.log1p,
    "LogAddExp": np.logaddexp,
    "LogicalAnd": np.logical_and,
    "LogicalNot": np.logical_not,
    "LogicalOr": np.logical_or,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Multiply": np.multiply,
    "Negative": np.negative,
    "NotEqual": np.not_equal,
    "Power": np.power,
    "Real": np.real,
    "Remainder": np.remainder,
    "Round": np.round,
    "Select": np.where,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Sign": np.sign,
    "Sin": np.sin,
    "Sinh": np.sinh,
    "Square": np.square,
    "Subtract": np.subtract,
    "Tan": np.tan,
    "Tanh": np.tanh,
    "FromFP8": _mx(mx.from_fp8),
    "ToFP8": _mx(mx.to_fp8),
}
REDUCTIONS = [np.all, np.any, np.sum, np.prod, np.min, np.max]
BITS = [np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift]
OTHERS = {
    "AddMM": lambda v, a, s: a[0] * (v[0] @ v[1]) + a[1] * v[2],
    "Arange": lambda v, a, s: a[0] + a[2] * np.arange(s[0]),
    "ArgPartition": lambda v, a, s: np.argpartition(v[0], *a),
    "ArgReduce": lambda v, a, s: [np.argmin, np.argmax][a[0]](v[0], a[1], keepdims=True),
    "ArgSort": lambda v, a, s: np.argsort(v[0], a[0], kind="stable"),
    "AsStrided": lambda v, a, s: _as_strided(v[0], *a),
    "AsType": lambda v, a, s: v[0],
    "BitwiseBinary": lambda v, a, s: BITS[a[0]](*v),
    "BlockMaskedMM": lambda v, a, s: _block_masked(*v, *a),
    "Broadcast": lambda v, a, s: np.broadcast_to(v[0], a[0]),
    "Cholesky": lambda v, a, s: _cholesky(v[0], *a),
    "Concatenate": lambda v, a, s: np.concatenate(v, a[0]),
    "Convolution": lambda v, a, s: _convolution(*v, *a),
    "Depends": lambda v, a, s: v[0],
    "Det": lambda v, a, s: np.linalg.det(v[0]),
    "DivMod": lambda v, a, s: list(np.divmod(*v)),
    "DynamicSlice": lambda v, a, s: v[0][_dynamic(v[1], a[0], a[1], v[0].shape)],
    "DynamicSliceUpdate": lambda v, a, s: _dynamic_update(*v, *a),
    "Eig": lambda v, a, s: _mx(mx.linalg.eig)(v[0]),
    "Eigh": lambda v, a, s: _eigh(v[0], *a),
    "Equal": lambda v, a, s: _equal(*v, *a),
    "ExpandDims": lambda v, a, s: np.expand_dims(v[0], tuple(a[0])),
    "FFT": lambda v, a, s: _fft(v[0], *a, s),
    "Flatten": lambda v, a, s: _flatten(v[0], *a),
    "Full": lambda v, a, s: v[0],
    "Gather": lambda v, a, s: _gather(*v, axes=a[0], sizes=a[1]),
    "GatherAxis": lambda v, a, s: np.take_along_axis(v[0], v[1].astype(np.int64), a[0]),
    "GatherMM": lambda v, a, s: _gather_mm(*v),
    "GatherQMM": lambda v, a, s: _gather_qmm(v, *a),
    "Hadamard": lambda v, a, s: _hadamard(v[0], *a),
    "Inverse": lambda v, a, s: _inverse(v[0], *a),
    "LUF": lambda v, a, s: _mx(mx.linalg.lu_factor)(v[0]),
    "Log": lambda v, a, s: [np.log2, np.log10, np.log][a[0]](v[0]),
    "LogSumExp": lambda v, a, s: np.logaddexp.reduce(v[0], -1, keepdims=True),
    "Matmul": lambda v, a, s: v[0] @ v[1],
    "NumberOfElements": lambda v, a, s: (
        np.prod([v[0].shape[i] for i in a[0]]) ** (-1.0 if a[1] else 1.0)
    ),
    "Pad": lambda v, a, s: _pad(*v, *a),
    "Partition": lambda v, a, s: np.partition(v[0], *a),
    "QRF": lambda v, a, s: list(np.linalg.qr(v[0])),
    "Quantize": lambda v, a, s: _quantize(v, *a),
    "QuantizedMatmul": lambda v, a, s: _quantized_matmul(v, *a),
    "RandomBits": lambda v, a, s: _random_bits(v[0], *a),
    "Reduce": lambda v, a, s: REDUCTIONS[a[0]](v[0], tuple(a[1]), keepdims=True),
    "Reshape": lambda v, a, s: v[0].reshape(a[0]),
    "Scan": lambda v, a, s: _scan(v[0], *a),
    "Scatter": lambda v, a, s: _scatter(*v, mode=a[0], axes=a[1]),
    "ScatterAxis": lambda v, a, s: _scatter_axis(*v, *a),
    "SearchSorted": lambda v, a, s: np.searchsorted(*v, "right" if a[0] else "left"),
    "SegmentedMM": lambda v, a, s: np.stack([v[0][:, i:j] @ v[1][i:j] for i, j in v[2]]),
    "Slice": lambda v, a, s: v[0][_slices(*a)],
    "SliceUpdate": lambda v, a, s: _slice_update(*v, *a),
    "Softmax": lambda v, a, s: _softmax(v[0], *a),
    "Solve": lambda v, a, s: np.linalg.solve(*v),
    "Sort": lambda v, a, s: np.sort(v[0], a[0]),
    "Split": lambda v, a, s: np.split(v[0], a[0], a[1]),
    "Sqrt": lambda v, a, s: 1 / np.sqrt(v[0]) if a[0] else np.sqrt(v[0]),
    "Squeeze": lambda v, a, s: np.squeeze(v[0], tuple(a[0])),
    "SVD": lambda v, a, s: _svd(v[0], *a),
    "Transpose": lambda v, a, s: np.transpose(v[0], a[0]),
    "Unflatten": lambda v, a, s: _unflatten(v[0], *a),
    "View": lambda v, a, s: v[0],
}


def _dtype(d):
    return np.array(mx.zeros(0, d)).dtype if d != mx.bfloat16 else np.dtype(np.float32)


class Graph:
    """What a callback was told about a function."""

    def __init__(self, f, *args, **kwargs):
        self.parts = []
        mx.export_function(self.parts.append, f, *args, **kwargs)
        self.primitives = [p for p in self.parts if p["type"] == "primitive"]

    def __iter__(self):
        """Names and arguments."""
        return ((p["name"], p["arguments"]) for p in self.primitives)

    def __call__(self, *args):
        """The function's values, computed by NumPy."""
        inputs, _, outputs, constants = self.parts[:4]
        known = {name: _np(a) for name, a in constants["constants"]}
        for (name, shape, dtype), a in zip(inputs["inputs"], args, strict=True):
            assert a.shape == shape and a.dtype == dtype
            known[name] = _np(a)
        for p in self.primitives:
            values = [known[name] for name, *_ in p["inputs"]]
            for v, (name, shape, _) in zip(values, p["inputs"], strict=True):
                assert v.shape == shape, (p["name"], name, v.shape, shape)
            with np.errstate(all="ignore"):
                if p["name"] in ELEMENTWISE:
                    assert len({v.shape for v in values}) == 1, f"{p['name']} of several shapes"
                    out = ELEMENTWISE[p["name"]](*values, *p["arguments"])
                else:
                    out = OTHERS[p["name"]](values, p["arguments"], p["outputs"][0][1])
            if p["name"] == "View":
                out = out.view(_dtype(p["arguments"][0]))
            out = out if isinstance(out, list) else [out]
            for o, (name, shape, dtype) in zip(out, p["outputs"], strict=True):
                with np.errstate(all="ignore"):
                    known[name] = np.asarray(o).astype(_dtype(dtype))
                assert known[name].shape == shape, (p["name"], known[name].shape, shape)
        return [known[name] for name, *_ in outputs["outputs"]]
