"""einsum and einsum_path: equations against NumPy in float64, gradients, refusals."""

import itertools

import mlx.core as mx
import numpy as np
import pytest

# Equations; SIZES has the sizes of their letters. The second item names operands' shapes where an
# ellipsis or a length of 1 hides them.
SIZES = dict(zip("abcdefghijkl", [2, 3, 4, 5, 2, 3, 2, 3, 5, 4, 3, 2], strict=True))
EQUATIONS = [
    "ij,jk",
    "ij,jk->ki",
    "ij->ji",
    "ji",
    "ij->",
    "ij->i",
    "i,i",
    "i,j",
    "i,j->ji",
    "i,i->i",
    "ij,ij->ij",
    "ij,ij->j",
    "ij,ij->",
    "ij,kj->ik",
    "ji,kj->ik",
    "bij,bjk->bik",
    "bij,bkj->bik",
    "bij,bjk->kbi",
    "abij,abjk->abik",
    "baij,abjk->abik",
    "bhid,bhjd->bhij",
    "bidh,bjdh->bhij",
    "abc,cd,de->abe",
    "abc,bcd->ad",
    "acb,bcd->da",
    "abcd,cdab->",
    "ijk,k->ij",
    "ijk,j",
    "ijk,il,jl->kl",
    "ab,bc,cd,de,ef->af",
    "ea,fb,abcd,gc,hd->efgh",
    "ab,ab,ab->a",
    "a,b,c,d->dcba",
    ",ij->ij",
    ",",
    "",
    "->",
    " i j , j k -> i k ",
]


def shapes_of(equation, sizes=SIZES):
    left = equation.replace(" ", "").split("->")[0]
    return [tuple(sizes[c] for c in term) for term in left.split(",")]


def check(equation, shapes, rng, rtol=1e-5):
    x = [rng.normal(size=s).astype(np.float32) for s in shapes]
    got = mx.einsum(equation, *[mx.array(v) for v in x])
    want = np.einsum(equation, *[v.astype(np.float64) for v in x])
    assert got.shape == want.shape, equation
    assert got.dtype == mx.float32
    scale = np.einsum(equation, *[np.abs(v.astype(np.float64)) for v in x])
    error = np.abs(np.array(got) - want)
    assert (error <= rtol * scale + 1e-7).all(), f"{equation} {shapes}"


@pytest.mark.parametrize("equation", EQUATIONS)
def test_equations(equation, rng):
    check(equation, shapes_of(equation), rng)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ii", [(3, 3)]),
        ("ii->i", [(3, 3)]),
        ("iij->j", [(2, 2, 3)]),
        ("iji->j", [(2, 3, 2)]),
        ("ijij->ij", [(2, 3, 2, 3)]),
        ("iii->i", [(3, 3, 3)]),
        ("aab,bcc->ac", [(2, 2, 3), (3, 4, 4)]),
        ("ii,ij->j", [(3, 3), (3, 2)]),
        ("...ij,...jk->...ik", [(2, 2, 3), (3, 2)]),
        ("...ij,...jk", [(4, 2, 3), (4, 3, 2)]),
        ("...ij,...jk->...ik", [(4, 1, 2, 3), (5, 3, 2)]),
        ("...", [(2, 3)]),
        ("...->...", [(2,)]),
        ("i...->...", [(2, 3)]),
        ("i...", [(2, 3)]),
        ("...i->i...", [(2, 3, 4)]),
        ("i...j->...ij", [(2, 3, 4)]),
        ("...i,...i->...", [(2, 3), (3,)]),
        ("...a,...b->ab...", [(2, 3), (2, 4)]),
        ("a...b,c...d->ac...bd", [(2, 3, 4), (5, 3, 6)]),
        ("B...a,A...a", [(2, 3, 4), (5, 3, 4)]),
        ("...ij,...->...ij", [(2, 3), (4,)]),
        ("...ij,...jk,kl->...il", [(7, 2, 3), (7, 3, 4), (4, 5)]),
        ("ij,jk", [(2, 0), (0, 3)]),
        ("ij,jk", [(0, 2), (2, 0)]),
        ("i->", [(0,)]),
    ],
)
def test_diagonals_ellipses_and_empty_axes(equation, shapes, rng):
    check(equation, shapes, rng)


