"""`python -m mlx.launch`: starts a program as several processes; see --help."""

import sys

from mlx._distributed_utils.launch import main

if __name__ == "__main__":
    sys.exit(main())
