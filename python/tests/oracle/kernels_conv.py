"""Cases of convolutions and of both of their gradients."""

import itertools
import math

import mlx.core as mx
import numpy as np
from kernels_check import F32, Want, gamma, settled
from kernels_draw import Case, In, wide
from kernels_products import shown


class Taps:
    """Walks over the elements of a kernel: the part of the input that each meets."""

    def __init__(self, lengths, kernel, stride, padding, dilation, apart, flip):
        self.kernel, self.stride, self.padding = kernel, stride, padding
        self.dilation, self.apart, self.flip = dilation, apart, flip
        self.lengths = [(n - 1) * a + 1 for n, a in zip(lengths, apart, strict=True)]
        reach = [(k - 1) * s + 1 for k, s in zip(kernel, dilation, strict=True)]
        self.padded = [n + 2 * p for n, p in zip(self.lengths, padding, strict=True)]
        self.out = [(n - r) // s + 1 for n, r, s in zip(self.padded, reach, stride, strict=True)]

    def spread(self):
        """Where elements of the input are in what is padded."""
        return (
            slice(None),
            *(
                slice(p, p + n, a)
                for p, n, a in zip(self.padding, self.lengths, self.apart, strict=True)
            ),
        )

    def each(self):
        """(index of a kernel's element, the part of the padded input it meets)."""
        for at in itertools.product(*(range(k) for k in self.kernel)):
            where = [slice(None)]
            for i, t in enumerate(at):
                t = self.kernel[i] - 1 - t if self.flip else t
                first = t * self.dilation[i]
                where.append(
                    slice(first, first + self.stride[i] * (self.out[i] - 1) + 1, self.stride[i])
                )
            yield (slice(None), *at), tuple(where)

    def pad(self, x):
        y = np.zeros((x.shape[0], *self.padded, x.shape[-1]))
        y[self.spread()] = x
        return y

    def forward(self, x, w, groups):
        y = self.pad(x)
        out = 0.0
        w = w.reshape(groups, -1, *w.shape[1:])
        for at, where in self.each():
            part = y[where]
            part = part.reshape(*part.shape[:-1], groups, -1)
            out = out + np.einsum("...gc,goc->...go", part, w[(slice(None), *at)], optimize=True)
        return out.reshape(*out.shape[:-2], -1)

    def backward(self, x, w, cot, groups):
        """Gradients of the input and of the kernel."""
        y = self.pad(x)
        dy, dw = np.zeros_like(y), np.zeros_like(w)
        c = cot.reshape(*cot.shape[:-1], groups, -1)
        split = w.reshape(groups, -1, *w.shape[1:])
        for at, where in self.each():
            part = y[where]
            part = part.reshape(*part.shape[:-1], groups, -1)
            kernel = split[(slice(None), *at)]
            back = np.einsum("...go,goc->...gc", c, kernel, optimize=True)
            dy[where] += back.reshape(*back.shape[:-2], -1)
            made = np.einsum("...go,...gc->goc", c, part, optimize=True)
            dw[at] = made.reshape(-1, made.shape[-1])
        return dy[self.spread()], dw


def amplified():
    """How much larger than sums of products what Winograd's F(4 x 4, 3 x 3) adds up may be, for
    inputs and kernels of one magnitude."""
    # Points 0, infinity and both signs of sqrt(1/2) and sqrt(2).
    points = np.array([0, 0.5**0.5, -(0.5**0.5), 2**0.5, -(2**0.5)])
    product = [np.prod([p - q for q in points if q != p]) for p in points]
    after = np.zeros((4, 6))
    kernel = np.zeros((6, 3))
    inputs = np.zeros((6, 6))
    for i, p in enumerate(points):
        after[:, i] = p ** np.arange(4)
        kernel[i] = p ** np.arange(3) / product[i]
        inputs[i, :5] = np.poly([q for q in points if q != p])[::-1]
    after[3, 5], kernel[5, 2] = 1, 1
    inputs[5] = np.poly(points)[::-1]
    one = np.abs(after) @ (np.abs(kernel).sum(1) * np.abs(inputs).sum(1))
    return one.max() ** 2


def drawn(d):
    """Arrays and options of a convolution."""
    dtype = d.pick("float32", "float32", "float16", "bfloat16", "bfloat16")
    rank = d.pick(1, 1, 2, 2, 2, 2, 3)
    most = {1: 300, 2: 40, 3: 12}[rank]
    depthwise, large = d.chance(0.15), d.chance(0.1) and d.work > 1 << 24 and rank == 2
    groups = d.pick(1, 1, 1, 1, 2, 3, 4)
    own, out = (d.pick(1, 2, 3, 4, 8, 16, 24, 32, 64, 96) for _ in range(2))
    if depthwise:
        groups, own, out = d.pick(3, 8, 32, 64, 96), 1, d.pick(1, 1, 2)
    kernel = [d.pick(1, 2, 3, 3, 3, 4, 5, 7) for _ in range(rank)]
    if d.chance(0.4):
        kernel = [kernel[0]] * rank
    stride = [d.pick(1, 1, 1, 2, 3)] * rank
    dilation = [d.pick(1, 1, 1, 2, 3)] * rank
    apart = [d.pick(1, 1, 1, 1, 1, 2) for _ in range(rank)]
    flip = d.chance(0.1)
    if large:  # Winograd's
        groups, own, out, kernel = 1, d.pick(64, 96, 128), d.pick(64, 96, 128), [3, 3]
        dtype = d.pick(dtype, "float32")
        stride, dilation, apart, flip = [1, 1], [1, 1], [1, 1], False
    padding = [d.int(0, k) for k in kernel]
    reach = [(k - 1) * s + 1 for k, s in zip(kernel, dilation, strict=True)]
    lengths = [max(r, d.length(most)) for r in reach]
    batch = d.int(1, 5)
    each = groups * own * out * math.prod(kernel)
    limit = max(1, d.work // (4 * each))
    lengths = [max(r, n) for r, n in zip(reach, d.bounded(lengths, limit), strict=True)]
    if large:
        batch, lengths = d.int(2, 4), [d.int(40, 70) for _ in range(2)]
    elif batch * math.prod(lengths) > limit:
        batch = 1
    kind = d.pick("normal", "normal", "positive", "whole") if not large else "normal"
    x = d.array(
        (batch, *lengths, groups * own), dtype, kind, d.pick(("plain",), ("cut", 0, 8), ("rows",))
    )
    w = d.array((groups * out, *kernel, own), dtype, kind, ("plain",))
    taps = Taps(lengths, kernel, stride, padding, dilation, apart, flip)
    options = {
        "stride": stride,
        "padding": padding,
        "kernel_dilation": dilation,
        "input_dilation": apart,
        "groups": groups,
        "flip": flip,
    }
    return dtype, kind, x, w, taps, options


def by_winograd(names):
    return any("winograd" in n for n in names)


def told(kind, x, w, options):
    return f"{kind} {shown(x, w)} {options}"


def call(options):
    """mx.conv1d, conv2d or conv3d where they take the options, else conv_general."""
    if options["flip"] or set(options["input_dilation"]) != {1}:
        return lambda x, w: mx.conv_general(x, w, **options)
    rank = len(options["stride"])
    f = {1: mx.conv1d, 2: mx.conv2d, 3: mx.conv3d}[rank]
    given = [tuple(options[k]) for k in ("stride", "padding", "kernel_dilation")]
    given = [v[0] if rank == 1 else v for v in given]
    return lambda x, w: f(x, w, *given, options["groups"])


def transformed(x, w, terms):
    """What sums over transformed tiles may err."""
    return (gamma(terms) + 24 * F32) * amplified() * terms * np.abs(x).max() * np.abs(w).max()


def conv(d):
    """Convolutions of one to three dimensions."""
    dtype, kind, x, w, taps, options = drawn(d)
    f = call(options)

    def want(x, w):
        x, w = wide(x), wide(w)
        groups = options["groups"]
        exact = taps.forward(x, w, groups)
        sums = taps.forward(np.abs(x), np.abs(w), groups)
        terms = w[0].size
        error = 0.0 if kind == "whole" else settled(sums, gamma(terms) * sums)
        return [Want(exact, error, error + transformed(x, w, w.shape[-1]))]

    text = f"conv {told(kind, x, w, options)}"
    return Case([x, w], lambda x, w: [f(x, w)], want, text, rough=by_winograd)


def conv_grad(d):
    """Gradients of a convolution for its input and for its kernel."""
    dtype, kind, x, w, taps, options = drawn(d)
    f = call(options)
    groups = options["groups"]
    shape = (x.values.shape[0], *taps.out, w.values.shape[0])
    cot = In(d.numbers(shape, dtype, kind), dtype)

    def run(x, w, cot):
        return mx.vjp(f, [x, w], [cot])[1]

    def want(x, w, cot):
        x, w, cot = wide(x), wide(w), wide(cot)
        exact = taps.backward(x, w, cot, groups)
        sums = taps.backward(np.abs(x), np.abs(w), np.abs(cot), groups)
        # An element of the input meets kernel elements and channels, one of a kernel outputs.
        terms = w.size // groups // w.shape[-1], cot.size // w.shape[0]
        made = []
        for y, s, n, across in zip(exact, sums, terms, (cot.shape[-1], 0), strict=True):
            error = 0.0 if kind == "whole" else settled(s, gamma(n) * s)
            rough = error + transformed(cot, w, across) if across else error
            made.append(Want(y, error, rough))
        return made

    text = f"gradients of conv {told(kind, x, w, options)}"
    return Case([x, w, cot], run, want, text, rough=by_winograd)