@pytest.mark.parametrize(
    ("equation", "thin", "full"),
    [
        ("ij,ij->ij", [(1, 3), (2, 3)], [(2, 3), (2, 3)]),
        ("ij,jk->ik", [(2, 1), (3, 2)], [(2, 3), (3, 2)]),
        ("i,i->", [(1,), (3,)], [(3,), (3,)]),
        ("ij,ij->j", [(1, 1), (2, 3)], [(2, 3), (2, 3)]),
        ("bij,bjk->bik", [(1, 2, 3), (4, 3, 2)], [(4, 2, 3), (4, 3, 2)]),
        ("...i->", [(2, 3)], [(2, 3)]),
        ("...i,...->i", [(2, 3), (2,)], [(2, 3), (2,)]),
    ],
)
def test_lengths_of_one_broadcast(equation, thin, full, rng):
    """NumPy refuses some of these; they mean the same as with the operands broadcast first."""
    x = [rng.normal(size=s).astype(np.float32) for s in thin]
    got = mx.einsum(equation, *[mx.array(v) for v in x])
    dots = equation.replace("...", "XY"[: len(full[0]) - 1]) if "..." in equation else equation
    want = np.einsum(
        dots, *[np.broadcast_to(v, s).astype(np.float64) for v, s in zip(x, full, strict=True)]
    )
    np.testing.assert_allclose(np.array(got), want, rtol=1e-5, atol=1e-5)


def test_dtypes(rng):
    half = mx.array(rng.normal(size=(3, 4)), mx.float16)
    brain = mx.array(rng.normal(size=(4, 2)), mx.bfloat16)
    assert mx.einsum("ij,jk", half, half.T).dtype == mx.float16
    assert mx.einsum("ij,jk", half, brain).dtype == mx.float32
    z = rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4))
    got = mx.einsum("ij,kj->ik", mx.array(z), mx.array(z))
    assert got.dtype == mx.complex64
    np.testing.assert_allclose(np.array(got), z @ z.T, rtol=1e-5, atol=1e-5)
    ones = mx.ones((2, 2), mx.int32)
    assert mx.einsum("ij,k->ijk", ones, mx.array([1, 2], mx.int8)).dtype == mx.int32
    assert mx.einsum("ii", ones).item() == 2
    assert mx.einsum("ij->i", mx.ones((2, 2), mx.uint8)).dtype == mx.uint32
    with pytest.raises(ValueError, match="inexact"):
        mx.einsum("ij,jk", ones, ones)
    short = mx.array([[0.1, 0.2, 0.3]] * 500, mx.float16)
    got = mx.einsum("bi,bi->b", short, short)
    assert got.dtype == mx.float16
    x = np.array([0.1, 0.2, 0.3], np.float16).astype(np.float64)
    np.testing.assert_allclose(np.array(got), np.full(500, x @ x), rtol=1e-3)


def test_transposed_and_strided_operands(rng):
    x = rng.normal(size=(6, 4, 8)).astype(np.float32)
    y = rng.normal(size=(8, 6, 5)).astype(np.float32)
    a, b = mx.array(x), mx.array(y)
    for equation, i, j in itertools.product(
        ["ijk,kil->jl", "ijk,kil->ijl", "ijk,kil->jil"],
        [np.s_[:], np.s_[:, ::2], np.s_[:, ::-1]],
        [np.s_[:], np.s_[:, :, 1:4], np.s_[:, :, ::-2]],
    ):
        want = np.einsum(equation, x[i].astype(np.float64), y[j].astype(np.float64))
        got = mx.einsum(equation, a[i], b[j])
        np.testing.assert_allclose(np.array(got), want, rtol=1e-5, atol=1e-4)


