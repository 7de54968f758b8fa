//! The Python class `mlx.core.array`: construction, properties, protocols, operators and methods. Each method
//! is a thin call of `ops` or of the function of the same name.

use std::sync::{LazyLock, Mutex};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyBytes, PyComplex, PyFloat, PyList, PyTuple};

use super::array_ops::*;
use super::assignment::{self, ArrayAt};
use super::convert::{Arr, Ints, element, host, make};
use super::device::{S, current, pick};
use super::dtype::{D, PyDtype, object};
use super::indexing::{self, ArrayIterator};
use super::{buffer, dlpack, printing, reductions, scans, views};
use crate::core::Array;
use crate::kernels::table::{OpId, op};
use crate::ops;

/// An n-dimensional array, computed when its values are needed.
///
/// `val` is a scalar, a nested list or tuple, an array, or an object with the buffer protocol, `__array__` or
/// `__mlx_array__`. Without `dtype`, Python ints become int32 (int64 where needed), floats float32, complex
/// numbers complex64; other arrays keep their type except that float64 becomes float32.
///
/// >>> mx.array([[1, 2], [3, 4]])
/// array([[1, 2],
///        [3, 4]], dtype=int32)
#[pyclass(name = "array", module = "mlx.core", frozen, weakref)]
pub struct PyArray {
    handle: Mutex<Array>,
}

impl PyArray {
    /// Wraps a handle.
    pub fn new(a: Array) -> Self {
        PyArray { handle: Mutex::new(a) }
    }

    /// The array that the object stands for now.
    pub fn array(&self) -> Array {
        self.handle.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Makes the object stand for another array.
    pub fn set(&self, a: Array) {
        let old = std::mem::replace(&mut *self.handle.lock().unwrap_or_else(|e| e.into_inner()), a);
        drop(old); // outside the lock: this may free a long graph
    }
}

/// What functions that make one array return.
pub type Out = PyResult<PyArray>;

/// Wraps the result of an operation.
pub fn out(r: crate::core::Result<Array>) -> Out {
    Ok(PyArray::new(r?))
}

fn one(py: Python<'_>, name: &'static LazyLock<OpId>, a: &PyArray, stream: S) -> Out {
    let _ = py;
    out(ops::apply(**name, &[&a.array()], pick(stream)))
}

macro_rules! rows {
    ($($name:ident: $row:literal),* $(,)?) => {
        $(static $name: LazyLock<OpId> = LazyLock::new(|| op($row));)*
    };
}
rows! {
    ABS: "abs", NEG: "negative", INVERT: "bitwise_invert", EXP: "exp", LOG: "log", LOG2: "log2",
    LOG10: "log10", LOG1P: "log1p", SIN: "sin", COS: "cos", SQRT: "sqrt", RSQRT: "rsqrt",
    SQUARE: "square", RECIPROCAL: "reciprocal", CONJ: "conjugate", REAL: "real", IMAG: "imag",
}

fn only_element<'py>(py: Python<'py>, a: &Array) -> PyResult<Bound<'py, PyAny>> {
    if a.size() != 1 {
        return Err(PyValueError::new_err(
            "[convert] Only length-1 arrays can be converted to Python scalars.",
        ));
    }
    let (a, p) = host(py, a)?;
    // SAFETY: the evaluated array has one element, at `p`.
    unsafe { element(py, p, a.dtype()) }
}

fn nested<'py>(
    py: Python<'py>,
    a: &Array,
    strides: &[i64],
    p: *const u8,
    axis: usize,
) -> PyResult<Bound<'py, PyAny>> {
    if axis == a.ndim() {
        // SAFETY: the caller stepped inside the shape of the evaluated array.
        return unsafe { element(py, p, a.dtype()) };
    }
    let list = PyList::empty(py);
    for i in 0..a.shape()[axis] {
        let step = i * strides[axis] * a.dtype().size() as i64;
        // SAFETY: stays inside the array's layout.
        list.append(nested(py, a, strides, unsafe { p.offset(step as isize) }, axis + 1)?)?;
    }
    Ok(list.into_any())
}

fn no_modulo(modulo: Option<Bound<'_, PyAny>>) -> PyResult<()> {
    match modulo {
        None => Ok(()),
        Some(_) => Err(PyTypeError::new_err("pow() of an mlx.core.array takes no modulus")),
    }
}

