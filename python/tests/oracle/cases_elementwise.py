"""Rows of elementwise functions, types and creation."""

from arguments import FLAG, A, Either, Fn, Int, Num, Scalar, any_shape, dtype, wider_shape
from table import BOTH, GRAD, row, rows
from wire import Name

# Elementwise, one operand

rows("abs negative square sign positive", A("any", values="special"), modes=BOTH)
rows("exp sin cos tanh sinh cosh arctan arcsinh sigmoid erf expm1", A("inexact", values="special"))
rows("exp sin cos tanh arctan sigmoid erf sinh cosh arcsinh", A("float"), modes=GRAD, tol=4)
rows("tan", A("inexact", values="unit"), modes=GRAD, tol=4)
rows("arcsin arccos arctanh erfinv asin acos atanh", A("float", values="unit"), modes=GRAD, tol=8)
rows(
    "log log2 log10 log1p sqrt rsqrt reciprocal", A("inexact", values="positive"), modes=BOTH, tol=4
)
rows("log log2 log10 log1p sqrt rsqrt reciprocal", A("float", values="special"))
rows("arccosh acosh", Fn(lambda d: A("float", values="positive")), tol=4)
rows("atan asinh exp sin", A("real"))
rows("ceil floor trunc", A("number", values="special"))
row("round", A("number", values="special"), Int(-2, 2))
row("round", A("float"), modes=GRAD)
rows("isnan isinf isfinite isneginf isposinf logical_not", A("any", values="special"))
rows("conjugate conj real imag", A("any", values="special"))
row("bitwise_invert", A("int"))
rows("degrees radians", A("float"), modes=GRAD)
row("nan_to_num", A("float", values="special"), Num(-3, 3), Either(None, 7.0), Either(None, -7.0))
row("stop_gradient", A("any"))

# Elementwise, two operands and more

rows(
    "add subtract multiply maximum minimum", A("any", values="special"), A("any", like=0), weight=2
)
rows("add subtract multiply", A("any"), Scalar())
rows("add multiply maximum", Scalar(), A("real"))
rows("add subtract multiply maximum minimum", A("float"), A("float", like=0), modes=BOTH)
rows("divide", A("any"), A("any", values="positive", like=0), modes=BOTH, weight=2, tol=2)
rows("divide floor_divide remainder", A("number"), Scalar(positive=True), tol=2)
rows(
    "floor_divide remainder divmod",
    A("number", values="positive"),
    A("number", values="positive", like=0),
)
rows("power pow", A("number", values="positive"), A("number", values="small", like=0), tol=8)
row("power", A("float", values="positive"), A("float", like=0), modes=GRAD, tol=16)
rows("arctan2 atan2 logaddexp", A("float"), A("float", like=0), modes=BOTH, tol=4)
rows(
    "equal not_equal less less_equal greater greater_equal",
    A("any", values="small"),
    A("any", values="small", like=0),
)
rows("equal less greater_equal", A("real", values="special"), Scalar())
rows(
    "logical_and logical_or logical_xor", A("any", values="small"), A("any", values="small", like=0)
)
rows("bitwise_and bitwise_or bitwise_xor", A("int", values="special"), A("int", like=0))
rows("bitwise_and bitwise_or bitwise_xor", A("bool"), A("bool", like=0))
rows(
    "left_shift right_shift bitwise_left_shift bitwise_right_shift",
    A("int", values="positive"),
    A("int", values="small", like=0),
)
row("where", A("bool"), A("any", like=0), A("any", like=0), modes=GRAD, weight=2)
row("where", A("real", values="small"), A("float", like=0), Scalar())
row("clip", A("real"), Either(None, -1, 0.5, A("real", like=0)), Either(2, 1.5, A("real", like=0)))
row("clip", A("float"), -0.5, 0.5, modes=BOTH)
rows(
    "isclose allclose",
    A("float", values="special"),
    A("float", like=0),
    rtol=Num(0, 1),
    atol=0.5,
    equal_nan=FLAG,
)
row("array_equal", A("any", values="small"), A("any", values="small", same=0), equal_nan=FLAG)
rows("array.__add__ array.__sub__ array.__mul__ array.__rsub__", A("any"), Scalar())
rows(
    "array.__mod__ array.__floordiv__ array.__truediv__ array.__pow__",
    A("number", values="positive"),
    Scalar(positive=True),
    tol=4,
)
rows("array.__and__ array.__or__ array.__xor__", A("int"), A("int", like=0))
rows("array.__eq__ array.__ne__ array.__lt__ array.__ge__", A("any", values="small"), Scalar())
rows("array.__neg__ array.__abs__ array.__pos__", A("any"))
row("array.__invert__", A("int"))

# Types and creation

rows("astype array.astype", A("real", values="small"), dtype("any"), weight=3)
row("astype", A("float"), dtype("float"), modes=GRAD)
rows("view array.view", A("int", "... 8"), dtype("int"))
rows("view", A("float", "... 8"), dtype("uint"))
row("zeros", any_shape(), dtype())
row("ones", any_shape(), dtype())
row("empty", any_shape(), dtype(), shape_only=True)
row("full", any_shape(), Scalar(), Either(None, dtype()))
row("full", Fn(lambda d: wider_shape(0) if d.args else [2, 3]), A("any", "1"))
rows("zeros_like ones_like", A())
row("empty_like", A(), shape_only=True)
row("full_like", A("any"), Scalar())
row("arange", Int(-3, 20), Int(-3, 20), Either(1, 2, -1), Either(None, dtype("float")))
row("arange", Int(0, 9), Int(9, 30), Either(1, 2, 3), dtype("int"))
row("arange", Int(-3, 3), Num(3, 9), 0.5, dtype("float"))
row("arange", Int(-3, 3), Int(3, 9), 1, dtype("complex"))
row("arange", Num(-3, 9))
row("linspace", Num(-3, 3), Num(-3, 3), Int(0, 9), FLAG, dtype("float"), tol=4, sums=True)
row("eye", Int(1, 6), Either(None, Int(1, 6)), Int(-3, 3), dtype())
row("identity", Int(1, 6), dtype())
row("tri", Int(1, 6), Either(None, Int(1, 6)), Int(-3, 3), dtype())
rows("hanning hamming blackman bartlett", Int(0, 20), tol=8, sums=True)
row(
    "isdtype",
    dtype(),
    Either("bool", "signed integer", "integral", "real floating", "numeric", "x"),
)
row("issubdtype", dtype(), Either(dtype(), Name("floating"), Name("integer"), Name("generic")))
row("result_type", A(), A(), dtype())
row("can_cast", dtype(), dtype())
rows("finfo iinfo", dtype())
