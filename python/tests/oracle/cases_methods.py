"""Rows of the methods of arrays: operators (reflected and assigning too), conversions, texts."""

from arguments import FLAG, A, Either, Fn, Int, Scalar, axis, maybe_axis
from table import GRAD, row, rows

rows("array.__radd__ array.__rmul__ array.__iadd__ array.__isub__ array.__imul__", A(), Scalar())
rows("array.__iadd__ array.__imul__", A("real"), A("real", like=0))
rows("array.__rtruediv__ array.__rpow__", A("number", values="positive"), Scalar(), tol=8)
rows("array.__rmod__ array.__rfloordiv__", A("number", values="positive"), Scalar(positive=True))
rows("array.__ipow__", A("number", values="positive"), Either(1, 2, 3), tol=4)
rows("array.__imod__ array.__ifloordiv__", A("number"), Scalar(positive=True))
row("array.__itruediv__", A("float"), Scalar(positive=True))
rows("array.__iand__ array.__ior__ array.__ixor__", A("int"), A("int", like=0))
rows("array.__rand__ array.__rxor__", A("int"), Int(0, 7))
rows("array.__lshift__ array.__rshift__", A("int", values="positive"), Int(0, 3))
rows("array.__ilshift__ array.__irshift__", A("int", values="positive"), Int(0, 3))
rows("array.__rlshift__ array.__rrshift__", A("int", values="small"), Int(1, 9))
rows("array.__gt__ array.__le__", A("real", values="small"), Scalar())
row("array.__imatmul__", A("float", "n 4"), A("float", "4 4"), sums=True, tol=4)
row("array.__rmatmul__", A("float", "4 k"), A("float", "n 4"), sums=True, tol=4)

rows("array.abs array.square array.sin array.cos array.exp", A("inexact"), tol=4)
rows(
    "array.log array.log2 array.log10 array.log1p array.sqrt array.rsqrt array.reciprocal",
    A("inexact", values="positive"),
    tol=4,
)
row("array.round", A("number"), Int(0, 2))
row("array.conj", A("any"))
row("array.argmin", A("real", values="distinct"), maybe_axis(), FLAG)
row("array.logsumexp", A("float"), maybe_axis(), FLAG, modes=GRAD, tol=4)
rows("array.moveaxis array.swapaxes", A("any", "any1"), axis(), axis(), modes=GRAD)

rows("array.__bool__ array.__int__ array.__float__", A("number", "", values="exact"))
rows("array.__complex__", A("complex", ""))
rows("array.__len__", A("any", "any1"))
rows("array.__bool__ array.__len__", A("any", "any1"))
# The text of half precision rounds in other places.
rows("array.__repr__ array.__str__", A("f32", values="exact"), weight=2)
rows("array.__repr__ array.__str__", A("int"))
rows("array.__repr__ array.__str__", A("bool"))
row("array.__getitem__", A("any", "any1"), Fn(lambda d: slice(None, None, d.pick([1, 2, -1]))))
