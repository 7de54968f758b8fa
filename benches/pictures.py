"""Draws docs/images/benchmarks-*.png from benches/figures.json.

    python benches/pictures.py [--out docs/images]

Columns of the rows: this library, MLX CUDA, PyTorch where there is one.
"""

import argparse
import json
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAMES = ("mlx-vulkan", "MLX CUDA", "PyTorch")
COLOURS = ("#b0413e", "#7f8c9a", "#c5ced6")


def draw(path, figures, conditions):
    """Horizontal bars, one group for each row."""
    rows = figures["rows"][::-1]
    count = len(rows[0]) - 1
    height = 0.8 / count
    figure, axes = plt.subplots(figsize=(8, 0.6 + 0.22 * len(rows) * count))
    for k in range(count):
        places = [i + (count - 1) / 2 * height - k * height for i in range(len(rows))]
        values = [row[1 + k] for row in rows]
        bars = axes.barh(places, values, height * 0.92, color=COLOURS[k], label=NAMES[k])
        axes.bar_label(bars, padding=2, fontsize=7)
    axes.set_yticks(range(len(rows)), [row[0] for row in rows])
    axes.set_xlabel(figures["unit"])
    axes.set_title(conditions, fontsize=8, pad=26)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.1, y=0.02)
    axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False, borderaxespad=0.2
    )
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "images")
    args = parser.parse_args()
    data = json.loads((ROOT / "benches" / "figures.json").read_text())
    for name in ("operations", "models"):
        draw(args.out / f"benchmarks-{name}.png", data[name], data["conditions"])


if __name__ == "__main__":
    main()
