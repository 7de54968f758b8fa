//! The Python class `mlx.core.array`: construction, properties and protocols here, `operators` and `methods` in
//! files of their own. Each method is a thin call of `ops` or of the function of the same name.

pub(super) mod arguments;
pub(super) mod assignment;
pub(super) mod buffer;
pub(super) mod convert;
pub(super) mod dlpack;
pub(super) mod dtype;
pub(super) mod indexing;
mod methods;
pub(super) mod operators;
pub(super) mod printing;

use std::sync::Mutex;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyComplex, PyFloat, PyList, PyTuple};

use self::arguments::{Arr, processing};
use self::assignment::ArrayAt;
use self::convert::{element, host, make};
use self::dtype::{D, PyDtype, object};
use self::indexing::ArrayIterator;
use self::methods::{IMAG, REAL};
use super::docs::signatures;
use super::ops::views;
use super::runtime::device::{S, current, pick};
use crate::core::Array;
use crate::core::fork::{self, Made};
use crate::kernels::elementwise::table::OpId;
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
        fork::lock(&self.handle).clone()
    }

    /// Makes the object stand for another array.
    pub fn set(&self, a: Array) {
        let old = std::mem::replace(&mut *fork::lock(&self.handle), a);
        drop(old); // outside the lock: this may free a long graph
    }
}

/// What functions that make one array return.
pub type Out = PyResult<PyArray>;

/// Wraps the result of an operation.
pub fn out(r: crate::core::Result<Array>) -> Out {
    Ok(PyArray::new(r?))
}

fn one(py: Python<'_>, name: &'static Made<OpId>, a: &PyArray, stream: S) -> Out {
    let _ = py;
    out(ops::apply(**name, &[&a.array()], pick(stream)))
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
