"""Attention of one query a head that turns its queries and newest key itself, and keeps these."""

import textwrap
from pathlib import Path

import helpers as h
import mlx.core as mx
import numpy as np
import pytest
from test_eval_joined import UNIT, close, normal, rms, turned

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.validation,
    pytest.mark.usefixtures("none_disabled"),
]

KINDS = ("vector", "token", "turns")
ONE = {f"sdpa_{norm}rope_{kind}" for norm in ("", "norm_") for kind in KINDS}
LOWEST = -3.4028234663852886e38


def apart(f, *names):
    """What `f` gives where rotations, or all steps, have kernels of their own."""
    return h.apart(f, *(names or ("sdpa_rope",)))


class Decoder:
    """One position of a layer: arrays of chance, caches with room for some keys."""

    def __init__(
        self, rng, dtype="float16", batch=1, heads=4, kv=2, head=64, past=5, room=16, **how
    ):
        self.dtype, self.past, self.head, self.kv = dtype, past, head, kv
        self.q, self.k, self.v = (
            normal(rng, batch, 1, n, head, dtype=dtype) for n in (heads, kv, kv)
        )
        self.weights = [normal(rng, head, dtype=dtype) for _ in range(2)]
        self.filled = [normal(rng, batch, kv, room, head, dtype=dtype) for _ in range(2)]
        self.normalised = how.pop("normalised", True)
        self.end = how.pop("end", past + 1)
        self.mask, self.sinks = how.pop("mask", None), how.pop("sinks", None)
        self.scale = head**-0.5
        self.turn = {"traditional": False, "base": 10000.0, "scale": 1.0, "offset": past, **how}
        self.caches = []

    def step(self):
        """The result and the caches."""
        caches = [c * 1 for c in self.filled]  # nobody else looks at their memory
        mx.eval(caches)
        return lambda: self.run(caches)

    def run(self, caches):
        a, b = self.q, self.k
        if self.normalised:
            a, b = (mx.fast.rms_norm(y, w, 1e-5) for y, w in zip((a, b), self.weights, strict=True))
        a, b, c = (y.transpose(0, 2, 1, 3) for y in (a, b, self.v))
        a, b = (mx.fast.rope(y, self.head, **self.turn) for y in (a, b))
        caches[0][..., self.past : self.past + 1, :] = b
        caches[1][..., self.past : self.past + 1, :] = c
        keys, values = (y[..., : self.end, :] for y in caches)
        how = {"scale": self.scale, "mask": self.mask, "sinks": self.sinks}
        return [mx.fast.scaled_dot_product_attention(a, keys, values, **how), *caches]

    def expected(self, offsets=None):
        """The same in float64, rounded where arrays would stand in memory."""
        rows = [h.to_np(y) for y in (self.q, self.k)]
        if self.normalised:
            rows = [rms(y, h.to_np(w), self.dtype) for y, w in zip(rows, self.weights, strict=True)]
        at = self.turn["offset"] if offsets is None else offsets
        rows = [y.transpose(0, 2, 1, 3) for y in rows]
        q, k = (turned(y, at, self.turn["traditional"]) for y in rows)
        keys, values = (h.to_np(c).astype(np.float64) for c in self.filled)
        keys[..., self.past, :] = k[..., 0, :]
        values[..., self.past, :] = h.to_np(self.v)[:, 0]
        keys, values = keys[..., : self.end, :], values[..., : self.end, :]
        group = q.shape[1] // self.kv
        scores = q @ np.repeat(keys, group, 1).swapaxes(-1, -2) * self.scale
        if self.mask is not None:
            m = h.to_np(self.mask)
            # Of a row that sees no key, all count alike.
            scores = np.where(m, scores, LOWEST) if m.dtype == bool else scores + m
        top = scores.max(-1, keepdims=True)
        sink = 0.0
        if self.sinks is not None:
            column = h.to_np(self.sinks).astype(np.float64)[None, :, None, None]
            top = np.maximum(top, column)
            sink = np.exp(column - top)
        weights = np.exp(scores - top)
        weights /= weights.sum(-1, keepdims=True) + sink
        return weights @ np.repeat(values, group, 1)

    def check(self, offsets=None, one=True):
        step = self.step()
        (out, *caches), ran = h.kernels(step)
        ran.pop("fill", None)  # counters of parts, once
        assert sum(ran.values()) == 1 if one else sum(ran.values()) > 1, ran
        other, *copies = apart(self.step())
        # Keys and values are the same bits; sums may be of another order.
        for a, b in zip(caches, copies, strict=True):
            assert np.array_equal(h.to_np(a), h.to_np(b))
        close(out, self.expected(offsets), self.dtype, 4)
        close(out, h.to_np(other).astype(np.float64), self.dtype)
        separate, *copies = apart(self.step(), "sdpa_rope", "rope_rows")
        for a, b in zip(caches, copies, strict=True):
            assert np.array_equal(h.to_np(a), h.to_np(b))
        close(out, h.to_np(separate).astype(np.float64), self.dtype)


