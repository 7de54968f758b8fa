"""Layers of mlx.nn against float64 NumPy, and their gradients against finite differences."""

import mlx.core as mx
import mlx.nn as nn
import nn_reference as ref
import numpy as np
import pytest
from helpers import FLOATS, from_np, name_of, quantise, to_np
from scipy import special


def close(got, want, tolerance=2e-5):
    np.testing.assert_allclose(to_np(got), want, rtol=tolerance, atol=tolerance)


def arr(x):
    return mx.array(np.asarray(x, np.float32))


X = np.array([-6.0, -3.0, -1.0, -0.5, -0.1, 0.0, 0.2, 0.5, 1.0, 2.5, 3.0, 8.0])
ACTIVATIONS = {
    "sigmoid": ref.sigmoid,
    "relu": lambda x: np.maximum(x, 0),
    "relu2": lambda x: np.maximum(x, 0) ** 2,
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "celu": lambda x: np.maximum(x, 0) + np.expm1(np.minimum(x, 0)),
    "selu": lambda x: 1.0507 * np.where(x > 0, x, 1.67326 * np.expm1(x)),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "softsign": lambda x: x / (1 + abs(x)),
    "softshrink": lambda x: np.sign(x) * np.maximum(abs(x) - 0.5, 0),
    "hard_shrink": lambda x: np.where(abs(x) > 0.5, x, 0),
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "silu": lambda x: x * ref.sigmoid(x),
    "log_sigmoid": lambda x: np.log(ref.sigmoid(x)),
    "gelu": lambda x: x * special.ndtr(x),
    "gelu_approx": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "gelu_fast_approx": lambda x: x * ref.sigmoid(1.702 * x),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "tanh": np.tanh,
    "step": lambda x: (x >= 0).astype(int),
    "softmax": ref.softmax,
    "softmin": lambda x: ref.softmax(-x),
    "log_softmax": lambda x: np.log(ref.softmax(x)),
    "glu": lambda x: x[:6] * ref.sigmoid(x[6:]),
}
LAYERS = {
    "sigmoid": "Sigmoid", "relu": "ReLU", "relu2": "ReLU2", "relu6": "ReLU6",
    "leaky_relu": "LeakyReLU", "elu": "ELU", "celu": "CELU", "selu": "SELU",
    "softplus": "Softplus", "softsign": "Softsign", "softshrink": "Softshrink",
    "hard_shrink": "HardShrink", "hard_tanh": "HardTanh", "silu": "SiLU",
    "log_sigmoid": "LogSigmoid", "gelu": "GELU", "mish": "Mish", "hardswish": "Hardswish",
    "tanh": "Tanh", "step": "Step", "softmax": "Softmax", "softmin": "Softmin",
    "log_softmax": "LogSoftmax", "glu": "GLU",
}  # fmt: skip
SMOOTH = sorted(set(ACTIVATIONS) - {"step"})


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_activation(name):
    want = ACTIVATIONS[name](X)
    close(getattr(nn, name)(arr(X)), want, 3e-6)
    if name in LAYERS:
        close(getattr(nn, LAYERS[name])()(arr(X)), want, 3e-6)
        assert repr(getattr(nn, LAYERS[name])()) == f"{LAYERS[name]}()"
    half = getattr(nn, name)(arr(X).astype(mx.bfloat16))
    assert half.dtype == (mx.int32 if name == "step" else mx.bfloat16)


def test_softsign_of_numbers_of_numpy():
    for x in (0.5, np.float64(0.5)):
        y = nn.softsign(x)
        assert isinstance(y, mx.array) and y.dtype == mx.float32
        close(y, 1 / 3)


def test_gradients_of_activations(rng):
    # One function for all: away from their corners, and compiled without regard to shapes.
    def total(x):
        return sum(mx.sin(getattr(nn, n)(x)).sum() for n in SMOOTH)

    for shape in ((4,), (2, 6)):
        x = rng.uniform(0.11, 0.19, shape) + rng.choice([-0.9, 0.0, 0.7, 1.3], shape)
        ref.check_gradient(ref.Function(total), lambda m, x: m(x), [x], rng)


