"""Tags a release: the version of Cargo.toml, with its section of CHANGELOG.md as the message.

    python tools/tag.py            make the annotated tag vX.Y.Z
    python tools/tag.py --check    only say whether it could be made

The changelog's first section must bear the version and a date, CITATION.cff the version, the
stand-in distribution the level of MLX's API that the section names; nothing may be uncommitted.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def git(*args):
    return subprocess.run(
        ["git", *args], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


def section():
    """Heading and text of the changelog's first section."""
    text = (ROOT / "CHANGELOG.md").read_text()
    heading, body = re.search(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.M | re.S).groups()
    return heading, body.strip()


def disagreements(version):
    """What keeps the parts of a release from telling the same; not whether it is committed."""
    heading, _ = section()
    stand_in = tomllib.loads((ROOT / "packaging/mlx/pyproject.toml").read_text())["project"]
    level = stand_in["version"].removesuffix("+vulkan")
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M).group(1)
    if not heading.startswith(f"{version} "):
        yield f"CHANGELOG.md begins with {heading!r}, expected {version}"
    if not heading.endswith(f", MLX {level}"):
        yield f"CHANGELOG.md names no MLX {level}, which packaging/mlx has"
    if cited != version:
        yield f"CITATION.cff has version {cited}, expected {version}"


def unready(version):
    """What else keeps a release from being tagged."""
    heading, _ = section()
    if not re.search(r"\(\d{4}-\d\d-\d\d\)", heading):
        yield f"CHANGELOG.md has no date in {heading!r}"
    if git("status", "--porcelain"):
        yield "there are uncommitted changes"
    if git("tag", "--list", f"v{version}"):
        yield f"there is a tag v{version} already"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]["version"]
    bad = [*disagreements(version), *unready(version)]
    for line in bad:
        print(line)
    if not bad and not args.check:
        git("tag", "--annotate", f"v{version}", "--message", f"v{version}\n\n{section()[1]}")
        print(f"v{version}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
