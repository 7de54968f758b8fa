//! The table of reductions: one row each, with what every floor needs to know about it. Loops of the host are in
//! `cpu::reduce`, one type an operation; whatever else asks which operation it has in front of it asks its row. To add
//! one, add it to [`ReduceOp`] with its row and its loop: nothing compiles before.

use crate::core::Dtype;

/// Reduction of many elements to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    Sum,
    Prod,
    Min,
    Max,
    All,
    Any,
}

/// Reduction to the index of an element (the first one among equals).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArgReduceOp {
    Min,
    Max,
}

/// What elements become before they are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReduceClass {
    /// Numbers of the result's dtype, which is at least 32 bits wide; halves are combined in float32.
    Ring,
    /// Numbers with an order, in which NaN wins; the result is one of the elements. Repeats change nothing.
    Order,
    /// Whether they are true. Repeats change nothing.
    Truth,
}

/// How the cotangent of a result comes to its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReduceGradient {
    /// Each gets it: the operation is linear, and tangents are reduced as elements are.
    Each,
    /// Each gets it times the product of the others.
    Others,
    /// Those that equal the result share it evenly.
    Chosen,
    /// None gets any.
    Nothing,
}

/// The operation in shaders/reduce/reduce.comp: `IDENTITY`, and `COMBINE` of `a` and `b`, both of type ACC.
#[derive(Debug, Clone, Copy)]
pub struct ReduceGlsl {
    pub identity: &'static str,
    pub combine: &'static str,
}

/// The operation in a generated kernel over rows, on float32: `acc#` and, for some, `top#` are registers of a lane, `x`
/// is an element, and # stands for the number of the instruction.
#[derive(Debug, Clone, Copy)]
pub struct RowFold {
    /// Declares the registers.
    pub start: &'static str,
    /// Takes in `@x`.
    pub step: &'static str,
    /// The result of all lanes of a row, an expression.
    pub close: &'static str,
}

/// What there is to know about a reduction.
#[derive(Debug, Clone, Copy)]
pub struct ReduceRow {
    /// Its name in every interface.
    pub name: &'static str,
    pub class: ReduceClass,
    /// Whether nothing at all reduces to the identity; else that is an error.
    pub of_nothing: bool,
    pub gradient: ReduceGradient,
    pub glsl: ReduceGlsl,
    /// The same for complex numbers, where it differs.
    pub complex: Option<ReduceGlsl>,
    /// Whether rows fold by it inside a kernel of several steps, and how.
    pub fold: Option<RowFold>,
}

const SUM: ReduceRow = ReduceRow {
    name: "sum",
    class: ReduceClass::Ring,
    of_nothing: true,
    gradient: ReduceGradient::Each,
    glsl: ReduceGlsl { identity: "ACC(0)", combine: "a + b" },
    complex: None,
    fold: Some(RowFold {
        start: "float acc# = 0.0;",
        step: "acc# = row_plus(acc#, @x);",
        close: "row_sum(acc#, lane)",
    }),
};

const PROD: ReduceRow = ReduceRow {
    name: "prod",
    class: ReduceClass::Ring,
    of_nothing: true,
    gradient: ReduceGradient::Others,
    glsl: ReduceGlsl { identity: "ACC(1)", combine: "a * b" },
    complex: Some(ReduceGlsl {
        identity: "vec2(1.0, 0.0)",
        combine: "vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x)",
    }),
    fold: Some(RowFold {
        start: "float acc# = 1.0;",
        step: "acc# = row_times(acc#, @x);",
        close: "row_prod(acc#, lane)",
    }),
};

// In rows, NaN shows in the largest magnitude.
const MIN: ReduceRow = ReduceRow {
    name: "min",
    class: ReduceClass::Order,
    of_nothing: false,
    gradient: ReduceGradient::Chosen,
    glsl: ReduceGlsl { identity: "KEY_HIGH", combine: "min(a, b)" },
    complex: None,
    fold: Some(RowFold {
        start: "float acc# = uintBitsToFloat(0x7f800000u); uint top# = 0u;",
        step: "acc# = min(acc#, @x); top# = max(top#, floatBitsToUint(@x) & 0x7fffffffu);",
        close: "row_unkey(row_min(row_key_min(row_or_nan(acc#, top#)), lane))",
    }),
};

