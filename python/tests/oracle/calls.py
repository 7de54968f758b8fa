"""Calls that must fail, and with the same kind of exception: faults put into good calls of every row of
the table, and a list of particular ones."""

import numpy as np
from arguments import Draw, drawn
from cases import ROWS
from wire import Arr, Case, Dt, Name

F = Arr("float32", np.arange(12, dtype=np.float32).reshape(3, 4))
V = Arr("float32", np.arange(5, dtype=np.float32))
E = Arr("float32", np.zeros((0, 3), np.float32))
S = Arr("float32", np.float32(2))
I = Arr("int32", np.arange(6, dtype=np.int32).reshape(2, 3))  # noqa: E741
B = Arr("bool_", np.array([True, False, True]))
C = Arr("complex64", np.array([1 + 2j, 3], np.complex64))


def faults(case):
    """Bad calls made of a good one."""
    op, args, kwargs = case.op, case.args, case.kwargs
    if op.startswith(("array.__", "[]", "at.")):
        return
    method = op.startswith("array.")
    yield Case(op, [*args, *[1] * 12], kwargs)
    yield Case(op, args, {**kwargs, "no_such_argument": 1})
    if not op.startswith(("finfo", "iinfo", "isdtype", "issubdtype", "can_cast", "result_type")):
        yield Case(op, args, {**kwargs, "stream": "x"})
        yield Case(op, args, {**kwargs, "stream": 3})
    for wrong in (None, "text", {}):
        if args and not method:
            yield Case(op, [wrong, *args[1:]], kwargs)
        if len(args) > 1:
            yield Case(op, [args[0], wrong, *args[2:]], kwargs)
    if not method and args:
        yield Case(op, args[1:], kwargs)
    if method and args:
        yield Case(op, [args[0], Name("cpu"), *args[2:]], kwargs)
    for name in kwargs:
        if name in ("axis", "keepdims", "reverse", "dtype", "groups", "alpha"):
            yield Case(op, args, {**kwargs, name: "x"})
            yield Case(op, args, {**kwargs, name: [[1]]})


# One array and a bad axis, shape or option.
WITH_AXIS = (
    "sum mean prod max min all any var std logsumexp argmax argmin softmax cumsum cumprod cummax cummin "
    "logcumsumexp sort argsort median minmax squeeze flip"
).split()
BAD_AXES = [2, -3, 100, "x", 1.5, [0, 5], [0, 0], [0, -2], 2**40, [[0]], Dt("int32")]

