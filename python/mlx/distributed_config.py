"""`python -m mlx.distributed_config`: writes a host file for `mlx.launch`; see --help."""

import sys

from mlx._distributed_utils.config import main

if __name__ == "__main__":
    sys.exit(main())
