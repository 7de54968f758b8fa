//! Panics that reach Python, as ordinary errors. PyO3 raises them as `PanicException`, which passes every
//! `except Exception` and is resumed as a panic in whatever calls Python again. That class is told to make RuntimeErrors
//! in place of its own objects, so that every way into the library is covered. `mlx.core._testing` panics on demand.

use pyo3::exceptions::{PyBaseException, PyRuntimeError};
use pyo3::ffi;
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::core::{Array, Batched, Derivatives, Jvp, Primitive, Result, Stream, Vjp, Vmap, panics};
use crate::python::array::PyArray;
use crate::python::array::arguments::Arr;

/// Stands for `PanicException.__new__`.
#[pyfunction]
#[pyo3(signature = (_class, *args))]
fn broken_invariant(_class: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
    let what = args.get_item(0)?;
    // The interpreter passes an error that is no PanicException to this once more.
    if what.is_instance_of::<PyBaseException>() {
        return Ok(what.unbind());
    }
    let what = what.str()?.to_string();
    let error = PyRuntimeError::new_err(panics::told(&what));
    Ok(error.into_value(args.py()).into_any())
}

/// From now on panics are raised as RuntimeError.
pub fn become_errors(py: Python<'_>) -> PyResult<()> {
    panics::remember_places();
    py.get_type::<PanicException>().setattr("__new__", wrap_pyfunction!(broken_invariant)(py)?)
}

const TEXT: &str = "asked for by a test";

/// Panics in every way that Python enters a class. `at` names one: for `new` the constructor does.
#[pyclass(name = "Panics", module = "mlx.core._testing")]
struct Panics;

#[pymethods]
impl Panics {
    #[new]
    #[pyo3(signature = (at=None))]
    fn new(at: Option<&str>) -> Panics {
        if at == Some("new") {
            panic!("{TEXT}")
        }
        Panics
    }
    fn method(&self) {
        panic!("{TEXT}")
    }
    fn arguments(&self, _x: i64) {
        panic!("{TEXT}")
    }
    #[staticmethod]
    fn fixed() {
        panic!("{TEXT}")
    }
    #[classmethod]
    fn of_class(_cls: &Bound<'_, pyo3::types::PyType>) {
        panic!("{TEXT}")
    }
    #[getter]
    fn value(&self) -> i64 {
        panic!("{TEXT}")
    }
    #[setter]
    fn set_value(&self, _v: i64) {
        panic!("{TEXT}")
    }
    fn __add__(&self, _other: &Bound<'_, PyAny>) -> i64 {
        panic!("{TEXT}")
    }
    fn __iadd__(&mut self, _other: &Bound<'_, PyAny>) {
        panic!("{TEXT}")
    }
    fn __neg__(&self) -> i64 {
        panic!("{TEXT}")
    }
    fn __len__(&self) -> usize {
        panic!("{TEXT}")
    }
    fn __bool__(&self) -> bool {
        panic!("{TEXT}")
    }
    fn __hash__(&self) -> u64 {
        panic!("{TEXT}")
    }
    fn __richcmp__(&self, _other: &Bound<'_, PyAny>, _how: pyo3::pyclass::CompareOp) -> bool {
        panic!("{TEXT}")
    }
    fn __getitem__(&self, _i: &Bound<'_, PyAny>) -> i64 {
        panic!("{TEXT}")
    }
    fn __setitem__(&self, _i: &Bound<'_, PyAny>, _v: &Bound<'_, PyAny>) {
        panic!("{TEXT}")
    }
    fn __contains__(&self, _x: &Bound<'_, PyAny>) -> bool {
        panic!("{TEXT}")
    }
    fn __iter__(&self) -> i64 {
        panic!("{TEXT}")
    }
    fn __next__(&self) -> Option<i64> {
        panic!("{TEXT}")
    }
    fn __call__(&self) {
        panic!("{TEXT}")
    }
    fn __repr__(&self) -> String {
        panic!("{TEXT}")
    }
    fn __float__(&self) -> f64 {
        panic!("{TEXT}")
    }
    unsafe fn __getbuffer__(
        _slf: Bound<'_, Self>,
        _view: *mut ffi::Py_buffer,
        _flags: std::ffi::c_int,
    ) -> PyResult<()> {
        panic!("{TEXT}")
    }
}

/// An operation that panics: where it is computed, or in one of its rules.
struct Panicking {
    at: String,
}

impl Panicking {
    fn at(&self, place: &str) {
        if self.at == place {
            panic!("{TEXT}")
        }
    }

    fn eval(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        self.at("eval");
        if self.at == "pool" {
            crate::cpu::runtime::pool::parallel_chunks(1 << 10, 1, |_| panic!("{TEXT}"));
        }
        let d = inputs[0].data()?;
        outputs[0].set_data(d.strides.clone(), d.offset, d.storage.clone());
        Ok(())
    }
}

impl Primitive for Panicking {
    fn name(&self) -> &str {
        "panicking"
    }
    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        self.eval(inputs, outputs)
    }
    fn eval_gpu(&self, _: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        self.eval(inputs, outputs)
    }
    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        self.at("vjp");
        r.each(|_| Ok(Some(r.cotangents[0].clone())))
    }
    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        self.at("jvp");
        Ok(Some(vec![r.tangent(0).cloned()]))
    }
    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        self.at("vmap");
        Ok((vec![r.inputs[0].clone()], vec![r.axes[0]]))
    }
}

/// `x`, by an operation that panics at `eval`, on a thread of the `pool`, or in its rule `vjp`, `jvp` or `vmap`.
#[pyfunction]
fn panicking(x: Arr, at: String) -> PyResult<PyArray> {
    let (shape, dtype) = (x.0.shape().to_vec(), x.0.dtype());
    let stream = super::device::current();
    Ok(PyArray::new(Array::lazy(shape, dtype, Panicking { at }, vec![x.0], stream)?))
}

/// Panics, after a call of `f` where one is given.
#[pyfunction]
#[pyo3(signature = (f=None))]
fn panic(f: Option<Bound<'_, PyAny>>) -> PyResult<()> {
    if let Some(f) = f {
        f.call0()?;
    }
    panic!("{TEXT}")
}

/// Adds what tests of this need.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let t = crate::python::submodule(m, "_testing", "Faults on demand, for the tests of this library.")?;
    t.add_class::<Panics>()?;
    t.add_function(wrap_pyfunction!(panicking, &t)?)?;
    t.add_function(wrap_pyfunction!(panic, &t)?)
}