@pytest.mark.parametrize("dtype", list(UNIT))
@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("traditional", [True, False])
def test_a_layer_up_to_attention_is_one_kernel(rng, dtype, normalised, traditional):
    Decoder(rng, dtype, normalised=normalised, traditional=traditional).check()


@pytest.mark.parametrize("head", [64, 80, 96, 128, 192])
@pytest.mark.parametrize("heads, kv", [(4, 4), (6, 1), (16, 2)])
def test_sizes_of_heads_and_groups(rng, head, heads, kv):
    Decoder(rng, "bfloat16", heads=heads, kv=kv, head=head).check()


@pytest.mark.parametrize("past", [0, 1, 63, 300, 511])
def test_the_newest_key_in_any_part(rng, past):
    Decoder(rng, "float16", past=past, room=512, head=128, heads=8).check()


def twin(d):
    """The kernels of a step without those of matrix units."""
    return h.kernels(lambda: apart(d.step(), "sdpa_several"))[1]


def one_turn():
    """Whether the device has the kernel that takes one turn of keys, for heads of 64."""
    about = mx.vulkan.describe()
    limits = about["limits"]
    lanes, room = limits["subgroup_sizes"][1], limits["shared_memory"]
    return about["tiers"]["subgroups"] and lanes >= 8 and room >= 32768


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("heads, kv, batch", [(4, 4, 3), (5, 1, 1), (16, 1, 2)])
@pytest.mark.parametrize("past", [0, 31, 64, 130])
def test_one_turn_of_keys(rng, dtype, heads, kv, batch, past):
    """Where keys are few, workgroups take one turn of them: alone, and in parts."""
    normalised = past != 64
    d = Decoder(rng, dtype, batch, heads, kv, head=64, past=past, room=512, normalised=normalised)
    d.check()
    first, *_ = d.step()()
    if past < 32 and one_turn():
        norm = "norm_" if normalised else ""
        ran = twin(d)
        assert f"sdpa_{norm}rope_token_{dtype}" in ran, ran
    again, *_ = d.step()()
    assert np.array_equal(h.to_np(first), h.to_np(again))
    for names in (["sdpa_token"], ["sdpa_token", "sdpa_turns"]):
        other, *_ = apart(d.step(), *names)
        close(first, h.to_np(other).astype(np.float64), dtype)


def test_one_turn_of_keys_with_sinks_and_wavelengths(rng):
    sinks = normal(rng, 8, dtype="bfloat16")
    mx.eval(sinks)
    for past in (20, 300):
        Decoder(rng, "bfloat16", heads=8, kv=2, past=past, room=512, sinks=sinks).check()


def several_turns(head):
    """Whether the device has the kernel that takes several turns of keys."""
    about = mx.vulkan.describe()
    limits = about["limits"]
    lanes, room = limits["subgroup_sizes"][1], limits["shared_memory"]
    return about["tiers"]["subgroups"] and lanes >= head // 8 and room >= 49152


