//! Rows of two operands: arithmetic. See `table`.
#![allow(clippy::redundant_closure, clippy::needless_update)]

use super::loops::{
    Cpu, NONE, Single, bool_loop, c64_loop, f32_checked, f32_loop, f32_split2, f64_loop, int_loops,
};
use super::table::{BINARY, CallForm, Code, Row, TypeRule::*};
use super::{
    scalar as s, scalar_c64 as c64, scalar_int::Int, scalar_logaddexp as l, scalar_special as x,
    scalar_wide as w,
};

pub(in crate::kernels) const ROWS: &[Row] = &[
    Row {
        name: "add",
        doc: "Sum of two arrays, element by element.\nIntegers wrap around where the sum does not fit; for bool it is the logical or. The operator `+` of arrays.",
        example: "mx.add(mx.array([1, 2]), mx.array([3, 4]))\narray([4, 6], dtype=int32)",
        rule: Same,
        partials: &["1", "1"],
        cpu: Cpu {
            bool_: bool_loop!(2, |a, b| a | b),
            ints: int_loops!(2, |a, b| a.wrapping_add(b)),
            f32: f32_loop!(2, |a, b| a + b),
            f64: f64_loop!(2, |a, b| a + b),
            c64: c64_loop!(2, |a, b| a + b),
            single: Some(Single::Add),
            ..NONE
        },
        glsl: &[("B", "$a || $b"), ("IUFC", "$a + $b")],
        ..BINARY
    },
    Row {
        name: "subtract",
        doc: "Difference of two arrays, element by element.\nIntegers wrap around, unsigned ones below zero; for bool it is the exclusive or. The operator `-` of arrays.",
        example: "mx.subtract(mx.array([5, 2]), mx.array([3, 4]))\narray([2, -2], dtype=int32)",
        rule: Same,
        partials: &["1", "-1"],
        cpu: Cpu {
            bool_: bool_loop!(2, |a, b| a ^ b),
            ints: int_loops!(2, |a, b| a.wrapping_sub(b)),
            f32: f32_loop!(2, |a, b| a - b),
            f64: f64_loop!(2, |a, b| a - b),
            c64: c64_loop!(2, |a, b| a - b),
            single: Some(Single::Subtract),
            ..NONE
        },
        glsl: &[("B", "$a != $b"), ("IUFC", "$a - $b")],
        ..BINARY
    },
    Row {
        name: "multiply",
        doc: "Product of two arrays, element by element.\nIntegers wrap around where the product does not fit; for bool it is the logical and. The operator `*` of arrays.",
        example: "mx.multiply(mx.array([1, 2]), mx.array([3, 4]))\narray([3, 8], dtype=int32)",
        rule: Same,
        partials: &["b", "a"],
        cpu: Cpu {
            bool_: bool_loop!(2, |a, b| a & b),
            ints: int_loops!(2, |a, b| a.wrapping_mul(b)),
            f32: f32_loop!(2, |a, b| a * b),
            f64: f64_loop!(2, |a, b| a * b),
            c64: c64_loop!(2, |a, b| a * b),
            single: Some(Single::Multiply),
            ..NONE
        },
        glsl: &[("B", "$a && $b"), ("IUF", "$a * $b"), ("C", "c_mul($a, $b)")],
        ..BINARY
    },
    Row {
        name: "divide",
        doc: "Quotient of two arrays, element by element.\nIntegers are divided as float32. A division by zero gives an infinity, and NaN for zero by zero. The operator `/` of arrays.",
        example: "mx.divide(mx.array([1, 3]), mx.array([2, 2]))\narray([0.5, 1.5], dtype=float32)",
        rule: Float,
        divides: true,
        partials: &["1 / b", "-(y / b)"],
        cpu: Cpu {
            f32: f32_loop!(2, |a, b| a / b),
            f64: f64_loop!(2, |a, b| a / b),
            c64: c64_loop!(2, |a, b| c64::cdiv(a, b)),
            single: Some(Single::Divide),
            ..NONE
        },
        glsl: &[("F", "m_div($a, $b)"), ("C", "c_div($a, $b)")],
        ..BINARY
    },
    Row {
        name: "floor_divide",
        doc: "Quotient of two arrays, rounded down to an integer.\nDivision of integers by zero gives zero, that of floats an infinity or NaN; complex quotients are not rounded. The operator `//` of arrays.",
        example: "mx.floor_divide(mx.array([7, -7]), mx.array([2, 2]))\narray([3, -4], dtype=int32)",
        rule: Same,
        cpu: Cpu {
            bool_: bool_loop!(2, |a, b| a & b),
            ints: int_loops!(2, |a, b| a.floor_div(b)),
            f32: f32_loop!(2, |a, b| (a / b).floor()),
            f64: f64_loop!(2, |a, b| (a / b).floor()),
            c64: c64_loop!(2, |a, b| c64::cdiv(a, b)),
            ..NONE
        },
        glsl: &[
            ("B", "$a && $b"),
            ("IU", "i_floor_div($a, $b)"),
            ("F", "m_floor(m_div($a, $b))"),
            ("C", "c_div($a, $b)"),
        ],
        ..BINARY
    },
    Row {
        name: "remainder",
        doc: "Remainder of the division of two arrays, with the sign of the divisor.\nIt belongs to the quotient that is rounded down: `a == floor(a / b) * b + remainder`. Integers divided by zero leave the dividend, floats NaN. The operator `%` of arrays.",
        example: "mx.remainder(mx.array([7, -7]), mx.array([3, 3]))\narray([1, 2], dtype=int32)",
        rule: NotComplex,
        code: Code::Long,
        partials: &["1", "-floor(a / b)"],
        cpu: Cpu {
            bool_: bool_loop!(2, |a, b| a & (b ^ 1)),
            ints: int_loops!(2, |a, b| a.floor_mod(b)),
            f32: f32_loop!(2, |a, b| w::floor_mod32(a, b)),
            f64: f64_loop!(2, |a, b| w::floor_mod64(a, b)),
            ..NONE
        },
        glsl: &[("B", "$a && !$b"), ("IU", "i_floor_mod($a, $b)"), ("F", "m_floor_mod($a, $b)")],
        ..BINARY
    },
    Row {
        name: "power",
        aliases: &["pow"],
        doc: "First array to the power of the second, element by element.\nIntegers wrap around, and negative exponents of integers give 0. Everything to the power of 0 is 1; negative numbers to a power that is no integer are NaN. The operator `**` of arrays.",
        example: "mx.power(mx.array([2, 3]), mx.array([3, 2]))\narray([8, 9], dtype=int32)",
        rule: Same,
        call: CallForm::Closed,
        code: Code::Long,
        partials: &["b * power(a, b - select(b == 0, 0, 1))", "y * log(select(y == 0, 1, a))"],
        cpu: Cpu {
            bool_: bool_loop!(2, |a, b| a | (b ^ 1)),
            ints: int_loops!(2, |a, b| a.power(b)),
            f32: f32_split2!(|a, b| if b == 2.0 || b == 3.0 || b == 4.0 => x::pow_few(a, b), else x::pow(a, b)),
            f64: f64_loop!(2, |a, b| a.powf(b)),
            c64: c64_loop!(2, |a, b| c64::cpow(a, b)),
            ..NONE
        },
        glsl: &[("B", "$a || !$b"), ("IU", "i_pow($a, $b)"), ("F", "m_pow($a, $b)"), ("C", "c_pow($a, $b)")],
        ..BINARY
    },
    Row {
        name: "maximum",
        chooses: true,
        doc: "Larger of two arrays, element by element.\nThe result is NaN where either of the two is NaN. Complex numbers are compared by their real parts, then by their imaginary parts. For the largest element of one array see `max`.",
        example: "mx.maximum(mx.array([1, 5]), mx.array([3, 4]))\narray([3, 5], dtype=int32)",
        rule: Same,
        call: CallForm::Closed,
        code: Code::Brief,
        partials: &["a > b", "a <= b"],
        cpu: Cpu {
            bool_: bool_loop!(2, |a, b| a | b),
            ints: int_loops!(2, |a, b| if a > b { a } else { b }),
            f32: f32_loop!(2, |a, b| if a > b || s::is_nan(a) { a } else { b }),
            f64: f64_loop!(2, |a, b| if a > b || a.is_nan() { a } else { b }),
            c64: c64_loop!(2, |a, b| c64::cmax(a, b)),
            single: Some(Single::Maximum),
            ..NONE
        },
        glsl: &[
            ("B", "$a || $b"),
            ("IU", "$a > $b ? $a : $b"),
            ("F", "m_larger($a, $b)"),
            ("C", "c_max($a, $b)"),
        ],
        ..BINARY
    },
    Row {
        name: "minimum",
        chooses: true,
        doc: "Smaller of two arrays, element by element.\nThe result is NaN where either of the two is NaN. Complex numbers are compared by their real parts, then by their imaginary parts. For the smallest element of one array see `min`.",
        example: "mx.minimum(mx.array([1, 5]), mx.array([3, 4]))\narray([1, 4], dtype=int32)",
        rule: Same,
        call: CallForm::Closed,
        code: Code::Brief,
        partials: &["a < b", "a >= b"],
        cpu: Cpu {
            bool_: bool_loop!(2, |a, b| a & b),
            ints: int_loops!(2, |a, b| if a < b { a } else { b }),
            f32: f32_loop!(2, |a, b| if a < b || s::is_nan(a) { a } else { b }),
            f64: f64_loop!(2, |a, b| if a < b || a.is_nan() { a } else { b }),
            c64: c64_loop!(2, |a, b| c64::cmin(a, b)),
            single: Some(Single::Minimum),
            ..NONE
        },
        glsl: &[
            ("B", "$a && $b"),
            ("IU", "$a < $b ? $a : $b"),
            ("F", "m_smaller($a, $b)"),
            ("C", "c_min($a, $b)"),
        ],
        ..BINARY
    },
    Row {
        name: "logaddexp",
        doc: "Logarithm of a sum of exponentials: `log(exp(a) + exp(b))`.\nThe larger operand is taken out of the sum first, so that nothing overflows; two times minus infinity give minus infinity. Over an axis see `logsumexp`.",
        example: "mx.logaddexp(mx.array([0.0]), mx.array([0.0]))\narray([0.693147], dtype=float32)",
        rule: Float,
        call: CallForm::Closed,
        code: Code::Long,
        partials: &["sigmoid(a - b)", "sigmoid(b - a)"],
        cpu: Cpu {
            f32: f32_checked!(|a, b| l::logaddexp_fast(a, b), if |y| l::cancels(a, b, y) => l::logaddexp_exact(a, b)),
            f64: f64_loop!(2, |a, b| w::logaddexp64(a, b)),
            c64: c64_loop!(2, |a, b| c64::clogaddexp(a, b)),
            ..NONE
        },
        glsl: &[("H", "h_logaddexp($a, $b)"), ("F", "m_logaddexp($a, $b)"), ("C", "c_logaddexp($a, $b)")],
        ..BINARY
    },
    Row {
        name: "arctan2",
        aliases: &["atan2"],
        doc: "Angle of the point with the coordinates `b` (horizontal) and `a` (vertical), in [-pi, pi].\nThe signs of both operands choose the quadrant, those of zeros included.",
        example: "mx.arctan2(mx.array([0.0]), mx.array([1.0]))\narray([0], dtype=float32)",
        rule: FloatNotComplex,
        call: CallForm::Closed,
        partials: &["b / (a * a + b * b)", "-(a / (a * a + b * b))"],
        cpu: Cpu { f32: f32_loop!(2, |a, b| s::atan2(a, b)), f64: f64_loop!(2, |a, b| a.atan2(b)), ..NONE },
        glsl: &[("F", "m_atan2($a, $b)")],
        ..BINARY
    },
];
