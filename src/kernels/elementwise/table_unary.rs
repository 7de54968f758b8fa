//! Rows of one operand: arithmetic, rounding, parts of complex numbers, tests. See `table`.
#![allow(clippy::redundant_closure, clippy::needless_update, clippy::excessive_precision)]

use num_complex::Complex32;

use super::loops::{Cpu, NONE, Single, bool_loop, c64_loop, f32_loop, f64_loop, int_loops};
use super::table::{CallForm, Code, ComplexRule, Row, TypeRule::*, UNARY};
use super::{fp8, scalar as s, scalar_c64 as c64, scalar_int::Int};

pub(in crate::kernels) const ROWS: &[Row] = &[
    Row {
        name: "abs",
        chooses: true,
        doc: "Absolute value of each element.\nThat of a complex number is its magnitude, `sqrt(re^2 + im^2)`, computed so that the squares do not overflow. The lowest value of a signed integer dtype has no positive counterpart and stays as it is.",
        example: "mx.abs(mx.array([-1.5, 2.0]))\narray([1.5, 2], dtype=float32)",
        rule: Real,
        complex: ComplexRule::Magnitude,
        code: Code::Brief,
        partials: &["sign(a)"],
        cpu: Cpu {
            bool_: bool_loop!(1, |a| a),
            ints: int_loops!(1, |a| a.magnitude()),
            f32: f32_loop!(1, |a| s::abs(a)),
            f64: f64_loop!(1, |a| a.abs()),
            c64: c64_loop!(1 => f32, |a| c64::widen(a).norm() as f32),
            single: Some(Single::Abs),
            ..NONE
        },
        glsl: &[("BU", "$a"), ("I", "abs($a)"), ("F", "m_abs($a)"), ("C", "c_abs($a)")],
        ..UNARY
    },
    Row {
        name: "negative",
        chooses: true,
        doc: "Each element with its sign changed.\nZeros of floating dtypes change their sign too, and unsigned integers wrap around: minus one is the largest value of the dtype.",
        example: "mx.negative(mx.array([1, -2]))\narray([-1, 2], dtype=int32)",
        rule: NotBool,
        code: Code::Brief,
        partials: &["-1"],
        cpu: Cpu {
            ints: int_loops!(1, |a| a.wrapping_neg()),
            f32: f32_loop!(1, |a| -a),
            f64: f64_loop!(1, |a| -a),
            c64: c64_loop!(1, |a| -a),
            single: Some(Single::Negative),
            ..NONE
        },
        glsl: &[
            ("I", "-$a"),
            ("U", "$T(0) - $a"),
            ("F", "m_neg($a)"),
            ("C", "vec2(m_neg($a.x), m_neg($a.y))"),
        ],
        ..UNARY
    },
    Row {
        name: "sign",
        doc: "Sign of each element: -1, 0 or 1.\nFor complex numbers it is `a / abs(a)`, a number of magnitude one, and 0 at 0. Both zeros give 0, and so does NaN.",
        example: "mx.sign(mx.array([-3.0, 0.0, 2.0]))\narray([-1, 0, 1], dtype=float32)",
        rule: Same,
        complex: ComplexRule::Zero,
        cpu: Cpu {
            bool_: bool_loop!(1, |a| a),
            ints: int_loops!(1, |a| a.sign()),
            f32: f32_loop!(1, |a| s::sel(a > 0.0, 1.0, 0.0) - s::sel(a < 0.0, 1.0, 0.0)),
            f64: f64_loop!(1, |a| (a > 0.0) as u8 as f64 - (a < 0.0) as u8 as f64),
            c64: c64_loop!(1, |a| c64::csign(a)),
            ..NONE
        },
        glsl: &[
            ("B", "$a"),
            ("I", "$T($a > $T(0)) - $T($a < $T(0))"),
            ("U", "$T($a != $T(0))"),
            ("F", "m_sign($a)"),
            ("C", "c_sign($a)"),
        ],
        ..UNARY
    },
    Row {
        name: "ceil",
        doc: "Smallest integer that is not less than each element.\nThe result keeps the dtype: floats stay floats, NaN and infinities stay themselves, integers and bool are returned unchanged.",
        example: "mx.ceil(mx.array([1.5, -1.5]))\narray([2, -1], dtype=float32)",
        rule: NotComplex,
        cpu: Cpu {
            bool_: bool_loop!(1, |a| a),
            ints: int_loops!(1, |a| a),
            f32: f32_loop!(1, |a| a.ceil()),
            f64: f64_loop!(1, |a| a.ceil()),
            ..NONE
        },
        glsl: &[("BIU", "$a"), ("F", "m_ceil($a)")],
        ..UNARY
    },
    Row {
        name: "floor",
        doc: "Largest integer that is not greater than each element.\nThe result keeps the dtype: floats stay floats, NaN and infinities stay themselves, integers and bool are returned unchanged.",
        example: "mx.floor(mx.array([1.5, -1.5]))\narray([1, -2], dtype=float32)",
        rule: NotComplex,
        cpu: Cpu {
            bool_: bool_loop!(1, |a| a),
            ints: int_loops!(1, |a| a),
            f32: f32_loop!(1, |a| a.floor()),
            f64: f64_loop!(1, |a| a.floor()),
            ..NONE
        },
        glsl: &[("BIU", "$a"), ("F", "m_floor($a)")],
        ..UNARY
    },
    Row {
        name: "trunc",
        doc: "Integer part of each element, that is rounding towards zero.\nThe result keeps the dtype: floats stay floats, NaN and infinities stay themselves, integers and bool are returned unchanged.",
        example: "mx.trunc(mx.array([1.7, -1.7]))\narray([1, -1], dtype=float32)",
        rule: NotComplex,
        numbers: false,
        cpu: Cpu {
            bool_: bool_loop!(1, |a| a),
            ints: int_loops!(1, |a| a),
            f32: f32_loop!(1, |a| a.trunc()),
            f64: f64_loop!(1, |a| a.trunc()),
            ..NONE
        },
        glsl: &[("BIU", "$a"), ("F", "m_trunc($a)")],
        ..UNARY
    },
    Row {
        name: "round",
        doc: "Nearest integer of each element, halves to the even one. Works on an array of any shape; the result has the shape and dtype of `a`. The parts of a complex number are rounded separately.",
        example: "mx.round(mx.array([0.5, 1.5, 2.7]))\narray([0, 2, 3], dtype=float32)",
        rule: Same,
        call: CallForm::Own,
        cpu: Cpu {
            bool_: bool_loop!(1, |a| a),
            ints: int_loops!(1, |a| a),
            f32: f32_loop!(1, |a| a.round_ties_even()),
            f64: f64_loop!(1, |a| a.round_ties_even()),
            c64: c64_loop!(1, |a| Complex32::new(a.re.round_ties_even(), a.im.round_ties_even())),
            ..NONE
        },
        glsl: &[("BIU", "$a"), ("F", "m_round($a)"), ("C", "vec2(m_round($a.x), m_round($a.y))")],
        ..UNARY
    },
    Row {
        name: "square",
        doc: "Each element times itself.\nIntegers wrap around where the square does not fit; a large float overflows to infinity. Cheaper than `power(a, 2)`.",
        example: "mx.square(mx.array([2.0, -3.0]))\narray([4, 9], dtype=float32)",
        rule: Same,
        partials: &["2 * a"],
        cpu: Cpu {
            bool_: bool_loop!(1, |a| a),
            ints: int_loops!(1, |a| a.wrapping_mul(a)),
            f32: f32_loop!(1, |a| a * a),
            f64: f64_loop!(1, |a| a * a),
            c64: c64_loop!(1, |a| a * a),
            single: Some(Single::Square),
            ..NONE
        },
        glsl: &[("B", "$a"), ("IUF", "$a * $a"), ("C", "c_mul($a, $a)")],
        ..UNARY
    },
    Row {
        name: "real",
        doc: "Real part of each element.\nElements of every dtype but complex64 are real already and are returned unchanged.",
        example: "mx.real(mx.array([1 + 2j]))\narray([1], dtype=float32)",
        rule: Real,
        complex: ComplexRule::RealPart,
        partials: &["1"],
        cpu: Cpu {
            bool_: bool_loop!(1, |a| a),
            ints: int_loops!(1, |a| a),
            f32: f32_loop!(1, |a| a),
            f64: f64_loop!(1, |a| a),
            c64: c64_loop!(1 => f32, |a| a.re),
            ..NONE
        },
        glsl: &[("BIUF", "$a"), ("C", "$a.x")],
        ..UNARY
    },
    Row {
        name: "imag",
        doc: "Imaginary part of each element.\nElements of every dtype but complex64 have none: the result is zeros of their dtype.",
        example: "mx.imag(mx.array([1 + 2j]))\narray([2], dtype=float32)",
        rule: Real,
        complex: ComplexRule::ImaginaryPart,
        cpu: Cpu {
            bool_: bool_loop!(1, |_| 0),
            ints: int_loops!(1, |_| 0),
            f32: f32_loop!(1, |_| 0.0),
            f64: f64_loop!(1, |_| 0.0),
            c64: c64_loop!(1 => f32, |a| a.im),
            ..NONE
        },
        glsl: &[("B", "NEVER"), ("IUF", "$T(NEVER)"), ("C", "$a.y")],
        ..UNARY
    },
    Row {
        name: "conjugate",
        aliases: &["conj"],
        doc: "Complex conjugate of each element: the imaginary part changes its sign.\nElements of every dtype but complex64 are returned unchanged.",
        example: "mx.conjugate(mx.array([1 + 2j]))\narray([1-2j], dtype=complex64)",
        rule: Same,
        complex: ComplexRule::Conjugate,
        code: Code::Brief,
        call: CallForm::Named,
        partials: &["1"],
        cpu: Cpu {
            bool_: bool_loop!(1, |a| a),
            ints: int_loops!(1, |a| a),
            f32: f32_loop!(1, |a| a),
            f64: f64_loop!(1, |a| a),
            c64: c64_loop!(1, |a| a.conj()),
            ..NONE
        },
        glsl: &[("BIUF", "$a"), ("C", "vec2($a.x, m_neg($a.y))")],
        ..UNARY
    },
    Row {
        name: "isnan",
        doc: "Whether each element is NaN, not a number.\nA complex number is NaN where either of its parts is. Integers and bool never are.",
        example: "mx.isnan(mx.array([1.0, float('nan')]))\narray([False, True], dtype=bool)",
        rule: Bool,
        call: CallForm::Open,
        cpu: Cpu {
            bool_: bool_loop!(1, |_| 0),
            ints: int_loops!(1 => u8, |_| 0),
            f32: f32_loop!(1 => u8, |a| s::is_nan(a) as u8),
            f64: f64_loop!(1 => u8, |a| a.is_nan() as u8),
            c64: c64_loop!(1 => u8, |a| (a.re.is_nan() || a.im.is_nan()) as u8),
            ..NONE
        },
        glsl: &[("BIU", "NEVER"), ("F", "m_isnan($a)"), ("C", "m_isnan($a.x) || m_isnan($a.y)")],
        ..UNARY
    },
    Row {
        name: "isinf",
        doc: "Whether each element is an infinity of either sign.\nA complex number is infinite where either of its parts is. Integers and bool never are.",
        example: "mx.isinf(mx.array([1.0, float('inf')]))\narray([False, True], dtype=bool)",
        rule: Predicate,
        call: CallForm::Open,
        cpu: Cpu {
            bool_: bool_loop!(1, |_| 0),
            ints: int_loops!(1 => u8, |_| 0),
            f32: f32_loop!(1 => u8, |a| a.is_infinite() as u8),
            f64: f64_loop!(1 => u8, |a| a.is_infinite() as u8),
            c64: c64_loop!(1 => u8, |a| (a.re.is_infinite() || a.im.is_infinite()) as u8),
            ..NONE
        },
        glsl: &[("BIU", "NEVER"), ("F", "m_isinf($a)"), ("C", "m_isinf($a.x) || m_isinf($a.y)")],
        ..UNARY
    },
    Row {
        name: "isfinite",
        doc: "Whether each element is neither NaN nor an infinity.\nA complex number is finite where both of its parts are. Integers and bool always are.",
        example: "mx.isfinite(mx.array([1.0, float('inf')]))\narray([True, False], dtype=bool)",
        rule: Predicate,
        call: CallForm::Open,
        cpu: Cpu {
            bool_: bool_loop!(1, |_| 1),
            ints: int_loops!(1 => u8, |_| 1),
            f32: f32_loop!(1 => u8, |a| a.is_finite() as u8),
            f64: f64_loop!(1 => u8, |a| a.is_finite() as u8),
            c64: c64_loop!(1 => u8, |a| (a.re.is_finite() && a.im.is_finite()) as u8),
            ..NONE
        },
        glsl: &[("BIU", "!NEVER"), ("F", "m_isfinite($a)"), ("C", "m_isfinite($a.x) && m_isfinite($a.y)")],
        ..UNARY
    },
    Row {
        name: "isneginf",
        doc: "Whether each element is minus infinity.\nIntegers and bool give False, and so do complex numbers with an imaginary part.",
        example: "mx.isneginf(mx.array([1.0, float('-inf')]))\narray([False, True], dtype=bool)",
        rule: Bool,
        call: CallForm::Open,
        cpu: Cpu {
            bool_: bool_loop!(1, |_| 0),
            ints: int_loops!(1 => u8, |_| 0),
            f32: f32_loop!(1 => u8, |a| (a == f32::NEG_INFINITY) as u8),
            f64: f64_loop!(1 => u8, |a| (a == f64::NEG_INFINITY) as u8),
            c64: c64_loop!(1 => u8, |a| (a.re == f32::NEG_INFINITY && a.im == 0.0) as u8),
            ..NONE
        },
        glsl: &[
            ("BIU", "NEVER"),
            ("F", "floatBitsToUint($a) == 0xff800000u"),
            ("C", "floatBitsToUint($a.x) == 0xff800000u && $a.y == 0.0"),
        ],
        ..UNARY
    },
    Row {
        name: "isposinf",
        doc: "Whether each element is plus infinity.\nIntegers and bool give False, and so do complex numbers with an imaginary part.",
        example: "mx.isposinf(mx.array([1.0, float('inf')]))\narray([False, True], dtype=bool)",
        rule: Bool,
        call: CallForm::Open,
        cpu: Cpu {
            bool_: bool_loop!(1, |_| 0),
            ints: int_loops!(1 => u8, |_| 0),
            f32: f32_loop!(1 => u8, |a| (a == f32::INFINITY) as u8),
            f64: f64_loop!(1 => u8, |a| (a == f64::INFINITY) as u8),
            c64: c64_loop!(1 => u8, |a| (a.re == f32::INFINITY && a.im == 0.0) as u8),
            ..NONE
        },
        glsl: &[
            ("BIU", "NEVER"),
            ("F", "floatBitsToUint($a) == 0x7f800000u"),
            ("C", "floatBitsToUint($a.x) == 0x7f800000u && $a.y == 0.0"),
        ],
        ..UNARY
    },
    Row {
        name: "bitwise_invert",
        doc: "Every bit of each element inverted.\nFor signed integers, which are in two's complement, that is `-a - 1`; bool is negated as by `logical_not`. The operator `~` of arrays.",
        example: "mx.bitwise_invert(mx.array([0, 5]))\narray([-1, -6], dtype=int32)",
        rule: IntOnly,
        call: CallForm::Open,
        cpu: Cpu { bool_: bool_loop!(1, |a| a ^ 1), ints: int_loops!(1, |a| !a), ..NONE },
        glsl: &[("B", "!$a"), ("IU", "~$a")],
        ..UNARY
    },
    Row {
        name: "logical_not",
        doc: "Whether each element is false, that is zero.\nNaN is not zero and gives False. For bits of integers see `bitwise_invert`.",
        example: "mx.logical_not(mx.array([True, False]))\narray([False, True], dtype=bool)",
        rule: Logical,
        cpu: Cpu { bool_: bool_loop!(1, |a| a ^ 1), ..NONE },
        glsl: &[("B", "!$a")],
        ..UNARY
    },
    Row {
        name: "degrees",
        doc: "Angle in degrees of each angle in radians.\nEach element is multiplied by 180 / pi.",
        example: "mx.degrees(mx.array([0.0]))\narray([0], dtype=float32)",
        rule: Float,
        partials: &["57.29577951308232"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| a * 57.29577951308232),
            f64: f64_loop!(1, |a| a * 57.29577951308232),
            c64: c64_loop!(1, |a| a * 57.29577951308232),
            ..NONE
        },
        glsl: &[("FC", "$a * 57.29577951308232")],
        ..UNARY
    },
    Row {
        name: "to_fp8",
        doc: "The 8-bit float (E4M3) nearest to each element, as uint8.",
        example: "",
        rule: ToFloat8,
        call: CallForm::Own,
        cpu: Cpu { f32: f32_loop!(1 => u8, |a| fp8::to_fp8(a)), ..NONE },
        glsl: &[("F", "m_to_fp8($a)")],
        ..UNARY
    },
    Row {
        name: "from_fp8",
        doc: "The value of each 8-bit float (E4M3).",
        example: "",
        rule: FromFloat8,
        call: CallForm::Own,
        cpu: Cpu { ints: int_loops!(1 => f32, |a| fp8::from_fp8(a as u8)), ..NONE },
        glsl: &[("U", "m_from_fp8($a)")],
        ..UNARY
    },
    Row {
        name: "radians",
        doc: "Angle in radians of each angle in degrees.\nEach element is multiplied by pi / 180.",
        example: "mx.radians(mx.array([0.0]))\narray([0], dtype=float32)",
        rule: Float,
        partials: &["0.017453292519943295"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| a * 0.017453292519943295),
            f64: f64_loop!(1, |a| a * 0.017453292519943295),
            c64: c64_loop!(1, |a| a * 0.017453292519943295),
            ..NONE
        },
        glsl: &[("FC", "$a * 0.017453292519943295")],
        ..UNARY
    },
];
