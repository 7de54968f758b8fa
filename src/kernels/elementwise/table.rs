//! The table of elementwise operations: one row each, with everything any floor needs to know about it.
//! To add an op, add its row to one of the files `table_*.rs`; nothing else.

use std::collections::HashMap;

use super::loops::Cpu;
use crate::bail;
use crate::core::fork::Made;
use crate::core::{Dtype, Result};

/// Position of a row in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId(pub u16);

/// One elementwise operation.
#[derive(Clone, Copy)]
pub struct Row {
    /// Name in `mlx.core`.
    pub name: &'static str,
    /// Further public names.
    pub aliases: &'static [&'static str],
    /// For users: a line that says what the function does, a newline, and what is particular to it (edges, NaN,
    /// related functions). Operands, dtypes, derivatives and errors are told by the other fields.
    pub doc: &'static str,
    /// A doctest: one line of input, the expected output below; empty for rows that are not public.
    pub example: &'static str,
    /// Number of operands, one to three.
    pub arity: u8,
    /// Computation and result dtype.
    pub rule: TypeRule,
    /// How the Python function takes its operands and the stream.
    pub call: CallForm,
    /// Whether that function takes numbers for its operands; else arrays only.
    pub numbers: bool,
    /// Partial derivative by each operand, as expressions in the operands `a`, `b`, `c`, the result `y`
    /// and other rows as functions; empty where the derivative is zero.
    pub partials: &'static [&'static str],
    /// What stands for the partial derivatives over complex numbers.
    pub complex: ComplexRule,
    /// Whether the result is the quotient of the operands: those by a number that many share have its reciprocal in common.
    pub divides: bool,
    /// Whether a result of real floats is one of the operands, or its negative: it needs no rounding.
    pub chooses: bool,
    /// How much code the GLSL of real floats is.
    pub code: Code,
    /// Block kernels of the host by computation dtype.
    pub cpu: Cpu,
    /// GLSL expression by type class: a set of the letters B (bool), I (signed), U (unsigned), F (real), C
    /// (complex), and an expression in `$a`, `$b`, `$c`, with `$T` for the GLSL type.
    pub glsl: &'static [(&'static str, &'static str)],
}

/// How the dtype of computation and of the result follow from the operands' dtypes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TypeRule {
    /// The promoted dtype.
    Same,
    /// As `Same`, but not for bool.
    NotBool,
    /// As `Same`, but not for complex64.
    NotComplex,
    /// The promoted dtype, integers as float32.
    Float,
    /// As `Float`, but not for complex64.
    FloatNotComplex,
    /// Computed in the promoted dtype, result bool: a comparison, or a question that MLX asks by one. Its tangent, which
    /// is zero, has the dtype of computation.
    Bool,
    /// As `Bool`, but a question that MLX asks by several comparisons; its tangent is bool.
    Predicate,
    /// Operands are taken as `!= 0`, result bool.
    Logical,
    /// complex64 gives float32, everything else itself.
    Real,
    /// Integers and bool.
    IntOnly,
    /// Integers; bool as uint8.
    Shift,
    /// A bool operand, then two of the promoted dtype.
    Select,
    /// Real floats, float64 as float32; the result is the uint8 of an 8-bit float.
    ToFloat8,
    /// The uint8 of an 8-bit float; the result is float32.
    FromFloat8,
}

/// How a Python function takes its operands and `stream`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallForm {
    /// Operands by position only, `stream` by name only.
    Closed,
    /// Operands by position or name, `stream` by name only.
    Named,
    /// All of them by position or name.
    Open,
    /// The function is written by hand, or there is none.
    Own,
}

/// How a row is differentiated over complex numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComplexRule {
    /// It is holomorphic, or not defined for them: by its partial derivatives.
    Partials,
    /// The derivative counts as zero.
    Zero,
    /// Of the magnitude, `abs`.
    Magnitude,
    /// Of the real part.
    RealPart,
    /// Of the imaginary part.
    ImaginaryPart,
    /// Of the complex conjugate.
    Conjugate,
}

/// What a row of real floats adds to a kernel's code. Compilers inline every call, and their time grows faster than the
/// code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Functions without a branch and a division, if any: selections, changes of bits, the error function.
    Brief,
    /// A function of the library, or none.
    Short,
    /// A function of several times that length.
    Long,
}

/// What rows of one operand have in common, unless they say otherwise.
pub(super) const UNARY: Row = Row {
    name: "",
    aliases: &[],
    doc: "",
    example: "",
    arity: 1,
    rule: TypeRule::Same,
    call: CallForm::Closed,
    numbers: true,
    partials: &[],
    complex: ComplexRule::Partials,
    divides: false,
    chooses: false,
    code: Code::Short,
    cpu: super::loops::NONE,
    glsl: &[],
};

/// As [`UNARY`], of rows of two operands.
pub(super) const BINARY: Row = Row { arity: 2, call: CallForm::Open, ..UNARY };

static TABLE: Made<Vec<Row>> = Made::new(|| {
    [super::table_unary::ROWS, super::table_math::ROWS, super::table_binary::ROWS, super::table_logic::ROWS]
        .concat()
});

static INDEX: Made<HashMap<&'static str, OpId>> = Made::new(|| {
    let names = |(i, r): (usize, &'static Row)| {
        r.aliases.iter().copied().chain([r.name]).map(move |n| (n, OpId(i as u16)))
    };
    table().iter().enumerate().flat_map(names).collect()
});

