"""The base field and the curve of BLS12-381 as kernels for `mx.fast.vulkan_kernel`."""
