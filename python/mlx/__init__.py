"""MLX arrays on every GPU with a Vulkan driver, and on plain CPUs."""

from pkgutil import extend_path

# Other distributions may add subpackages of `mlx`.
__path__ = extend_path(__path__, __name__)