def test_activations_with_parameters():
    close(nn.LeakyReLU(0.5)(arr(X)), np.where(X > 0, X, 0.5 * X))
    close(nn.ELU(2.0)(arr(X)), np.where(X > 0, X, 2 * np.expm1(X)))
    close(nn.CELU(2.0)(arr(X)), np.maximum(X, 0) + 2 * np.expm1(np.minimum(X, 0) / 2))
    close(nn.Softshrink(1.0)(arr(X)), np.sign(X) * np.maximum(abs(X) - 1, 0))
    close(nn.HardShrink(1.0)(arr(X)), np.where(abs(X) > 1, X, 0))
    close(nn.hard_tanh(arr(X), -2, 3), np.clip(X, -2, 3))
    close(nn.Step(0.3)(arr(X)), X >= 0.3)
    close(nn.GLU(axis=0)(arr(X)), X[:6] * ref.sigmoid(X[6:]))
    slopes = np.linspace(0.1, 0.5, 12)
    layer = nn.PReLU(12)
    assert layer.weight.tolist() == [0.25] * 12
    layer.weight = arr(slopes)
    close(layer(arr(X)), np.where(X > 0, X, slopes * X))
    for approx, name in (
        ("precise", "gelu_approx"),
        ("tanh", "gelu_approx"),
        ("fast", "gelu_fast_approx"),
    ):
        close(nn.GELU(approx)(arr(X)), ACTIVATIONS[name](X))
    with pytest.raises(ValueError, match="approximation.*'exact'"):
        nn.GELU("exact")
    with pytest.raises(ValueError, match="approximation"):
        nn.GELU(["none"])
    with pytest.raises(ValueError):
        nn.glu(arr(X[:3]))


def test_linear_and_bilinear(rng):
    x, y = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 5))
    for bias in (True, False):
        layer = nn.Linear(4, 6, bias=bias)
        close(layer(arr(x)), ref.linear(x, ref.parameters(layer)))
        both = nn.Bilinear(4, 5, 3, bias=bias)
        p = ref.parameters(both)
        want = np.einsum("bsi,oji,bsj->bso", x, p["weight"], y) + p.get("bias", 0)
        close(both(arr(x), arr(y)), want)
        ref.check_gradient(layer, ref.scalar, [x], rng)
        ref.check_gradient(both, ref.scalar, [x, y], rng)
    assert repr(layer) == "Linear(input_dims=4, output_dims=6, bias=False)"
    assert repr(both) == "Bilinear(input1_dims=4, input2_dims=5, output_dims=3, bias=False)"
    assert nn.Identity("ignored", also=1)(arr(x)).shape == x.shape


def test_embedding(rng):
    layer = nn.Embedding(7, 4)
    table = ref.parameters(layer)["weight"]
    tokens = np.array([[1, 6, 0], [3, 3, 2]])
    close(layer(mx.array(tokens)), table[tokens])
    x = rng.normal(size=(2, 4))
    close(layer.as_linear(arr(x)), x @ table.T)
    ref.check_gradient(
        layer, lambda m, x: ref.scalar(m, mx.array(tokens)) + m.as_linear(x).sum(), [x], rng
    )
    assert repr(layer) == "Embedding(7, 4)"


