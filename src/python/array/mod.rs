//! The Python class `mlx.core.array`: construction, properties, protocols, operators and methods. Each method
//! is a thin call of `ops` or of the function of the same name.

pub(super) mod arguments;
pub(super) mod assignment;
pub(super) mod buffer;
pub(super) mod convert;
pub(super) mod dlpack;
pub(super) mod dtype;
pub(super) mod indexing;
pub(super) mod operators;
pub(super) mod printing;

use std::sync::{LazyLock, Mutex};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyBytes, PyComplex, PyFloat, PyList, PyTuple};

use self::arguments::{Arr, Ints, processing};
use self::assignment::ArrayAt;
use self::convert::{element, host, make};
use self::dtype::{D, PyDtype, object};
use self::indexing::ArrayIterator;
use self::operators::*;
use super::docs::signatures;
use super::ops::{joining, reductions, scans, views};
use super::runtime::device::{S, current, pick};
use crate::core::Array;
use crate::kernels::elementwise::table::{OpId, op};
use crate::ops;

/// An n-dimensional array, computed when its values are needed.
///
/// Operations build a graph, which is computed by `eval`, by printing, or by whatever else asks for values.
/// Indexing follows NumPy: integers, slices, None, Ellipsis, index arrays and bool masks (in assignments).
/// Assignment and operators such as `+=` put a new array into the Python object.
///
/// Without `dtype`, Python bools become bool, ints int32 (int64 where one does not fit), floats float32 and
/// complex numbers complex64; arrays keep their dtype except that float64 and complex128 of other libraries
/// become float32 and complex64.
///
/// Args:
///     val (number | Sequence | array | object): A number, a nested list or tuple of numbers and arrays, an
///         array, or an object with the buffer protocol, `__array__`, `__dlpack__` or `__mlx_array__`.
///     dtype (Dtype, optional): Dtype of the elements. Default: None, see above.
///
/// Raises:
///     ValueError: if a list is ragged or holds something else than numbers and arrays.
///     TypeError: if `val` is nothing of that kind.
///
/// >>> mx.array([[1, 2], [3, 4]])
/// array([[1, 2],
///        [3, 4]], dtype=int32)
/// >>> mx.array([1.5, 2], dtype=mx.float16)
/// array([1.5, 2], dtype=float16)
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

