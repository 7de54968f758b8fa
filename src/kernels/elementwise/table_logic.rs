//! Comparisons, logic, bits and selection. See `table`.
#![allow(clippy::redundant_closure, clippy::needless_update)]

use super::loops::{Cpu, NONE, bool_loop, c64_loop, f32_loop, f64_loop, int_loops};
use super::table::{BINARY, CallForm, Row, TypeRule::*};
use super::{scalar as s, scalar_c64 as c64, scalar_int::Int};

pub(in crate::kernels) const ROWS: &[Row] = &[
    Row {
        name: "equal",
        doc: "Whether two arrays are equal, element by element.\nNaN equals nothing, itself included; the two zeros are equal. The operator `==` of arrays. For one answer over all elements see `array_equal`.",
        example: "mx.equal(mx.array([1, 5]), mx.array([3, 5]))\narray([False, True], dtype=bool)",
        rule: Bool,
        cpu: Cpu {
            bool_: bool_loop!(2, |a, b| (a == b) as u8),
            ints: int_loops!(2 => u8, |a, b| (a == b) as u8),
            f32: f32_loop!(2 => u8, |a, b| (a == b) as u8),
            f64: f64_loop!(2 => u8, |a, b| (a == b) as u8),
            c64: c64_loop!(2 => u8, |a, b| (a == b) as u8),
            ..NONE
        },
        glsl: &[
            ("B", "$a == $b"),
            ("IU", "$a == $b"),
            ("F", "$a == $b"),
            ("C", "$a.x == $b.x && $a.y == $b.y"),
        ],
        ..BINARY
    },
    Row {
        name: "not_equal",
        doc: "Whether two arrays differ, element by element.\nNaN differs from everything, itself included; the two zeros do not differ. The operator `!=` of arrays.",
        example: "mx.not_equal(mx.array([1, 5]), mx.array([3, 5]))\narray([True, False], dtype=bool)",
        rule: Bool,
        cpu: Cpu {
            bool_: bool_loop!(2, |a, b| (a != b) as u8),
            ints: int_loops!(2 => u8, |a, b| (a != b) as u8),
            f32: f32_loop!(2 => u8, |a, b| (a != b) as u8),
            f64: f64_loop!(2 => u8, |a, b| (a != b) as u8),
            c64: c64_loop!(2 => u8, |a, b| (a != b) as u8),
            ..NONE
        },
        glsl: &[
            ("B", "$a != $b"),
            ("IU", "$a != $b"),
            ("F", "$a != $b"),
            ("C", "$a.x != $b.x || $a.y != $b.y"),
        ],
        ..BINARY
    },
    Row {
        name: "greater",
        doc: "Whether the first array is greater than the second, element by element.\nNo comparison with NaN is true. Complex numbers are compared by their real parts, then by their imaginary parts. The operator `>` of arrays.",
        example: "mx.greater(mx.array([1, 5]), mx.array([3, 5]))\narray([False, False], dtype=bool)",
        rule: Bool,
        cpu: Cpu {
            bool_: bool_loop!(2, |a, b| (a > b) as u8),
            ints: int_loops!(2 => u8, |a, b| (a > b) as u8),
            f32: f32_loop!(2 => u8, |a, b| (a > b) as u8),
            f64: f64_loop!(2 => u8, |a, b| (a > b) as u8),
            c64: c64_loop!(2 => u8, |a, b| (c64::cless(b, a)) as u8),
            ..NONE
        },
        glsl: &[("B", "$a && !$b"), ("IU", "$a > $b"), ("F", "$a > $b"), ("C", "c_less($b, $a)")],
        ..BINARY
    },
    Row {
        name: "greater_equal",
        doc: "Whether the first array is greater than or equal to the second, element by element.\nNo comparison with NaN is true. Complex numbers are compared by their real parts, then by their imaginary parts. The operator `>=` of arrays.",
        example: "mx.greater_equal(mx.array([1, 5]), mx.array([3, 5]))\narray([False, True], dtype=bool)",
        rule: Bool,
        cpu: Cpu {
            bool_: bool_loop!(2, |a, b| (a >= b) as u8),
            ints: int_loops!(2 => u8, |a, b| (a >= b) as u8),
            f32: f32_loop!(2 => u8, |a, b| (a >= b) as u8),
            f64: f64_loop!(2 => u8, |a, b| (a >= b) as u8),
            c64: c64_loop!(2 => u8, |a, b| (c64::cless(b, a) || a == b) as u8),
            ..NONE
        },
        glsl: &[
            ("B", "$a || !$b"),
            ("IU", "$a >= $b"),
            ("F", "$a >= $b"),
            ("C", "c_less($b, $a) || $a == $b"),
        ],
        ..BINARY
    },
    Row {
        name: "less",
        doc: "Whether the first array is less than the second, element by element.\nNo comparison with NaN is true. Complex numbers are compared by their real parts, then by their imaginary parts. The operator `<` of arrays.",
        example: "mx.less(mx.array([1, 5]), mx.array([3, 5]))\narray([True, False], dtype=bool)",
        rule: Bool,
        cpu: Cpu {
            bool_: bool_loop!(2, |a, b| (a < b) as u8),
            ints: int_loops!(2 => u8, |a, b| (a < b) as u8),
            f32: f32_loop!(2 => u8, |a, b| (a < b) as u8),
            f64: f64_loop!(2 => u8, |a, b| (a < b) as u8),
            c64: c64_loop!(2 => u8, |a, b| (c64::cless(a, b)) as u8),
            ..NONE
        },
        glsl: &[("B", "!$a && $b"), ("IU", "$a < $b"), ("F", "$a < $b"), ("C", "c_less($a, $b)")],
        ..BINARY
    },
    Row {
        name: "less_equal",
        doc: "Whether the first array is less than or equal to the second, element by element.\nNo comparison with NaN is true. Complex numbers are compared by their real parts, then by their imaginary parts. The operator `<=` of arrays.",
        example: "mx.less_equal(mx.array([1, 5]), mx.array([3, 5]))\narray([True, True], dtype=bool)",
        rule: Bool,
        cpu: Cpu {
            bool_: bool_loop!(2, |a, b| (a <= b) as u8),
            ints: int_loops!(2 => u8, |a, b| (a <= b) as u8),
            f32: f32_loop!(2 => u8, |a, b| (a <= b) as u8),
            f64: f64_loop!(2 => u8, |a, b| (a <= b) as u8),
            c64: c64_loop!(2 => u8, |a, b| (c64::cless(a, b) || a == b) as u8),
            ..NONE
        },
        glsl: &[
            ("B", "!$a || $b"),
            ("IU", "$a <= $b"),
            ("F", "$a <= $b"),
            ("C", "c_less($a, $b) || $a == $b"),
        ],
        ..BINARY
    },
    Row {
        name: "nan_equal",
        doc: "As `equal`, but NaN equals NaN.",
        example: "",
        rule: Bool,
        call: CallForm::Own,
        cpu: Cpu {
            bool_: bool_loop!(2, |a, b| (a == b) as u8),
            ints: int_loops!(2 => u8, |a, b| (a == b) as u8),
            f32: f32_loop!(2 => u8, |a, b| (a == b || (s::is_nan(a) && s::is_nan(b))) as u8),
            f64: f64_loop!(2 => u8, |a, b| (a == b || (a.is_nan() && b.is_nan())) as u8),
            c64: c64_loop!(2 => u8, |a, b| (a == b || ((a.re.is_nan() || a.im.is_nan()) && (b.re.is_nan() || b.im.is_nan()))) as u8),
            ..NONE
        },
        glsl: &[
            ("BIU", "$a == $b"),
            ("F", "$a == $b || (m_isnan($a) && m_isnan($b))"),
            ("C", "$a == $b || ((m_isnan($a.x) || m_isnan($a.y)) && (m_isnan($b.x) || m_isnan($b.y)))"),
        ],
        ..BINARY
    },
    Row {
        name: "logical_and",
        doc: "Whether both operands are true, element by element.\nFor bits of integers see `bitwise_and`.",
        example: "mx.logical_and(mx.array([True, False]), mx.array([True, True]))\narray([True, False], dtype=bool)",
        rule: Logical,
        call: CallForm::Closed,
        cpu: Cpu { bool_: bool_loop!(2, |a, b| a & b), ..NONE },
        glsl: &[("B", "$a && $b")],
        ..BINARY
    },
    Row {
        name: "logical_or",
        doc: "Whether at least one operand is true, element by element.\nFor bits of integers see `bitwise_or`.",
        example: "mx.logical_or(mx.array([True, False]), mx.array([True, True]))\narray([True, True], dtype=bool)",
        rule: Logical,
        call: CallForm::Closed,
        cpu: Cpu { bool_: bool_loop!(2, |a, b| a | b), ..NONE },
        glsl: &[("B", "$a || $b")],
        ..BINARY
    },
    Row {
        name: "logical_xor",
        doc: "Whether exactly one operand is true, element by element.\nFor bits of integers see `bitwise_xor`.",
        example: "mx.logical_xor(mx.array([True, False]), mx.array([True, True]))\narray([False, True], dtype=bool)",
        rule: Logical,
        call: CallForm::Closed,
        cpu: Cpu { bool_: bool_loop!(2, |a, b| a ^ b), ..NONE },
        glsl: &[("B", "$a != $b")],
        ..BINARY
    },
    Row {
        name: "bitwise_and",
        doc: "Bits that are set in both operands, element by element.\nFor bool it is the logical and. The operator `&` of arrays.",
        example: "mx.bitwise_and(mx.array([6]), mx.array([3]))\narray([2], dtype=int32)",
        rule: IntOnly,
        cpu: Cpu { bool_: bool_loop!(2, |a, b| a & b), ints: int_loops!(2, |a, b| a & b), ..NONE },
        glsl: &[("B", "$a && $b"), ("IU", "$a & $b")],
        ..BINARY
    },
    Row {
        name: "bitwise_or",
        doc: "Bits that are set in at least one operand, element by element.\nFor bool it is the logical or. The operator `|` of arrays.",
        example: "mx.bitwise_or(mx.array([6]), mx.array([3]))\narray([7], dtype=int32)",
        rule: IntOnly,
        cpu: Cpu { bool_: bool_loop!(2, |a, b| a | b), ints: int_loops!(2, |a, b| a | b), ..NONE },
        glsl: &[("B", "$a || $b"), ("IU", "$a | $b")],
        ..BINARY
    },
    Row {
        name: "bitwise_xor",
        doc: "Bits that are set in exactly one operand, element by element.\nFor bool it is the exclusive or. The operator `^` of arrays.",
        example: "mx.bitwise_xor(mx.array([6]), mx.array([3]))\narray([5], dtype=int32)",
        rule: IntOnly,
        cpu: Cpu { bool_: bool_loop!(2, |a, b| a ^ b), ints: int_loops!(2, |a, b| a ^ b), ..NONE },
        glsl: &[("B", "$a != $b"), ("IU", "$a ^ $b")],
        ..BINARY
    },
    Row {
        name: "left_shift",
        aliases: &["bitwise_left_shift"],
        doc: "Bits of the first array moved up by the second, zeros coming in below.\nThat is a multiplication by a power of two that drops what does not fit. The count should be less than the number of bits. The operator `<<` of arrays.",
        example: "mx.left_shift(mx.array([1, 3]), mx.array([4, 1]))\narray([16, 6], dtype=int32)",
        rule: Shift,
        cpu: Cpu { ints: int_loops!(2, |a, b| a.shift_left(b)), ..NONE },
        glsl: &[("IU", "i_shl($a, $b)")],
        ..BINARY
    },
    Row {
        name: "right_shift",
        aliases: &["bitwise_right_shift"],
        doc: "Bits of the first array moved down by the second, element by element.\nSigned numbers keep their sign, so that it is a division by a power of two rounded down. The count should be less than the number of bits. The operator `>>` of arrays.",
        example: "mx.right_shift(mx.array([16, -8]), mx.array([4, 1]))\narray([1, -4], dtype=int32)",
        rule: Shift,
        cpu: Cpu { ints: int_loops!(2, |a, b| a.shift_right(b)), ..NONE },
        glsl: &[("IU", "i_shr($a, $b)")],
        ..BINARY
    },
    Row {
        name: "select",
        chooses: true,
        doc: "`b` where the bool `a` is true, else `c`.",
        example: "",
        arity: 3,
        rule: Select,
        call: CallForm::Own,
        partials: &["0", "select(a, 1, 0)", "select(a, 0, 1)"],
        cpu: Cpu {
            bool_: bool_loop!(3, |m, a, b| if m != 0 { a } else { b }),
            ints: int_loops!(3, |m, a, b| if m != 0 { a } else { b }),
            f32: f32_loop!(3, |m, a, b| if m != 0 { a } else { b }),
            f64: f64_loop!(3, |m, a, b| if m != 0 { a } else { b }),
            c64: c64_loop!(3, |m, a, b| if m != 0 { a } else { b }),
            ..NONE
        },
        glsl: &[("BIUFC", "$a ? $b : $c")],
        ..BINARY
    },
];