@pytest.mark.parametrize("bias", [True, False])
def test_convolutions(bias, rng):
    x1, x2, x3 = (rng.normal(size=(2, *s, 4)) for s in ((9,), (6, 5), (3, 4, 3)))
    for layer, x, how in (
        (nn.Conv1d(4, 6, 3, 2, 1, 2, 2, bias), x1, ((2,), (1,), (2,), 2)),
        (nn.Conv2d(4, 6, (3, 2), (1, 2), (0, 1), (2, 1), 2, bias), x2, ((1, 2), (0, 1), (2, 1), 2)),
        (nn.Conv3d(4, 2, 2, 1, 1, bias=bias), x3, ((1,) * 3, (1,) * 3, (1,) * 3)),
    ):
        ref.randomise(layer, rng)
        p = ref.parameters(layer)
        close(layer(arr(x)), ref.conv(x, p["weight"], *how) + p.get("bias", 0))
    for layer, x, how in (
        (nn.ConvTranspose1d(4, 3, 3, 2, 1, 2, 1, bias), x1, ((2,), (1,), (2,), (1,))),
        (nn.ConvTranspose2d(4, 3, (3, 2), 2, 1, 1, (1, 0), bias), x2,
         ((2, 2), (1, 1), (1, 1), (1, 0))),
        (nn.ConvTranspose3d(4, 2, 2, bias=bias), x3, ((1,) * 3, (0,) * 3, (1,) * 3, (0,) * 3)),
    ):  # fmt: skip
        ref.randomise(layer, rng)
        p = ref.parameters(layer)
        close(layer(arr(x)), ref.conv_transpose(x, p["weight"], *how) + p.get("bias", 0))


def test_gradients_of_convolutions(rng):
    x = rng.normal(size=(1, 5, 4, 2))
    ref.check_gradient(nn.Conv2d(2, 3, 2, padding=1), ref.scalar, [x], rng)
    ref.check_gradient(nn.ConvTranspose1d(2, 3, 2, stride=2), ref.scalar, [x[:, :, 0]], rng)


def test_shapes_and_messages_of_convolutions():
    assert repr(nn.Conv1d(4, 6, 3, groups=2)) == (
        "Conv1d(4, 6, kernel_size=3, stride=1, padding=0, dilation=1, groups=2, bias=True)"
    )
    assert repr(nn.Conv2d(4, 6, 3)) == (
        "Conv2d(4, 6, kernel_size=(3, 3), stride=(1, 1), padding=(0, 0), dilation=1, groups=1, "
        "bias=True)"
    )
    assert repr(nn.ConvTranspose2d(4, 6, 3)) == (
        "ConvTranspose2d(4, 6, kernel_size=(3, 3), stride=(1, 1), padding=(0, 0), dilation=1, "
        "output_padding=(0, 0), bias=True)"
    )
    assert nn.Conv3d(4, 6, (3, 2, 1)).weight.shape == (6, 3, 2, 1, 4)
    with pytest.raises(ValueError, match=r"input channels \(4\).*groups \(3\)"):
        nn.Conv2d(4, 6, 3, groups=3)


def test_batch_norm(rng):
    for shape in ((6, 3), (2, 4, 3), (2, 3, 2, 3)):
        x = rng.normal(1, 2, shape)
        axes = tuple(range(x.ndim - 1))
        layer = nn.BatchNorm(3, momentum=0.25)
        layer.weight, layer.bias = arr([1.0, 2.0, 3.0]), arr([0.5, 0.0, -1.0])
        want = ref.normalise(x, axes) * [1, 2, 3] + [0.5, 0, -1]
        close(layer(arr(x)), want)
        n = x.size // 3
        close(layer.running_mean, 0.25 * x.mean(axes))
        close(layer.running_var, 0.75 + 0.25 * x.var(axes) * n / (n - 1))
        mean, var = to_np(layer.running_mean), to_np(layer.running_var)
        layer.eval()
        close(layer(arr(x)), (x - mean) / np.sqrt(var + 1e-5) * [1, 2, 3] + [0.5, 0, -1])
        close(layer.running_mean, mean)
    plain = nn.BatchNorm(3, affine=False, track_running_stats=False).eval()
    assert plain.parameters() == {}
    close(plain(arr(x)), ref.normalise(x, axes))
    ref.check_gradient(nn.BatchNorm(3), ref.scalar, [rng.normal(size=(4, 3))], rng)
    assert sorted(layer.unfreeze().trainable_parameters()) == ["bias", "weight"]
    for bad in ((3,), (1, 1, 1, 1, 3)):
        with pytest.raises(ValueError, match=f"got {len(bad)}"):
            layer(mx.zeros(bad))
    for empty, n in (((1, 3), 1), ((1, 1, 1, 3), 1), ((0, 3), 0), ((2, 0, 3), 0)):
        with pytest.raises(ValueError, match=f"more than one value per channel, got {n}"):
            nn.BatchNorm(3)(mx.zeros(empty))
    plain.train()
    with pytest.raises(ValueError, match="more than one value per channel, got 1"):
        plain(mx.zeros((1, 3)))
    assert plain(mx.zeros((0, 3))).shape == (0, 3)
    assert plain.eval()(mx.zeros((1, 3))).tolist() == [[0, 0, 0]]


