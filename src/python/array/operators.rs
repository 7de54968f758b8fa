//! Operators of `mx.array`: which table row stands behind each, how the other operand is converted, what
//! is said when it cannot be, and the methods that Python calls for them.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::PyBool;
use smallvec::smallvec;

use super::arguments::{Arr, type_name};
use super::convert::{is_scalar, operand};
use super::methods::{ABS, INVERT, NEG};
use super::{Out, PyArray, one, out};
use crate::core::fork::Made;
use crate::core::{Array, Stream};
use crate::kernels::elementwise::table::{OpId, op};
use crate::ops;
use crate::python::runtime::device::current;

/// An operator with two operands.
pub struct Binary {
    id: Made<OpId>,
    verb: &'static str,
    integers_only: bool,
}

macro_rules! operators {
    ($($name:ident: $row:literal, $verb:literal, $ints:literal;)*) => {$(
        #[doc = concat!("The operator of `", $row, "`.")]
        pub static $name: Binary = Binary {
            id: Made::new(|| op($row)),
            verb: $verb,
            integers_only: $ints,
        };
    )*};
}

operators! {
    ADD: "add", "addition", false;
    SUB: "subtract", "subtraction", false;
    MUL: "multiply", "multiplication", false;
    DIV: "divide", "division", false;
    FLOORDIV: "floor_divide", "floor division", false;
    REM: "remainder", "modulus", false;
    POW: "power", "power", false;
    AND: "bitwise_and", "bitwise and", true;
    OR: "bitwise_or", "bitwise or", true;
    XOR: "bitwise_xor", "bitwise xor", true;
    SHL: "left_shift", "left shift", true;
    SHR: "right_shift", "right shift", true;
    EQ: "equal", "equality", false;
    NE: "not_equal", "inequality", false;
    LT: "less", "less than", false;
    LE: "less_equal", "less than or equal", false;
    GT: "greater", "greater than", false;
    GE: "greater_equal", "greater than or equal", false;
}

impl Binary {
    fn fail(&self, other: &Bound<'_, PyAny>, how: &str) -> PyErr {
        let text = format!("Cannot perform {how}{} on an mlx.core.array and {}", self.verb, type_name(other));
        if other.is_none() { PyTypeError::new_err(text) } else { PyValueError::new_err(text) }
    }

    fn check(&self, a: &Array, b: &Array) -> PyResult<()> {
        if self.integers_only && (a.dtype().is_inexact() || b.dtype().is_inexact()) {
            let text = format!("Floating point types not allowed with {}.", self.verb);
            return Err(PyValueError::new_err(text));
        }
        Ok(())
    }

    /// The operator on two arrays.
    fn arrays(&self, a: Array, b: Array, s: Stream) -> PyResult<Array> {
        self.check(&a, &b)?;
        Ok(ops::apply_to(*self.id, smallvec![a, b], s)?)
    }

    fn with(&self, a: Array, other: &Bound<'_, PyAny>, how: &str, swap: bool) -> PyResult<Array> {
        let b = operand(other, Some(a.dtype()))?.ok_or_else(|| self.fail(other, how))?;
        if swap { self.arrays(b, a, current()) } else { self.arrays(a, b, current()) }
    }

    /// `a op other`
    pub fn left(&self, a: Array, other: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.with(a, other, "", false).map(PyArray::new)
    }

    /// `other op a`
    pub fn right(&self, a: Array, other: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.with(a, other, "", true).map(PyArray::new)
    }

    /// `a op= other`: the Python object gets the new array.
    pub fn inplace(&self, a: &PyArray, other: &Bound<'_, PyAny>) -> PyResult<()> {
        a.set(self.with(a.array(), other, "inplace ", false)?);
        Ok(())
    }
}

/// Comparison operators; `==` and `!=` with an object that is no operand are False and True. None is refused,
/// as by MLX.
pub fn compare<'py>(a: Array, other: &Bound<'py, PyAny>, how: CompareOp) -> PyResult<Bound<'py, PyAny>> {
    let py = other.py();
    let row = match how {
        CompareOp::Eq => &EQ,
        CompareOp::Ne => &NE,
        CompareOp::Lt => &LT,
        CompareOp::Le => &LE,
        CompareOp::Gt => &GT,
        CompareOp::Ge => &GE,
    };
    let equality = matches!(how, CompareOp::Eq | CompareOp::Ne);
    let found = match operand(other, Some(a.dtype())) {
        // Arrays of texts, dates or objects.
        Err(e) if equality && !is_scalar(other) && e.is_instance_of::<PyValueError>(py) => None,
        found => found?,
    };
    let Some(b) = found else {
        return match how {
            _ if other.is_none() => Err(row.fail(other, "")),
            CompareOp::Eq | CompareOp::Ne => {
                Ok(PyBool::new(py, matches!(how, CompareOp::Ne)).to_owned().into_any())
            }
            _ => Err(row.fail(other, "")),
        };
    };
    let out = row.arrays(a, b, current())?;
    Ok(Bound::new(py, PyArray::new(out))?.into_any())
}

fn no_modulo(modulo: Option<Bound<'_, PyAny>>) -> PyResult<()> {
    match modulo {
        None => Ok(()),
        Some(_) => Err(PyTypeError::new_err("pow() of an mlx.core.array takes no modulus")),
    }
}

