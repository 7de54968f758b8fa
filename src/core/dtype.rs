//! Element types, their sizes and categories, and MLX's promotion rules. Called by everything.

use std::fmt;

/// Element type of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Dtype {
    Bool,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F16,
    BF16,
    F32,
    F64,
    C64,
}

/// The abstract types that `issubdtype` knows, from leaf to root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Category {
    ComplexFloating,
    Floating,
    Inexact,
    SignedInteger,
    UnsignedInteger,
    Integer,
    Number,
    Generic,
}

/// Kind for promotion: bool < unsigned < signed < floating < complex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Bool,
    Unsigned,
    Signed,
    Float,
    Complex,
}

use Dtype::*;

impl Dtype {
    /// All dtypes in declaration order.
    pub const ALL: [Dtype; 14] = [Bool, U8, U16, U32, U64, I8, I16, I32, I64, F16, BF16, F32, F64, C64];

    /// Size of one element in bytes.
    pub const fn size(self) -> usize {
        match self {
            Bool | U8 | I8 => 1,
            U16 | I16 | F16 | BF16 => 2,
            U32 | I32 | F32 => 4,
            U64 | I64 | F64 | C64 => 8,
        }
    }

    /// MLX's name, for example `float32`.
    pub const fn name(self) -> &'static str {
        match self {
            Bool => "bool",
            U8 => "uint8",
            U16 => "uint16",
            U32 => "uint32",
            U64 => "uint64",
            I8 => "int8",
            I16 => "int16",
            I32 => "int32",
            I64 => "int64",
            F16 => "float16",
            BF16 => "bfloat16",
            F32 => "float32",
            F64 => "float64",
            C64 => "complex64",
        }
    }

    /// Promotion kind.
    pub const fn kind(self) -> Kind {
        match self {
            Bool => Kind::Bool,
            U8 | U16 | U32 | U64 => Kind::Unsigned,
            I8 | I16 | I32 | I64 => Kind::Signed,
            F16 | BF16 | F32 | F64 => Kind::Float,
            C64 => Kind::Complex,
        }
    }

    /// Leaf category; `bool` is only `generic`.
    pub const fn category(self) -> Category {
        match self.kind() {
            Kind::Bool => Category::Generic,
            Kind::Unsigned => Category::UnsignedInteger,
            Kind::Signed => Category::SignedInteger,
            Kind::Float => Category::Floating,
            Kind::Complex => Category::ComplexFloating,
        }
    }

    /// Real floating point.
    pub const fn is_float(self) -> bool {
        matches!(self, F16 | BF16 | F32 | F64)
    }

    /// Real or complex floating point.
    pub const fn is_inexact(self) -> bool {
        matches!(self, F16 | BF16 | F32 | F64 | C64)
    }

    /// Signed or unsigned integer (not bool).
    pub const fn is_integer(self) -> bool {
        matches!(self, U8 | U16 | U32 | U64 | I8 | I16 | I32 | I64)
    }

    /// Result type of an operation on two arrays.
    pub fn promote(self, other: Dtype) -> Dtype {
        let (a, b) = if (self as u8) <= (other as u8) { (self, other) } else { (other, self) };
        if a == b || a == Bool {
            return b;
        }
        match (a.kind(), b.kind()) {
            (Kind::Unsigned, Kind::Unsigned) | (Kind::Signed, Kind::Signed) => b,
            // Mixed signs: the narrowest signed type that holds both; with uint64 there is none.
            (Kind::Unsigned, Kind::Signed) => match a {
                U64 => F32,
                _ if b.size() > a.size() => b,
                U8 => I16,
                U16 => I32,
                _ => I64,
            },
            (_, Kind::Complex) => C64,
            (Kind::Float, Kind::Float) => match (a, b) {
                (F16, BF16) => F32,
                _ => b,
            },
            (_, Kind::Float) => b,
            _ => b,
        }
    }

    /// The dtype itself if inexact, else float32.
    pub fn at_least_float(self) -> Dtype {
        if self.is_inexact() { self } else { F32 }
    }

    /// The dtype with this MLX name.
    pub fn from_name(name: &str) -> Option<Dtype> {
        Self::ALL.into_iter().find(|d| d.name() == name)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Category {
    /// The next more general category.
    pub const fn parent(self) -> Option<Category> {
        match self {
            Category::ComplexFloating | Category::Floating => Some(Category::Inexact),
            Category::SignedInteger | Category::UnsignedInteger => Some(Category::Integer),
            Category::Inexact | Category::Integer => Some(Category::Number),
            Category::Number => Some(Category::Generic),
            Category::Generic => None,
        }
    }

    /// Whether `self` is `other` or below it.
    pub fn is_sub(self, other: Category) -> bool {
        let mut c = Some(self);
        while let Some(x) = c {
            if x == other {
                return true;
            }
            c = x.parent();
        }
        false
    }

    /// MLX's name, for example `floating`.
    pub const fn name(self) -> &'static str {
        match self {
            Category::ComplexFloating => "complexfloating",
            Category::Floating => "floating",
            Category::Inexact => "inexact",
            Category::SignedInteger => "signedinteger",
            Category::UnsignedInteger => "unsignedinteger",
            Category::Integer => "integer",
            Category::Number => "number",
            Category::Generic => "generic",
        }
    }
}

/// Makes every byte of bools that came from outside 0 or 1: any that is not 0 stands for true. Kernels count on that.
pub fn make_truths(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|b| *b = u8::from(*b != 0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_is_symmetric_and_idempotent() {
        for a in Dtype::ALL {
            assert_eq!(a.promote(a), a);
            for b in Dtype::ALL {
                assert_eq!(a.promote(b), b.promote(a), "{a} {b}");
            }
        }
    }

    #[test]
    fn promotion_loses_no_kind_and_no_size() {
        let rank = |d: Dtype| match d.kind() {
            Kind::Bool => 0,
            Kind::Unsigned | Kind::Signed => 1,
            Kind::Float => 2,
            Kind::Complex => 3,
        };
        for a in Dtype::ALL {
            assert_eq!(a.promote(Bool), a);
            for b in Dtype::ALL {
                let c = a.promote(b);
                assert!(rank(c) >= rank(a).max(rank(b)), "{a} {b}");
                // Only floats beside integers, complex beside float64, and uint64 beside signed ones are narrower.
                let narrower = rank(a) != rank(b) || c == F32;
                assert!(c.size() >= a.size().max(b.size()) || narrower, "{a} {b}: {c}");
                assert_eq!(c.promote(a), c, "{a} {b}: what holds both holds each");
            }
        }
    }

    #[test]
    fn categories_form_a_tree_with_one_root() {
        for d in Dtype::ALL {
            let c = d.category();
            assert!(c.is_sub(Category::Generic) && c.is_sub(c), "{d}");
            assert_eq!(c.is_sub(Category::Inexact), d.is_inexact(), "{d}");
            assert_eq!(c.is_sub(Category::Integer), d.is_integer(), "{d}");
            assert_eq!(Dtype::from_name(d.name()), Some(d));
        }
        assert!(!Category::Number.is_sub(Category::Floating));
    }

    #[test]
    fn promotion_of_mixed_signs_and_floats() {
        assert_eq!(U8.promote(I8), I16);
        assert_eq!(U16.promote(I8), I32);
        assert_eq!(U32.promote(I32), I64);
        assert_eq!(U64.promote(I64), F32);
        assert_eq!(U8.promote(I32), I32);
        assert_eq!(F16.promote(BF16), F32);
        assert_eq!(I64.promote(F16), F16);
        assert_eq!(F64.promote(C64), C64);
    }
}