/// Integers given one by one or as one sequence: `reshape(2, 3)`, `reshape((2, 3))`.
fn spread(args: &Bound<'_, PyTuple>) -> PyResult<Ints> {
    if args.len() == 1 { args.get_item(0)?.extract() } else { args.as_any().extract() }
}

#[pymethods]
impl PyArray {
    #[new]
    #[pyo3(signature = (val, dtype=None))]
    fn py_new(val: &Bound<'_, PyAny>, dtype: Option<D>) -> Out {
        Ok(PyArray::new(make(val, dtype.map(|d| d.0))?))
    }

    /// Dimensions as a tuple.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.array().shape())
    }
    /// Type of the elements.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyDtype>> {
        object(py, self.array().dtype())
    }
    /// Number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.array().ndim()
    }
    /// Number of elements.
    #[getter]
    fn size(&self) -> usize {
        self.array().size()
    }
    /// Bytes of one element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.array().dtype().size()
    }
    /// Bytes of all elements.
    #[getter]
    fn nbytes(&self) -> usize {
        self.array().nbytes()
    }
    /// The array with its axes reversed.
    #[getter(T)]
    fn transposed(&self) -> Out {
        out(ops::transpose(&self.array(), None, current()))
    }
    /// The array with its last two axes swapped.
    #[getter(mT)]
    fn matrix_transposed(&self) -> Out {
        views::matrix_transpose(Arr(self.array()), None)
    }
    /// The real part.
    #[getter]
    fn real(&self, py: Python<'_>) -> Out {
        one(py, &REAL, self, None)
    }
    /// The imaginary part.
    #[getter]
    fn imag(&self, py: Python<'_>) -> Out {
        one(py, &IMAG, self, None)
    }
    /// Updates of selected elements: `a.at[index].add(value)`.
    #[getter]
    fn at(&self) -> ArrayAt {
        ArrayAt::new(self.array())
    }

    /// The only element as a Python scalar. Raises ValueError unless there is exactly one.
    fn item<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        only_element(py, &self.array())
    }
    /// Nested lists of Python scalars; a scalar for an array without axes.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (a, p) = host(py, &self.array())?;
        nested(py, &a, &a.data()?.strides, p, 0)
    }
    /// The array converted to another dtype.
    #[pyo3(signature = (dtype, stream=None))]
    fn astype(&self, dtype: D, stream: S) -> Out {
        out(ops::astype(&self.array(), dtype.0, pick(stream)))
    }
    /// The bytes seen as another dtype; the last axis changes with the size of an element.
    #[pyo3(signature = (dtype, *, stream=None))]
    fn view(&self, dtype: D, stream: S) -> Out {
        out(ops::view(&self.array(), dtype.0, pick(stream)))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        printing::repr(py, &self.array())
    }
    fn __format__<'py>(&self, py: Python<'py>, spec: &str) -> PyResult<Bound<'py, PyAny>> {
        let a = self.array();
        if a.ndim() == 0 {
            return only_element(py, &a)?.call_method1("__format__", (spec,));
        }
        if !spec.is_empty() {
            return Err(PyTypeError::new_err("unsupported format string passed to mx.array.__format__"));
        }
        Ok(printing::repr(py, &a)?.into_pyobject(py)?.into_any())
    }
    fn __hash__(slf: &Bound<'_, Self>) -> isize {
        (slf.as_ptr() as isize) >> 4
    }
    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        only_element(py, &self.array())?.is_truthy()
    }
    fn __len__(&self) -> PyResult<usize> {
        match self.array().shape().first() {
            Some(&n) => Ok(n as usize),
            None => Err(PyTypeError::new_err("len() 0-dimensional array.")),
        }
    }
    fn __iter__(&self) -> PyResult<ArrayIterator> {
        let a = self.array();
        if a.ndim() == 0 {
            return Err(PyTypeError::new_err("iter() 0-dimensional array."));
        }
        Ok(ArrayIterator::new(a))
    }
    fn __reversed__(&self) -> PyResult<ArrayIterator> {
        self.__len__()?;
        Ok(ArrayIterator::reversed(self.array()))
    }
    fn __int__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("builtins")?.getattr("int")?.call1((only_element(py, &self.array())?,))
    }
    fn __float__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let v = only_element(py, &self.array())?;
        if v.is_instance_of::<PyFloat>() { Ok(v) } else { py.get_type::<PyFloat>().call1((v,)) }
    }
    fn __complex__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.get_type::<PyComplex>().call1((only_element(py, &self.array())?,))
    }
    fn __index__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let a = self.array();
        if a.ndim() != 0 || !a.dtype().is_integer() {
            let text = "Only 0-dimensional integer arrays can be converted to an index.";
            return Err(PyTypeError::new_err(text));
        }
        only_element(py, &a)
    }
    fn __copy__(&self) -> PyArray {
        PyArray::new(self.array())
    }
    fn __deepcopy__(&self, memo: &Bound<'_, PyAny>) -> PyArray {
        let _ = memo;
        PyArray::new(self.array())
    }
    fn __getstate__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyTuple>, &str)> {
        let (bytes, shape, name) = buffer::get_state(py, &self.array())?;
        Ok((bytes, PyTuple::new(py, shape)?, name))
    }
    fn __setstate__(&self, state: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.set(buffer::from_state(state)?);
        Ok(())
    }
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let state = slf.get().__getstate__(py)?;
        (slf.get_type(), (0,), state).into_pyobject(py)
    }
    /// A NumPy array over the same memory where `dtype` and `copy` allow it. NumPy has no bfloat16: TypeError.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        buffer::to_numpy(slf, dtype, copy)
    }
    /// The module with the functions of the array API. Naming a version of that raises ValueError.
    #[pyo3(signature = (api_version=None))]
    fn __array_namespace__<'py>(
        &self,
        py: Python<'py>,
        api_version: Option<&str>,
    ) -> PyResult<Bound<'py, PyModule>> {
        match api_version {
            None => py.import("mlx.core"),
            Some(_) => {
                Err(PyValueError::new_err("Explicitly specifying api_version is not yet implemented."))
            }
        }
    }
    /// A DLPack capsule of the evaluated bytes on the host: read-only unless `copy`. `stream` is ignored;
    /// BufferError for a `dl_device` other than (1, 0).
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<Bound<'py, PyAny>>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = stream;
        let version = dlpack::version(max_version.as_ref());
        dlpack::export(py, &self.array(), version, dl_device, copy.unwrap_or(false))
    }
    /// (1, 0), host memory: arrays on a GPU are exported through it.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (1, 0)
    }
    /// The bytes of the elements in row-major order.
    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(buffer::get_state(py, &self.array())?.0)
    }
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: std::ffi::c_int,
    ) -> PyResult<()> {
        // SAFETY: the interpreter passes the view to fill.
        unsafe { buffer::export(&slf, view, flags) }
    }
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: the interpreter hands back a view that `__getbuffer__` filled.
        unsafe { buffer::release(view) }
    }
    fn __getitem__(&self, index: &Bound<'_, PyAny>) -> Out {
        Ok(PyArray::new(indexing::get(&self.array(), index)?))
    }
    fn __setitem__(&self, index: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set(assignment::set(&self.array(), index, value)?);
        Ok(())
    }

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
        if !self.array().dtype().is_inexact() {
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

    /// See `mlx.core.abs`.
    #[pyo3(signature = (*, stream=None))]
    fn abs(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &ABS, self, stream)
    }
    /// See `mlx.core.conj`.
    #[pyo3(signature = (*, stream=None))]
    fn conj(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &CONJ, self, stream)
    }
    /// See `mlx.core.cos`.
    #[pyo3(signature = (*, stream=None))]
    fn cos(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &COS, self, stream)
    }
    /// See `mlx.core.exp`.
    #[pyo3(signature = (*, stream=None))]
    fn exp(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &EXP, self, stream)
    }
    /// See `mlx.core.log`.
    #[pyo3(signature = (*, stream=None))]
    fn log(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &LOG, self, stream)
    }
    /// See `mlx.core.log2`.
    #[pyo3(signature = (*, stream=None))]
    fn log2(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &LOG2, self, stream)
    }
    /// See `mlx.core.log10`.
    #[pyo3(signature = (*, stream=None))]
    fn log10(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &LOG10, self, stream)
    }
    /// See `mlx.core.log1p`.
    #[pyo3(signature = (*, stream=None))]
    fn log1p(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &LOG1P, self, stream)
    }
    /// See `mlx.core.reciprocal`.
    #[pyo3(signature = (*, stream=None))]
    fn reciprocal(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &RECIPROCAL, self, stream)
    }
    /// See `mlx.core.rsqrt`.
    #[pyo3(signature = (*, stream=None))]
    fn rsqrt(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &RSQRT, self, stream)
    }
    /// See `mlx.core.sin`.
    #[pyo3(signature = (*, stream=None))]
    fn sin(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &SIN, self, stream)
    }
    /// See `mlx.core.sqrt`.
    #[pyo3(signature = (*, stream=None))]
    fn sqrt(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &SQRT, self, stream)
    }
    /// See `mlx.core.square`.
    #[pyo3(signature = (*, stream=None))]
    fn square(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &SQUARE, self, stream)
    }
    /// See `mlx.core.round`.
    #[pyo3(signature = (decimals=0, *, stream=None))]
    fn round(&self, decimals: i32, stream: S) -> Out {
        out(ops::round(&self.array(), decimals, pick(stream)))
    }

    /// See `mlx.core.all`.
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn all(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::all(Arr(self.array()), axis, keepdims, stream)
    }
    /// See `mlx.core.any`.
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn any(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::any(Arr(self.array()), axis, keepdims, stream)
    }
    /// See `mlx.core.argmax`.
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn argmax(&self, axis: Option<i64>, keepdims: bool, stream: S) -> Out {
        reductions::argmax(Arr(self.array()), axis, keepdims, stream)
    }
    /// See `mlx.core.argmin`.
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn argmin(&self, axis: Option<i64>, keepdims: bool, stream: S) -> Out {
        reductions::argmin(Arr(self.array()), axis, keepdims, stream)
    }
    /// See `mlx.core.logsumexp`.
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn logsumexp(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::logsumexp(Arr(self.array()), axis, keepdims, stream)
    }
    /// See `mlx.core.max`.
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn max(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::max(Arr(self.array()), axis, keepdims, stream)
    }
    /// See `mlx.core.mean`.
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn mean(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::mean(Arr(self.array()), axis, keepdims, stream)
    }
    /// See `mlx.core.min`.
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn min(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::min(Arr(self.array()), axis, keepdims, stream)
    }
    /// See `mlx.core.prod`.
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn prod(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::prod(Arr(self.array()), axis, keepdims, stream)
    }
    /// See `mlx.core.sum`.
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn sum(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::sum(Arr(self.array()), axis, keepdims, stream)
    }
    /// See `mlx.core.std`; `correction` is another name of `ddof`.
    #[pyo3(signature = (axis=None, keepdims=false, ddof=0, *, correction=None, stream=None))]
    fn std(&self, axis: Option<Ints>, keepdims: bool, ddof: i64, correction: Option<i64>, stream: S) -> Out {
        reductions::std_(Arr(self.array()), axis, keepdims, correction.unwrap_or(ddof), stream)
    }
    /// See `mlx.core.var`; `correction` is another name of `ddof`.
    #[pyo3(signature = (axis=None, keepdims=false, ddof=0, *, correction=None, stream=None))]
    fn var(&self, axis: Option<Ints>, keepdims: bool, ddof: i64, correction: Option<i64>, stream: S) -> Out {
        reductions::var(Arr(self.array()), axis, keepdims, correction.unwrap_or(ddof), stream)
    }
    /// See `mlx.core.cummax`.
    #[pyo3(signature = (axis=None, *, reverse=false, inclusive=true, stream=None))]
    fn cummax(&self, axis: Option<i64>, reverse: bool, inclusive: bool, stream: S) -> Out {
        scans::cummax(Arr(self.array()), axis, reverse, inclusive, stream)
    }
    /// See `mlx.core.cummin`.
    #[pyo3(signature = (axis=None, *, reverse=false, inclusive=true, stream=None))]
    fn cummin(&self, axis: Option<i64>, reverse: bool, inclusive: bool, stream: S) -> Out {
        scans::cummin(Arr(self.array()), axis, reverse, inclusive, stream)
    }
    /// See `mlx.core.cumprod`.
    #[pyo3(signature = (axis=None, *, reverse=false, inclusive=true, stream=None))]
    fn cumprod(&self, axis: Option<i64>, reverse: bool, inclusive: bool, stream: S) -> Out {
        scans::cumprod(Arr(self.array()), axis, reverse, inclusive, None, stream)
    }
    /// See `mlx.core.cumsum`.
    #[pyo3(signature = (axis=None, *, reverse=false, inclusive=true, stream=None))]
    fn cumsum(&self, axis: Option<i64>, reverse: bool, inclusive: bool, stream: S) -> Out {
        scans::cumsum(Arr(self.array()), axis, reverse, inclusive, None, stream)
    }
    /// See `mlx.core.logcumsumexp`.
    #[pyo3(signature = (axis=None, *, reverse=false, inclusive=true, stream=None))]
    fn logcumsumexp(&self, axis: Option<i64>, reverse: bool, inclusive: bool, stream: S) -> Out {
        scans::logcumsumexp(Arr(self.array()), axis, reverse, inclusive, stream)
    }

    /// See `mlx.core.diag`.
    #[pyo3(signature = (k=0, *, stream=None))]
    fn diag(&self, k: i32, stream: S) -> Out {
        out(ops::diag(&self.array(), k.into(), pick(stream)))
    }
    /// See `mlx.core.diagonal`.
    #[pyo3(signature = (offset=0, axis1=0, axis2=1, stream=None))]
    fn diagonal(&self, offset: i32, axis1: i64, axis2: i64, stream: S) -> Out {
        out(ops::diagonal(&self.array(), offset.into(), axis1, axis2, pick(stream)))
    }
    /// See `mlx.core.flatten`.
    #[pyo3(signature = (start_axis=0, end_axis=-1, *, stream=None))]
    fn flatten(&self, start_axis: i64, end_axis: i64, stream: S) -> Out {
        out(ops::flatten(&self.array(), start_axis, end_axis, pick(stream)))
    }
    /// See `mlx.core.moveaxis`.
    #[pyo3(signature = (source, destination, *, stream=None))]
    fn moveaxis(&self, source: i64, destination: i64, stream: S) -> Out {
        out(ops::moveaxis(&self.array(), source, destination, pick(stream)))
    }
    /// See `mlx.core.reshape`; the shape may be one sequence or several integers.
    #[pyo3(signature = (*shape, stream=None))]
    fn reshape(&self, shape: &Bound<'_, PyTuple>, stream: S) -> Out {
        out(ops::reshape(&self.array(), &spread(shape)?.list, pick(stream)))
    }
    /// See `mlx.core.split`.
    #[pyo3(signature = (indices_or_sections, axis=0, *, stream=None))]
    fn split(&self, indices_or_sections: Ints, axis: i64, stream: S) -> PyResult<Vec<PyArray>> {
        views::split(Arr(self.array()), indices_or_sections, axis, stream)
    }
    /// See `mlx.core.squeeze`.
    #[pyo3(signature = (axis=None, *, stream=None))]
    fn squeeze(&self, axis: Option<Ints>, stream: S) -> Out {
        views::squeeze(Arr(self.array()), axis, stream)
    }
    /// See `mlx.core.swapaxes`.
    #[pyo3(signature = (axis1, axis2, *, stream=None))]
    fn swapaxes(&self, axis1: i64, axis2: i64, stream: S) -> Out {
        out(ops::swapaxes(&self.array(), axis1, axis2, pick(stream)))
    }
    /// See `mlx.core.transpose`; the axes may be one sequence or several integers.
    #[pyo3(signature = (*axes, stream=None))]
    fn transpose(&self, axes: &Bound<'_, PyTuple>, stream: S) -> Out {
        let axes = if axes.is_empty() { None } else { Some(spread(axes)?.list) };
        out(ops::transpose(&self.array(), axes.as_deref(), pick(stream)))
    }
}

/// Holds an object with `__mlx_array__`, and stands for its array where one is expected.
///
/// >>> class Three:
/// ...     def __mlx_array__(self):
/// ...         return mx.array(3)
/// >>> mx.array(1) + mx.ArrayLike(Three())
/// array(4, dtype=int32)
#[pyclass(name = "ArrayLike", module = "mlx.core", frozen)]
struct PyArrayLike(Py<PyAny>);

#[pymethods]
impl PyArrayLike {
    #[new]
    #[pyo3(signature = (arg, /))]
    fn new(arg: Bound<'_, PyAny>) -> PyResult<Self> {
        if arg.is_none() {
            return Err(PyTypeError::new_err("ArrayLike(): expected an object, got None"));
        }
        Ok(PyArrayLike(arg.unbind()))
    }
    fn __mlx_array__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.0.call_method0(py, "__mlx_array__")
    }
}

/// Adds the class and its helpers.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyArray>()?;
    m.add_class::<PyArrayLike>()?;
    m.add_class::<ArrayAt>()?;
    m.add_class::<ArrayIterator>()
}
