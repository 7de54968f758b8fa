"""`reprlib` chooses by the name of a type and takes every `array` for one of the module `array`.
From here on it looks at the type; test runners print values with it.
"""

import array
import reprlib

_of_module = reprlib.Repr.repr_array


def _repr_array(self, x, level):
    return (
        _of_module(self, x, level) if isinstance(x, array.array) else self.repr_instance(x, level)
    )


reprlib.Repr.repr_array = _repr_array