#[pymethods]
impl PyArray {
    fn __richcmp__<'py>(&self, other: &Bound<'py, PyAny>, how: CompareOp) -> PyResult<Bound<'py, PyAny>> {
        compare(self.array(), other, how)
    }
    fn __neg__(&self, py: Python<'_>) -> Out {
        one(py, &NEG, self, None)
    }
    fn __pos__(&self) -> PyArray {
        PyArray::new(self.array())
    }
    fn __abs__(&self, py: Python<'_>) -> Out {
        one(py, &ABS, self, None)
    }
    fn __invert__(&self, py: Python<'_>) -> Out {
        if self.array().dtype().is_inexact() {
            let text = "Floating point types not allowed with bitwise inversion.";
            return Err(PyValueError::new_err(text));
        }
        one(py, &INVERT, self, None)
    }
    fn __add__(&self, other: &Bound<'_, PyAny>) -> Out {
        ADD.left(self.array(), other)
    }
    fn __radd__(&self, other: &Bound<'_, PyAny>) -> Out {
        ADD.right(self.array(), other)
    }
    fn __iadd__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        ADD.inplace(self, other)
    }
    fn __sub__(&self, other: &Bound<'_, PyAny>) -> Out {
        SUB.left(self.array(), other)
    }
    fn __rsub__(&self, other: &Bound<'_, PyAny>) -> Out {
        SUB.right(self.array(), other)
    }
    fn __isub__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        SUB.inplace(self, other)
    }
    fn __mul__(&self, other: &Bound<'_, PyAny>) -> Out {
        MUL.left(self.array(), other)
    }
    fn __rmul__(&self, other: &Bound<'_, PyAny>) -> Out {
        MUL.right(self.array(), other)
    }
    fn __imul__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        MUL.inplace(self, other)
    }
    fn __truediv__(&self, other: &Bound<'_, PyAny>) -> Out {
        DIV.left(self.array(), other)
    }
    fn __rtruediv__(&self, other: &Bound<'_, PyAny>) -> Out {
        DIV.right(self.array(), other)
    }
    fn __itruediv__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        if !other.is_none() && !self.array().dtype().is_inexact() {
            let text = "In place division cannot cast to non-floating point type.";
            return Err(PyValueError::new_err(text));
        }
        DIV.inplace(self, other)
    }
    fn __div__(&self, other: &Bound<'_, PyAny>) -> Out {
        DIV.left(self.array(), other)
    }
    fn __rdiv__(&self, other: &Bound<'_, PyAny>) -> Out {
        DIV.right(self.array(), other)
    }
    fn __floordiv__(&self, other: &Bound<'_, PyAny>) -> Out {
        FLOORDIV.left(self.array(), other)
    }
    fn __rfloordiv__(&self, other: &Bound<'_, PyAny>) -> Out {
        FLOORDIV.right(self.array(), other)
    }
    fn __ifloordiv__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        FLOORDIV.inplace(self, other)
    }
    fn __mod__(&self, other: &Bound<'_, PyAny>) -> Out {
        REM.left(self.array(), other)
    }
    fn __rmod__(&self, other: &Bound<'_, PyAny>) -> Out {
        REM.right(self.array(), other)
    }
    fn __imod__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        REM.inplace(self, other)
    }
    fn __pow__(&self, other: &Bound<'_, PyAny>, modulo: Option<Bound<'_, PyAny>>) -> Out {
        no_modulo(modulo)?;
        POW.left(self.array(), other)
    }
    fn __rpow__(&self, other: &Bound<'_, PyAny>, modulo: Option<Bound<'_, PyAny>>) -> Out {
        no_modulo(modulo)?;
        POW.right(self.array(), other)
    }
    fn __ipow__(&self, other: &Bound<'_, PyAny>, modulo: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        no_modulo(modulo)?;
        POW.inplace(self, other)
    }
    fn __and__(&self, other: &Bound<'_, PyAny>) -> Out {
        AND.left(self.array(), other)
    }
    fn __iand__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        AND.inplace(self, other)
    }
    fn __or__(&self, other: &Bound<'_, PyAny>) -> Out {
        OR.left(self.array(), other)
    }
    fn __ior__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        OR.inplace(self, other)
    }
    fn __xor__(&self, other: &Bound<'_, PyAny>) -> Out {
        XOR.left(self.array(), other)
    }
    fn __ixor__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        XOR.inplace(self, other)
    }
    fn __lshift__(&self, other: &Bound<'_, PyAny>) -> Out {
        SHL.left(self.array(), other)
    }
    fn __ilshift__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        SHL.inplace(self, other)
    }
    fn __rshift__(&self, other: &Bound<'_, PyAny>) -> Out {
        SHR.left(self.array(), other)
    }
    fn __irshift__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        SHR.inplace(self, other)
    }
    fn __matmul__(&self, other: Arr) -> Out {
        out(ops::matmul(&self.array(), &other.0, current()))
    }
    fn __imatmul__(&self, other: Arr) -> PyResult<()> {
        self.set(ops::matmul(&self.array(), &other.0, current())?);
        Ok(())
    }
}