/// All rows.
pub fn table() -> &'static [Row] {
    &TABLE
}

/// The op with this name or alias.
pub fn find(name: &str) -> Option<OpId> {
    INDEX.get(name).copied()
}

/// The op with this name; for names written in the source.
///
/// # Panics
/// If there is no such row, which a test of the caller shows at once.
pub fn op(name: &str) -> OpId {
    find(name).unwrap_or_else(|| panic!("no elementwise op named {name}"))
}

impl OpId {
    /// The row itself.
    pub fn row(self) -> &'static Row {
        &table()[self.0 as usize]
    }
}

impl Row {
    /// Dtype in which the operands are computed (for `Select`, that of the two values), and of the result.
    pub fn types(&self, inputs: &[Dtype]) -> Result<(Dtype, Dtype)> {
        let op = self.name;
        if inputs.len() != self.arity as usize {
            bail!(Value, "[{op}] Expected {} operands, got {}.", self.arity, inputs.len());
        }
        let values = if self.rule == TypeRule::Select { &inputs[1..] } else { inputs };
        let t = values.iter().skip(1).fold(values[0], |t, &d| t.promote(d));
        let (real, integral) = (t != Dtype::C64, t.is_integer() || t == Dtype::Bool);
        match self.rule {
            TypeRule::Same | TypeRule::Select => Ok((t, t)),
            TypeRule::NotBool if t == Dtype::Bool => {
                bail!(Value, "[{op}] Not supported for bool, use logical_not instead.")
            }
            TypeRule::NotComplex if !real && self.arity == 2 => {
                bail!(Value, "[{op}] Complex type not supported.")
            }
            TypeRule::NotComplex | TypeRule::FloatNotComplex if !real => {
                bail!(Value, "[{op}] Not supported for complex64.")
            }
            TypeRule::NotBool | TypeRule::NotComplex => Ok((t, t)),
            TypeRule::Float | TypeRule::FloatNotComplex => Ok((t.at_least_float(), t.at_least_float())),
            TypeRule::Bool | TypeRule::Predicate => Ok((t, Dtype::Bool)),
            TypeRule::Logical => Ok((Dtype::Bool, Dtype::Bool)),
            TypeRule::ToFloat8 if !t.is_float() => {
                bail!(Value, "[{op}] Only real floating types are supported but x.dtype() == {t}.")
            }
            TypeRule::ToFloat8 => Ok((if t == Dtype::F64 { Dtype::F32 } else { t }, Dtype::U8)),
            TypeRule::FromFloat8 if t != Dtype::U8 => {
                bail!(Value, "[{op}] Input must have type uint8 but x.dtype() == {t}.")
            }
            TypeRule::FromFloat8 => Ok((Dtype::U8, Dtype::F32)),
            TypeRule::Real => Ok((t, if real { t } else { Dtype::F32 })),
            TypeRule::IntOnly | TypeRule::Shift if !integral => match inputs {
                [a, b] => {
                    bail!(
                        Runtime,
                        "[{op}] Only allowed on integer or boolean types but got types {a} and {b}."
                    )
                }
                _ => bail!(Value, "[{op}] Bitwise inverse only allowed on integer types."),
            },
            TypeRule::Shift if t == Dtype::Bool => Ok((Dtype::U8, Dtype::U8)),
            TypeRule::IntOnly | TypeRule::Shift => Ok((t, t)),
        }
    }

    /// The GLSL expression for a computation dtype, if the row has one. Rows may have one of their own for 16-bit floats.
    pub fn glsl(&self, dtype: Dtype) -> Option<&'static str> {
        let find = |class: char| self.glsl.iter().find(|(c, _)| c.contains(class)).map(|(_, e)| *e);
        let class = match dtype {
            Dtype::F16 | Dtype::BF16 => return find('H').or_else(|| find('F')),
            Dtype::Bool => 'B',
            Dtype::C64 => 'C',
            d if d.is_float() => 'F',
            Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => 'U',
            _ => 'I',
        };
        find(class)
    }

    /// What the row adds to a kernel's code, in calls of a short library function.
    pub fn code_size(&self, dtype: Dtype) -> usize {
        let calls = self.glsl(dtype).unwrap_or("");
        let long = (dtype.is_float() && self.code == Code::Long) || calls.contains("c_");
        if long { 4 } else { usize::from(calls_library(calls)) }
    }

    /// Whether the row calls no library function but brief ones.
    pub fn is_brief(&self, dtype: Dtype) -> bool {
        let calls = self.glsl(dtype).unwrap_or("");
        !calls.contains("c_") && (self.code == Code::Brief || !calls_library(calls))
    }
}

/// Whether an expression calls functions of `shaders/lib/math.glsl`.
pub fn calls_library(glsl: &str) -> bool {
    glsl.contains("m_") || glsl.contains("h_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brief_functions_are_selections_changes_of_bits_and_erf() {
        let brief = |r: &&Row| r.code_size(Dtype::F32) > 0 && r.is_brief(Dtype::F32);
        let mut names: Vec<&str> = table().iter().filter(brief).map(|r| r.name).collect();
        names.sort_unstable();
        assert_eq!(names, ["abs", "erf", "maximum", "minimum", "negative"]);
        assert!(table().iter().all(|r| r.code_size(Dtype::F32) > 0 || r.is_brief(Dtype::F32)));
    }
}