def numeric(f, x, i, step=1e-6):
    e = np.zeros_like(x)
    e.flat[i] = step
    return (f(x + e) - f(x - e)) / (2 * step)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk,kl->il", [(2, 3), (3, 2), (2, 3)]),
        ("bij,bkj->bki", [(2, 2, 3), (2, 2, 3)]),
        ("iij,j->i", [(3, 3, 2), (2,)]),
        ("...i,ij->...j", [(2, 2, 3), (3, 2)]),
        ("ij,ij->", [(1, 3), (2, 3)]),
    ],
)
def test_gradients(equation, shapes, rng):
    """First order by finite differences; second order along a direction."""
    x = [rng.normal(size=s) for s in shapes]
    full = [np.broadcast_to(v, max(shapes)) if equation == "ij,ij->" else v for v in x]
    w = rng.normal(size=np.einsum(equation, *full).shape)

    def loss64(*args):
        args = [np.broadcast_to(v, (2, 3)) for v in args] if equation == "ij,ij->" else args
        return np.sum(w * np.sin(np.einsum(equation, *args)))

    def loss(*args):
        return mx.sum(mx.array(w, mx.float32) * mx.sin(mx.einsum(equation, *args)))

    arrays = [mx.array(v, mx.float32) for v in x]
    argnums = list(range(len(x)))
    grads = mx.grad(loss, argnums=argnums)(*arrays)
    for n, g in enumerate(grads):
        assert g.shape == x[n].shape

        def only(v, n=n):
            return loss64(*x[:n], v, *x[n + 1 :])

        want = [numeric(only, x[n], i) for i in range(x[n].size)]
        np.testing.assert_allclose(np.array(g).ravel(), want, rtol=2e-4, atol=2e-4)
    u = [rng.normal(size=s) for s in shapes]
    v = [mx.array(d, mx.float32) for d in u]
    t = 1e-4

    def shifted(t):
        return loss64(*[a + t * b for a, b in zip(x, u, strict=True)])

    slope = mx.jvp(loss, arrays, v)[1][0].item()
    np.testing.assert_allclose(slope, (shifted(t) - shifted(-t)) / (2 * t), rtol=1e-3, atol=1e-3)

    def along(*args):
        g = mx.grad(loss, argnums=argnums)(*args)
        return sum(mx.sum(a * b) for a, b in zip(g, v, strict=True))

    second = mx.jvp(along, arrays, v)[1][0].item()
    t = 1e-3
    want = (shifted(t) - 2 * shifted(0) + shifted(-t)) / t**2
    np.testing.assert_allclose(second, want, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij,jk", [(2, 3)], "Number of operands, 1, does not match"),
        ("ij", [(2, 3), (2, 3)], "Number of operands, 2, does not match"),
        ("ij", [], "At least one operand"),
        ("ijk", [(2, 3)], "Invalid number of subscripts 3 for input 0 with 2 dimensions"),
        ("i", [(2, 3)], "Invalid number of subscripts 1"),
        ("ijk...", [(2, 3)], "Invalid number of subscripts 3"),
        ("ij,jk", [(2, 3), (4, 2)], "Cannot broadcast dimension 0 of input 1"),
        ("ii", [(2, 3)], "repeated subscripts do not have the same size"),
        ("ii", [(1, 3)], "repeated subscripts do not have the same size"),
        ("ij->ii", [(2, 3)], "Repeat indices not allowed in output"),
        ("ij->k", [(2, 3)], "'k'"),
        ("i1->1i", [(2, 3)], "must be letters, but got '1'"),
        ("é", [(2,)], "must be letters"),
        (".ij", [(2, 3)], "must be letters"),
        ("....ij", [(2, 3)], "must be letters"),
        ("...i...", [(2, 3)], "Only one ellipsis"),
        ("i->i->i", [(2,)], "must be letters, but got '-'"),
        ("ij-ji", [(2, 3)], "must be letters, but got '-'"),
        ("...i,...i->", [(2, 3), (3, 3)], "Cannot broadcast"),
    ],
)
def test_refusals(equation, shapes, message):
    arrays = [mx.ones(s) for s in shapes]
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        mx.einsum(equation, *arrays)
    with pytest.raises(ValueError, match="einsum_path"):
        mx.einsum_path(equation, *arrays)


def test_operands_must_be_arrays():
    with pytest.raises(TypeError):
        mx.einsum("i", [1.0, 2.0])
    with pytest.raises(TypeError):
        mx.einsum(1, mx.ones(2))


def flops(equation, shapes, path):
    """Operations of a path, counted from the definition."""
    left, out = equation.split("->") if "->" in equation else (equation, "")
    terms = [set(t) for t in left.split(",")]
    if "->" not in equation:
        out = [c for c in left if left.count(c) == 1 and c != ","]
    size = {
        c: n
        for t, s in zip(left.split(","), shapes, strict=True)
        for c, n in zip(t, s, strict=True)
    }
    total = 0
    for step in path:
        taken = [terms.pop(i) for i in sorted(step, reverse=True)]
        every = set().union(*taken)
        kept = every & set().union(set(out), *terms)
        total += int(np.prod([size[c] for c in every])) * (len(taken) - 1 + (every != kept))
        terms.append(kept)
    assert len(terms) == 1
    return total


