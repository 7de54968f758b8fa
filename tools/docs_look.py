"""Looks at the built documentation in a headless browser: searches, and opens three pages.

    python tools/docs_look.py --site site [--out out/docs]

The pages are read from disk. Pictures of them go to --out. Without a browser it says NOT RUN.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

BROWSERS = "chromium-headless-shell chromium chromium-browser google-chrome".split()
# Address, and what a reader must see there.
PAGES = [
    ("index.html", ["Run a language model", "What a GPU needs"]),
    ("functions/mlx.core/softmax.html", ["mx.softmax", "Types and devices", "Source"]),
    ("benchmarks.html", ["Benchmarks", "images/benchmarks-operations.png"]),
]
QUESTION = ("index.html?q=softmax", r"(\d+) matching documents", "functions/mlx.core/softmax.html")


def browse(browser, address, *options):
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"]
    command += ["--virtual-time-budget=12000", "--enable-logging=stderr", *options, address]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--site", type=pathlib.Path, default=pathlib.Path("site"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out/docs"))
    args = parser.parse_args()
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not browser:
        print("NOT RUN: no browser (package chromium-headless-shell)")
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    bad = []
    for name, words in PAGES:
        address = (args.site.resolve() / name).as_uri()
        seen = browse(browser, address, "--dump-dom")
        bad += [f"{name}: {w!r} is not there" for w in words if w not in seen.stdout]
        bad += [f"{name}: {e}" for e in re.findall(r"CONSOLE.*Uncaught.*", seen.stderr)]
        picture = args.out / f"{pathlib.Path(name).stem}.png"
        browse(browser, address, f"--screenshot={picture.resolve()}")
        if not picture.exists() or picture.stat().st_size < 20_000:
            bad.append(f"{name}: no picture was made")
    name, count, expected = QUESTION
    seen = browse(browser, f"{args.site.resolve().as_uri()}/{name}", "--dump-dom").stdout
    found = re.search(count, seen)
    if not found or not re.search(rf'{expected}[^"]*" class="md-search-result__link', seen):
        bad.append(f"the search for {name.split('=')[1]} does not find {expected}")
    print("\n".join(bad))
    hits = found[1] if found else 0
    print(f"{len(PAGES)} pages looked at, {hits} found by the search, pictures in {args.out}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
