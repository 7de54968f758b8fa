//! Rows of one operand: roots, exponentials, logarithms, trigonometric and hyperbolic functions. See `table`.
#![allow(clippy::redundant_closure)]

use super::loops::{Cpu, NONE, Single, c64_loop, f32_loop, f32_split, f64_loop};
use super::table::{Code, Row, TypeRule::*, UNARY};
use super::{
    scalar as s, scalar_c64 as c64, scalar_complex as z, scalar_complex_inverse as arc, scalar_special as x,
    scalar_wide as w,
};

pub(in crate::kernels) const ROWS: &[Row] = &[
    Row {
        name: "sqrt",
        doc: "Square root of each element.\nNegative numbers give NaN, minus zero gives minus zero; for complex numbers the root with a real part that is not negative is taken.",
        example: "mx.sqrt(mx.array([4.0]))\narray([2], dtype=float32)",
        rule: Float,
        partials: &["0.5 / y"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| a.sqrt()),
            f64: f64_loop!(1, |a| a.sqrt()),
            c64: c64_loop!(1, |a| c64::narrow(z::sqrt(c64::widen(a)))),
            single: Some(Single::Sqrt),
            ..NONE
        },
        glsl: &[("H", "h_sqrt($a)"), ("F", "m_sqrt($a)"), ("C", "c_sqrt($a)")],
        ..UNARY
    },
    Row {
        name: "rsqrt",
        doc: "One over the square root of each element.\nZero gives infinity with the sign of the zero, infinity gives 0 and negative numbers give NaN. Cheaper than `1 / sqrt(a)`.",
        example: "mx.rsqrt(mx.array([4.0]))\narray([0.5], dtype=float32)",
        rule: Float,
        partials: &["-0.5 * y / a"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| 1.0 / a.sqrt()),
            f64: f64_loop!(1, |a| 1.0 / a.sqrt()),
            c64: c64_loop!(1, |a| c64::cdiv(
                num_complex::Complex32::new(1.0, 0.0),
                c64::narrow(z::sqrt(c64::widen(a)))
            )),
            ..NONE
        },
        glsl: &[("H", "h_rsqrt($a)"), ("F", "m_rsqrt($a)"), ("C", "c_div(vec2(1.0, 0.0), c_sqrt($a))")],
        ..UNARY
    },
    Row {
        name: "reciprocal",
        doc: "One over each element.\nZero gives infinity with the sign of the zero, an infinity gives zero with its sign.",
        example: "mx.reciprocal(mx.array([4.0]))\narray([0.25], dtype=float32)",
        rule: Float,
        partials: &["-(y * y)"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| 1.0 / a),
            f64: f64_loop!(1, |a| 1.0 / a),
            c64: c64_loop!(1, |a| c64::cdiv(num_complex::Complex32::new(1.0, 0.0), a)),
            ..NONE
        },
        glsl: &[("F", "m_div(1.0, $a)"), ("C", "c_div(vec2(1.0, 0.0), $a)")],
        ..UNARY
    },
    Row {
        name: "exp",
        doc: "Exponential of each element, e to the power of it.\nBeyond the range of the dtype (88.7 for float32) the result is infinity, far below zero it is 0. Minus infinity gives 0, NaN gives NaN.",
        example: "mx.exp(mx.array([0.0]))\narray([1], dtype=float32)",
        rule: Float,
        partials: &["y"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| s::exp(a)),
            f64: f64_loop!(1, |a| a.exp()),
            c64: c64_loop!(1, |a| c64::narrow(z::exp(c64::widen(a)))),
            ..NONE
        },
        glsl: &[("H", "h_exp($a)"), ("F", "m_exp($a)"), ("C", "c_exp($a)")],
        ..UNARY
    },
    Row {
        name: "expm1",
        doc: "Exponential of each element minus one.\nNear zero, where `exp(a) - 1` would lose all digits, the result keeps the precision of the dtype.",
        example: "mx.expm1(mx.array([0.0]))\narray([0], dtype=float32)",
        rule: FloatNotComplex,
        partials: &["y + 1"],
        cpu: Cpu { f32: f32_loop!(1, |a| s::expm1(a)), f64: f64_loop!(1, |a| a.exp_m1()), ..NONE },
        glsl: &[("F", "m_expm1($a)")],
        ..UNARY
    },
    Row {
        name: "log",
        doc: "Natural logarithm of each element.\nZero gives minus infinity and negative numbers give NaN; for complex numbers the imaginary part of the result lies in [-pi, pi].",
        example: "mx.log(mx.array([1.0]))\narray([0], dtype=float32)",
        rule: Float,
        partials: &["1 / a"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| s::log(a)),
            f64: f64_loop!(1, |a| a.ln()),
            c64: c64_loop!(1, |a| c64::narrow(c64::widen(a).ln())),
            ..NONE
        },
        glsl: &[("H", "h_log($a)"), ("F", "m_log($a)"), ("C", "c_log($a)")],
        ..UNARY
    },
    Row {
        name: "log2",
        doc: "Logarithm of each element to the base of two.\nPowers of two give exact results. Zero gives minus infinity and negative numbers give NaN.",
        example: "mx.log2(mx.array([8.0]))\narray([3], dtype=float32)",
        rule: Float,
        partials: &["1.4426950408889634 / a"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| s::log2(a)),
            f64: f64_loop!(1, |a| a.log2()),
            c64: c64_loop!(1, |a| c64::narrow(c64::widen(a).ln() * std::f64::consts::LOG2_E)),
            ..NONE
        },
        glsl: &[("H", "h_log2($a)"), ("F", "m_log2($a)"), ("C", "c_log($a) * 1.4426950408889634")],
        ..UNARY
    },
    Row {
        name: "log10",
        doc: "Logarithm of each element to the base of ten.\nZero gives minus infinity and negative numbers give NaN.",
        example: "mx.log10(mx.array([100.0]))\narray([2], dtype=float32)",
        rule: Float,
        partials: &["0.4342944819032518 / a"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| s::log10(a)),
            f64: f64_loop!(1, |a| a.log10()),
            c64: c64_loop!(1, |a| c64::narrow(c64::widen(a).ln() * std::f64::consts::LOG10_E)),
            ..NONE
        },
        glsl: &[("H", "h_log10($a)"), ("F", "m_log10($a)"), ("C", "c_log($a) * 0.4342944819032518")],
        ..UNARY
    },
    Row {
        name: "log1p",
        doc: "Natural logarithm of one plus each element.\nNear zero, where `log(1 + a)` would lose all digits, the result keeps the precision of the dtype. -1 gives minus infinity and what is below gives NaN.",
        example: "mx.log1p(mx.array([0.0]))\narray([0], dtype=float32)",
        rule: Float,
        partials: &["1 / (1 + a)"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| s::log1p(a)),
            f64: f64_loop!(1, |a| a.ln_1p()),
            c64: c64_loop!(1, |a| c64::clog1p(a)),
            ..NONE
        },
        glsl: &[("F", "m_log1p($a)"), ("C", "c_log1p($a)")],
        ..UNARY
    },
    Row {
        name: "sin",
        doc: "Sine of each element, an angle in radians.\nLarge angles are reduced exactly, so that the precision does not depend on them. Infinities give NaN.",
        example: "mx.sin(mx.array([0.0]))\narray([0], dtype=float32)",
        rule: Float,
        code: Code::Long,
        partials: &["cos(a)"],
        cpu: Cpu {
            f32: f32_split!(|a| if s::near(a) => s::sin_near(a), else s::sin(a)),
            f64: f64_loop!(1, |a| a.sin()),
            c64: c64_loop!(1, |a| c64::narrow(z::sin(c64::widen(a)))),
            ..NONE
        },
        glsl: &[("H", "h_sin($a)"), ("F", "m_sin($a)"), ("C", "c_sin($a)")],
        ..UNARY
    },
    Row {
        name: "cos",
        doc: "Cosine of each element, an angle in radians.\nLarge angles are reduced exactly, so that the precision does not depend on them. Infinities give NaN.",
        example: "mx.cos(mx.array([0.0]))\narray([1], dtype=float32)",
        rule: Float,
        code: Code::Long,
        partials: &["-sin(a)"],
        cpu: Cpu {
            f32: f32_split!(|a| if s::near(a) => s::cos_near(a), else s::cos(a)),
            f64: f64_loop!(1, |a| a.cos()),
            c64: c64_loop!(1, |a| c64::narrow(z::cos(c64::widen(a)))),
            ..NONE
        },
        glsl: &[("H", "h_cos($a)"), ("F", "m_cos($a)"), ("C", "c_cos($a)")],
        ..UNARY
    },
    Row {
        name: "tan",
        doc: "Tangent of each element, an angle in radians.\nLarge angles are reduced exactly, so that the precision does not depend on them. Infinities give NaN.",
        example: "mx.tan(mx.array([0.0]))\narray([0], dtype=float32)",
        rule: Float,
        code: Code::Long,
        partials: &["1 + y * y"],
        cpu: Cpu {
            f32: f32_split!(|a| if s::near(a) => s::tan_near(a), else s::tan(a)),
            f64: f64_loop!(1, |a| a.tan()),
            c64: c64_loop!(1, |a| c64::narrow(z::tan(c64::widen(a)))),
            ..NONE
        },
        glsl: &[("F", "m_tan($a)"), ("C", "c_tan($a)")],
        ..UNARY
    },
    Row {
        name: "arcsin",
        aliases: &["asin"],
        doc: "Inverse sine of each element, in [-pi/2, pi/2].\nReal numbers outside [-1, 1] give NaN.",
        example: "mx.arcsin(mx.array([0.0]))\narray([0], dtype=float32)",
        rule: Float,
        partials: &["rsqrt(1 - a * a)"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| s::asin(a)),
            f64: f64_loop!(1, |a| a.asin()),
            c64: c64_loop!(1, |a| c64::narrow(arc::asin(c64::widen(a)))),
            ..NONE
        },
        glsl: &[("F", "m_asin($a)"), ("C", "c_asin($a)")],
        ..UNARY
    },
    Row {
        name: "arccos",
        aliases: &["acos"],
        doc: "Inverse cosine of each element, in [0, pi].\nReal numbers outside [-1, 1] give NaN.",
        example: "mx.arccos(mx.array([1.0]))\narray([0], dtype=float32)",
        rule: Float,
        partials: &["-rsqrt(1 - a * a)"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| s::acos(a)),
            f64: f64_loop!(1, |a| a.acos()),
            c64: c64_loop!(1, |a| c64::narrow(arc::acos(c64::widen(a)))),
            ..NONE
        },
        glsl: &[("F", "m_acos($a)"), ("C", "c_acos($a)")],
        ..UNARY
    },
    Row {
        name: "arctan",
        aliases: &["atan"],
        doc: "Inverse tangent of each element, in [-pi/2, pi/2].\nThe ends belong to the infinities. For the angle of a point in the plane see `arctan2`.",
        example: "mx.arctan(mx.array([0.0]))\narray([0], dtype=float32)",
        rule: Float,
        partials: &["1 / (1 + a * a)"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| s::atan(a)),
            f64: f64_loop!(1, |a| a.atan()),
            c64: c64_loop!(1, |a| c64::narrow(arc::atan(c64::widen(a)))),
            ..NONE
        },
        glsl: &[("F", "m_atan($a)"), ("C", "c_atan($a)")],
        ..UNARY
    },
    Row {
        name: "sinh",
        doc: "Hyperbolic sine of each element, `(exp(a) - exp(-a)) / 2`.\nThe result keeps its precision near zero, where the formula loses digits, and overflows to an infinity with the sign of the element.",
        example: "mx.sinh(mx.array([0.0]))\narray([0], dtype=float32)",
        rule: Float,
        code: Code::Long,
        partials: &["cosh(a)"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| s::sinh(a)),
            f64: f64_loop!(1, |a| a.sinh()),
            c64: c64_loop!(1, |a| c64::narrow(z::sinh(c64::widen(a)))),
            ..NONE
        },
        glsl: &[("F", "m_sinh($a)"), ("C", "c_sinh($a)")],
        ..UNARY
    },
    Row {
        name: "cosh",
        doc: "Hyperbolic cosine of each element, `(exp(a) + exp(-a)) / 2`.\nThe result is at least 1 and overflows to infinity.",
        example: "mx.cosh(mx.array([0.0]))\narray([1], dtype=float32)",
        rule: Float,
        code: Code::Long,
        partials: &["sinh(a)"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| s::cosh(a)),
            f64: f64_loop!(1, |a| a.cosh()),
            c64: c64_loop!(1, |a| c64::narrow(z::cosh(c64::widen(a)))),
            ..NONE
        },
        glsl: &[("F", "m_cosh($a)"), ("C", "c_cosh($a)")],
        ..UNARY
    },
    Row {
        name: "tanh",
        doc: "Hyperbolic tangent of each element, in [-1, 1].\nThe result keeps its precision near zero; infinities give -1 and 1.",
        example: "mx.tanh(mx.array([0.0]))\narray([0], dtype=float32)",
        rule: Float,
        partials: &["square(1 / cosh(a))"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| s::tanh(a)),
            f64: f64_loop!(1, |a| a.tanh()),
            c64: c64_loop!(1, |a| c64::narrow(z::tanh(c64::widen(a)))),
            ..NONE
        },
        glsl: &[("H", "h_tanh($a)"), ("F", "m_tanh($a)"), ("C", "c_tanh($a)")],
        ..UNARY
    },
    Row {
        name: "arcsinh",
        aliases: &["asinh"],
        doc: "Inverse hyperbolic sine of each element, `log(a + sqrt(a * a + 1))`.\nThe result keeps its precision near zero and does not overflow for large elements; infinities stay themselves.",
        example: "mx.arcsinh(mx.array([0.0]))\narray([0], dtype=float32)",
        rule: Float,
        partials: &["rsqrt(a * a + 1)"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| s::asinh(a)),
            f64: f64_loop!(1, |a| a.asinh()),
            c64: c64_loop!(1, |a| c64::narrow(arc::asinh(c64::widen(a)))),
            ..NONE
        },
        glsl: &[("F", "m_asinh($a)"), ("C", "c_asinh($a)")],
        ..UNARY
    },
    Row {
        name: "arccosh",
        aliases: &["acosh"],
        doc: "Inverse hyperbolic cosine of each element, `log(a + sqrt(a * a - 1))`.\nReal numbers below 1 give NaN; the result is not negative and does not overflow for large elements.",
        example: "mx.arccosh(mx.array([1.0]))\narray([0], dtype=float32)",
        rule: Float,
        partials: &["rsqrt(a * a - 1)"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| s::acosh(a)),
            f64: f64_loop!(1, |a| a.acosh()),
            c64: c64_loop!(1, |a| c64::narrow(arc::acosh(c64::widen(a)))),
            ..NONE
        },
        glsl: &[("F", "m_acosh($a)"), ("C", "c_acosh($a)")],
        ..UNARY
    },
    Row {
        name: "arctanh",
        aliases: &["atanh"],
        doc: "Inverse hyperbolic tangent of each element, `log((1 + a) / (1 - a)) / 2`.\nThe ends -1 and 1 give infinities, real numbers beyond them NaN.",
        example: "mx.arctanh(mx.array([0.0]))\narray([0], dtype=float32)",
        rule: Float,
        partials: &["1 / (1 - a * a)"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| s::atanh(a)),
            f64: f64_loop!(1, |a| a.atanh()),
            c64: c64_loop!(1, |a| c64::narrow(arc::atanh(c64::widen(a)))),
            ..NONE
        },
        glsl: &[("F", "m_atanh($a)"), ("C", "c_atanh($a)")],
        ..UNARY
    },
    Row {
        name: "erf",
        doc: "Error function of each element, `2 / sqrt(pi)` times the integral of `exp(-t * t)` from 0 to it.\nThe result lies in [-1, 1]; infinities give the ends.",
        example: "mx.erf(mx.array([0.0]))\narray([0], dtype=float32)",
        rule: FloatNotComplex,
        code: Code::Brief,
        partials: &["1.1283791670955126 * exp(-(a * a))"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| x::erf(a)),
            f64: f64_loop!(1, |a| w::erf64(a)),
            single: Some(Single::Erf),
            ..NONE
        },
        glsl: &[("H", "h_erf($a)"), ("F", "m_erf($a)")],
        ..UNARY
    },
    Row {
        name: "erfinv",
        doc: "Inverse error function of each element: `erf(erfinv(a))` is `a`.\nThe ends -1 and 1 give infinities, numbers beyond them NaN.",
        example: "mx.erfinv(mx.array([0.0]))\narray([0], dtype=float32)",
        rule: FloatNotComplex,
        code: Code::Long,
        partials: &["0.886226925452758 * exp(y * y)"],
        cpu: Cpu { f32: f32_loop!(1, |a| x::erfinv(a)), f64: f64_loop!(1, |a| w::erfinv64(a)), ..NONE },
        glsl: &[("F", "m_erfinv($a)")],
        ..UNARY
    },
    Row {
        name: "sigmoid",
        doc: "Logistic function of each element, `1 / (1 + exp(-a))`.\nThe result lies in [0, 1] and is computed without overflow; infinities give the ends.",
        example: "mx.sigmoid(mx.array([0.0]))\narray([0.5], dtype=float32)",
        rule: FloatNotComplex,
        partials: &["y * (1 - y)"],
        cpu: Cpu {
            f32: f32_loop!(1, |a| s::sigmoid(a)),
            f64: f64_loop!(1, |a| 1.0 / (1.0 + (-a).exp())),
            ..NONE
        },
        glsl: &[("H", "h_sigmoid($a)"), ("F", "m_sigmoid($a)")],
        ..UNARY
    },
];
