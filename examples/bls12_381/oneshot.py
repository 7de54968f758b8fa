"""One multiplication of n elements in a new process: python -m bls12_381.oneshot N.

Prints the seconds that `import mlx.core` took, and those from there to the result in NumPy:
instance, device, pipeline and buffers are made for this one call. Compiled kernels come from the
disk cache, if they are there.
"""

import sys
import time

import numpy as np


def main():
    n = int(sys.argv[1])
    a, b = np.random.default_rng(0).integers(0, 2**60, (2, n, 6), np.uint64)
    start = time.perf_counter()
    import mlx.core as mx

    imported = time.perf_counter()
    mx.set_default_device(mx.gpu)
    from .field import multiply

    result = np.array(multiply(mx.array(a), mx.array(b)))
    end = time.perf_counter()
    print(imported - start, end - imported, int(result[-1, 0]))


if __name__ == "__main__":
    main()
