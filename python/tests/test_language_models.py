"""Language models of several architectures and every mode of weights, held against float64 NumPy
token by token.

What decoders consist of: grouped queries, rotations, gated networks or experts, windows, sinks and
caches that are written in place. language_models.py has the models and the reference.
"""

import functools
import itertools
from dataclasses import replace

import helpers as h
import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from language_models import FORMS, Experts, Form, Model, Reference, generate, quantize, randomise

MODES = {
    f"q{bits}g{group}": {"group_size": group, "bits": bits}
    for bits, group in itertools.product((2, 3, 4, 5, 6, 8), (32, 64, 128))
} | {
    mode: {"group_size": group, "bits": bits, "mode": mode}
    for mode, group, bits in [("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)]
}
#: Of scores up to some 25, by sums of 128 products, in float32.
CLOSE, DECIDED = 2e-4, 5e-4
#: Half a unit of the last place of 1.
ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
#: Such units by which the scores of experts may be less than those that float64 picks.
NEAR = 30

#: What makes one command of several steps, or of several rows.
JOINS = """
alike row_biases qmm_joined gemv_joined qmm_combine qmm_grouped norm_held norm_added rope_rows
sdpa_rope sdpa_token sdpa_turns sdpa_several join dequantize_rows sort_select sort_tops choice
matmul_held matmul_wide qmm_chain qmm_chain_picked gemv_chain qmm_few_picked qmm_wide
""".split()


def build(form, mode, dtype="float32", seed=1):
    """A model by names; a mode may be two: of experts, and of what is around them."""
    model = Model(FORMS[form])
    randomise(model, seed)
    model.set_dtype(h.mx_dtype(dtype))
    picked, around = mode.split("+") if "+" in mode else (None, mode)
    if mode != "none":
        quantize(model, MODES[around], MODES.get(picked))
    mx.eval(model.parameters())
    return model


made = functools.cache(build)


@pytest.fixture(scope="module", autouse=True)
def forgotten():
    """What tests share lives as long as they run."""
    yield
    made.cache_clear()
    alone.cache_clear()


def words(model, *shape, seed=1):
    return np.random.default_rng(seed).integers(0, model.form.words, shape)


def held(wanted, tokens, seen):
    """Whether tokens are those of float64, each decided by more than rounding, and not the same
    all the time."""
    np.testing.assert_allclose(seen, wanted, rtol=0, atol=CLOSE)
    first, second = np.sort(wanted)[:, :-3:-1].T
    assert (first - second).min() > DECIDED, f"not decided: {(first - second).min()}"
    assert tokens.tolist() == wanted.argmax(-1).tolist()
    assert len(set(tokens.tolist())) > 4


def rounded(got, wanted, model, dtype):
    """Whether all differences are like those of so many roundings, one behind another: of norms,
    products, rotations, attention, units and sums in each layer."""
    unit = ROUNDING[dtype] * (13 * model.form.layers + 3) ** 0.5 * wanted.std(-1).mean()
    error = np.abs(got - wanted)
    assert np.sqrt((error**2).mean()) <= 2 * unit
    assert error.max() <= 10 * unit


def behind(reference, prompt, tokens, **noted):
    """What float64 says at each of the tokens behind a prompt."""
    read = [*prompt, *tokens[:-1]]
    return reference(read, **noted)[len(prompt) - 1 :]


CASES = [
    ("dense", "q4g64", 21, 8),
    ("dense", "q8g32", 21, None),
    ("dense", "none", 9, None),
    ("plain", "q3g64", 21, None),
    ("plain", "q6g128", 21, 8),
    ("plain", "mxfp8", 21, 8),
    ("plain", "q4g32", 9, None),
    ("plain", "q4g64", 150, 64),
    ("biases", "q2g32", 21, 8),
    ("biases", "q5g64", 21, None),
    ("biases", "mxfp4", 9, None),
    ("biases", "q4g128", 21, 8),
    ("experts", "q4g64", 21, 8),
    ("experts", "q8g64", 37, None),
    ("experts", "mxfp4", 21, 8),
    ("experts", "q3g32", 9, None),
    ("experts", "none", 21, None),
    ("window", "q6g64", 21, 8),
    ("window", "q5g32", 21, None),
    ("window", "q4g64", 9, 4),
    ("window", "none", 21, 8),
    ("sinks", "mxfp4+q8g64", 21, 8),
    ("sinks", "q2g128", 37, None),
    ("sinks", "mxfp8", 9, 4),
    ("sinks", "nvfp4", 21, 8),
    ("sinks", "none", 150, 64),
    ("masked", "q8g128", 21, 8),
    ("wide", "q4g32", 3, None),
    ("odd", "q4g32", 21, 8),
    ("odd", "nvfp4", 9, None),
    ("odd experts", "nvfp4", 21, 8),
    ("odd experts", "none", 9, None),
]
#: Of forms whose first weights say the same word again and again.
SEEDS = {"wide": 2, "odd": 2}


#: Short prompts are cheap enough.
VALIDATED = [pytest.param(*c, marks=pytest.mark.validation) if c[2] == 9 else c for c in CASES]


@pytest.mark.parametrize("form, mode, prompt, piece", VALIDATED)
def test_greedy_tokens_equal_those_of_float64(form, mode, prompt, piece):
    model = made(form, mode, seed=SEEDS.get(form, 1))
    prompt = words(model, prompt)
    tokens, seen = generate(model, prompt[None], 20, piece)
    held(behind(Reference(model), prompt, tokens[0]), tokens[0], seen[0])


HALVES = [
    ("dense", "q4g64", "bfloat16"),
    ("plain", "mxfp4", "bfloat16"),
    ("biases", "q8g64", "bfloat16"),
    ("experts", "q4g64", "bfloat16"),
    ("window", "nvfp4", "bfloat16"),
    ("sinks", "mxfp4+q8g64", "bfloat16"),
    ("dense", "none", "float16"),
    ("plain", "q5g64", "float16"),
    ("biases", "q6g32", "float16"),
    ("experts", "mxfp8+q8g64", "float16"),
    ("window", "q4g32", "float16"),
    ("sinks", "q3g64", "float16"),
]


def noting(model, run):
    """What `run` gives, and which experts each layer picked in it, if it has some."""
    if not model.form.experts:
        return run(), None
    noted = [[] for _ in model.layers]
    for layer, picks in zip(model.layers, noted, strict=True):
        layer.network.noted = picks
    out = run()
    for layer in model.layers:
        layer.network.noted = None
    return out, [np.concatenate([np.array(p)[0] for p in picks]) for picks in noted]


@pytest.mark.parametrize("form, mode, dtype", HALVES)
def test_halves_are_as_near_as_their_roundings(form, mode, dtype):
    """Experts whose scores are nearly those of others may be picked in their place."""
    model = made(form, mode, dtype)
    prompt, near = words(model, 21), NEAR * ROUNDING[dtype]
    (tokens, seen), noted = noting(model, lambda: generate(model, prompt[None], 12, 8))
    wanted = behind(Reference(model), prompt, tokens[0], noted=noted, near=near)
    rounded(seen[0], wanted, model, dtype)


TOGETHER = [
    ("dense", "q4g64", "float32"),
    ("plain", "nvfp4", "float32"),
    ("biases", "q8g64", "float32"),
    ("experts", "q4g64", "float32"),
    ("window", "none", "float32"),
    ("sinks", "mxfp4+q8g64", "float32"),
    ("experts", "mxfp4", "bfloat16"),
    ("dense", "q4g64", "float16"),
]


@functools.cache
def alone(form, mode, dtype, length, seed):
    """What one prompt gives by itself."""
    model = made(form, mode, dtype)
    return generate(model, words(model, 1, length, seed=seed), 10)


def same(got, wanted, model, dtype):
    """Tokens and probabilities of sequences, within a rounding of the type."""
    tokens, seen = got
    if dtype == "float32":
        for i, (other, probabilities) in enumerate(wanted):
            assert tokens[i].tolist() == other[0].tolist(), i
            np.testing.assert_allclose(seen[i], probabilities[0], rtol=0, atol=CLOSE)
        return
    for i, (_, probabilities) in enumerate(wanted):
        rounded(seen[i], probabilities[0].astype(np.float64), model, dtype)


@pytest.mark.parametrize(
    "count, form, mode, dtype",
    [
        *((5, *case) for case in TOGETHER),
        *((2, *case) for case in TOGETHER[::3]),
        (2, *TOGETHER[5]),
    ],
)
def test_sequences_together_give_what_each_gives_alone(count, form, mode, dtype):
    model, length = made(form, mode, dtype), 13
    wanted = [alone(form, mode, dtype, length, i) for i in range(count)]
    prompts = np.concatenate([words(model, 1, length, seed=i) for i in range(count)])
    forced = np.concatenate([tokens for tokens, _ in wanted])
    same(generate(model, prompts, 10, 8, forced=forced), wanted, model, dtype)


@pytest.mark.parametrize("form, mode, dtype", [*TOGETHER[:2], ("masked", "q8g128", "float32")])
def test_sequences_of_several_lengths(form, mode, dtype):
    """Padding stands in front of the shorter ones, and is seen by none."""
    model, lengths = made(form, mode, dtype), [13, 5, 9]
    wanted = [alone(form, mode, dtype, n, i) for i, n in enumerate(lengths)]
    padding = [max(lengths) - n for n in lengths]
    prompts = [
        [0] * p + words(model, n, seed=i).tolist()
        for i, (n, p) in enumerate(zip(lengths, padding, strict=True))
    ]
    same(generate(model, prompts, 10, None, model.caches(padding)), wanted, model, dtype)


@pytest.mark.gpu
@pytest.mark.usefixtures("none_disabled")
@pytest.mark.parametrize("form, mode, dtype", [*TOGETHER[1:6], *HALVES[3:7]])
def test_joined_and_separate_kernels_agree(form, mode, dtype):
    """Where they pick other experts, nearly as good, each is held against float64 for itself."""
    model = made(form, mode, dtype)
    prompt, forced = words(model, 1, 13), words(model, 1, 8, seed=2)

    def run():
        return generate(model, prompt, 8, 8, forced=forced)[1][0]

    joined, ran = h.kernels(run)
    apart, more = h.kernels(lambda: h.apart(run, *JOINS))
    assert sum(ran.values()) < 0.8 * sum(more.values())
    if dtype == "float32":
        np.testing.assert_allclose(joined, apart, rtol=0, atol=CLOSE)
        return
    (joined, ours), (apart, theirs) = (
        noting(model, f) for f in (run, lambda: h.apart(run, *JOINS))
    )
    if all(np.array_equal(*picks) for picks in zip(ours or [], theirs or [], strict=True)):
        rounded(joined, apart.astype(np.float64), model, dtype)
        return
    for seen, noted in ((joined, ours), (apart, theirs)):
        near = NEAR * ROUNDING[dtype]
        wanted = behind(Reference(model), prompt[0], forced[0], noted=noted, near=near)
        rounded(seen, wanted, model, dtype)


@pytest.mark.parametrize(
    "form, mode", [("dense", "q4g64"), ("experts", "q8g64"), ("window", "none"), ("sinks", "nvfp4")]
)
def test_the_same_tokens_every_time_and_for_every_piece(form, mode):
    model = made(form, mode)
    prompt = words(model, 1, 19, seed=3)
    first, seen = generate(model, prompt, 12)
    again, same = generate(model, prompt, 12)
    assert first.tolist() == again.tolist() and np.array_equal(seen, same)
    for piece in (5, 1):
        tokens, same = generate(model, prompt, 12, piece)
        assert tokens.tolist() == first.tolist()
        np.testing.assert_allclose(same, seen, rtol=0, atol=CLOSE)


@pytest.mark.parametrize(
    "form, mode", [("dense", "q4g64"), ("window", "q4g64"), ("sinks", "mxfp4+q8g64")]
)
def test_a_second_prompt_behind_what_was_generated(form, mode):
    """Windows have turned around by then, and turn around again."""
    model = made(form, mode)
    read, caches = words(model, 9).tolist(), model.caches()
    reference, given = Reference(model), read
    for turn in range(3):
        tokens, seen = generate(model, [given], 10, 8, caches)
        np.testing.assert_allclose(
            seen[0], behind(reference, read, tokens[0]), rtol=0, atol=CLOSE, err_msg=f"turn {turn}"
        )
        more = words(model, 4, seed=turn).tolist()
        read = [*read, *tokens[0].tolist(), *more]
        given = [int(tokens[0, -1]), *more]


@pytest.mark.parametrize(
    "form, mode, dtype",
    [
        ("plain", "q4g64", "float32"),
        ("experts", "q4g64", "bfloat16"),
        ("sinks", "mxfp4+q8g64", "float16"),
    ],
)
def test_a_sequence_of_nan_does_not_touch_others(form, mode, dtype):
    model, word = build(form, mode, dtype), 7
    prompts, forced = words(model, 3, 13), words(model, 3, 4, seed=2)
    prompts[prompts == word], forced[forced == word] = 0, 0
    tokens, wanted = generate(model, prompts, 4, 8, forced=forced)
    model.embedding.scales[word] = np.nan
    prompts[1, 2] = word
    got = generate(model, prompts, 4, 8, forced=forced)
    assert np.isnan(got[1][1]).all()
    got = [x[::2] for x in got]
    same(got, [(tokens[[i]], wanted[[i]]) for i in (0, 2)], model, dtype)


@pytest.mark.parametrize("mode", ["q4g64", "none"])
def test_twins_among_experts(mode):
    """Scores of which two are the same: whichever of both is picked, the tokens are these."""
    model = Model(replace(FORMS["experts"], picks=3))
    randomise(model, 1)
    for layer in model.layers:
        network = layer.network
        for part in (network.router, network.gate, network.up, network.down):
            part.weight = mx.repeat(part.weight[::2], 2, axis=0)
    if mode != "none":
        quantize(model, MODES[mode])
    prompt = words(model, 9)
    tokens, seen = generate(model, prompt[None], 24)
    held(behind(Reference(model), prompt, tokens[0]), tokens[0], seen[0])


@pytest.mark.validation
@pytest.mark.parametrize("count", [1, 5, 40])
def test_experts_whose_scores_are_all_the_same(count, rng):
    """Any two of them, weighed alike, and never one of them twice."""
    layer, parts = Experts(Form(experts=5)), {}
    for name in ("gate", "up", "down"):
        parts[name] = 0.1 * rng.standard_normal((5, 128, 128))
        layer[name].weight = mx.array(parts[name].astype(np.float32))
    layer.router.weight = mx.zeros((5, 128))
    x = rng.standard_normal((1, count, 128)).astype(np.float32)
    got = np.array(layer(mx.array(x)))[0]
    gate, up = (np.einsum("tk,enk->ten", x[0], parts[name]) for name in ("gate", "up"))
    each = np.einsum("ten,ekn->tek", gate / (1 + np.exp(-gate)) * up, parts["down"])
    pairs = np.array(list(itertools.combinations(range(5), 2)))
    error = np.abs(got[:, None] - each[:, pairs].mean(2)).max(-1).min(1)
    assert error.max() < 1e-5


@pytest.mark.validation
def test_groups_have_to_divide_rows():
    model = Model(FORMS["odd"])
    with pytest.raises(ValueError, match=r"\[quantize\].*(64|80)"):
        nn.quantize(model, group_size=64, bits=4)
    codes, scales, biases = mx.quantize(mx.ones((8, 128)), 64, 4)
    for x in (mx.ones((1, 80)), mx.ones((1, 256))):
        with pytest.raises(ValueError, match=r"\[quantized_matmul\].*128"):
            mx.eval(mx.quantized_matmul(x, codes, scales, biases, group_size=64, bits=4))
        with pytest.raises(ValueError, match=r"\[gather_qmm\].*128"):
            picks = mx.zeros((1,), mx.uint32)
            mx.eval(mx.gather_qmm(x, codes[None], scales[None], biases[None], rhs_indices=picks))
    with pytest.raises(ValueError, match=r"\[quantized_matmul\]"):
        mx.eval(mx.quantized_matmul(mx.ones((1, 128)), codes, scales, biases, group_size=128))


def test_weights_that_are_replaced_are_never_computed(tmp_path):
    n, path = 4096, str(tmp_path / "model.safetensors")
    codes, factors = mx.zeros((n, n // 8), mx.uint32), mx.ones((n, n // 64))
    file = {"0.weight": codes, "0.scales": factors, "0.biases": -7.5 * factors}
    size = sum(v.nbytes for v in file.values())
    mx.save_safetensors(path, file)
    del codes, factors, file
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    # The random weights, which nothing reads, would take 64 MiB; what is loaded takes 12 MiB.
    model = nn.Sequential(nn.Linear(n, n, bias=False))
    nn.quantize(model, group_size=64, bits=4)
    model.load_weights([(k.replace("0.", "layers.0."), v) for k, v in mx.load(path).items()])
    mx.eval(model.parameters())
    assert mx.get_peak_memory() - before < 2 * size
    assert mx.get_active_memory() - before >= size
    np.testing.assert_array_equal(np.array(model(mx.ones((1, n)))), np.full((1, n), -7.5 * n))
