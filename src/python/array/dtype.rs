//! `Dtype` objects, the categories of dtypes, and what can be asked about them.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use super::PyArray;
use super::convert::int_range;
use crate::core::{Category, Dtype, Kind};

/// The type of the elements of an array.
///
/// There is one object for each: `mx.bool_`, `mx.int8` to `mx.int64`, `mx.uint8` to `mx.uint64`,
/// `mx.float16`, `mx.bfloat16`, `mx.float32`, `mx.float64` (CPU streams only) and `mx.complex64`.
///
/// >>> mx.float32
/// mlx.core.float32
/// >>> mx.float32.size
/// 4
#[pyclass(name = "Dtype", module = "mlx.core", frozen)]
pub struct PyDtype(pub Dtype);

#[pymethods]
impl PyDtype {
    /// Bytes of one element.
    #[getter]
    fn size(&self) -> usize {
        self.0.size()
    }

    fn __repr__(&self) -> String {
        format!("mlx.core.{}", self.0.name())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyDtype>().is_ok_and(|d| d.get().0 == self.0)
    }

    fn __hash__(&self) -> u64 {
        self.0 as u64
    }

    fn __reduce__(&self) -> String {
        attribute(self.0).to_string()
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }
}

/// A dtype argument.
#[derive(Debug, Clone, Copy)]
pub struct D(pub Dtype);

impl<'a, 'py> FromPyObject<'a, 'py> for D {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(D(obj.cast::<PyDtype>()?.get().0))
    }
}

fn attribute(d: Dtype) -> &'static str {
    if d == Dtype::Bool { "bool_" } else { d.name() }
}

static OBJECTS: PyOnceLock<Vec<Py<PyDtype>>> = PyOnceLock::new();
static CATEGORIES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The one Python object of a dtype.
pub fn object(py: Python<'_>, d: Dtype) -> PyResult<Py<PyDtype>> {
    let all = OBJECTS.get_or_try_init(py, || {
        Dtype::ALL.into_iter().map(|d| Py::new(py, PyDtype(d))).collect::<PyResult<Vec<_>>>()
    })?;
    // FITS: the place in ALL.
    Ok(all[d as usize].clone_ref(py))
}

const ALL_CATEGORIES: [Category; 8] = [
    Category::ComplexFloating,
    Category::Floating,
    Category::Inexact,
    Category::SignedInteger,
    Category::UnsignedInteger,
    Category::Integer,
    Category::Number,
    Category::Generic,
];

fn category(obj: &Bound<'_, PyAny>) -> PyResult<Option<Category>> {
    let py = obj.py();
    // INVARIANT: registration, which runs at import, fills the cell.
    let class = CATEGORIES.get(py).expect("categories are registered").bind(py);
    if !obj.is_instance(class)? {
        return Ok(None);
    }
    let value: usize = obj.getattr("value")?.extract()?;
    Ok(ALL_CATEGORIES.get(value).copied())
}

/// Whether a dtype or category is another one, or belongs to it.
///
/// Categories are `mx.generic`, below it `mx.number`, with `mx.integer` (`mx.signedinteger`,
/// `mx.unsignedinteger`) and `mx.inexact` (`mx.floating`, `mx.complexfloating`).
///
/// Args:
///     arg1 (Dtype | DtypeCategory): What is asked about.
///     arg2 (Dtype | DtypeCategory): What it may belong to.
///
/// Returns:
///     bool: Whether it does.
///
/// Raises:
///     ValueError: if an argument is something else.
///
/// >>> mx.issubdtype(mx.float16, mx.floating)
/// True
/// >>> mx.issubdtype(mx.integer, mx.signedinteger)
/// False
#[pyfunction]
fn issubdtype(arg1: &Bound<'_, PyAny>, arg2: &Bound<'_, PyAny>) -> PyResult<bool> {
    if arg1.is_none() || arg2.is_none() {
        return Err(PyTypeError::new_err("[issubdtype] Expected dtypes or categories, got None."));
    }
    let which = |what| PyValueError::new_err(format!("[issubdtype] Received invalid type for {what} input."));
    let left = arg1.cast::<PyDtype>().ok().map(|d| d.get().0);
    let right = arg2.cast::<PyDtype>().ok().map(|d| d.get().0);
    if let (Some(a), Some(b)) = (left, right) {
        return Ok(a == b);
    }
    let below = match left {
        Some(d) => d.category(),
        None => category(arg1)?.ok_or_else(|| which("first"))?,
    };
    match right {
        Some(_) => Ok(false),
        None => Ok(below.is_sub(category(arg2)?.ok_or_else(|| which("second"))?)),
    }
}