def test_instance_and_group_norm(rng):
    x = rng.normal(1, 2, (2, 3, 2, 6))
    layer = ref.randomise(nn.InstanceNorm(6, affine=True), rng)
    p = ref.parameters(layer)
    close(layer(arr(x)), ref.normalise(x, (1, 2)) * p["weight"] + p["bias"])
    close(nn.InstanceNorm(6)(arr(x)), ref.normalise(x, (1, 2)))
    groups = ref.randomise(nn.GroupNorm(3, 6), rng)
    p = ref.parameters(groups)
    want = ref.normalise(x.reshape(2, -1, 3), 1).reshape(x.shape) * p["weight"] + p["bias"]
    close(groups(arr(x)), want)
    ref.check_gradient(layer, ref.scalar, [x], rng)
    ref.check_gradient(groups, ref.scalar, [x], rng)
    with pytest.raises(ValueError, match="at least 3 dimensions"):
        layer(mx.zeros((2, 6)))
    with pytest.raises(ValueError, match=r"features \(6\).*groups \(4\)"):
        nn.GroupNorm(4, 6)
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        groups(mx.zeros((6,)))


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("shape", [(1, 8, 1), (2, 5, 3), (2, 3, 4, 3), (1, 2, 3, 2, 5)])
def test_instance_norm_of_large_numbers(name, shape, rng):
    """Sums of squares of halves would overflow, means of neighbouring numbers lose their digits."""
    x = quantise(rng.normal(0, 500, shape), name)
    axes = tuple(range(1, x.ndim - 1))
    got = nn.InstanceNorm(shape[-1])(from_np(x, name))
    assert got.shape == shape and name_of(got.dtype) == name
    want = ref.normalise(x.astype(np.float64), axes)
    rtol = {"float32": 2e-5, "float16": 1e-3, "bfloat16": 8e-3}[name]
    np.testing.assert_allclose(to_np(got), want, rtol=rtol, atol=rtol)
    # The parameters are float32, and so is what they are multiplied with.
    assert nn.InstanceNorm(shape[-1], affine=True)(from_np(x, name)).dtype == mx.float32


def test_instance_norm_of_neighbouring_numbers():
    for name in ("float32", "float16"):
        x = from_np(np.array([[[1000.0], [1001.0], [1002.0]]]), name)
        np.testing.assert_allclose(to_np(nn.InstanceNorm(1)(x)).ravel(), [-1.2247, 0, 1.2247], 1e-3)
    x = mx.array([[-512.0, 512.0]] * 4, mx.float16).reshape(1, 8, 1)
    assert to_np(nn.InstanceNorm(1)(x)).ravel().tolist() == [-1, 1] * 4


def test_log_softmax_of_integers_does_not_wrap():
    for dtype, x in ((mx.uint8, [[255, 1, 0], [3, 2, 1]]), (mx.int8, [[127, -128, 5], [3, 2, 1]])):
        wide = np.array(x, np.float64)
        want = wide - np.log(np.exp(wide - wide.max(-1, keepdims=True)).sum(-1, keepdims=True))
        want -= wide.max(-1, keepdims=True)
        got = nn.log_softmax(mx.array(x, dtype))
        assert got.dtype == mx.float32
        np.testing.assert_allclose(np.array(got), want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        np.array(nn.LogSoftmax()(mx.array([True, False]))), [-0.313262, -1.313262], rtol=1e-5
    )


