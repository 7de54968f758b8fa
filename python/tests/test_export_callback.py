"""What callbacks of export_function are told: MLX's primitives, by name and argument, which compute
the values of the function.
"""

import json
import pathlib

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
from interpreter import ELEMENTWISE, OTHERS, Graph

# Programs, their input and the names and arguments that official MLX 0.32.4 gives to the callback.
OFFICIAL = json.loads((pathlib.Path(__file__).parent / "export_callback.json").read_text())
SQUARE = mx.arange(16, dtype=mx.float32).reshape(4, 4) / 10
INPUTS = {"square": SQUARE, "ones": mx.ones((1, 2, 4, 64))}
# Factors of eigenvectors are free, and so is what a partition does with the rest.
NOT_UNIQUE = ("svd", "eig", "qr", "partition", "cholesky", "pinv", "inv", "solve", "checkpoint")


def run(program):
    return eval("lambda x: " + program, {"mx": mx})


def text(value):
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


@pytest.mark.parametrize("program, name, want", OFFICIAL, ids=[row[0] for row in OFFICIAL])
def test_names_and_arguments_are_those_of_mlx(program, name, want):
    with mx.stream(mx.cpu if "linalg" in program else mx.default_device()):
        graph = Graph(run(program), INPUTS[name])
    got = " ".join(f"{n}({', '.join(map(text, args))})" for n, args in graph)
    assert got == want


def close(got, want):
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        w = h.to_np(w)
        assert g.shape == w.shape
        if np.issubdtype(w.dtype, np.inexact):
            tolerance = 2e-2 if w.dtype == np.float16 else 2e-4
            np.testing.assert_allclose(g, w, tolerance, tolerance)
        else:
            np.testing.assert_array_equal(g, w)


def listed(out):
    return list(out) if isinstance(out, (list, tuple)) else [out]


def values_agree(f, *args):
    close(Graph(f, *args)(*args), listed(f(*args)))


PROGRAMS = [row[:2] for row in OFFICIAL if not any(word in row[0] for word in NOT_UNIQUE)]


@pytest.mark.parametrize("program, name", PROGRAMS, ids=[row[0] for row in PROGRAMS])
def test_the_told_graph_computes_the_function(program, name):
    values_agree(run(program), INPUTS[name])


