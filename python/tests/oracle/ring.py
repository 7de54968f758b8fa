"""Rings of this library and official MLX, whose Python is OFFICIAL in the environment.

python -m pytest python/tests/oracle/ring.py
"""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from test_distributed import run  # noqa: E402

OFFICIAL = os.environ["OFFICIAL"]


@pytest.mark.parametrize("ranks", [(1, 3), (0, 2)])
def test_every_other_process(tmp_path, ranks):
    run(tmp_path, "mixed", 4, official=dict.fromkeys(ranks, OFFICIAL))


def test_several_connections(tmp_path):
    run(tmp_path, "mixed", 2, each=2, official={0: OFFICIAL})