/// Fails for an array without elements that is more lists than anybody wants: it takes no memory, they do.
fn check_lists(a: &Array) -> crate::core::Result<()> {
    const MOST: i64 = 1 << 22;
    let inner = a.shape().iter().take_while(|&&n| n > 0);
    let lists = inner.fold(1, |lists: i64, &n| lists.saturating_mul(n));
    if a.size() == 0 && lists > MOST {
        crate::bail!(Value, "[tolist] At most {MOST} lists are made for no elements, got {lists}.");
    }
    Ok(())
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
    fn py_new(val: &Bound<'_, PyAny>, dtype: Option<Bound<'_, PyAny>>) -> Out {
        let Some(given) = dtype else { return Ok(PyArray::new(make(val, None)?)) };
        let dtype: D = given.extract().map_err(|e| {
            let e = processing(e, val.py(), "dtype");
            signatures::explained(val.py(), "array", e, &[val, &given])
        })?;
        Ok(PyArray::new(make(val, Some(dtype.0))?))
    }

    /// Lengths of the axes as a tuple of ints; an array without axes has the shape ().
    ///
    /// >>> mx.zeros((2, 3)).shape
    /// (2, 3)
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.array().shape())
    }
    /// Type of the elements.
    ///
    /// >>> mx.zeros(2).dtype
    /// mlx.core.float32
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyDtype>> {
        object(py, self.array().dtype())
    }
    /// Number of axes.
    ///
    /// >>> mx.zeros((2, 3)).ndim
    /// 2
    #[getter]
    fn ndim(&self) -> usize {
        self.array().ndim()
    }
    /// Number of elements: the product of the lengths of the axes.
    ///
    /// >>> mx.zeros((2, 3)).size
    /// 6
    #[getter]
    fn size(&self) -> usize {
        self.array().size()
    }
    /// Bytes of one element; bool takes one.
    ///
    /// >>> mx.zeros(2).itemsize
    /// 4
    #[getter]
    fn itemsize(&self) -> usize {
        self.array().dtype().size()
    }
    /// Bytes of all elements: `size * itemsize`, whether or not they are computed yet.
    ///
    /// >>> mx.zeros((2, 3)).nbytes
    /// 24
    #[getter]
    fn nbytes(&self) -> usize {
        self.array().nbytes()
    }
    /// The array with its axes in reverse order, as `mlx.core.transpose` gives it; no data is copied.
    ///
    /// >>> mx.zeros((2, 3)).T.shape
    /// (3, 2)
    #[getter(T)]
    fn transposed(&self) -> Out {
        out(ops::transpose(&self.array(), None, current()))
    }
    /// The array with its last two axes swapped, as `mlx.core.matrix_transpose` gives it; no data is copied.
    ///
    /// >>> mx.zeros((2, 3, 4)).mT.shape
    /// (2, 4, 3)
    #[getter(mT)]
    fn matrix_transposed(&self) -> Out {
        views::matrix_transpose(Arr(self.array()), None)
    }
    /// Real part of each element, float32 for complex64; other dtypes are returned unchanged.
    ///
    /// >>> mx.array([1 + 2j]).real
    /// array([1], dtype=float32)
    #[getter]
    fn real(&self, py: Python<'_>) -> Out {
        one(py, &REAL, self, None)
    }
    /// Imaginary part of each element, float32 for complex64; zeros for other dtypes.
    ///
    /// >>> mx.array([1 + 2j]).imag
    /// array([2], dtype=float32)
    #[getter]
    fn imag(&self, py: Python<'_>) -> Out {
        one(py, &IMAG, self, None)
    }
    /// Updates of selected elements that give a new array: `a.at[index].add(value)`. Unlike `a[index] +=
    /// value`, an element that is named several times takes all updates. See `mlx.core.ArrayAt`.
    ///
    /// >>> mx.zeros(3).at[mx.array([1, 1, 2])].add(2)
    /// array([0, 4, 2], dtype=float32)
    #[getter]
    fn at(&self) -> ArrayAt {
        ArrayAt::new(self.array())
    }

    /// The only element as a Python number.
    ///
    /// Waits until the array is computed.
    ///
    /// Returns:
    ///     bool | int | float | complex: The element, whatever the number of axes.
    ///
    /// Raises:
    ///     ValueError: if there is not exactly one element.
    ///
    /// >>> mx.array([[2.5]]).item()
    /// 2.5
    fn item<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        only_element(py, &self.array())
    }
    /// The elements as nested lists of Python numbers.
    ///
    /// Waits until the array is computed. 16-bit floats come as the Python floats of their value.
    ///
    /// Returns:
    ///     list | bool | int | float | complex: As many levels of lists as axes; a number for an array
    ///         without axes.
    ///
    /// Raises:
    ///     ValueError: if an array without elements is more than 2**22 lists.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).tolist()
    /// [[1, 2], [3, 4]]
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        check_lists(&self.array())?;
        let (a, p) = host(py, &self.array())?;
        nested(py, &a, &a.data()?.strides, p, 0)
    }
    /// This array converted to another dtype.
    ///
    /// Args:
    ///     dtype (Dtype): Dtype of the result.
    ///
    /// Returns:
    ///     array: Of this shape; rules of conversion are those of `mlx.core.astype`.
    ///
    /// Raises:
    ///     TypeError: if `dtype` is no dtype.
    ///
    /// >>> mx.array([1.7, -1.7]).astype(mx.int32)
    /// array([1, -1], dtype=int32)
    #[pyo3(signature = (dtype, stream=None))]
    fn astype(&self, dtype: D, stream: S) -> Out {
        out(ops::astype(&self.array(), dtype.0, pick(stream)))
    }
    /// The bytes of this array seen as another dtype.
    ///
    /// Args:
    ///     dtype (Dtype): What the bytes are seen as.
    ///
    /// Returns:
    ///     array: Of this shape but for the last axis, which changes with the size of the elements.
    ///
    /// Raises:
    ///     ValueError: if the bytes of the last axis are no multiple of the new element.
    ///
    /// >>> mx.array([1.0]).view(mx.int32)
    /// array([1065353216], dtype=int32)
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
            // FITS: a dimension of an array.
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

    /// Absolute value of each element.
    ///
    #[doc = shared!(method "abs")]
    #[pyo3(signature = (*, stream=None))]
    fn abs(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &ABS, self, stream)
    }
    /// Complex conjugate of each element.
    ///
    #[doc = shared!(method "conj")]
    #[pyo3(signature = (*, stream=None))]
    fn conj(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &CONJ, self, stream)
    }
    /// Cosine of each element.
    ///
    #[doc = shared!(method "cos")]
    #[pyo3(signature = (*, stream=None))]
    fn cos(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &COS, self, stream)
    }
    /// Exponential of each element.
    ///
    #[doc = shared!(method "exp")]
    #[pyo3(signature = (*, stream=None))]
    fn exp(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &EXP, self, stream)
    }
    /// Natural logarithm of each element.
    ///
    #[doc = shared!(method "log")]
    #[pyo3(signature = (*, stream=None))]
    fn log(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &LOG, self, stream)
    }
    /// Logarithm of each element to the base of two.
    ///
    #[doc = shared!(method "log2")]
    #[pyo3(signature = (*, stream=None))]
    fn log2(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &LOG2, self, stream)
    }
    /// Logarithm of each element to the base of ten.
    ///
    #[doc = shared!(method "log10")]
    #[pyo3(signature = (*, stream=None))]
    fn log10(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &LOG10, self, stream)
    }
    /// Natural logarithm of one plus each element.
    ///
    #[doc = shared!(method "log1p")]
    #[pyo3(signature = (*, stream=None))]
    fn log1p(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &LOG1P, self, stream)
    }
    /// One over each element.
    ///
    #[doc = shared!(method "reciprocal")]
    #[pyo3(signature = (*, stream=None))]
    fn reciprocal(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &RECIPROCAL, self, stream)
    }
    /// One over the square root of each element.
    ///
    #[doc = shared!(method "rsqrt")]
    #[pyo3(signature = (*, stream=None))]
    fn rsqrt(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &RSQRT, self, stream)
    }
    /// Sine of each element.
    ///
    #[doc = shared!(method "sin")]
    #[pyo3(signature = (*, stream=None))]
    fn sin(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &SIN, self, stream)
    }
    /// Square root of each element.
    ///
    #[doc = shared!(method "sqrt")]
    #[pyo3(signature = (*, stream=None))]
    fn sqrt(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &SQRT, self, stream)
    }
    /// Each element times itself.
    ///
    #[doc = shared!(method "square")]
    #[pyo3(signature = (*, stream=None))]
    fn square(&self, py: Python<'_>, stream: S) -> Out {
        one(py, &SQUARE, self, stream)
    }
    /// Each element rounded to a number of digits.
    ///
    /// Args:
    ///     decimals (int, optional): Digits after the point; negative ones are before it. Default: 0.
    ///
    #[doc = shared!(method "round")]
    #[pyo3(signature = (decimals=0, *, stream=None))]
    fn round(&self, decimals: i32, stream: S) -> Out {
        out(ops::round(&self.array(), decimals, pick(stream)))
    }

    /// Whether all elements over one axis, several, or all are true.
    ///
    /// Args:
    #[doc = shared!(axes)]
    ///
    #[doc = shared!(method "all")]
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn all(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::all(Arr(self.array()), axis, keepdims, stream)
    }
    /// Whether at least one element over one axis, several, or all is true.
    ///
    /// Args:
    #[doc = shared!(axes)]
    ///
    #[doc = shared!(method "any")]
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn any(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::any(Arr(self.array()), axis, keepdims, stream)
    }
    /// Index of the largest element along an axis or in the flattened array.
    ///
    /// Args:
    #[doc = shared!(one_axis)]
    ///
    #[doc = shared!(method "argmax")]
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn argmax(&self, axis: Option<i64>, keepdims: bool, stream: S) -> Out {
        reductions::argmax(Arr(self.array()), axis, keepdims, stream)
    }
    /// Index of the smallest element along an axis or in the flattened array.
    ///
    /// Args:
    #[doc = shared!(one_axis)]
    ///
    #[doc = shared!(method "argmin")]
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn argmin(&self, axis: Option<i64>, keepdims: bool, stream: S) -> Out {
        reductions::argmin(Arr(self.array()), axis, keepdims, stream)
    }
    /// Logarithm of the sum of exponentials over one axis, several, or all.
    ///
    /// Args:
    #[doc = shared!(axes)]
    ///
    #[doc = shared!(method "logsumexp")]
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn logsumexp(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::logsumexp(Arr(self.array()), axis, keepdims, stream)
    }
    /// Largest element over one axis, several, or all.
    ///
    /// Args:
    #[doc = shared!(axes)]
    ///
    #[doc = shared!(method "max")]
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn max(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::max(Arr(self.array()), axis, keepdims, stream)
    }
    /// Arithmetic mean of the elements over one axis, several, or all.
    ///
    /// Args:
    #[doc = shared!(axes)]
    ///
    #[doc = shared!(method "mean")]
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn mean(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::mean(Arr(self.array()), axis, keepdims, stream)
    }
    /// Smallest element over one axis, several, or all.
    ///
    /// Args:
    #[doc = shared!(axes)]
    ///
    #[doc = shared!(method "min")]
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn min(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::min(Arr(self.array()), axis, keepdims, stream)
    }
    /// Product of the elements over one axis, several, or all.
    ///
    /// Args:
    #[doc = shared!(axes)]
    ///
    #[doc = shared!(method "prod")]
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn prod(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::prod(Arr(self.array()), axis, keepdims, stream)
    }
    /// Sum of the elements over one axis, several, or all.
    ///
    /// Args:
    #[doc = shared!(axes)]
    ///
    #[doc = shared!(method "sum")]
    #[pyo3(signature = (axis=None, keepdims=false, *, stream=None))]
    fn sum(&self, axis: Option<Ints>, keepdims: bool, stream: S) -> Out {
        reductions::sum(Arr(self.array()), axis, keepdims, stream)
    }
    /// Standard deviation of the elements over one axis, several, or all.
    ///
    /// Args:
    #[doc = shared!(axes)]
    ///     ddof (int, optional): What the divisor is less than the number of elements. Default: 0.
    ///     correction (int, optional): The array API's name of `ddof`, over which it wins. Default: None.
    ///
    #[doc = shared!(method "std")]
    #[pyo3(signature = (axis=None, keepdims=false, ddof=0, *, correction=None, stream=None))]
    fn std(&self, axis: Option<Ints>, keepdims: bool, ddof: i64, correction: Option<i64>, stream: S) -> Out {
        reductions::std_(Arr(self.array()), axis, keepdims, correction.unwrap_or(ddof), stream)
    }
    /// Variance of the elements over one axis, several, or all.
    ///
    /// Args:
    #[doc = shared!(axes)]
    ///     ddof (int, optional): What the divisor is less than the number of elements. Default: 0.
    ///     correction (int, optional): The array API's name of `ddof`, over which it wins. Default: None.
    ///
    #[doc = shared!(method "var")]
    #[pyo3(signature = (axis=None, keepdims=false, ddof=0, *, correction=None, stream=None))]
    fn var(&self, axis: Option<Ints>, keepdims: bool, ddof: i64, correction: Option<i64>, stream: S) -> Out {
        reductions::var(Arr(self.array()), axis, keepdims, correction.unwrap_or(ddof), stream)
    }
    /// Running maximum along an axis or over the flattened array.
    ///
    /// Args:
    #[doc = shared!(scan_form)]
    ///
    #[doc = shared!(method "cummax")]
    #[pyo3(signature = (axis=None, *, reverse=false, inclusive=true, stream=None))]
    fn cummax(&self, axis: Option<i64>, reverse: bool, inclusive: bool, stream: S) -> Out {
        scans::cummax(Arr(self.array()), axis, reverse, inclusive, stream)
    }
    /// Running minimum along an axis or over the flattened array.
    ///
    /// Args:
    #[doc = shared!(scan_form)]
    ///
    #[doc = shared!(method "cummin")]
    #[pyo3(signature = (axis=None, *, reverse=false, inclusive=true, stream=None))]
    fn cummin(&self, axis: Option<i64>, reverse: bool, inclusive: bool, stream: S) -> Out {
        scans::cummin(Arr(self.array()), axis, reverse, inclusive, stream)
    }
    /// Running product along an axis or over the flattened array.
    ///
    /// Args:
    #[doc = shared!(scan_form)]
    ///
    #[doc = shared!(method "cumprod")]
    #[pyo3(signature = (axis=None, *, reverse=false, inclusive=true, stream=None))]
    fn cumprod(&self, axis: Option<i64>, reverse: bool, inclusive: bool, stream: S) -> Out {
        scans::cumprod(Arr(self.array()), axis, reverse, inclusive, None, stream)
    }
    /// Running sum along an axis or over the flattened array.
    ///
    /// Args:
    #[doc = shared!(scan_form)]
    ///
    #[doc = shared!(method "cumsum")]
    #[pyo3(signature = (axis=None, *, reverse=false, inclusive=true, stream=None))]
    fn cumsum(&self, axis: Option<i64>, reverse: bool, inclusive: bool, stream: S) -> Out {
        scans::cumsum(Arr(self.array()), axis, reverse, inclusive, None, stream)
    }
    /// Running logarithm of the sum of exponentials along an axis or over the flattened array.
    ///
    /// Args:
    #[doc = shared!(scan_form)]
    ///
    #[doc = shared!(method "logcumsumexp")]
    #[pyo3(signature = (axis=None, *, reverse=false, inclusive=true, stream=None))]
    fn logcumsumexp(&self, axis: Option<i64>, reverse: bool, inclusive: bool, stream: S) -> Out {
        scans::logcumsumexp(Arr(self.array()), axis, reverse, inclusive, stream)
    }

    /// A diagonal of this matrix, or the matrix that has this vector on its diagonal.
    ///
    /// Args:
    ///     k (int, optional): Which diagonal: 0 the main one, positive ones above it, negative ones below.
    ///         Default: 0.
    ///
    #[doc = shared!(method "diag")]
    #[pyo3(signature = (k=0, *, stream=None))]
    fn diag(&self, k: i32, stream: S) -> Out {
        out(ops::diag(&self.array(), k.into(), pick(stream)))
    }
    /// Diagonals of the matrices over two axes.
    ///
    /// Args:
    ///     offset (int, optional): Which diagonal: 0 the main one, positive ones above it, negative ones
    ///         below. Default: 0.
    ///     axis1 (int, optional): Axis of the rows; a negative one counts from the last. Default: 0.
    ///     axis2 (int, optional): Axis of the columns. Default: 1.
    ///
    #[doc = shared!(matrix_method "diagonal()", "diagonal")]
    #[pyo3(signature = (offset=0, axis1=0, axis2=1, stream=None))]
    fn diagonal(&self, offset: i32, axis1: i64, axis2: i64, stream: S) -> Out {
        out(ops::diagonal(&self.array(), offset.into(), axis1, axis2, pick(stream)))
    }
    /// Joins neighbouring axes into one, in row-major order.
    ///
    /// Args:
    ///     start_axis (int, optional): First axis to join; a negative one counts from the last. Default: 0.
    ///     end_axis (int, optional): Last axis to join, itself included. Default: -1.
    ///
    #[doc = shared!(matrix_method "flatten()", "flatten")]
    #[pyo3(signature = (start_axis=0, end_axis=-1, *, stream=None))]
    fn flatten(&self, start_axis: i64, end_axis: i64, stream: S) -> Out {
        out(ops::flatten(&self.array(), start_axis, end_axis, pick(stream)))
    }
    /// This array with one axis moved to another place; the others keep their order.
    ///
    /// Args:
    ///     source (int): Axis to move; a negative one counts from the last.
    ///     destination (int): Its place in the result; a negative one counts from the last.
    ///
    /// Returns:
    ///     array: As `mlx.core.moveaxis` gives it, whose documentation tells about layouts and errors.
    ///
    /// >>> mx.zeros((2, 3, 4)).moveaxis(0, 2).shape
    /// (3, 4, 2)
    #[pyo3(signature = (source, destination, *, stream=None))]
    fn moveaxis(&self, source: i64, destination: i64, stream: S) -> Out {
        out(ops::moveaxis(&self.array(), source, destination, pick(stream)))
    }
    /// The elements in row-major order in another shape.
    ///
    /// Args:
    ///     shape (int | Sequence[int]): Lengths of the new axes, one by one or as one sequence. One of them
    ///         may be -1 and is then inferred from the others.
    ///
    #[doc = shared!(matrix_method "reshape(3, -1)", "reshape")]
    #[pyo3(signature = (*shape, stream=None))]
    fn reshape(&self, shape: &Bound<'_, PyTuple>, stream: S) -> Out {
        out(ops::reshape(&self.array(), &spread(shape)?.list, pick(stream)))
    }
    /// Cuts this array into parts along an axis.
    ///
    /// Args:
    ///     indices_or_sections (int | Sequence[int]): How many equal parts, or the positions at which to cut.
    ///     axis (int, optional): Axis to cut; a negative one counts from the last. Default: 0.
    ///
    /// Returns:
    ///     list[array]: As `mlx.core.split` gives them, whose documentation tells about errors.
    ///
    /// >>> mx.arange(4).split(2)
    /// [array([0, 1], dtype=int32), array([2, 3], dtype=int32)]
    #[pyo3(signature = (indices_or_sections, axis=0, *, stream=None))]
    fn split(&self, indices_or_sections: Ints, axis: i64, stream: S) -> PyResult<Vec<PyArray>> {
        joining::split(Arr(self.array()), indices_or_sections, axis, stream)
    }
    /// This array without axes of length one.
    ///
    /// Args:
    ///     axis (int | Sequence[int], optional): Axes to remove, each of length one; negative ones count from
    ///         the last. Default: None, all axes of length one.
    ///
    #[doc = shared!(matrix_method "squeeze()", "squeeze")]
    #[pyo3(signature = (axis=None, *, stream=None))]
    fn squeeze(&self, axis: Option<Ints>, stream: S) -> Out {
        views::squeeze(Arr(self.array()), axis, stream)
    }
    /// This array with two axes swapped.
    ///
    /// Args:
    ///     axis1 (int): One axis; a negative one counts from the last.
    ///     axis2 (int): The other axis.
    ///
    #[doc = shared!(matrix_method "swapaxes(0, 1)", "swapaxes")]
    #[pyo3(signature = (axis1, axis2, *, stream=None))]
    fn swapaxes(&self, axis1: i64, axis2: i64, stream: S) -> Out {
        out(ops::swapaxes(&self.array(), axis1, axis2, pick(stream)))
    }
    /// This array with its axes in another order.
    ///
    /// Args:
    ///     axes (int | Sequence[int]): Every axis once in the new order, one by one or as one sequence.
    ///         Default: none, the reverse order.
    ///
    #[doc = shared!(matrix_method "transpose()", "transpose")]
    #[pyo3(signature = (*axes, stream=None))]
    fn transpose(&self, axes: &Bound<'_, PyTuple>, stream: S) -> Out {
        let axes = if axes.is_empty() { None } else { Some(spread(axes)?.list) };
        out(ops::transpose(&self.array(), axes.as_deref(), pick(stream)))
    }
}

/// Holds an object with `__mlx_array__`, and stands for its array where one is expected.
///
/// Functions with operands take such objects themselves; this is for code that asks for the type.
///
/// Args:
///     arg (object): An object whose method `__mlx_array__` returns an array.
///
/// Raises:
///     TypeError: if the object is None.
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
