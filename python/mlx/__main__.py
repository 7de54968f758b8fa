"""`python -m mlx`: the version, or what this installation and its devices are.

Without arguments nothing is printed, as MLX does it. --version prints the version of MLX's API,
--cmake-dir the folder of the package, --info what `python -m mlx.info` prints.
"""

import argparse
from pathlib import Path


def main(argv=None):
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="mlx", description="MLX on Vulkan.")
    parser.add_argument("--version", action="store_true", help="print the version")
    parser.add_argument("--cmake-dir", action="store_true", help="print the folder of the package")
    parser.add_argument("--info", action="store_true", help="print what is installed and found")
    asked = parser.parse_args(argv)
    if asked.version:
        import mlx.core as mx

        print(mx.__version__)
    if asked.cmake_dir:
        print(Path(__file__).resolve().parent)
    if asked.info:
        from mlx import info

        return info.main([])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
