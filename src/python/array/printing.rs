//! How arrays print: `array([[1, 2],\n       [3, 4]], dtype=int32)`, with the middle of axes longer than six
//! left out, and numbers as `%g` or with a chosen count of decimals.

use std::fmt::Write;
use std::sync::atomic::{AtomicI32, Ordering};

use half::{bf16, f16};
use pyo3::prelude::*;

use crate::core::{Array, Dtype};

static PRECISION: AtomicI32 = AtomicI32::new(-1);
const EDGE: i64 = 3;

/// A number as C's `%.{digits}g`.
pub fn general(v: f64, digits: usize) -> String {
    if v.is_nan() {
        return "nan".into();
    }
    if v.is_infinite() {
        return if v > 0.0 { "inf".into() } else { "-inf".into() };
    }
    if v == 0.0 {
        return if v.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    let scientific = format!("{:.*e}", digits - 1, v);
    // INVARIANT: `{:e}` of a finite number is mantissa, 'e', exponent.
    let (mantissa, exponent) = scientific.split_once('e').expect("exponent");
    let exponent: i32 = exponent.parse().expect("exponent is a number");
    let trim = |s: &str| -> String {
        if s.contains('.') { s.trim_end_matches('0').trim_end_matches('.').into() } else { s.into() }
    };
    // FITS: digits of a precision of at most some tens.
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(mantissa), exponent.abs());
    }
    // FITS: as above, and not negative.
    trim(&format!("{:.*}", (digits as i32 - 1 - exponent).max(0) as usize, v))
}

fn real(v: f64) -> String {
    let precision = PRECISION.load(Ordering::Relaxed);
    // FITS: not negative there.
    if precision < 0 || !v.is_finite() { general(v, 6) } else { format!("{v:.*}", precision as usize) }
}

/// Writes the element at `p`.
///
/// # Safety
/// `p` must point at a readable element of `dtype`.
unsafe fn element(out: &mut String, p: *const u8, dtype: Dtype) {
    macro_rules! get {
        ($t:ty) => {
            // SAFETY: by the contract of this function.
            unsafe { p.cast::<$t>().read_unaligned() }
        };
    }
    let _ = match dtype {
        Dtype::Bool => out.write_str(if get!(u8) != 0 { "True" } else { "False" }),
        Dtype::U8 => write!(out, "{}", get!(u8)),
        Dtype::U16 => write!(out, "{}", get!(u16)),
        Dtype::U32 => write!(out, "{}", get!(u32)),
        Dtype::U64 => write!(out, "{}", get!(u64)),
        Dtype::I8 => write!(out, "{}", get!(i8)),
        Dtype::I16 => write!(out, "{}", get!(i16)),
        Dtype::I32 => write!(out, "{}", get!(i32)),
        Dtype::I64 => write!(out, "{}", get!(i64)),
        Dtype::F16 => out.write_str(&real(get!(f16).to_f64())),
        Dtype::BF16 => out.write_str(&real(get!(bf16).to_f64())),
        Dtype::F32 => out.write_str(&real(f64::from(get!(f32)))),
        Dtype::F64 => out.write_str(&real(get!(f64))),
        Dtype::C64 => {
            let [re, im] = get!([f32; 2]);
            let plus = if im >= 0.0 || im.is_nan() { "+" } else { "" };
            write!(out, "{}{plus}{}j", real(f64::from(re)), real(f64::from(im)))
        }
    };
}

fn rows(out: &mut String, a: &Array, strides: &[i64], p: *const u8, axis: usize) {
    let (n, last) = (a.shape()[axis], axis + 1 == a.ndim());
    out.push('[');
    let mut i = 0;
    while i < n {
        if i > 0 && !last {
            let _ = write!(out, "{:1$}", "", 7 + axis);
        }
        if i == EDGE && n > 2 * EDGE {
            out.push_str("...");
            i = n - EDGE;
            out.push_str(if last { ", " } else { ",\n" });
            continue;
        }
        // SAFETY: the index stays inside the shape of the evaluated array that `p` points into.
        let at = unsafe { p.offset((i * strides[axis]) as isize * a.dtype().size() as isize) };
        if last {
            // SAFETY: as above.
            unsafe { element(out, at, a.dtype()) };
        } else {
            rows(out, a, strides, at, axis + 1);
        }
        i += 1;
        if i < n {
            out.push_str(if last { ", " } else { ",\n" });
        }
    }
    out.push(']');
}