def padded(rng, kind, batch, heads, end, dtype):
    """A mask of sequences that are filled up to one length, and their offsets; the last of three or
    more is nothing but filling, where a type has a finite number that hides it."""
    pads = [int(n) for n in rng.integers(0, end, batch)]
    added_half = kind == "added" and dtype == "float16"
    if batch > 2 and not added_half:
        pads[-1] = end
    seen = np.arange(end)[None] >= np.array(pads)[:, None]
    offsets = [end - 1 - n for n in pads]
    if kind is None:
        return None, offsets
    if kind == "bool":
        mask = mx.array(seen[:, None, None])
    else:
        added = rng.standard_normal((batch, heads, 1, end)).astype(np.float32)
        lowest = -np.inf if added_half else -3e38
        mask = mx.array(np.where(seen[:, None, None], added, lowest).astype(np.float32))
        mask = mask.astype(h.mx_dtype(dtype))
    mx.eval(mask)
    return mask, offsets


# Sequences, heads, heads of keys, keys.
BATCHES = [
    (1, 4, 4, 1),
    (3, 4, 2, 63),
    (8, 6, 2, 64),
    (2, 4, 1, 65),
    (3, 5, 1, 300),
    (8, 8, 1, 130),
    (2, 16, 1, 1000),
    (64, 4, 2, 40),
    (3, 4, 1, 2000),
]


@pytest.mark.parametrize("dtype", list(UNIT))
@pytest.mark.parametrize("kind", ["bool", "added", None])
@pytest.mark.parametrize("batch, heads, kv, end", BATCHES)
def test_batches(rng, dtype, kind, batch, heads, kv, end):
    """Sequences of several lengths, with a mask and an offset for each."""
    if dtype == "float32":
        end = min(end, 300)  # sums of more have an error of their own
    mask, offsets = padded(rng, kind, batch, heads, end, dtype)
    given = mx.array(offsets)
    mx.eval(given)
    how = {"past": end - 1, "end": end, "room": end + 3, "mask": mask, "offset": given}
    d = Decoder(rng, dtype, batch, heads, kv, head=64, **how)
    d.check(offsets)
    first, *_ = d.step()()
    if dtype != "float32" and several_turns(64):
        ran = twin(d)
        assert f"sdpa_norm_rope_turns_{dtype}" in ran, ran
    again, *_ = d.step()()
    assert np.array_equal(h.to_np(first), h.to_np(again))
    vector, *_ = apart(d.step(), "sdpa_turns")
    close(first, h.to_np(vector).astype(np.float64), dtype)


@pytest.mark.parametrize("head", [64, 80, 96, 128, 256])
@pytest.mark.parametrize("normalised, sinks", [(True, False), (False, True)])
def test_heads_of_batches(rng, head, normalised, sinks):
    mask, offsets = padded(rng, "bool", 4, 8, 150, "bfloat16")
    given = mx.array(offsets)
    sinks = normal(rng, 8, dtype="bfloat16") if sinks else None
    mx.eval(given)
    how = {"past": 149, "end": 150, "room": 160, "mask": mask, "sinks": sinks, "offset": given}
    Decoder(rng, "bfloat16", 4, 8, 2, head=head, normalised=normalised, **how).check(offsets)


@pytest.mark.parametrize("place", [0, 70, 299])
def test_a_newest_key_before_others_of_a_batch(rng, place):
    mask, _ = padded(rng, "bool", 2, 4, 300, "float16")
    given = mx.array([1000, 7])
    mx.eval(given)
    how = {"past": place, "end": 300, "room": 300, "mask": mask, "offset": given}
    Decoder(rng, "float16", 2, 4, 1, head=64, **how).check([1000, 7])


def test_rows_without_any_key(rng):
    """A mask that adds minus infinity everywhere leaves no number; with a sink, zeros."""
    mask = mx.full((2, 4, 1, 90), -np.inf, dtype=mx.bfloat16)
    given = mx.array([89, 89])
    sinks = normal(rng, 4, dtype="bfloat16")
    mx.eval(mask, given, sinks)
    how = {"past": 89, "end": 90, "room": 96, "mask": mask, "offset": given}
    for names, empty in ((None, np.isnan), (sinks, lambda x: x == 0)):
        d = Decoder(rng, "bfloat16", 2, 4, 2, head=64, sinks=names, **how)
        out, *_ = d.step()()
        assert empty(h.to_np(out).astype(np.float32)).all()


