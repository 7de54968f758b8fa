"""Pages of docs/: programs print what the page says, commands and links name what is there."""

import pathlib
import re
import shlex

import mlx.core as mx
import pytest
from spirv_module import triple

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Pages about kernels of one's own need a GPU.
ON_GPU = {"custom_kernels.md"}


def blocks(path, *kinds):
    found = re.findall(r"^```(\w*)\n(.*?)^```", path.read_text(), re.M | re.S)
    return [(kind, text) for kind, text in found if kind in kinds]


PROGRAMS = [
    pytest.param(p, id=p.stem, marks=[pytest.mark.gpu] if p.name in ON_GPU else [])
    for p in PAGES
    if blocks(p, "python")
]


@pytest.mark.parametrize("path", PROGRAMS)
def test_programs_print_what_the_page_says(path, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    mx.random.seed(0)
    names = {"__name__": "__main__", "SPIRV": triple()}
    for kind, text in blocks(path, "python", "text"):
        if kind == "python":
            capsys.readouterr()
            exec(compile(text, str(path), "exec"), names)
        else:
            assert capsys.readouterr().out == text, path.name


def commands():
    for path in PAGES:
        for _, text in blocks(path, "sh"):
            for line in text.splitlines():
                if line.strip() and not line.startswith("#"):
                    yield pytest.param(line, id=f"{path.stem}: {line[:50]}")


@pytest.mark.parametrize("line", list(commands()))
def test_commands_name_what_is_there(line):
    words = [w for w in shlex.split(line, comments=True) if "=" not in w or w.startswith("-")]
    program, *rest = words
    known = {"pip", "python", "pytest", "dot", "mlx.launch"}
    if program.startswith("mlx_lm."):
        return
    if program == "mpirun":
        program, *rest = words[words.index("python") :]
    if "/" in program:
        assert (ROOT / program).exists(), line
        return
    assert program in known, line
    if program == "python" and rest[0].endswith(".py"):
        script = ROOT / rest[0]
        assert script.exists(), line
        for option in rest[1:]:
            if option.startswith("--") and option != "--help":
                assert f'"{option.split("=")[0]}"' in script.read_text(), line
    if program == "python" and rest[0] == "-m":
        assert rest[1] in {"mlx.info", "mlx.tune", "pytest"}, line


def test_relative_links_lead_to_files():
    bad = []
    for path in [*PAGES, *ROOT.glob("*.md")]:
        for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
            target = link.split("#")[0]
            if target and "://" not in target and not (path.parent / target).exists():
                bad.append(f"{path.name}: {link}")
    assert not bad