const MAX: ReduceRow = ReduceRow {
    name: "max",
    class: ReduceClass::Order,
    of_nothing: false,
    gradient: ReduceGradient::Chosen,
    glsl: ReduceGlsl { identity: "KEY_LOW", combine: "max(a, b)" },
    complex: None,
    fold: Some(RowFold {
        start: "float acc# = uintBitsToFloat(0xff800000u); uint top# = 0u;",
        step: "acc# = max(acc#, @x); top# = max(top#, floatBitsToUint(@x) & 0x7fffffffu);",
        close: "row_unkey(row_max(row_key_max(row_or_nan(acc#, top#)), lane))",
    }),
};

const ALL: ReduceRow = ReduceRow {
    name: "all",
    class: ReduceClass::Truth,
    of_nothing: true,
    gradient: ReduceGradient::Nothing,
    glsl: ReduceGlsl { identity: "1u", combine: "a & b" },
    complex: None,
    fold: None,
};

const ANY: ReduceRow = ReduceRow {
    name: "any",
    class: ReduceClass::Truth,
    of_nothing: true,
    gradient: ReduceGradient::Nothing,
    glsl: ReduceGlsl { identity: "0u", combine: "a | b" },
    complex: None,
    fold: None,
};

impl ReduceOp {
    /// All of them.
    pub const EVERY: [ReduceOp; 6] =
        [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max, ReduceOp::All, ReduceOp::Any];

    /// What there is to know about it.
    pub fn row(self) -> &'static ReduceRow {
        match self {
            ReduceOp::Sum => &SUM,
            ReduceOp::Prod => &PROD,
            ReduceOp::Min => &MIN,
            ReduceOp::Max => &MAX,
            ReduceOp::All => &ALL,
            ReduceOp::Any => &ANY,
        }
    }

    /// The one of a name.
    pub fn named(name: &str) -> Option<ReduceOp> {
        ReduceOp::EVERY.into_iter().find(|op| op.row().name == name)
    }

    /// Dtype of the result for elements of a dtype: narrow numbers are summed in 32 bits.
    pub fn result(self, of: Dtype) -> Dtype {
        match self.row().class {
            ReduceClass::Order => of,
            ReduceClass::Truth => Dtype::Bool,
            ReduceClass::Ring => match of {
                Dtype::Bool | Dtype::I8 | Dtype::I16 => Dtype::I32,
                Dtype::U8 | Dtype::U16 => Dtype::U32,
                d => d,
            },
        }
    }
}

impl ArgReduceOp {
    /// Both of them.
    pub const EVERY: [ArgReduceOp; 2] = [ArgReduceOp::Min, ArgReduceOp::Max];

    /// Its name in every interface.
    pub fn name(self) -> &'static str {
        match self {
            ArgReduceOp::Min => "argmin",
            ArgReduceOp::Max => "argmax",
        }
    }
}

impl RowFold {
    /// One of the texts for instruction `r` and, in a step, an element.
    pub fn text(text: &str, r: usize, x: &str) -> String {
        text.replace('#', &r.to_string()).replace("@x", x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_their_names() {
        for op in ReduceOp::EVERY {
            assert_eq!(ReduceOp::named(op.row().name), Some(op));
        }
        assert_eq!(ReduceOp::named("median"), None);
    }

    #[test]
    fn classes_say_what_follows_from_them() {
        for op in ReduceOp::EVERY {
            let row = op.row();
            assert_eq!(
                row.class == ReduceClass::Truth,
                row.gradient == ReduceGradient::Nothing,
                "{}",
                row.name
            );
            assert_eq!(
                row.class == ReduceClass::Order,
                row.gradient == ReduceGradient::Chosen,
                "{}",
                row.name
            );
            // Rows hold floats, which truth is none of.
            assert_eq!(row.class == ReduceClass::Truth, row.fold.is_none(), "{}", row.name);
            for dtype in Dtype::ALL {
                let of = op.result(dtype);
                match row.class {
                    ReduceClass::Truth => assert_eq!(of, Dtype::Bool),
                    ReduceClass::Order => assert_eq!(of, dtype),
                    ReduceClass::Ring => {
                        assert!(of.size() >= 4 || dtype.is_float(), "{} of {dtype}", row.name)
                    }
                }
            }
        }
    }

    #[test]
    fn texts_of_folds_name_their_registers() {
        for op in ReduceOp::EVERY {
            let Some(fold) = op.row().fold else { continue };
            let step = RowFold::text(fold.step, 7, "(a + b)");
            assert!(
                step.starts_with("acc7 = ") && step.contains("(a + b)") && !step.contains(['#', '@']),
                "{step}"
            );
            assert!(RowFold::text(fold.start, 7, "").contains("float acc7 = "));
            assert!(RowFold::text(fold.close, 7, "").contains("acc7"));
        }
    }
}
