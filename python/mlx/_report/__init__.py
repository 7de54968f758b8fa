"""What `python -m mlx.info` tells of devices beyond facts: kernels compiled, reports to attach."""