/// The text of an array; evaluates it.
pub fn repr(py: Python<'_>, a: &Array) -> PyResult<String> {
    let (a, p) = super::convert::host(py, a)?;
    let a = &a;
    let mut out = String::from("array(");
    if a.ndim() == 0 {
        // SAFETY: a scalar has one element.
        unsafe { element(&mut out, p, a.dtype()) };
    } else {
        rows(&mut out, a, &a.data()?.strides, p, 0);
    }
    let _ = write!(out, ", dtype={})", a.dtype());
    Ok(out)
}

/// How numbers print.
///
/// Args:
///     precision (int, optional): Number of decimals, or -1 for as many as are needed, up to six significant
///         digits. Default: -1.
///
/// >>> mx.PrintOptions(precision=3).precision
/// 3
#[pyclass(name = "PrintOptions", module = "mlx.core")]
struct PrintOptions {
    /// Count of decimals, or -1.
    #[pyo3(get, set)]
    precision: i32,
}

#[pymethods]
impl PrintOptions {
    #[new]
    #[pyo3(signature = (precision=-1))]
    fn new(precision: i32) -> Self {
        PrintOptions { precision }
    }
}

/// Restores the print options at the end of a `with` block.
#[pyclass(name = "_PrintOptionsContext", module = "mlx.core")]
struct PrintOptionsContext {
    precision: i32,
    before: i32,
}

#[pymethods]
impl PrintOptionsContext {
    fn __enter__(&mut self) -> PrintOptions {
        self.before = PRECISION.swap(self.precision, Ordering::Relaxed);
        PrintOptions { precision: self.precision }
    }
    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(
        &self,
        exc_type: Option<Bound<'_, PyAny>>,
        exc_value: Option<Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyAny>>,
    ) {
        let _ = (exc_type, exc_value, traceback);
        PRECISION.store(self.before, Ordering::Relaxed);
    }
}

/// Sets how arrays print from now on.
///
/// Args:
///     precision (int, optional): Number of decimals, or -1 for as many as are needed, up to six significant
///         digits. Default: -1.
///
/// Returns:
///     None
///
/// Raises:
///     TypeError: if it is no integer.
///
/// >>> mx.set_printoptions(precision=2)
/// >>> mx.array(3.14159)
/// array(3.14, dtype=float32)
/// >>> mx.set_printoptions()
#[pyfunction]
#[pyo3(signature = (precision=-1))]
fn set_printoptions(precision: i32) {
    PRECISION.store(precision, Ordering::Relaxed);
}

/// How arrays print now.
///
/// Returns:
///     PrintOptions: A copy: to change it changes nothing; see `set_printoptions`.
///
/// >>> mx.get_printoptions().precision
/// -1
#[pyfunction]
fn get_printoptions() -> PrintOptions {
    PrintOptions { precision: PRECISION.load(Ordering::Relaxed) }
}

/// A context in which arrays print in another way.
///
/// At the end of the block the options are as before.
///
/// Args:
///     precision (int, optional): Number of decimals, or -1 for as many as are needed, up to six significant
///         digits. Default: -1.
///
/// Returns:
///     _PrintOptionsContext: For a `with` statement.
///
/// Raises:
///     TypeError: if it is no integer.
///
/// >>> with mx.printoptions(precision=1):
/// ...     print(mx.array(3.14159))
/// array(3.1, dtype=float32)
#[pyfunction]
#[pyo3(signature = (precision=-1))]
fn printoptions(precision: i32) -> PrintOptionsContext {
    PrintOptionsContext { precision, before: -1 }
}

/// Adds the print options.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PrintOptions>()?;
    m.add_class::<PrintOptionsContext>()?;
    m.add_function(wrap_pyfunction!(set_printoptions, m)?)?;
    m.add_function(wrap_pyfunction!(get_printoptions, m)?)?;
    m.add_function(wrap_pyfunction!(printoptions, m)?)
}

#[cfg(test)]
mod tests {
    use super::general;

    #[test]
    fn numbers_print_with_six_significant_digits() {
        for (v, text) in [
            (1.234_567_89, "1.23457"),
            (100_000.123, "100000"),
            (1e6, "1e+06"),
            (1.234e-5, "1.234e-05"),
            (0.0001234, "0.0001234"),
            (999_999.5, "1e+06"),
            (-0.0, "-0"),
            (0.1, "0.1"),
        ] {
            assert_eq!(general(v, 6), text);
        }
    }
}