KEY = mx.random.key(3)
WELL = mx.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 5.0]])
# Dense linear algebra, which runs on the host.
ON_HOST = [
    lambda x: mx.linalg.inv(x),
    lambda x: mx.linalg.tri_inv(x, upper=True),
    lambda x: mx.linalg.cholesky(x, upper=True),
    lambda x: mx.linalg.eigvalsh(x),
    lambda x: mx.linalg.solve(x, x[:, 0]),
    lambda x: mx.linalg.solve_triangular(x, x),
    lambda x: mx.linalg.det(x),
    lambda x: mx.linalg.svd(x, compute_uv=False),
    lambda x: (lambda q, r: q @ r)(*mx.linalg.qr(x)),
    lambda x: (lambda u, s, v: (u * s) @ v)(*mx.linalg.svd(x)),
    lambda x: mx.linalg.norm(x, ord="nuc"),
]
VALUES = [
    lambda x: mx.random.uniform(-1, 2, (3, 5), key=KEY),
    lambda x: mx.random.normal((7,), key=KEY) * x[0, 0],
    lambda x: mx.random.randint(0, 50, (9,), key=KEY),
    lambda x: mx.random.bernoulli(0.3, (9,), key=KEY),
    lambda x: mx.random.categorical(x, key=KEY),
    lambda x: mx.random.split(KEY, 3),
    lambda x: mx.median(x, axis=(0, 1)),
    lambda x: mx.var(x, ddof=1, keepdims=True),
    lambda x: mx.std(x.astype(mx.float16), axis=0),
    lambda x: x.astype(mx.int32).mean(1),
    lambda x: mx.logsumexp(x, axis=0, keepdims=True),
    lambda x: mx.argmin(x, keepdims=True),
    lambda x: mx.take(x, mx.array([[0, 2], [1, 1]]), 1),
    lambda x: x[:, mx.array([2, 0])],
    lambda x: x[mx.array([2, 0]), 1:],
    lambda x: x[None, :, mx.array([2, 0])][..., None],
    lambda x: x.at[:, mx.array([2, 0])].add(x[:, :2]),
    lambda x: x.at[::2, 1].multiply(3.0),
    lambda x: x.at[mx.array([1]), mx.array([2])].subtract(3.0),
    lambda x: mx.pad(x, 1, mode="edge"),
    lambda x: mx.linalg.norm(x, ord=-1),
    lambda x: mx.linalg.cross(x, x[::-1]),
    lambda x: mx.einsum("ij,jk->ki", x, x),
    lambda x: mx.einsum("ii->i", x),
    lambda x: mx.segmented_mm(x, x, mx.array([[0, 1], [1, 3]], mx.uint32)),
    lambda x: mx.gather_mm(mx.stack([x, x.T]), mx.stack([x, x + 1]), None, mx.array([1, 0])),
    lambda x: mx.convolve(x[0], x[1]),
    lambda x: mx.roll(x, (1, 2), (0, 1)),
    lambda x: mx.trace(x, 1),
    lambda x: mx.diag(x[1], -1),
    lambda x: mx.eye(3, 4, k=1) + mx.tri(3, 4, -1),
    lambda x: mx.diagonal(mx.stack([x, x + 1]), 1, 0, 2),
    lambda x: mx.grad(lambda y: mx.softmax(y, 0)[0].sum() + mx.sort(y)[0, 1])(x),
    lambda x: mx.grad(lambda y: mx.take(y, mx.array([1, 1]), 0).prod())(x),
    lambda x: mx.grad(lambda y: mx.logsumexp(mx.pad(y, 1), 1).sum())(x),
    lambda x: mx.vmap(lambda y: mx.split(y, 3)[1] + y.mean())(x),
    lambda x: mx.vmap(lambda y: mx.searchsorted(mx.array([0.5, 1.0, 4.0]), y))(x),
    lambda x: mx.logcumsumexp(x, 1, reverse=True),
    lambda x: mx.bitwise_invert(x.astype(mx.int32)),
    lambda x: mx.compile(lambda y: mx.exp(y) * 2 + y.max(0))(x),
    lambda x: mx.fft.irfft(mx.fft.rfft(x, norm="ortho"), n=3, norm="forward"),
    lambda x: mx.conv_general(x[None], mx.ones((2, 3, 3)), 2, 2, input_dilation=2),
]


@pytest.mark.parametrize("number", range(len(ON_HOST)))
def test_values_of_linear_algebra(number):
    with mx.stream(mx.cpu):
        values_agree(ON_HOST[number], WELL)


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_values_of_what_is_put_together_otherwise(number):
    values_agree(VALUES[number], WELL)


def test_constants_and_numbers_are_shared():
    c = mx.array([1.0, 2.0, 3.0])
    graph = Graph(lambda x: (mx.exp(x + 1) * c, mx.exp(x + 1) + c), SQUARE[:3, :3])
    names = [n for n, _ in graph]
    assert names == ["Broadcast", "Add", "Exp", "Broadcast", "Multiply", "Add"]
    constants = graph.parts[3]["constants"]
    assert [(n, a.size) for n, a in constants] == [("D", 1), ("E", 3)]


def test_results_are_never_joined():
    assert [n for n, _ in Graph(lambda x: (mx.exp(x), mx.exp(x)), SQUARE)] == ["Exp", "Exp"]
    assert Graph(lambda x: (x, x), SQUARE).parts[2]["outputs"] == [("A", (4, 4), mx.float32)] * 2


def test_shapeless_functions_say_what_they_are_broadcast_with():
    graph = Graph(lambda x: x.mean(), SQUARE, shapeless=True)
    assert [n for n, _ in graph] == [
        *("Reduce", "Squeeze", "NumberOfElements", "Broadcast", "Broadcast", "Multiply")
    ]
    assert graph.primitives[2]["arguments"] == [[0, 1], True, mx.float32]
    assert [len(p["inputs"]) for p in graph.primitives] == [1, 1, 1, 2, 2, 2]


def test_the_interpreter_knows_every_name():
    told = {n.split("(")[0] for row in OFFICIAL for n in row[2].split(") ")}
    assert told <= {*ELEMENTWISE, *OTHERS, ""}