def test_log_softmax_beside_large_numbers(rng):
    for x in ([[1e8, 1e8]], [[1e20, 1e20]]):
        for f in (nn.log_softmax, nn.LogSoftmax(), mx.compile(nn.log_softmax)):
            np.testing.assert_allclose(to_np(f(mx.array(x))), [[-0.6931472] * 2], rtol=1e-6)
    x = rng.normal(size=(3, 5, 4)).astype(np.float32) + 1e6
    x = np.round(x * 16) / 16
    for axis in (0, 1, -1, (0, 2), None):
        shifted = x.astype(np.float64) - x.max(axis, keepdims=True)
        want = shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))
        np.testing.assert_allclose(
            to_np(nn.log_softmax(mx.array(x), axis)), want, rtol=2e-6, atol=1e-6
        )
    got = nn.log_softmax(mx.array([[-np.inf, 1.0], [-np.inf, -np.inf], [np.nan, 1.0]]))
    np.testing.assert_array_equal(to_np(got), [[-np.inf, 0], [np.nan] * 2, [np.nan] * 2])


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_pooling(kind, rng):
    for axes, shape in ((1, (9,)), (2, (5, 6)), (3, (4, 3, 5))):
        make = getattr(nn, f"{kind.title()}Pool{axes}d")
        x = rng.normal(size=(2, *shape, 3))
        for size, stride, padding in ((2, None, 0), (3, 2, 1), (2, 3, 1)):
            if min(shape) + 2 * padding < size:
                continue
            layer = make(size, stride, padding)
            want = ref.pool(x, (size,) * axes, (stride or size,) * axes, (padding,) * axes, kind)
            close(layer(arr(x)), want)
    layer = getattr(nn, f"{kind.title()}Pool2d")((3, 2), (1, 2), (1, 0))
    x = rng.normal(size=(1, 5, 6, 2))
    close(layer(arr(x)), ref.pool(x, (3, 2), (1, 2), (1, 0), kind))
    ref.check_gradient(layer, ref.scalar, [x], rng)
    assert repr(layer) == f"{kind.title()}Pool2d(kernel_size=(3, 2), stride=(1, 2), padding=(1, 0))"
    assert layer.parameters() == {}


@pytest.mark.parametrize("pool", [nn.MaxPool1d, nn.AvgPool1d])
def test_pooling_beyond_the_input_by_less_than_a_stride_is_empty(pool):
    for size, stride, padding, length in (
        (4, None, 0, 2),
        (4, None, 0, 0),
        (4, None, 1, 1),
        (4, 1, 0, 3),
        (4, 2, 0, 3),
        (9, 3, 2, 2),
    ):
        got = pool(size, stride, padding)(mx.ones((2, length, 3)))
        assert got.shape == (2, 0, 3) and got.tolist() == [[], []]
    assert nn.MaxPool2d((4, 2))(mx.ones((1, 2, 8, 1))).shape == (1, 0, 4, 1)


def test_sizes_of_pooling_are_items():
    assert dict(nn.AvgPool2d(2, [3, 1], (1, 0))) == {
        "_kernel_size": [2, 2],
        "_stride": [3, 1],
        "_padding": [(1, 1), (0, 0)],
        "_axes": (-3, -2),
    }


@pytest.mark.parametrize(
    "layer", ["InstanceNorm", "LayerNorm", "RMSNorm", "GroupNorm", "BatchNorm"]
)
def test_eps_of_norms_is_positive(layer):
    dims = (4, 16) if layer == "GroupNorm" else (16,)
    for eps in (0, 0.0, -1.0, -float("inf")):
        with pytest.raises(ValueError) as raised:
            getattr(nn, layer)(*dims, eps=eps)
        assert str(raised.value) == f"[{layer}] 'eps' must be positive but got {eps}."
    for eps in (1e-30, 1, float("inf"), float("nan")):
        getattr(nn, layer)(*dims, eps=eps)


