"""MLX arrays on every GPU with a Vulkan driver, and on plain CPUs."""

import os
from pkgutil import extend_path

# Other distributions may add subpackages of `mlx`.
__path__ = extend_path(__path__, __name__)


def _sound() -> bool:
    """Whether this folder holds one native module and the files beside it.

    Upstream's distribution, laid over this one or below it, leaves two native modules, and takes
    shared files with it when it is removed.
    """
    names = set(os.listdir(os.path.dirname(__file__)))
    native = sum(name.startswith("core.") and name.endswith((".so", ".pyd")) for name in names)
    return native < 2 and {"utils.py", "nn", "optimizers"} <= names


if not _sound():
    from mlx import _doctor

    _doctor.refuse()
    del _doctor
