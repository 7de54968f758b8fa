"""Lazy evaluation: when work runs, that it runs once, and what eval accepts."""

import gc
import threading

import helpers as h
import mlx.core as mx
import numpy as np
import pytest

pytestmark = pytest.mark.validation


def test_eval_takes_trees():
    a = {"x": [mx.ones((2,)) + 1, (mx.zeros((1,)),)], "y": mx.array(3) * 2}
    mx.eval(a, [mx.ones((3,))], mx.array(1))
    assert a["y"].item() == 6 and a["x"][0].tolist() == [2, 2]
    mx.eval()
    mx.eval([], {}, ())


def test_async_eval_then_read():
    a = mx.ones((64, 64))
    b = a @ a
    mx.async_eval(b, [b + 1])
    c = b * 2
    mx.async_eval(c)
    assert c[0, 0].item() == 128
    mx.synchronize()


def test_results_are_shared_between_evaluations():
    """A random draw that two outputs use is drawn once."""
    r = mx.random.uniform(shape=(100,))
    a, b = r + 1, r + 2
    mx.eval(a)
    mx.eval(b)
    np.testing.assert_allclose(np.array(b) - np.array(a), 1, rtol=1e-6)


def test_diamonds_and_wide_graphs():
    x = mx.ones((8,))
    for _ in range(60):
        x = (x + x) * 0.5
    assert x.tolist() == [1] * 8
    parts = [mx.full((3,), i) for i in range(300)]
    total = parts[0]
    for p in parts[1:]:
        total = total + p
    assert total.tolist() == [sum(range(300))] * 3


def test_evaluating_a_part_then_the_whole():
    a = mx.arange(5) * 3
    b = a + 1
    c = b * b
    mx.eval(b)
    d = c - b
    mx.eval(d)
    assert d.tolist() == [((3 * i + 1) ** 2) - (3 * i + 1) for i in range(5)]


def test_views_see_values_of_their_time():
    a = mx.zeros((4,))
    view = a[1:3]
    a[2] = 9
    assert view.tolist() == [0, 0] and a.tolist() == [0, 0, 9, 0]


def test_donation_never_touches_what_is_still_held():
    """The input is reused only when nothing else needs it: views, copies and outputs included."""
    a = mx.array(np.arange(1000, dtype=np.float32))
    mx.eval(a)
    view = a[10:20]
    b = mx.sqrt(mx.square(a + 1) * 2)
    c = a * 3
    mx.eval(b, c)
    np.testing.assert_array_equal(np.array(a), np.arange(1000))
    np.testing.assert_array_equal(np.array(view), np.arange(10, 20))
    np.testing.assert_array_equal(np.array(c), np.arange(1000) * 3)
    d = a[::2] + a[1::2]
    e = mx.negative(a)
    del a
    gc.collect()
    mx.eval(d, e)
    np.testing.assert_array_equal(np.array(d), np.arange(0, 1000, 2) * 2 + 1)
    np.testing.assert_array_equal(np.array(e), -np.arange(1000))


def test_donation_with_unequal_layouts():
    a = mx.array(np.arange(12, dtype=np.float32).reshape(3, 4))
    b = mx.transpose(a + 0)
    c = b + mx.reshape(mx.arange(12), (4, 3))
    want = np.arange(12).reshape(3, 4).T + np.arange(12).reshape(4, 3)
    np.testing.assert_array_equal(np.array(c), want)
    wide = mx.broadcast_to(mx.ones((4,)) * 2, (3, 4)) + 1
    assert wide.tolist() == [[3] * 4] * 3
    x = mx.arange(6) + 0
    np.testing.assert_array_equal(np.array(x[::-1] + x), [5] * 6)


def test_numpy_views_keep_their_values():
    a = mx.ones((100,)) + 1
    view = np.asarray(a)
    for _ in range(5):
        mx.eval(mx.full((100,), 7.0) + 1)
    b = a + 1
    del a
    mx.eval(b)
    assert (view == 2).all()


def test_the_same_program_gives_the_same_bits():
    def run():
        x = mx.random.normal((257, 129), key=mx.random.key(1))
        y = mx.softmax(x @ x.T, axis=-1)
        return np.array(mx.sum(mx.exp(y) * mx.sin(y), axis=0)).tobytes()

    assert len({run() for _ in range(4)}) == 1


def test_threads_evaluate_at_once():
    results, errors = {}, []

    def work(i):
        try:
            with mx.stream(mx.new_stream(mx.default_device())):
                a = mx.full((50, 50), float(i))
                for _ in range(20):
                    a = a + 1
                results[i] = mx.sum(a).item()
        except Exception as e:  # noqa: BLE001 - reported below
            errors.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert results == {i: 2500 * (i + 20) for i in range(4)}


def test_arrays_cross_threads():
    a = mx.arange(1000)
    mx.eval(a)
    got = []
    t = threading.Thread(target=lambda: got.append(sum(a.tolist())))
    t.start()
    t.join()
    assert got == [499500]


def test_error_in_the_middle_leaves_the_rest_usable():
    a = mx.ones((3,))
    with pytest.raises(ValueError):
        mx.eval(a + 1, mx.ones((2,)) + mx.ones((3,)))
    assert (a + 1).tolist() == [2, 2, 2]
    h.works()