def test_groups_and_features_are_positive():
    for groups, dims, message in (
        (0, 4, "The number of groups (0) must be a positive integer."),
        (-2, 4, "The number of groups (-2) must be a positive integer."),
        (4, 0, "The number of features (0) must be a positive integer."),
        (0, 0, "The number of groups (0) must be a positive integer."),
        (
            3,
            4,
            "The number of features (4) must be evenly divisible by the number of groups (3).",
        ),
    ):
        with pytest.raises(ValueError) as raised:
            nn.GroupNorm(groups, dims)
        assert str(raised.value) == message


def test_pooling_refuses_bad_sizes():
    for make, name in (
        (lambda: nn.MaxPool1d((2, 2)), "kernel_size"),
        (lambda: nn.MaxPool2d("a"), "kernel_size"),
        (lambda: nn.AvgPool3d(2, stride=(1, 1)), "stride"),
        (lambda: nn.AvgPool2d(2, padding=(1,)), "padding"),
    ):
        with pytest.raises(ValueError, match=f"'{name}' must be an integer or a tuple"):
            make()
    for make, message in (
        (lambda: nn.MaxPool1d(0), "[MaxPool1d] 'kernel_size' must be positive but got (0,)."),
        (lambda: nn.MaxPool1d(-2), "[MaxPool1d] 'kernel_size' must be positive but got (-2,)."),
        (lambda: nn.MaxPool1d(2, stride=0), "[MaxPool1d] 'stride' must be positive but got (0,)."),
        (
            lambda: nn.AvgPool2d((2, 0)),
            "[AvgPool2d] 'kernel_size' must be positive but got (2, 0).",
        ),
        (
            lambda: nn.AvgPool3d(2, -1),
            "[AvgPool3d] 'stride' must be positive but got (-1, -1, -1).",
        ),
        (
            lambda: nn.MaxPool2d(2, padding=(0, -1)),
            "[MaxPool2d] 'padding' must be non-negative but got (0, -1).",
        ),
    ):
        with pytest.raises(ValueError) as raised:
            make()
        assert str(raised.value) == message
    with pytest.raises(ValueError, match="'padding' must be an integer or a tuple"):
        nn.MaxPool1d(2, padding=None)
    for size, stride in ((4, 1), (4, 2)):
        with pytest.raises(ValueError, match="larger than the padded input"):
            nn.MaxPool1d(size, stride)(mx.zeros((1, size - stride - 1, 1)))
    with pytest.raises(ValueError, match="4 dimensions"):
        nn.MaxPool2d(2)(mx.zeros((4, 4, 1)))


def test_recurrent_layers(rng):
    x, h, c = (rng.normal(size=s) for s in ((2, 4, 3), (2, 5), (2, 5)))
    zero = np.zeros((2, 5))
    for bias in (True, False):
        layer = nn.RNN(3, 5, bias)
        close(layer(arr(x)), ref.rnn(x, ref.parameters(layer), zero))
        close(layer(arr(x), arr(h)), ref.rnn(x, ref.parameters(layer), h))
        gru = nn.GRU(3, 5, bias)
        close(gru(arr(x)), ref.gru(x, ref.parameters(gru), zero))
        close(gru(arr(x), arr(h)), ref.gru(x, ref.parameters(gru), h))
        lstm = nn.LSTM(3, 5, bias)
        for got, want in zip(
            lstm(arr(x)), ref.lstm(x, ref.parameters(lstm), zero, zero), strict=True
        ):
            close(got, want)
        got = lstm(arr(x), arr(h), arr(c))
        for g, w in zip(got, ref.lstm(x, ref.parameters(lstm), h, c), strict=True):
            close(g, w)
    relu = nn.RNN(3, 5, nonlinearity=nn.relu)
    close(relu(arr(x)), ref.rnn(x, ref.parameters(relu), zero, ref.relu))
    assert nn.GRU(3, 5)(arr(x[0])).shape == (4, 5)
    assert nn.GRU(3, True)(arr(x[0])).shape == (4, 1)
    with pytest.raises(ValueError, match="callable"):
        nn.RNN(3, 5, nonlinearity=3)