PATHS = [
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 500)]),
    ("ij,jk,kl->il", [(200, 3), (3, 4), (4, 5)]),
    ("ij,jk,kl", [(5, 8), (8, 10), (10, 7)]),
    ("ij,ij,ij", [(5, 8), (5, 8), (5, 8)]),
    ("i,j,ij->", [(5,), (6,), (5, 6)]),
    ("ab,bc,cd,de->ae", [(2, 30), (30, 4), (4, 50), (50, 6)]),
    ("ab,bc,ac,cd,d->ad", [(4, 5), (5, 6), (4, 6), (6, 7), (7,)]),
    ("ea,fb,abcd,gc,hd->efgh", [(10, 10), (10, 10), (10,) * 4, (10, 10), (10, 10)]),
    # Results of pairs are larger than any operand: the rest is one step.
    ("ijk,ilm,njm,nlk,abc->", [(2, 3, 4), (2, 5, 6), (7, 3, 6), (7, 5, 4), (2, 2, 2)]),
]


@pytest.mark.parametrize(("equation", "shapes"), PATHS)
def test_the_path_is_that_of_numpys_greedy_order(equation, shapes, rng):
    x = [rng.normal(size=s).astype(np.float32) for s in shapes]
    arrays = [mx.array(v) for v in x]
    path, text = mx.einsum_path(equation, *arrays)
    want, _ = np.einsum_path(equation, *x, optimize="greedy")
    assert path == want[1:]
    assert f"Optimized FLOP count:  {flops(equation, shapes, path)}\n" in text
    value = np.einsum(equation, *(v.astype(np.float64) for v in x), optimize=True)
    scale = np.abs(value).max()
    np.testing.assert_allclose(
        np.array(mx.einsum(equation, *arrays)) / scale, value / scale, atol=1e-5
    )


def test_the_path_of_random_equations_is_that_of_numpys_greedy_order(rng):
    for _ in range(60):
        sizes = dict(zip("abcdefg", rng.integers(1, 10, 7), strict=True))
        terms = ["".join(rng.permutation(list("abcdefg"))[:n]) for n in rng.integers(1, 5, 4)]
        output = "".join(rng.permutation(sorted(set("".join(terms))))[: rng.integers(0, 4)])
        equation, shapes = f"{','.join(terms)}->{output}", [[sizes[c] for c in t] for t in terms]
        path, _ = mx.einsum_path(equation, *[mx.zeros(s) for s in shapes])
        want, _ = np.einsum_path(equation, *[np.zeros(s) for s in shapes], optimize="greedy")
        assert path == want[1:], equation


def test_reports():
    path, text = mx.einsum_path(
        "ij,jk,kl->il", mx.zeros((2, 3)), mx.zeros((3, 4)), mx.zeros((4, 5))
    )
    assert path == [(1, 2), (0, 1)]
    assert text == (
        "  Complete contraction:  ij,jk,kl->il\n         Naive scaling:  4\n"
        "     Optimized scaling:  3\n"
        "      Naive FLOP count:  360\n  Optimized FLOP count:  180\n"
    )
    path, text = mx.einsum_path("ij->i", mx.zeros((2, 3)))
    assert path == [(0,)] and "Naive FLOP count:  12\n" in text


def test_many_operands(rng):
    """A poor order would need 4^21 elements."""
    n = 20
    x = [rng.normal(size=(4, 4)).astype(np.float32) / 2 for _ in range(n)]
    letters = "abcdefghijklmnopqrstu"
    equation = ",".join(letters[i : i + 2] for i in range(n)) + "->au"
    want = np.linalg.multi_dot([v.astype(np.float64) for v in x])
    got = mx.einsum(equation, *[mx.array(v) for v in x])
    np.testing.assert_allclose(np.array(got), want, rtol=1e-4, atol=1e-4)
    assert len(mx.einsum_path(equation, *[mx.array(v) for v in x])[0]) == n - 1
