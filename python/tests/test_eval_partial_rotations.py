"""Rotations of a part of each head, or of neighbours: joined with what is around them."""

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
import test_eval_joined as t

pytestmark = [pytest.mark.gpu, pytest.mark.validation, pytest.mark.usefixtures("none_disabled")]

ROOM, AT = 24, 9
#: What is rounded where, at most.
NEAR = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


class Decoder:
    """Queries, keys and values of some positions behind AT others, and their caches."""

    def __init__(self, rng, dtype, heads, kv, d, positions, batch=1):
        draw = lambda *s: t.normal(rng, *s, dtype=dtype)  # noqa: E731
        self.q = draw(batch, positions, heads, d)
        self.k, self.v = (draw(batch, positions, kv, d) for _ in range(2))
        self.caches = [draw(batch, kv, ROOM, d) for _ in range(2)]
        self.weights = [1 + draw(d) * 0.1 for _ in range(2)]
        self.heads, self.kv, self.d, self.positions = heads, kv, d, positions
        mx.eval(self.q, self.k, self.v, self.caches, self.weights)

    def __call__(self, dims, traditional, norm):
        end = AT + self.positions
        rows = []
        for x, w in zip((self.q, self.k), self.weights, strict=True):
            x = mx.fast.rms_norm(x, w, 1e-5) if norm else x
            x = x.swapaxes(1, 2)
            rows.append(
                mx.fast.rope(x, dims, traditional=traditional, base=1e4, scale=1.0, offset=AT)
            )
        q, k = rows
        caches = [c + 0 for c in self.caches]
        mx.eval(caches)
        for c, new in zip(caches, (k, self.v.swapaxes(1, 2)), strict=True):
            c[..., AT:end, :] = new
        keys, values = (c[..., :end, :] for c in caches)
        mask = "causal" if self.positions > 1 else None
        scale = self.d**-0.5
        out = mx.fast.scaled_dot_product_attention(q, keys, values, scale=scale, mask=mask)
        return [out, *caches]

    def expected(self, dims, traditional, norm):
        """The same in float64."""
        rows = []
        for x, w in zip((self.q, self.k), self.weights, strict=True):
            x = h.to_np(x).astype(np.float64)
            if norm:
                root = np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
                x = x / root * h.to_np(w).astype(np.float64)
            x = x.transpose(0, 2, 1, 3)
            pairs = np.arange(dims // 2)
            angles = (AT + np.arange(self.positions))[:, None] * 1e4 ** (-2.0 * pairs / dims)
            first, second = (
                (2 * pairs, 2 * pairs + 1) if traditional else (pairs, pairs + dims // 2)
            )
            y = x.copy()
            cos, sin = np.cos(angles), np.sin(angles)
            y[..., first] = x[..., first] * cos - x[..., second] * sin
            y[..., second] = x[..., second] * cos + x[..., first] * sin
            rows.append(y)
        q, k = rows
        end = AT + self.positions
        caches = [h.to_np(c).astype(np.float64) for c in self.caches]
        caches[0][..., AT:end, :] = k
        caches[1][..., AT:end, :] = h.to_np(self.v).astype(np.float64).transpose(0, 2, 1, 3)
        keys, values = (np.repeat(c[..., :end, :], self.heads // self.kv, 1) for c in caches)
        scores = q @ keys.swapaxes(-1, -2) * self.d**-0.5
        ahead = np.arange(end)[None, :] > AT + np.arange(self.positions)[:, None]
        scores = np.where(ahead, -np.inf, scores)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return [weights / weights.sum(-1, keepdims=True) @ values, *caches]


@pytest.mark.parametrize("norm", [False, True], ids=["", "norm"])
@pytest.mark.parametrize("traditional", [False, True], ids=["apart", "neighbours"])
@pytest.mark.parametrize(("d", "dims"), [(64, 32), (128, 64), (128, 24), (96, 48), (64, 2)])
@pytest.mark.parametrize("dtype", list(NEAR))
def test_a_part_of_each_head(rng, dtype, d, dims, traditional, norm):
    for heads, kv, positions, batch in [(4, 2, 1, 1), (8, 1, 1, 2), (4, 4, 3, 1)]:
        decoder = Decoder(rng, dtype, heads, kv, d, positions, batch)
        got, ran = h.kernels(lambda x=decoder: x(dims, traditional, norm))
        assert not any(k.startswith("rope_" + dtype) for k in ran), ran
        want = decoder.expected(dims, traditional, norm)
        for g, w in zip(got, want, strict=True):
            assert np.abs(h.to_np(g).astype(np.float64) - w).max() <= NEAR[dtype] * np.abs(w).max()
        apart = h.apart(lambda x=decoder: x(dims, traditional, norm), "rope_rows", "sdpa_rope")
        for g, a in zip(got[1:], apart[1:], strict=True):
            # What is turned has the bits of kernels of their own.
            assert np.array_equal(h.to_np(g), h.to_np(a))


def test_fewer_commands_than_apart(rng):
    decoder = Decoder(rng, "bfloat16", 8, 2, 128, 1)
    _, ran = h.kernels(lambda: decoder(64, False, True))
    together = sum(n for k, n in ran.items() if not k.startswith("add"))
    assert together == 1, ran
    mx.vulkan._set_disabled(["rope_rows"])
    try:
        _, apart = h.kernels(lambda: decoder(64, False, True))
    finally:
        mx.vulkan._set_disabled([])
    assert sum(apart.values()) > 5, apart


def test_odd_features_keep_their_kernels(rng):
    x = t.normal(rng, 1, 3, 2, 35)
    got = mx.fast.rope(x, 16, traditional=False, base=1e4, scale=1.0, offset=4)
    with mx.stream(mx.cpu):
        want = mx.fast.rope(x, 16, traditional=False, base=1e4, scale=1.0, offset=4)
    assert np.allclose(h.to_np(got), h.to_np(want), rtol=1e-5, atol=1e-6)