@pytest.mark.parametrize("make", [nn.RNN, nn.GRU, nn.LSTM])
def test_gradients_of_recurrent_layers(make, rng):
    ref.check_gradient(make(3, 2), ref.scalar, [rng.normal(size=(2, 3, 3))], rng)


SCALES = [(4, 2.0), (5, 0.5), (3, 2.7), (6, 0.34), (4, 1.6)]


def test_upsampling_of_arrays_of_numpy():
    x = np.arange(9.0).reshape(1, 3, 3, 1)
    for form in (x, x.astype(np.float32)):
        for mode in ("nearest", "linear", "cubic"):
            close(nn.Upsample(2, mode)(form), np.array(nn.Upsample(2, mode)(arr(x))))
    with pytest.raises(OverflowError):
        nn.Upsample(float("inf"), "linear")(arr(x))


def test_distances_of_no_keys():
    assert nn.ALiBi.create_alibi_matrix(3, None, 2).shape == (1, 2, 3, 0)
    assert nn.ALiBi.create_alibi_matrix(3, True, 2).shape == (1, 2, 3, 1)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_upsample_smoothly(mode):
    for n, scale in SCALES:
        for corners, anti in ((False, False), (True, False), (False, True)):
            layer = nn.Upsample((scale,), mode, corners, anti)
            want = ref.interpolation(n, scale, mode, corners, anti)
            close(layer(mx.eye(n)[None])[0], want)
    x = np.arange(24.0).reshape(1, 3, 4, 2)
    rows, columns = ref.interpolation(3, 2.0, mode), ref.interpolation(4, 1.5, mode)
    want = np.einsum("ai,bj,nijc->nabc", rows, columns, x)
    close(nn.Upsample((2, 1.5), mode)(arr(x)), want)


def test_upsample_to_the_nearest():
    # Positions that official MLX 0.32.4 picks.
    for n, scale, want in (
        (4, 2.0, [0, 0, 1, 1, 2, 2, 3, 3]),
        (4, 1.5, [0, 0, 1, 2, 2, 3]),
        (5, 0.4, [0, 2]),
        (6, 0.34, [0, 3]),
        (3, 2.7, [0, 0, 0, 1, 1, 2, 2, 2]),
        (5, 1.2, [0, 1, 2, 2, 3, 4]),
        (6, 1.5, [0, 0, 1, 2, 2, 3, 4, 4, 5]),
        (8, 1.25, [0, 1, 2, 2, 3, 4, 5, 6, 6, 7]),
    ):
        assert nn.Upsample(scale)(mx.arange(n).reshape(1, n, 1)).flatten().tolist() == want
    x = mx.arange(4).reshape(1, 2, 2, 1)
    assert nn.Upsample((2, 1))(x)[0, ..., 0].tolist() == [[0, 1], [0, 1], [2, 3], [2, 3]]


