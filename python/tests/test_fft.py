"""mlx.core.fft against NumPy in float64: values, layouts, derivatives, short-time transforms."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

FULL = ["fft", "ifft"]
ALONG = ["fft", "ifft", "rfft", "irfft"]
SEVERAL = ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"]
NORMS = ["backward", "ortho", "forward"]


def draw(rng, shape, name="fft"):
    """complex64 input, float32 for the transforms of real values."""
    x = rng.normal(size=shape)
    if name.startswith("rfft"):
        return x.astype(np.float32)
    return (x + 1j * rng.normal(size=shape)).astype(np.complex64)


def wide(x):
    return x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)


def close(got, want, bound=1e-6):
    """Relative distance in the 2-norm, and the dtype that MLX gives."""
    assert got.dtype == (mx.complex64 if np.iscomplexobj(want) else mx.float32)
    assert got.shape == want.shape
    error = np.linalg.norm(h.to_np(got) - want)
    assert error <= bound * np.linalg.norm(want) + 1e-30, f"{error / np.linalg.norm(want):.2e}"


def check(name, x, **kw):
    got = getattr(mx.fft, name)(mx.array(x), **kw)
    close(got, getattr(np.fft, name)(wide(x), **kw))


# Powers, products of the butterflies' primes, other primes, and lengths beyond one workgroup.
LENGTHS = [
    *range(1, 34),
    37,
    49,
    60,
    64,
    97,
    121,
    128,
    169,
    210,
    256,
    257,
    343,
    512,
    1000,
    1001,
    1009,
]
LONG = [2048, 2187, 4096, 4099, 5000, 8192]


@pytest.mark.parametrize("name", ALONG)
def test_lengths(name, rng):
    for n in LENGTHS:
        x = draw(rng, (3, n // 2 + 1 if name == "irfft" else n), name)
        kw = {"n": n} if name == "irfft" else {}
        check(name, x, **kw)


@pytest.mark.parametrize("n", LONG)
def test_long_lines(n, rng):
    check("fft", draw(rng, (2, n)))
    check("rfft", draw(rng, (2, n), "rfft"))
    check("irfft", draw(rng, (2, n // 2 + 1)), n=n)


@pytest.mark.parametrize("n", [4096, 3000, 1031])
def test_long_columns(n, rng):
    check("fft", draw(rng, (n, 3)), axis=0)
    check("irfft", draw(rng, (n // 2 + 1, 3)), axis=0, n=n)


def test_three_passes(rng):
    """A line of more values than two passes reach, and a prime one."""
    check("fft", draw(rng, (1, 1 << 21)))
    check("rfft", draw(rng, (1, 2**17 - 1), "rfft"))


#: Lines whose spectra are halved in registers, or not; several to a workgroup; two stages and four.
PAIRED = [64, 128, 250, 256, 500, 1000, 1024, 2000]


@pytest.mark.validation
@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize("name", ALONG)
def test_lines_that_do_not_fill_workgroups(name, count, rng):
    for n in PAIRED:
        x = draw(rng, (count, n // 2 + 1 if name == "irfft" else n), name)
        check(name, x, n=n)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [500, 1024])
def test_half_spectra_of_any_layout(n, norm, rng):
    """Steps between values and lines, odd addresses, turned lines, other lengths."""
    x = draw(rng, (5, 2 * n + 3), "rfft")
    z = draw(rng, (5, n + 3))
    cuts = [np.s_[:, :n], np.s_[:, 1 : n + 1], np.s_[:, : 2 * n : 2], np.s_[::2, n:0:-1]]
    for cut in cuts:
        got = mx.fft.rfft(mx.array(x)[cut], norm=norm)
        close(got, np.fft.rfft(wide(x)[cut], norm=norm))
        got = mx.fft.irfft(mx.array(z)[cut], n, norm=norm)
        close(got, np.fft.irfft(wide(z)[cut], n, norm=norm))
    for size in (n // 2 - 1, n // 2, n + 7):
        close(mx.fft.rfft(mx.array(x[:, :size]), n), np.fft.rfft(wide(x[:, :size]), n))
        close(mx.fft.irfft(mx.array(z[:, :size]), n), np.fft.irfft(wide(z[:, :size]), n))
    for name, a in (("rfft", x), ("irfft", z)):
        down = np.ascontiguousarray(a[:, :n].T)
        check(name, down, axis=0, norm=norm)
        turned = mx.array(a[:, :n]).T
        want = getattr(np.fft, name)(wide(a[:, :n]).T, axis=0)
        close(getattr(mx.fft, name)(turned, axis=0), want)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision_lines(name, rng):
    x = h.quantise(rng.normal(size=(3, 1024)), name)
    for n in (500, 1000, 1024):
        a = h.from_np(x[:, :n], name)
        close(mx.fft.rfft(a), np.fft.rfft(x[:, :n].astype(np.float64)))
        close(mx.fft.fft(a), np.fft.fft(x[:, :n].astype(np.float64)))


@pytest.mark.parametrize("n", [1 << 14, 1 << 16, 1 << 18, 3**10, 48_000, 65_520, 10**6])
def test_two_passes(n, rng):
    """Through tiles of scratch where the factors have them."""
    x = draw(rng, (3 if n < 1 << 17 else 1, n))
    check("fft", x)
    check("ifft", x[:, ::-1], norm="ortho")
    check("rfft", draw(rng, (1, n), "rfft"), norm="forward")


def test_two_passes_over_columns(rng):
    x = draw(rng, (1 << 14, 3))
    check("fft", x, axis=0)
    check("ifft", x[::-1, ::2], axis=0)
    check("fft", x[:5000], n=1 << 14, axis=0)


@pytest.mark.parametrize("n", [4096, 5000, 6561, 8192, 4217])
def test_parts_that_take_turns_in_shared_memory(n, rng):
    check("fft", draw(rng, (3, n)))
    check("ifft", draw(rng, (1, n - 9)), n=n, norm="ortho")
    check("rfft", draw(rng, (3, 2 * n), "rfft"))
    check("irfft", draw(rng, (1, n + 1)), n=2 * n)


@pytest.mark.parametrize("n", [8, 64, 250, 256, 500, 512, 1000, 1024])
def test_columns(n, rng):
    for count in (1, 37):
        check("fft", draw(rng, (n, count)), axis=0)
    x = draw(rng, (2, n, 9))
    check("ifft", x, axis=1, norm="ortho")
    close(mx.fft.fft(mx.array(x).swapaxes(1, 2)), np.fft.fft(wide(x).swapaxes(1, 2)))


@pytest.mark.validation
@pytest.mark.parametrize("name", ALONG)
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_axes(name, axis, rng):
    check(name, draw(rng, (6, 5, 8), name), axis=axis)


@pytest.mark.parametrize("name", ALONG)
@pytest.mark.parametrize("norm", NORMS)
def test_norms(name, norm, rng):
    for n in (6, 7):
        x = draw(rng, (2, n), name)
        check(name, x, norm=norm)
        check(name, x, norm=norm, axis=0)


@pytest.mark.validation
@pytest.mark.parametrize("name", ALONG)
def test_cut_and_padded(name, rng):
    x = draw(rng, (4, 9), name)
    for n in (1, 2, 5, 8, 10, 17, 20, 40):
        check(name, x, n=n)
        check(name, np.ascontiguousarray(x.T), n=n, axis=0)


@pytest.mark.parametrize("name", SEVERAL)
def test_several_axes(name, rng):
    x = draw(rng, (4, 3, 6), name)
    check(name, x)
    for axes, s in [
        ((0, 1), None),
        ((1, 0), (5, 2)),
        ((-1, 0), (4, 6)),
        ((2,), (5,)),
        ((0, 2, 1), None),
    ]:
        check(name, x, axes=axes, s=s)
    for norm in NORMS:
        check(name, x, norm=norm, axes=(0, 2))
    assert getattr(mx.fft, name)(mx.array(x), axes=()).dtype == mx.array(x).dtype


def test_half_precision_and_integers():
    values = np.array([[1, 0, 3, 2, 1], [0, 1, 1, 2, 5]])
    for name in h.session_dtypes():
        x = h.quantise(values, name)
        a = h.from_np(x, name)
        want = x.astype(np.complex128) if name == "complex64" else x.astype(np.float64)
        for f in ALONG:
            w = want.real if f == "rfft" else want
            close(getattr(mx.fft, f)(a), getattr(np.fft, f)(w))


@pytest.mark.parametrize("name", ALONG)
def test_layouts(name, rng):
    x = draw(rng, (4, 10), name)
    kind = "float32" if name == "rfft" else "complex64"
    for label, a in h.layouts(x, kind):
        for axis in (0, 1):
            print(label, axis)
            close(getattr(mx.fft, name)(a, axis=axis), getattr(np.fft, name)(wide(x), axis=axis))
    row = mx.broadcast_to(mx.array(x[:1]), (3, 10))
    close(getattr(mx.fft, name)(row), getattr(np.fft, name)(np.broadcast_to(wide(x[:1]), (3, 10))))


def test_imaginary_parts_that_do_not_count(rng):
    """The inverse of real transforms does not read them; a real transform drops them."""
    for n in (8, 9, 96):
        z = draw(rng, (n // 2 + 1,))
        real = z.copy()
        real[0] = real[0].real
        if n % 2 == 0:
            real[-1] = real[-1].real
        close(mx.fft.irfft(mx.array(z), n), np.fft.irfft(wide(real), n))
    z = draw(rng, (8,))
    close(mx.fft.rfft(mx.array(z)), np.fft.rfft(wide(z.real)))


def test_empty():
    assert mx.fft.fft(mx.zeros((0, 4))).shape == (0, 4)
    assert mx.fft.irfft(mx.zeros((0, 4))).shape == (0, 6)
    assert mx.fft.rfftn(mx.zeros((2, 0, 4)), axes=(0, 2)).shape == (2, 0, 3)
    for name, n in [("fft", 3), ("irfft", 3), ("rfft", 4), ("fft", 1)]:
        got = getattr(mx.fft, name)(mx.zeros((2, 0)), n)
        assert not np.any(h.to_np(got)) and got.shape[0] == 2


def test_bad_arguments():
    x = mx.zeros((3, 4))
    for name in ALONG:
        f = getattr(mx.fft, name)
        for n in (0, -1):
            with pytest.raises(ValueError, match="Invalid FFT output size"):
                f(x, n)
        with pytest.raises(ValueError, match="Invalid norm"):
            f(x, norm="x")
        for axis in (2, -3):
            with pytest.raises(IndexError):
                f(x, axis=axis)
        with pytest.raises(IndexError):
            f(mx.array(1.0))
        with pytest.raises(ValueError):
            f(mx.zeros((2, 0)))
        for bad in ([1.0, 2.0], 1.0):
            with pytest.raises(TypeError):
                f(bad)
        with pytest.raises(TypeError):
            f(x, 2.0)
        with pytest.raises(OverflowError):
            f(x, 2**40)
    for name in SEVERAL:
        f = getattr(mx.fft, name)
        with pytest.raises(ValueError, match="Duplicated axis"):
            f(x, axes=(0, 0))
        with pytest.raises(ValueError, match="different sizes"):
            f(x, s=(2,), axes=(0, 1))
        with pytest.raises(ValueError, match="should not be `None`"):
            f(x, s=(2,), axes=None)
        with pytest.raises(IndexError):
            f(x, axes=(0, 2))
    with pytest.raises(ValueError, match="at least one dimension"):
        mx.fft.fftn(mx.array(1.0))


def test_shifts_and_frequencies():
    for shape in [(5,), (4,), (3, 4), (2, 3, 5)]:
        x = np.arange(np.prod(shape)).reshape(shape)
        for axes in (None, 0, -1, tuple(range(len(shape)))):
            for name in ("fftshift", "ifftshift"):
                got = getattr(mx.fft, name)(mx.array(x), axes)
                np.testing.assert_array_equal(h.to_np(got), getattr(np.fft, name)(x, axes))
    with pytest.raises(IndexError):
        mx.fft.fftshift(mx.zeros((2, 2)), 2)
    for n in (1, 2, 5, 8, 1000):
        for d in (1.0, 0.1, -2.5):
            for name in ("fftfreq", "rfftfreq"):
                got = getattr(mx.fft, name)(n, d)
                assert got.dtype == mx.float32
                np.testing.assert_allclose(h.to_np(got), getattr(np.fft, name)(n, d), rtol=1.2e-7)
    for name in ("fftfreq", "rfftfreq"):
        for args in ((0,), (-1,), (4, 0.0)):
            with pytest.raises(ValueError):
                getattr(mx.fft, name)(*args)


def adjoint_by_columns(f, x, cotangent):
    """The gradient of <cotangent, f(x)> for a linear map f, in NumPy, element by element."""
    g = np.zeros(x.shape, np.complex128)
    for i in np.ndindex(x.shape):
        for unit in (1, 1j) if np.iscomplexobj(x) else (1,):
            e = np.zeros(x.shape, np.result_type(x.dtype, np.float64))
            e[i] = unit
            g[i] += unit * np.sum(f(e).real * cotangent.real + f(e).imag * np.imag(cotangent))
    return g if np.iscomplexobj(x) else g.real


@pytest.mark.parametrize(
    ("name", "kw"),
    [
        ("fft", {}),
        ("ifft", {"norm": "ortho", "axis": 0}),
        ("fft", {"n": 3}),
        ("fft", {"n": 8, "norm": "forward"}),
        ("rfft", {}),
        ("rfft", {"n": 5}),
        ("rfft", {"n": 9, "axis": 0}),
        ("irfft", {}),
        ("irfft", {"n": 7}),
        ("irfft", {"n": 16, "axis": 0}),
        ("fft2", {}),
        ("rfft2", {}),
        ("irfft2", {"s": (4, 5)}),
    ],
)
def test_derivatives(name, kw, rng):
    """The vjp is the adjoint of the map, the jvp the map itself, and they agree."""
    f, g = getattr(mx.fft, name), getattr(np.fft, name)
    x = draw(rng, (3, 6), name)
    out = g(wide(x), **kw)
    cot = draw(rng, out.shape, "fft" if np.iscomplexobj(out) else "rfft")
    _, (got,) = mx.vjp(lambda a: f(a, **kw), [mx.array(x)], [mx.array(cot)])
    assert got.dtype == mx.array(x).dtype
    np.testing.assert_allclose(
        h.to_np(got), adjoint_by_columns(lambda e: g(e, **kw), x, cot), atol=2e-5
    )
    _, (tangent,) = mx.jvp(lambda a: f(a, **kw), [mx.array(x)], [mx.array(x) * 2])
    close(tangent, 2 * out)


def test_gradient_of_a_real_array_through_a_complex_transform(rng):
    x = draw(rng, (8,), "rfft")
    w = draw(rng, (8,))
    got = mx.grad(lambda a: mx.sum(mx.abs(mx.fft.fft(a) * mx.array(w))))(mx.array(x))
    assert got.dtype == mx.float32

    def loss(v):
        return np.sum(np.abs(np.fft.fft(v) * w))

    e = 1e-6 * np.eye(8)
    want = [(loss(x + d) - loss(x - d)) / 2e-6 for d in e]
    np.testing.assert_allclose(h.to_np(got), want, rtol=1e-4, atol=1e-4)


def test_second_derivatives(rng):
    """The loss is quadratic: its Hessian times a vector is twice n times the vector."""
    x, v = draw(rng, (6,), "rfft"), draw(rng, (6,), "rfft")

    def loss(a):
        z = mx.fft.fft(a)
        return mx.sum(mx.square(mx.real(z)) + mx.square(mx.imag(z)))

    product = mx.grad(lambda a: mx.sum(mx.grad(loss)(a) * mx.array(v)))(mx.array(x))
    np.testing.assert_allclose(h.to_np(product), 12 * v, rtol=1e-5)


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "fft2", "irfftn"])
def test_vmap(name, rng):
    f = getattr(mx.fft, name)
    x = draw(rng, (3, 4, 6), name)
    want = np.stack([getattr(np.fft, name)(wide(x[i])) for i in range(3)])
    close(mx.vmap(f)(mx.array(x)), want)
    close(mx.vmap(f, in_axes=2)(mx.array(np.moveaxis(x, 0, 2))), want)
    close(mx.vmap(f, out_axes=1)(mx.array(x)), np.moveaxis(want, 0, 1))


def test_results_do_not_change(rng):
    x = mx.array(draw(rng, (5, 600)))
    first = h.to_np(mx.fft.fft(x))
    for _ in range(3):
        np.testing.assert_array_equal(first, h.to_np(mx.fft.fft(x)))


@pytest.mark.gpu
def test_float64_stays_on_the_cpu():
    x = mx.array(np.arange(4.0), dtype=mx.float64)
    with pytest.raises(ValueError):
        mx.eval(mx.fft.fft(x, stream=mx.gpu))
    assert mx.fft.fft(x, stream=mx.cpu).dtype == mx.complex64


def framed(x, n, hop, window, center, mode="reflect", onesided=True):
    """stft by its definition."""
    if center:
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(n // 2, n // 2)], mode=mode)
    w = np.zeros(n)
    at = (n - len(window)) // 2
    w[at : at + len(window)] = window
    count = 1 + (x.shape[-1] - n) // hop
    frames = np.stack([x[..., i * hop : i * hop + n] * w for i in range(count)], -2)
    f = np.fft.rfft if onesided else np.fft.fft
    return np.swapaxes(f(frames), -1, -2)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(("n", "hop"), [(8, 2), (7, 3), (16, 16), (5, 9)])
def test_stft(center, n, hop, rng):
    x = draw(rng, (2, 50), "rfft")
    for window in (np.ones(n), np.hanning(n) + 0.1, np.hanning(n - 2) + 0.1):
        w = mx.array(window.astype(np.float32))
        got = mx.fft.stft(mx.array(x), n, hop, window=w, center=center)
        close(got, framed(wide(x), n, hop, window, center))
        full = mx.fft.stft(mx.array(x), n, hop, window=w, center=center, onesided=False)
        close(full, framed(wide(x), n, hop, window, center, onesided=False))
    z = draw(rng, (50,))
    close(
        mx.fft.stft(mx.array(z), n, hop, center=center),
        framed(z, n, hop, np.ones(n), center, onesided=False),
    )
    close(
        mx.fft.stft(mx.array(x), n, hop, win_length=n - 2, center=center),
        framed(wide(x), n, hop, np.ones(n - 2), center),
    )


def test_stft_padding(rng):
    x = draw(rng, (11,), "rfft")
    for mode in ("reflect", "edge", "constant", "symmetric"):
        for n in (8, 20, 64):
            got = mx.fft.stft(mx.array(x), n, pad_mode=mode)
            close(got, framed(wide(x), n, n // 4, np.ones(n), True, mode))


def test_istft_restores_the_signal(rng):
    x = draw(rng, (2, 40), "rfft")
    window = mx.array((np.hanning(8) + 0.2).astype(np.float32))
    for n, hop, w, center in [
        (8, 2, window, True),
        (8, 3, window, False),
        (9, 3, None, True),
        (8, 8, None, False),
    ]:
        z = mx.fft.stft(mx.array(x), n, hop, window=w, center=center)
        y = mx.fft.istft(z, n, hop, window=w, center=center)
        np.testing.assert_allclose(h.to_np(y), x[:, : y.shape[-1]], atol=2e-6)
        for length in (0, 5, 60):
            cut = h.to_np(mx.fft.istft(z, n, hop, window=w, center=center, length=length))
            assert cut.shape == (2, length)
            k = min(length, y.shape[-1])
            np.testing.assert_allclose(cut[:, :k], x[:, :k], atol=2e-6)
    z = draw(rng, (40,))
    full = mx.fft.stft(mx.array(z), 8)
    np.testing.assert_allclose(h.to_np(mx.fft.istft(full, onesided=False)), z.real, atol=2e-6)


@pytest.mark.parametrize("center", [True, False])
def test_istft_of_no_samples(center):
    z = mx.ones((5, 4), mx.complex64)
    for length in (0, -1, -5):
        cut = lambda z, n=length: mx.fft.istft(z, 8, 2, center=center, length=n)  # noqa: E731
        assert cut(z).shape == (0,)
        assert mx.compile(cut, shapeless=True)(z).shape == (0,)


def test_istft_where_nothing_overlaps():
    """Gaps and windows of zeros give zeros."""
    z = mx.fft.stft(mx.ones(20), 4, 4, center=False)
    gaps = h.to_np(mx.fft.istft(z, 4, 6, center=False))
    assert gaps.shape == (28,) and gaps[:4].tolist() == [1] * 4 and gaps[4:6].tolist() == [0, 0]
    assert not h.to_np(mx.fft.istft(z, 4, window=mx.zeros(4))).any()


def test_derivatives_of_short_time_transforms(rng):
    x = draw(rng, (13,), "rfft")

    def loss(v):
        return mx.sum(mx.abs(mx.fft.stft(v, 6, 2)))

    def reference(v):
        return np.sum(np.abs(framed(v, 6, 2, np.ones(6), True)))

    want = [(reference(x + d) - reference(x - d)) / 2e-6 for d in 1e-6 * np.eye(13)]
    np.testing.assert_allclose(h.to_np(mx.grad(loss)(mx.array(x))), want, rtol=1e-4, atol=1e-4)
    z = mx.fft.stft(mx.array(x), 6, 2)
    back = mx.grad(lambda v: mx.sum(mx.square(mx.fft.istft(v, 6, 2))))(z)
    y = mx.fft.istft(z, 6, 2)
    _, (along,) = mx.jvp(lambda v: mx.fft.istft(v, 6, 2), [z], [z])
    # <gradient, z> is the derivative along z, which is twice the loss.
    product = np.sum(np.real(np.conj(h.to_np(back)) * h.to_np(z)))
    np.testing.assert_allclose(product, 2 * np.sum(h.to_np(y) * h.to_np(along)), rtol=1e-4)
    rows = mx.array(draw(rng, (3, 13), "rfft"))
    np.testing.assert_allclose(
        h.to_np(mx.vmap(lambda v: mx.fft.stft(v, 6, 2))(rows)),
        h.to_np(mx.fft.stft(rows, 6, 2)),
        atol=1e-6,
    )


def test_bad_short_time_arguments():
    x = mx.zeros(20)
    stft, istft = mx.fft.stft, mx.fft.istft
    for args, kw in [
        ((mx.array(1.0), 4), {}),
        ((x, 0), {}),
        ((x, 8, 0), {}),
        ((x, 2), {}),
        ((x, 8, 2, 9), {}),
        ((x, 8, 2, -1), {}),
        ((x, 21), {"center": False}),
        ((x, 8), {"window": mx.ones((2, 4))}),
        ((x, 8), {"window": mx.ones(9)}),
        ((x, 8), {"pad_mode": "x"}),
        ((x, 8), {"norm": "x"}),
        ((mx.zeros((2, 0)), 4), {}),
    ]:
        with pytest.raises(ValueError):
            stft(*args, **kw)
    z = mx.zeros((5, 3), mx.complex64)
    for args, kw in [
        ((mx.zeros(5),), {}),
        ((z, 0), {}),
        ((z, 8, 0), {}),
        ((z, 8), {"window": mx.ones(9)}),
        ((z, 8), {"norm": "x"}),
        ((mx.zeros((1, 5), mx.complex64),), {}),
        ((mx.zeros((5, 0), mx.complex64), 8), {}),
    ]:
        with pytest.raises(ValueError):
            istft(*args, **kw)


@pytest.mark.parametrize("name", ALONG + SEVERAL)
def test_what_has_no_axes_is_refused(name):
    f, x = getattr(mx.fft, name), mx.array(1.0)
    if name in ALONG:
        refused, looked_up = [{"n": 2}, {"n": 2, "axis": 1}], [{}, {"axis": 1}]
    else:
        refused, looked_up = [{"axes": ()}, {"s": (2,), "axes": (0,)}], [{"axes": (0,)}]
    for kw in refused:
        with pytest.raises(ValueError, match="at least one dimension"):
            f(x, **kw)
    for kw in looked_up:
        with pytest.raises(IndexError, match="Invalid axis"):
            f(x, **kw)