def test_several_turns_in_parts(tmp_path):
    """A device with many multiprocessors cuts the keys of few sequences."""
    file = tmp_path / "profile.txt"
    file.write_text("units = 132\n")
    code = """
        from test_eval_joined_attention import padded, several_turns, twin
        rng = np.random.default_rng(5)
        cases = ("bool", 3, 4, 300), ("added", 1, 8, 777), (None, 2, 3, 1200)
        for kind, batch, heads, end in cases:
            mask, offsets = padded(rng, kind, batch, heads, end, "bfloat16")
            given = mx.array(offsets)
            mx.eval(given)
            sinks = mx.array([0.5] * heads).astype(mx.bfloat16)
            mx.eval(sinks)
            how = dict(past=end - 1, end=end, room=end, mask=mask, offset=given, sinks=sinks)
            d = Decoder(rng, "bfloat16", batch, heads, 1, **how)
            d.check(offsets)
            if several_turns(64):
                ran = twin(d)
                assert "sdpa_norm_rope_turns_bfloat16" in ran, ran
    """
    child(code, MLX_VK_PROFILE=str(file), MLX_VK_CACHE_DIR=str(tmp_path / "cache"))


def child(code, **variables):
    """Runs a program that knows `Decoder`, on the GPU."""
    start = f"""
        import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
        import helpers as h, mlx.core as mx, numpy as np
        mx.set_default_device(mx.gpu)
        from test_eval_joined_attention import Decoder
    """
    h.python(textwrap.dedent(start) + textwrap.dedent(code), variables)


def test_more_parts_than_a_workgroup_joins():
    """64 parts of the keys have a kernel behind that joins them."""
    code = """
        d = Decoder(np.random.default_rng(2), "bfloat16", heads=2, kv=1, past=8191, room=8192)
        d.check(one=False)
        _, ran = h.kernels(d.step())
        assert "sdpa_norm_rope_vector_bfloat16" in ran and "sdpa_merge_bfloat16" in ran, ran
    """
    child(code, MLX_VK_SDPA_SPLITS="64")


def test_arguments_that_no_push_constants_hold(tmp_path):
    """A device with 128 bytes of them reads arguments from memory."""
    file = tmp_path / "profile.txt"
    file.write_text("push_constants = 128\n")
    code = """
        assert mx.vulkan.describe()["limits"]["push_constants"] == 128
        Decoder(np.random.default_rng(3), "float16", heads=8, past=300, room=512).check()
        sinks = mx.array([0.5, -1.0, 2.0, 0.0])
        Decoder(np.random.default_rng(4), "float32", past=200, room=256, sinks=sinks).check()
    """
    child(code, MLX_VK_PROFILE=str(file), MLX_VK_CACHE_DIR=str(tmp_path / "cache"))


@pytest.mark.parametrize("place", [0, 7, 130, 299])
def test_a_cache_that_turns(rng, place):
    """Keys that follow the newest are older ones."""
    Decoder(rng, "bfloat16", past=place, end=300, room=300, offset=1000).check()


@pytest.mark.parametrize("kind", ["bool", "added"])
@pytest.mark.parametrize("batch", [1, 3])
def test_masks_and_an_offset_for_each_row(rng, kind, batch):
    hidden = rng.random((batch, 1, 1, 200)) < 0.3
    hidden[..., 150] = False
    mask = mx.array(~hidden)
    if kind == "added":
        mask = mx.array(rng.standard_normal(hidden.shape).astype(np.float32)).astype(mx.float16)
    offsets = [150 - 7 * i for i in range(batch)]
    given = mx.array(offsets)
    mx.eval(mask, given)
    d = Decoder(rng, batch=batch, past=150, end=200, room=256, mask=mask, offset=given)
    d.check(offsets)


def test_sinks(rng):
    sinks = normal(rng, 8, dtype="bfloat16")
    Decoder(rng, "bfloat16", heads=8, past=40, room=64, sinks=sinks).check()