def test_upsample_gradient_and_messages(rng):
    x = rng.normal(size=(1, 3, 2, 2))
    ref.check_gradient(nn.Upsample(1.5, "cubic"), ref.scalar, [x], rng)
    ref.check_gradient(nn.Upsample(0.7, "linear", antialias=True), ref.scalar, [x], rng)
    assert repr(nn.Upsample(2)) == "Upsample(scale_factor=2.0, mode='nearest', align_corners=False)"
    for make, message in (
        (lambda: nn.Upsample(2, mode="area"), "unsupported upsampling algorithm: area"),
        (lambda: nn.Upsample(2, antialias=True), "Antialiasing is not supported"),
        (lambda: nn.Upsample(2)(mx.zeros((2, 2))), "at least 1 spatial dimension"),
        (lambda: nn.Upsample((2, 2))(mx.zeros((2, 2, 2))), "One scale per spatial dimension"),
        (lambda: nn.Upsample(-1.0)(mx.zeros((2, 2, 2))), "must not be negative"),
        (lambda: nn.Upsample(2, "linear", True, True)(mx.zeros((2, 2, 2))), "align_corners=True"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


def test_dropout(rng):
    x = mx.ones((8, 10, 10, 5))
    for layer, shape in (
        (nn.Dropout(0.25), (8, 10, 10, 5)),
        (nn.Dropout2d(0.25), (8, 5)),
        (nn.Dropout3d(0.25), (8, 5)),
    ):
        xs = x[:, None] if isinstance(layer, nn.Dropout3d) else x
        y = to_np(layer(xs)).reshape(x.shape)
        assert set(np.unique(y.round(5))) == {0.0, np.float32(1.33333)}
        if len(shape) == 2:
            assert np.ptp(y, axis=(1, 2)).max() == 0
            y = y[:, 0, 0]
        kept, n = (y > 0).sum(), y.size
        assert abs(kept - 0.75 * n) < 5 * np.sqrt(n * 0.75 * 0.25)
        assert mx.array_equal(layer.eval()(xs), xs)
    assert mx.array_equal(nn.Dropout(0.0)(x), x)
    assert nn.Dropout(0.5)(mx.ones((4,), mx.float16)).dtype == mx.float16
    assert nn.Dropout2d()(mx.ones((3, 3, 2))).shape == (3, 3, 2)
    for make in (nn.Dropout, nn.Dropout2d, nn.Dropout3d):
        for p in (1.0, -0.1):
            with pytest.raises(ValueError, match=f"probability {p} is not in"):
                make(p)
    for layer in (nn.Dropout2d(), nn.Dropout2d(0.0), nn.Dropout2d().eval()):
        with pytest.raises(ValueError, match="3 or 4 dimensions"):
            layer(mx.zeros((2, 2)))
    for layer in (nn.Dropout3d(), nn.Dropout3d(0.0), nn.Dropout3d().eval()):
        with pytest.raises(ValueError, match="4 or 5 dimensions"):
            layer(mx.zeros((2, 2, 2)))


def test_positional_encodings():
    positions = np.arange(5.0)
    frequencies = np.exp(np.linspace(np.log(3.0), np.log(0.1), 3)) * 2 * np.pi
    layer = nn.SinusoidalPositionalEncoding(6, 0.1, 3.0, 2.0, True, True)
    angles = positions[:, None] * frequencies
    close(layer(arr(positions)), 2 * np.concatenate([np.cos(angles), np.sin(angles)], -1), 1e-4)
    assert layer.parameters() == {}
    y = nn.SinusoidalPositionalEncoding(6)(mx.arange(4))
    close((y * y).sum(-1), np.ones(4))
    for dims in (7, 0):
        with pytest.raises(ValueError, match=f"even but got {dims}"):
            nn.SinusoidalPositionalEncoding(dims)


def test_alibi():
    close(nn.ALiBi.create_alibi_slope(4)[:, 0, 0], [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8])
    close(nn.ALiBi.create_alibi_slope(3)[:, 0, 0], [2.0**-4, 2.0**-8, 2.0**-2])
    scores = np.ones((1, 2, 2, 4))
    distance = abs(np.arange(1, 3)[:, None] - np.arange(4))
    want = 1 - np.array([2.0**-4, 2.0**-8])[:, None, None] * distance
    mask = np.array([[0.0, -1.0, 0.0, 0.0]] * 2)
    close(nn.ALiBi()(arr(scores), 1), want[None])
    close(nn.ALiBi()(arr(scores), 1, arr(mask)), (want + mask)[None])
    between = abs(np.arange(1.5, 3)[:, None] - np.arange(4))
    want = 1 - np.array([2.0**-4, 2.0**-8])[:, None, None] * between
    close(nn.ALiBi()(arr(scores), 1.5), want[None])
    assert nn.ALiBi()(mx.zeros((1, 2, 2, 2), mx.float16)).dtype == mx.float16


def test_alibi_slopes_of_numbers_of_numpy():
    want = nn.ALiBi.create_alibi_slope(6).tolist()
    assert nn.ALiBi.create_alibi_slope(np.int64(6)).tolist() == want
    with pytest.raises(ValueError):
        nn.ALiBi.create_alibi_slope(0)
