#!/usr/bin/env python3
"""Writes docs/tested_devices.md from reports of `python -m mlx.info --report FILE`.

python tools/tested_devices.py FILE...    adds their devices, and writes the page
python tools/tested_devices.py --check    exit 1 when the page differs from what would be written

What is kept of them stands in docs/tested_devices.json; a newer report of a device and driver takes
the place of the older one.
"""

import argparse
import json
import pathlib
import sys

from mlx._report.device import verdict

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "docs" / "tested_devices.json"
PAGE = ROOT / "docs" / "tested_devices.md"

HEADER = """\
# Tested devices

Written by `tools/tested_devices.py` from reports; do not edit. `python -m mlx.info --report
report.json` makes one for your GPU: facts, a self-test of each kind of kernel, bandwidths. Attach
it to an issue, whether it works or not.

| device | kind | driver | Vulkan | mlx | self-test |
|---|---|---|---|---|---|
"""


def rows(path):
    """Device and driver, and what the page says of them, for each GPU of a report."""
    found = json.loads(pathlib.Path(path).read_text())
    for gpu in found["gpus"]:
        if "error" not in gpu:
            told = [gpu["kind"], gpu["api_version"], found["mlx_vulkan"], verdict(gpu)]
            yield f"{gpu['name']}|{gpu['driver']}", told


def page(kept):
    text = HEADER
    for key, (kind, api, version, result) in sorted(kept.items()):
        name, driver = key.split("|")
        text += f"| {name} | {kind} | {driver} | {api} | {version} | {result} |\n"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("reports", nargs="*")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if args.check:
        same = PAGE.exists() and PAGE.read_text() == page(kept)
        print(f"docs/tested_devices.md {'is up to date' if same else 'differs'}")
        return not same
    for path in args.reports:
        kept.update(rows(path))
    KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page(kept))
    return 0


if __name__ == "__main__":
    sys.exit(main())
