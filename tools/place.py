"""Holds every mention of the place of publication against `[project.urls]` of pyproject.toml.

    python tools/place.py            list mentions that lead elsewhere; exit status 1 if there are
    python tools/place.py --write    change mentions of another place to that of the setting

To move the project: change the three addresses in pyproject.toml, then run with --write. Links into
the repository must name files that are there.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
REPOSITORY, PAGES = URLS["Repository"], URLS["Documentation"].rstrip("/")
OWNER, NAME = REPOSITORY.rsplit("/", 2)[1:]

# Forms that a link to a repository named like this one takes.
FORMS = [
    (rf"https://github\.com/[\w.-]+/{NAME}(?![\w.-])", REPOSITORY),
    (
        rf"https://raw\.githubusercontent\.com/[\w.-]+/{NAME}(?![\w.-])",
        f"https://raw.githubusercontent.com/{OWNER}/{NAME}",
    ),
    (rf"https://[\w-]+\.github\.io/{NAME}(?![\w.-])", PAGES),
]


def files():
    """Tracked files of text, and those that git does not know yet and does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(command, cwd=ROOT, text=True).splitlines():
        path = ROOT / name
        try:
            yield path, path.read_text()
        except (UnicodeDecodeError, FileNotFoundError):
            continue


def complaints(path, text):
    """What is wrong with the links in one file."""
    for form, wanted in FORMS:
        for found in re.findall(form, text):
            if found != wanted:
                yield f"{path}: {found}, expected {wanted}"
    for found in re.findall(rf"{REPOSITORY}/(?:blob|tree)/main/([\w./-]+)", text):
        if not (ROOT / found.rstrip(".")).exists():
            yield f"{path}: there is no {found}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    bad = 0
    for path, text in files():
        if args.write:
            new = text
            for form, wanted in FORMS:
                new = re.sub(form, wanted, new)
            if new != text:
                path.write_text(new)
                print(path.relative_to(ROOT))
            text = new
        for line in complaints(path.relative_to(ROOT), text):
            print(line)
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