PARTICULAR = [
    ("reshape", F, [5]), ("reshape", F, [-1, -1]), ("reshape", F, [-1, 5]), ("reshape", F, 12.0),
    ("reshape", F, [2, 2**40]), ("reshape", E, [-1, 0]), ("reshape", F, [-2, 6]), ("reshape", F, "x"),
    ("transpose", F, [0]), ("transpose", F, [0, 0]), ("transpose", F, [0, 2]), ("transpose", F, [0, 1, 2]),
    ("swapaxes", F, 0, 2), ("moveaxis", F, 0, 5), ("moveaxis", F, -3, 0), ("swapaxes", F, 0),
    ("expand_dims", F, 4), ("expand_dims", F, [0, 0]), ("expand_dims", F, -5), ("expand_dims", F, "x"),
    ("squeeze", F, 0), ("squeeze", F, [0, 0]), ("flatten", F, 3), ("flatten", F, 1, 0),
    ("unflatten", F, 0, [2, 2]), ("unflatten", F, 5, [3]), ("unflatten", F, 0, []),
    ("broadcast_to", F, [3]), ("broadcast_to", F, [2, 4]), ("broadcast_to", F, [-1, 4]),
    ("broadcast_arrays", F, V), ("broadcast_shapes", (2, 3), (4,)),
    ("concatenate", []), ("concatenate", [F, V]), ("concatenate", [F, F], 2), ("concatenate", F),
    ("concatenate", [F, 5]), ("concatenate", [F, Arr("float32", np.zeros((2, 5), np.float32))]),
    ("concatenate", [S, S]), ("stack", []), ("stack", [F, V]), ("stack", [F], 3), ("stack", [F], -4),
    ("split", F, 5), ("split", F, 0), ("split", F, 2, 5), ("split", F, -1), ("split", F, "x"),
    ("repeat", F, -1), ("repeat", F, 2, 3), ("repeat", F, 1.5), ("tile", F, -1), ("tile", F, "x"),
    ("roll", F, 1, 5), ("roll", F, (1, 2), (0,)), ("roll", F, "x"), ("flip", F, 5),
    ("pad", F, -1), ("pad", F, [(1, 1)] * 3), ("pad", F, 1, "nonsense"), ("pad", F, "x"),
    ("as_strided", F, [2, 2], [1]), ("take", F, F), ("take", F, I, 4), ("take", E, I, 0),
    ("take", F, 0.5), ("take", F, "x"), ("take_along_axis", F, V, 0), ("take_along_axis", F, F, 0),
    ("take_along_axis", F, I, 7), ("put_along_axis", F, F, F, 0), ("[]", F, 7), ("[]", F, (0, 9)),
    ("[]", F, (0, 0, 0)), ("[]", F, "x"), ("[]", F, 1.5), ("[]", F, slice("a", None)), ("[]", S, 0),
    ("[]", F, F), ("[]", F, (Ellipsis, Ellipsis)), ("[]", F, slice(0, 2, 0)), ("[]", F, Dt("int32")),
    ("[]=", F, 0, V), ("[]=", F, (0, 0, 0), 1), ("[]=", F, 0, "x"), ("[]=", F, 0, None), ("[]=", F, "x", 1),
    ("matmul", F, F), ("matmul", F, V), ("matmul", S, F), ("matmul", F, S), ("matmul", F, 2.0),
    ("matmul", F, Arr("float32", np.zeros((2, 5, 3), np.float32))), ("matmul", F, None),
    ("addmm", F, F, F), ("inner", F, V), ("tensordot", F, F, 3), ("tensordot", F, F, [[0], [1]]),
    ("tensordot", F, F, [[0, 1], [0]]), ("einsum", "ij,jk", F), ("einsum", "ij", V), ("einsum", "ij->ik", F),
    ("einsum", "i$j", F), ("einsum", 5, F), ("einsum", "ij,ij", F, V), ("outer", F), ("vecdot", F, V),
    ("add", F, V), ("add", F, "x"), ("add", F, None), ("add", F), ("add",), ("add", F, [1, 2]),
    ("add", F, Name("cpu")), ("maximum", F, {}), ("where", F, F), ("where", F, V, F), ("where", "x", F, F),
    ("clip", F), ("clip", F, None, None), ("clip", F, "x", 1), ("power", F, "x"), ("divmod", F, V),
    ("left_shift", F, F), ("bitwise_and", F, F), ("bitwise_or", F, I), ("bitwise_invert", F),
    ("right_shift", F, 1), ("round", F, 1.5), ("round", F, "x"), ("astype", F, "float32"), ("astype", F),
    ("astype", F, None), ("astype", F, 5), ("view", V, Dt("int64")), ("view", S, Dt("int8")), ("view", F, "x"),
    ("zeros", [-1]), ("zeros", "x"), ("zeros", [1.5]), ("zeros", [2, None]), ("zeros",), ("zeros", [2], "x"),
    ("ones", [-1]), ("ones", 2.5), ("full", [2], "x"), ("full", [2]), ("full", [-2], 1), ("full", [2], V),
    ("arange",), ("arange", "x"), ("arange", 0, 5, 0), ("arange", float("nan")), ("arange", 0, float("inf")),
    ("arange", 5, Dt("bool_")), ("linspace", 0, 1, -1), ("linspace", "a", 1), ("linspace", 0),
    ("eye", -1), ("eye", 1.5), ("eye", 0), ("identity", -1), ("tri", "x"), ("tril", V), ("triu", S),
    ("diag", Arr("float32", np.zeros((2, 2, 2), np.float32))), ("diag", S), ("diagonal", V),
    ("diagonal", F, 0, 0, 0), ("diagonal", F, 0, 0, 5), ("trace", V), ("kron", F), ("meshgrid", F, V),
    ("meshgrid", V, V, None), ("hanning", -1.5), ("hanning", "x"), ("sort", F, 3), ("topk", F, 9),
    ("topk", F, 2, 4), ("partition", F, 9), ("argpartition", F, 9), ("partition", F, -9), ("topk", F, -1),
    ("argmax", E, 0), ("max", E), ("min", E, 0), ("argmin", E), ("softmax", F, [0, 5]),
    ("var", F, 5), ("std", F, 0, False, "x"), ("cumsum", F, 3), ("cumsum", F, [0]), ("cummax", F, "x"),
    ("median", E), ("diff", F, -1), ("diff", S), ("searchsorted", F, F), ("searchsorted", V, V, "middle"),
    ("conv1d", F, F), ("conv1d", V, V), ("conv2d", F, F), ("conv3d", F, F), ("conv_general", F, F),
    ("conv1d", Arr("float32", np.zeros((1, 5, 3), np.float32)), Arr("float32", np.zeros((2, 3, 4), np.float32))),
    ("conv1d", Arr("float32", np.zeros((1, 5, 3), np.float32)), Arr("float32", np.zeros((2, 9, 3), np.float32))),
    ("conv1d", Arr("float32", np.zeros((1, 5, 3), np.float32)), Arr("float32", np.zeros((2, 3, 3), np.float32)), 0),
    ("conv1d", Arr("float32", np.zeros((1, 5, 4), np.float32)), Arr("float32", np.zeros((3, 3, 2), np.float32)), 1, 0, 1, 2),
    ("convolve", F, V), ("convolve", V, V, "nonsense"), ("convolve", V, E),
    ("fft.fft", S), ("fft.fft", F, 0), ("fft.fft", F, -1), ("fft.fft", F, 4, 7), ("fft.rfft", C),
    ("fft.fft2", V), ("fft.fftn", F, [2], [0, 1]), ("fft.fftn", F, None, [5]), ("fft.irfft", S),
    ("linalg.inv", F), ("linalg.inv", V), ("linalg.inv", I), ("linalg.cholesky", F), ("linalg.svd", V),
    ("linalg.qr", V), ("linalg.eigh", F), ("linalg.solve", F, V), ("linalg.norm", F, "nonsense"),
    ("linalg.norm", F, 2, 5), ("linalg.norm", F, 1.0, [0, 1, 2]), ("linalg.cross", V, V), ("linalg.lu", V),
    ("linalg.det", F), ("linalg.pinv", V), ("linalg.tri_inv", F), ("linalg.eigvalsh", F, "X"),
    ("random.normal", [-1]), ("random.normal", [2], Dt("int32")), ("random.uniform", 0, 1, [2], Dt("int32")),
    ("random.uniform", "x"), ("random.randint", 0, 5, [2], Dt("float32")), ("random.bernoulli", "x"),
    ("random.key", "x"), ("random.key", -1), ("random.split", F), ("random.split", V, 2), ("random.seed", "x"),
    ("random.categorical", S), ("random.categorical", F, 5), ("random.permutation", F, 7),
    ("random.normal", [2], Dt("float32"), 0.0, 1.0, V), ("random.truncated_normal", 0), ("random.bits", [2], 3),
    ("fast.rms_norm", F, V, 1e-5), ("fast.rms_norm", S, None, 1e-5), ("fast.layer_norm", F, V, None, 1e-5),
    ("fast.rope", V, 4), ("fast.scaled_dot_product_attention", F, F, F), ("quantize", V), ("quantize", F),
    ("quantize", Arr("float32", np.zeros((4, 64), np.float32)), 48), ("quantize", Arr("float32", np.zeros((4, 64), np.float32)), 64, 7),
    ("quantize", Arr("int32", np.zeros((4, 64), np.int32))), ("hadamard_transform", V), ("from_fp8", F),
    ("finfo", Dt("int32")), ("iinfo", Dt("float32")), ("finfo", 5), ("isdtype", Dt("int32"), "x"),
    ("isdtype", 5, "bool"), ("issubdtype", 5, Name("floating")), ("can_cast", 5, Dt("int32")),
    ("result_type", 5), ("result_type",), ("array", None), ("array", "x"), ("array", {}), ("array", [1, "x"]),
    ("array", [[1], [1, 2]]), ("array", [None]), ("array",), ("array", 1, "int32"), ("array", 1, 5),
    ("array.item", F), ("array.astype", F, "x"), ("array.reshape", F, 5), ("array.reshape", F, "x"),
    ("array.transpose", F, 0), ("array.transpose", F, 0, 0), ("array.__add__", F, None),
    ("array.__add__", F, "x"), ("array.__matmul__", F, F), ("array.__and__", F, 1.5), ("array.__lshift__", F, 1),
    ("array.__invert__", F), ("array.__getitem__", F, None, None), ("array.__bool__", F), ("array.__int__", F),
    ("array.__float__", F), ("array.__index__", V), ("array.__index__", S), ("array.__len__", S),
    ("array.__eq__", F, None), ("array.__lt__", F, "x"), ("array.__iter__", S), ("array.__itruediv__", I, 2),
    ("array.__iadd__", F, V), ("array.__format__", F, ".2f"), ("array.view", S, Dt("int8")),
    ("grad", 5), ("grad", None), ("vmap", 5), ("value_and_grad", "x"), ("vjp", 5, [], []), ("jvp", None, [], []),
    ("eval", 5), ("eval", "x"), ("async_eval", 5), ("stream", None), ("stream", 5), ("Device", "cpu"),
    ("set_default_device", 5), ("set_default_stream", 5), ("new_stream", "cpu"), ("synchronize", 5),
    ("Dtype",), ("Stream",), ("set_memory_limit", "x"), ("set_cache_limit", -1.5), ("device_info", 5),
    ("load", 5), ("load", "none.npy"), ("load", "none"), ("load", "none.xyz"), ("load", None),
    ("load", "none.safetensors"), ("load", "none.npz"), ("load", "none.gguf"), ("save", 5, F),
    ("save", "/none/x", F), ("save", "x", 5), ("savez", "/none/x", F), ("save_safetensors", 5, {}),
    ("save_safetensors", "x", F), ("save_gguf", 5, {}, {}), ("from_dlpack", 5), ("asarray", None),
]  # fmt: skip


def bad_calls(seed):
    """All of them; those that neither implementation refuses are no bad calls and are not counted."""
    calls = [Case(op, list(args)) for op, *args in PARTICULAR]
    for op in WITH_AXIS:
        calls += [Case(op, [F, ax]) for ax in BAD_AXES]
        calls += [Case("array." + op, [F, ax]) for ax in BAD_AXES[:5]]
    seen = set()
    for i, r in enumerate(ROWS):
        if r.op in seen:
            continue
        seen.add(r.op)
        draw = Draw(np.random.default_rng([seed, i]))
        for a in r.args:
            draw.args.append(drawn(a, draw))
        kwargs = {k: drawn(v, draw) for k, v in r.kwargs.items()}
        calls += faults(Case(r.op, draw.args, kwargs))
    return calls
