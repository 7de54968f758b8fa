"""A producer and a consumer of DLPack capsules in ctypes, after the structs of dlpack.h."""

import ctypes
from ctypes import (
    POINTER,
    byref,
    c_char_p,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    py_object,
)

import numpy as np


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", Tensor),
    ]


DELETER = ctypes.CFUNCTYPE(None, c_void_p)
api = ctypes.pythonapi
api.PyCapsule_New.restype = py_object
api.PyCapsule_New.argtypes = [c_void_p, c_char_p, c_void_p]
api.PyCapsule_GetName.restype = c_char_p
api.PyCapsule_GetName.argtypes = [py_object]
api.PyCapsule_GetPointer.restype = c_void_p
api.PyCapsule_GetPointer.argtypes = [py_object, c_char_p]
api.PyCapsule_SetName.argtypes = [py_object, c_char_p]

NAMES = {False: b"dltensor", True: b"dltensor_versioned"}
USED = {False: b"used_dltensor", True: b"used_dltensor_versioned"}
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class Producer:
    """Lends the memory of a NumPy array; counts how often it is given back.

    `fields` replace those of the tensor, such as code=4 for bfloat16 held as uint16.
    """

    def __init__(self, x, versioned=True, device=(1, 0), flags=0, version=(1, 0), **fields):
        self.x, self.versioned, self.device = x, versioned, device
        self.returned = 0
        self.asked = []
        n = x.ndim
        self.shape = (c_int64 * n)(*x.shape)
        self.strides = (c_int64 * n)(*[s // x.itemsize for s in x.strides])
        struct = Versioned if versioned else Managed
        self.struct = struct()
        if versioned:
            self.struct.major, self.struct.minor = version
            self.struct.flags = flags
        self.deleter = DELETER(self.give_back)
        self.struct.deleter = ctypes.cast(self.deleter, c_void_p)
        t = self.struct.tensor
        t.data, t.ndim, t.lanes = x.ctypes.data, n, 1
        t.device_type, t.device_id = device
        t.code, t.bits = CODES[x.dtype.kind], x.itemsize * 8
        t.shape, t.strides = self.shape, self.strides
        for k, v in fields.items():
            setattr(t, k, v)

    def give_back(self, pointer):
        assert pointer == ctypes.addressof(self.struct)
        self.returned += 1

    def capsule(self):
        return api.PyCapsule_New(byref(self.struct), NAMES[self.versioned], None)

    def __dlpack__(self, **options):
        self.asked.append(options)
        return self.capsule()

    def __dlpack_device__(self):
        return self.device


class Old(Producer):
    """From before DLPack 1.0: no keywords but `stream`, and legacy structs."""

    def __init__(self, x, **options):
        super().__init__(x, versioned=False, **options)

    def __dlpack__(self, *, stream=None):
        return self.capsule()


class Taken:
    """What a consumer sees in a capsule, until `give_back`."""

    def __init__(self, capsule):
        self.name = api.PyCapsule_GetName(capsule)
        self.versioned = self.name == NAMES[True]
        self.pointer = api.PyCapsule_GetPointer(capsule, self.name)
        api.PyCapsule_SetName(capsule, USED[self.versioned])
        self.struct = (Versioned if self.versioned else Managed).from_address(self.pointer)
        t = self.struct.tensor
        self.flags = self.struct.flags if self.versioned else None
        self.shape = tuple(t.shape[: t.ndim])
        self.strides = tuple(t.strides[: t.ndim])
        self.type = (t.code, t.bits, t.lanes)
        self.device = (t.device_type, t.device_id)
        self.address = (t.data or 0) + t.byte_offset

    def numpy(self, dtype):
        """A copy of the elements."""
        dtype = np.dtype(dtype)
        steps = [s * dtype.itemsize for s in self.strides]
        reach = sum((d - 1) * s for d, s in zip(self.shape, steps, strict=True)) + dtype.itemsize
        if 0 in self.shape:
            return np.zeros(self.shape, dtype)
        memory = (ctypes.c_char * reach).from_address(self.address)
        return np.ndarray(self.shape, dtype, memory, 0, steps).copy()

    def give_back(self):
        DELETER(self.struct.deleter)(self.pointer)