def failing(stream=None):
    """A program whose evaluation fails: no matrix is inverse to this one."""
    return mx.linalg.inv(mx.array([[1.0, 2.0], [2.0, 4.0]]), stream=stream or mx.cpu)


def outcomes(*steps):
    """Which steps raised."""
    raised = []
    for step in steps:
        try:
            step()
            raised.append(False)
        except RuntimeError as e:
            assert "singular" in str(e) or "missing" in str(e), e
            raised.append(True)
    return raised


def test_an_asynchronous_error_comes_out_once_at_synchronize():
    def sync():
        mx.synchronize(mx.cpu)

    a = failing()
    assert outcomes(lambda: mx.async_eval(a), sync, sync, sync) == [False, True, False, False]
    # Whoever reads the array that failed hears of it again, each time.
    assert outcomes(a.tolist, a.tolist, lambda: mx.eval(a), sync) == [True, True, True, False]
    two = [failing(), failing()]
    start = [lambda x=x: mx.async_eval(x) for x in two]
    assert outcomes(*start, sync, sync) == [False, False, True, False]
    gone = [failing()]
    assert outcomes(lambda: mx.async_eval(gone[0]), gone.clear, sync, sync) == [
        False, False, True, False,
    ]  # fmt: skip


def test_an_asynchronous_error_comes_out_once_at_the_next_eval_of_the_stream():
    def sync():
        mx.synchronize(mx.cpu)

    with mx.stream(mx.cpu):
        for read in (mx.eval, mx.array.tolist, str):
            a, b = failing(), mx.zeros(2) + 1
            steps = (lambda a=a: mx.async_eval(a), lambda b=b, read=read: read(b))
            assert outcomes(*steps, sync) == [False, True, False]
            assert b.tolist() == [1, 1]
        # NumPy passes over errors of the buffer protocol: they would be lost.
        a, b = failing(), mx.zeros(2) + 1
        steps = (lambda: mx.async_eval(a), lambda: np.array(b), sync)
        assert outcomes(*steps) == [False, False, True]
        assert outcomes(lambda: np.array(a), lambda: np.array(a)) == [True, True]
        mx.eval(b + 1)
        # async_eval does not wait and is told nothing.
        a, b = failing(), mx.zeros(2) + 1
        start = (lambda: mx.async_eval(a), lambda: mx.async_eval(b))
        assert outcomes(*start, lambda: mx.eval(b), sync) == [False, False, True, False]
        # The error of the array itself is the one.
        a = failing()
        assert outcomes(lambda: mx.async_eval(a), a.tolist, sync) == [False, True, False]
        a = failing()
        assert outcomes(lambda: mx.async_eval(a), lambda: mx.eval(a + 1), sync) == [
            False, True, False,
        ]  # fmt: skip
        assert outcomes(lambda: mx.eval(failing()), sync) == [True, False]
        a = failing()
        steps = (lambda: mx.async_eval(a), mx.eval, lambda: mx.eval(mx.array(1.0)), sync)
        assert outcomes(*steps) == [False, False, False, True]


def test_an_asynchronous_error_belongs_to_its_stream():
    s = mx.new_stream(mx.cpu)
    a, b = failing(s), mx.add(mx.zeros(2, stream=mx.cpu), 1, stream=mx.cpu)
    assert outcomes(
        lambda: mx.async_eval(a),
        lambda: mx.eval(b),
        lambda: mx.synchronize(mx.cpu),
        lambda: mx.synchronize(s),
        lambda: mx.synchronize(s),
    ) == [False, False, False, True, False]
    # Where the error is passed on it is one of both streams.
    b = mx.add(failing(s), 1, stream=mx.cpu)
    assert outcomes(
        lambda: mx.async_eval(b),
        lambda: mx.synchronize(mx.cpu),
        lambda: mx.synchronize(s),
        lambda: mx.synchronize(mx.cpu),
        lambda: mx.synchronize(s),
        b.tolist,
        lambda: mx.synchronize(mx.cpu),
        lambda: mx.synchronize(s),
        lambda: mx.synchronize(s),
    ) == [False, True, True, False, False, True, False, True, False]


@pytest.mark.gpu
def test_an_asynchronous_error_of_a_gpu_stream():
    kernel = mx.fast.vulkan_kernel("broken", ["x"], ["y"], "y[0] = missing;")

    def broken():
        return kernel(
            inputs=[mx.ones(1)],
            output_shapes=[(1,)],
            output_dtypes=[mx.float32],
            grid=(1, 1, 1),
            threadgroup=(1, 1, 1),
        )[0]

    a = broken()
    assert outcomes(
        lambda: mx.async_eval(a), mx.synchronize, mx.synchronize, a.tolist, mx.synchronize
    ) == [False, True, False, True, False]
    a = broken()
    b = mx.zeros(2) + 1
    steps = (lambda: mx.async_eval(a), lambda: mx.eval(b), mx.synchronize)
    assert outcomes(*steps) == [False, True, False]
    assert b.tolist() == [1, 1]
    h.works()
