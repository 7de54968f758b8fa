# Written by tools/stubs.py from the module itself; do not edit.
"""CUDA is not available here; the name exists for programs that ask."""


__all__ = ['is_available']

def is_available() -> bool:
    """Whether this backend is available: never, in this distribution."""