def test_wavelengths(rng):
    freqs = mx.array(rng.uniform(1, 500, 32).astype(np.float32))
    mx.eval(freqs)
    d = Decoder(rng, "float32", base=None, freqs=freqs)
    (out, *caches), ran = h.kernels(d.step())
    assert sum(ran.values()) == 1, ran
    other, *copies = apart(d.step(), "sdpa_rope", "rope_rows")
    for a, b in zip(caches, copies, strict=True):
        assert np.array_equal(h.to_np(a), h.to_np(b))
    close(out, h.to_np(other).astype(np.float64), "float32")


def test_rows_that_no_vector_holds_are_turned_apart(rng):
    """18 features of float16 are 36 bytes."""
    Decoder(rng, "float16", head=18).check(one=False)


def test_what_others_look_at_is_there(rng):
    d = Decoder(rng, "float32")
    caches = [c * 1 for c in d.filled]
    mx.eval(caches)
    kept = caches[0]
    a, b, c = (y.transpose(0, 2, 1, 3) for y in (d.q, d.k, d.v))
    a, b = (mx.fast.rope(y, d.head, **d.turn) for y in (a, b))
    caches[0][..., 5:6, :] = b
    caches[1][..., 5:6, :] = c
    keys, values = (y[..., :6, :] for y in caches)
    out = mx.fast.scaled_dot_product_attention(a, keys, values, scale=d.scale)
    # The queries, and the part of the keys, are asked for too.
    mx.eval(out, a, keys)
    assert np.array_equal(h.to_np(keys)[..., 5:, :], h.to_np(caches[0])[..., 5:6, :])
    assert np.array_equal(h.to_np(keys)[..., 5:, :], h.to_np(b))
    d.normalised = False
    close(out, d.expected(), "float32", 4)
    close(a, turned(h.to_np(d.q).transpose(0, 2, 1, 3), 5, False), "float32")
    assert kept is caches[0]


def test_a_cache_that_another_array_holds_stays_as_it_was(rng):
    d = Decoder(rng, "float16")
    caches = [c * 1 for c in d.filled]
    before = [c[...] for c in caches]
    mx.eval(caches, before)
    out, *caches = d.run(caches)
    mx.eval(out, caches)
    for old, first in zip(before, d.filled, strict=True):
        assert np.array_equal(h.to_np(old), h.to_np(first))
    close(out, d.expected(), "float16", 4)


def test_several_queries_keep_their_kernels(rng):
    q, k, v = (normal(rng, 1, n, 2, 64) for n in (4, 2, 2))
    caches = [normal(rng, 1, 2, 8, 64) for _ in range(2)]

    def step():
        mine = [c * 1 for c in caches]
        turn = {"traditional": False, "base": 1e4, "scale": 1.0, "offset": 3}
        a, b = (mx.fast.rope(y, 64, **turn) for y in (q, k))
        mine[0][..., 3:5, :], mine[1][..., 3:5, :] = b, v
        keys, values = (c[..., :5, :] for c in mine)
        return mx.fast.scaled_dot_product_attention(a, keys, values, scale=0.125, mask="causal")

    out, ran = h.kernels(step)
    assert not any(name.startswith(tuple(ONE)) for name in ran), ran
    with mx.stream(mx.cpu):
        assert np.allclose(h.to_np(out), h.to_np(step()), atol=1e-5)


def test_rows_of_nan_and_infinity(rng):
    d = Decoder(rng, "float32", normalised=False)
    k = h.to_np(d.k).copy()
    k[0, 0, 1, 3] = np.inf
    d.k = mx.array(k)
    mx.eval(d.k)
    got, *_ = d.step()()
    with mx.stream(mx.cpu):
        expected, *_ = d.step()()
    got, expected = h.to_np(got), h.to_np(expected)
    assert np.array_equal(np.isnan(got), np.isnan(expected))
    assert np.allclose(got, expected, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("head", [32, 40, 96])
def test_what_shared_memory_holds_before_does_not_matter(rng, head):
    """Lanes of a row that no feature has read nothing that is not written."""
    for size in (64, 128):
        d = Decoder(rng, "float32", head=size, heads=8)
        d.q, d.k, d.v, *d.filled = (x * float("nan") for x in (d.q, d.k, d.v, *d.filled))
        out, *_ = d.step()()
        assert np.isnan(h.to_np(out)).all()
        Decoder(rng, "float32", head=head).check()
