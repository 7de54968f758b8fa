"""Generation by mlx-lm on several processes gives the tokens of one; mlx-lm is on PYTHONPATH.

python -m pytest python/tests/oracle/sharded_lm.py
"""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import test_distributed as groups  # noqa: E402


@pytest.mark.parametrize("kind", ["tensor", "pipeline"])
@pytest.mark.parametrize("quantized", ["", "1"])
def test_tokens(tmp_path, monkeypatch, kind, quantized):
    # Processes see this library and mlx-lm.
    plain = groups.environment
    path = os.environ["PYTHONPATH"]

    def environment(**extra):
        env = plain(**extra)
        return {**env, "PYTHONPATH": env["PYTHONPATH"] + os.pathsep + path}

    monkeypatch.setattr(groups, "environment", lambda _=False, **extra: environment(**extra))
    outputs = {
        line
        for count in (1, 2, 4)
        for out in groups.run(
            tmp_path, "generate", count, file_of=groups.SHARDED, KIND=kind, QUANTIZED=quantized
        )
        for line in out.splitlines()
        if line.startswith("tokens")
    }
    assert len(outputs) == 1, outputs