/// Whether a dtype is of one of the kinds of the array API.
///
/// Args:
///     dtype (Dtype): What is asked about.
///     kind (Dtype | str | tuple[Dtype | str, ...]): A dtype, one of "bool", "signed integer", "unsigned
///         integer", "integral", "real floating", "complex floating" and "numeric", or a tuple of these.
///
/// Returns:
///     bool: Whether it is of one of them.
///
/// Raises:
///     ValueError: if a kind is unknown.
///
/// >>> mx.isdtype(mx.int32, ('integral', 'bool'))
/// True
#[pyfunction]
fn isdtype(dtype: D, kind: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Ok(kinds) = kind.cast::<PyTuple>() else { return is_kind(dtype, kind) };
    for k in kinds {
        if is_kind(dtype, &k)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a dtype is another one, or of a kind by name.
fn is_kind(dtype: D, kind: &Bound<'_, PyAny>) -> PyResult<bool> {
    if let Ok(d) = kind.cast::<PyDtype>() {
        return Ok(d.get().0 == dtype.0);
    }
    if kind.is_none() {
        return Err(PyTypeError::new_err(
            "[isdtype] Expected a dtype, a string or a tuple of them, got None.",
        ));
    }
    let name: String = kind.extract().map_err(|_| {
        PyValueError::new_err("[isdtype] `kind` must be a dtype, a string, or a tuple of dtypes and strings.")
    })?;
    let k = dtype.0.kind();
    Ok(match name.as_str() {
        "bool" => k == Kind::Bool,
        "signed integer" => k == Kind::Signed,
        "unsigned integer" => k == Kind::Unsigned,
        "integral" => dtype.0.is_integer(),
        "real floating" => k == Kind::Float,
        "complex floating" => k == Kind::Complex,
        "numeric" => k != Kind::Bool,
        _ => return Err(PyValueError::new_err(format!("[isdtype] Unknown data type kind: '{name}'."))),
    })
}

/// The dtype that arrays and dtypes are promoted to.
///
/// That is the smallest one that holds all of them by kind: bool, integers, floats, complex numbers. An
/// integer and a float give the float's dtype, float16 and bfloat16 give float32.
///
/// Args:
///     arrays_and_dtypes (array | Dtype): One or more.
///
/// Returns:
///     Dtype: The common dtype.
///
/// Raises:
///     ValueError: if there are none, or something else is given.
///
/// >>> mx.result_type(mx.int32, mx.float16)
/// mlx.core.float16
/// >>> mx.result_type(mx.array([1]), mx.bool_)
/// mlx.core.int32
#[pyfunction]
#[pyo3(signature = (*arrays_and_dtypes))]
fn result_type(py: Python<'_>, arrays_and_dtypes: &Bound<'_, PyTuple>) -> PyResult<Py<PyDtype>> {
    let mut out: Option<Dtype> = None;
    for x in arrays_and_dtypes {
        let d = dtype_of(&x)
            .ok_or_else(|| PyValueError::new_err("[result_type] Inputs must be arrays or dtypes."))?;
        out = Some(out.map_or(d, |o| o.promote(d)));
    }
    match out {
        Some(d) => object(py, d),
        None => Err(PyValueError::new_err("[result_type] At least one array or dtype is required.")),
    }
}

fn dtype_of(x: &Bound<'_, PyAny>) -> Option<Dtype> {
    match x.cast::<PyArray>() {
        Ok(a) => Some(a.get().array().dtype()),
        Err(_) => x.cast::<PyDtype>().ok().map(|d| d.get().0),
    }
}

/// Whether promotion can turn one dtype into another.
///
/// That is whether `result_type` of both is the second one.
///
/// Args:
///     from_ (array | Dtype): What would be converted.
///     to (Dtype): What it would become.
///
/// Returns:
///     bool: Whether it can.
///
/// Raises:
///     ValueError: if `from_` is something else.
///
/// >>> mx.can_cast(mx.int8, mx.int16)
/// True
/// >>> mx.can_cast(mx.float32, mx.int32)
/// False
#[pyfunction]
fn can_cast(from_: &Bound<'_, PyAny>, to: D) -> PyResult<bool> {
    if from_.is_none() {
        return Err(PyTypeError::new_err("[can_cast] Expected an array or a dtype, got None."));
    }
    let from = dtype_of(from_)
        .ok_or_else(|| PyValueError::new_err("[can_cast] `from_` must be an array or a dtype."))?;
    Ok(from.promote(to.0) == to.0)
}

/// Limits of a floating or complex dtype; those of complex64 are float32's.
///
/// Args:
///     arg (Dtype): The dtype.
///
/// Raises:
///     ValueError: if the dtype is an integer one or bool.
///
/// >>> mx.finfo(mx.float16).max
/// 65504.0
#[pyclass(name = "finfo", module = "mlx.core", frozen)]
struct FInfo(Dtype);

impl FInfo {
    /// (max, eps, smallest normal)
    fn limits(&self) -> (f64, f64, f64) {
        match self.0 {
            Dtype::F16 => (65504.0, 2f64.powi(-10), 2f64.powi(-14)),
            Dtype::BF16 => (half::bf16::MAX.to_f64(), 2f64.powi(-7), 2f64.powi(-126)),
            Dtype::F64 => (f64::MAX, f64::EPSILON, f64::MIN_POSITIVE),
            _ => (f64::from(f32::MAX), f64::from(f32::EPSILON), f64::from(f32::MIN_POSITIVE)),
        }
    }
}

#[pymethods]
impl FInfo {
    #[new]
    #[pyo3(signature = (arg, /))]
    fn new(arg: D) -> PyResult<Self> {
        if !arg.0.is_inexact() {
            return Err(PyValueError::new_err(format!("[finfo] dtype {} is not inexact.", arg.0)));
        }
        Ok(FInfo(if arg.0 == Dtype::C64 { Dtype::F32 } else { arg.0 }))
    }

    /// Bits of one element.
    #[getter]
    fn bits(&self) -> usize {
        self.0.size() * 8
    }
    /// The real dtype that is described.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyDtype>> {
        object(py, self.0)
    }
    /// Distance from 1.0 to the next number.
    #[getter]
    fn eps(&self) -> f64 {
        self.limits().1
    }
    /// The largest finite number.
    #[getter]
    fn max(&self) -> f64 {
        self.limits().0
    }
    /// The lowest finite number.
    #[getter]
    fn min(&self) -> f64 {
        -self.limits().0
    }
    /// The smallest positive number of full precision.
    #[getter]
    fn smallest_normal(&self) -> f64 {
        self.limits().2
    }

    fn __repr__(&self) -> String {
        let max = super::printing::general(self.limits().0, 6);
        format!("finfo(min=-{max}, max={max}, dtype={})", self.0)
    }
}

/// Limits of an integer dtype.
///
/// Args:
///     arg (Dtype): The dtype.
///
/// Raises:
///     ValueError: if the dtype is no integer one.
///
/// >>> mx.iinfo(mx.int8).max
/// 127
#[pyclass(name = "iinfo", module = "mlx.core", frozen)]
struct IInfo(Dtype);

#[pymethods]
impl IInfo {
    #[new]
    #[pyo3(signature = (arg, /))]
    fn new(arg: D) -> PyResult<Self> {
        if !arg.0.is_integer() {
            return Err(PyValueError::new_err(format!(
                "[iinfo] Only integer types supported but {} was provided",
                arg.0
            )));
        }
        Ok(IInfo(arg.0))
    }

    /// The smallest value.
    #[getter]
    fn min(&self) -> i128 {
        int_range(self.0).0
    }
    /// The largest value.
    #[getter]
    fn max(&self) -> i128 {
        int_range(self.0).1
    }
    /// The dtype that is described.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyDtype>> {
        object(py, self.0)
    }

    fn __repr__(&self) -> String {
        let (lo, hi) = int_range(self.0);
        format!("iinfo(min={lo}, max={hi}, dtype={})", self.0)
    }
}

/// Adds dtypes, categories and the functions above.
pub fn register(m: &Bound<'_, PyModule>, enums: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    m.add_class::<PyDtype>()?;
    for d in Dtype::ALL {
        m.add(attribute(d), object(py, d)?)?;
    }
    let class = enums.getattr("DtypeCategory")?;
    m.add("DtypeCategory", &class)?;
    for c in ALL_CATEGORIES {
        m.add(c.name(), class.getattr(c.name())?)?;
    }
    let _ = CATEGORIES.set(py, class.unbind());
    m.add_class::<FInfo>()?;
    m.add_class::<IInfo>()?;
    m.add_function(wrap_pyfunction!(issubdtype, m)?)?;
    m.add_function(wrap_pyfunction!(isdtype, m)?)?;
    m.add_function(wrap_pyfunction!(result_type, m)?)?;
    m.add_function(wrap_pyfunction!(can_cast, m)?)
}
