"""A few random cases of every family of kernels, and of their plain twins, against float64.

oracle/kernels.py runs as many as one likes, on several processes.
"""

import pathlib
import sys

import helpers as h
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "oracle"))
from kernels_families import FAMILIES, drawn
from kernels_run import Runner

#: Cases on a software driver, which compiles a kernel for most of them.
COUNT = {
    "attention": 6,
    "attention_grad": 3,
    "conv_grad": 4,
    "fft": 5,
    "cast": 20,
    "elementwise": 12,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_random_cases(family):
    """Results within their bounds, the same bits again, and without kernel variants."""
    runner = Runner(h.on_gpu())
    for number in range(COUNT.get(family, 9)):
        case, rng = drawn(family, number, 1, small=True)
        wrong = runner.run(family, case, rng)[3]
        assert not wrong, f"case {number}: {case.text}\n{wrong}"
