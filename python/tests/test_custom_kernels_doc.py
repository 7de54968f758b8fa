"""docs/custom_kernels.md: its programs run as they stand, and print what it says."""

import pathlib
import re

import pytest
from spirv_module import triple

DOC = pathlib.Path(__file__).parents[2] / "docs" / "custom_kernels.md"


@pytest.mark.gpu
def test_programs_print_what_the_page_says(capsys):
    blocks = re.findall(r"```(python|text)\n(.*?)```", DOC.read_text(), re.S)
    names = {"SPIRV": triple()}
    checked = 0
    for kind, text in blocks:
        if kind == "python":
            exec(compile(text, str(DOC), "exec"), names)
        else:
            assert capsys.readouterr().out == text
            checked += 1
    assert checked == 6
