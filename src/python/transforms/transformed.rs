//! What `grad`, `value_and_grad`, `vmap`, `compile` and `checkpoint` return: a callable of its own that shows the
//! attributes of the function inside, so that names, documentation and signatures are those of the function.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use crate::python::array::arguments::type_name;

/// What is done with a function when the transformed one is called.
pub trait Transform: Send + Sync {
    /// The call.
    fn call<'py>(
        &self,
        fun: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>>;

    /// Shows the Python objects that it holds to the garbage collector.
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let _ = visit;
        Ok(())
    }
}

/// A transformed function. Its attributes are those of the function inside.
#[pyclass(name = "_gc_func", module = "mlx.core", frozen)]
pub struct Transformed {
    fun: Py<PyAny>,
    transform: Box<dyn Transform>,
}

impl Transformed {
    pub fn new(fun: Bound<'_, PyAny>, transform: impl Transform + 'static) -> Transformed {
        Transformed { fun: fun.unbind(), transform: Box::new(transform) }
    }
}

#[pymethods]
impl Transformed {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.transform.call(self.fun.bind(args.py()), args, kwargs)
    }

    fn __getattribute__<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        self.fun.bind(name.py()).getattr(name)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.fun)?;
        self.transform.traverse(&visit)
    }
}

/// Refuses what cannot be called.
pub fn callable(op: &str, f: &Bound<'_, PyAny>) -> PyResult<()> {
    if f.is_callable() {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!("{op}(): expected a callable, got {}", type_name(f))))
}

/// Adds the class.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<Transformed>()
}
