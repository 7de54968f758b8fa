//! `vmap` over trees of arrays.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use super::guarded;
use super::transformed::{Transform, Transformed, callable};
use super::trees::{axes_of, flatten, rebuild};
use crate::core::Array;

/// A tree of axes as it was passed; an absent argument stands for axis 0.
enum Axes {
    First,
    Tree(Py<PyAny>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Axes {
    type Error = PyErr;

    fn extract(x: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Axes::Tree(x.to_owned().unbind()))
    }
}

impl Axes {
    fn tree(self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        match self {
            Axes::First => Ok(0i64.into_pyobject(py)?.into_any().unbind()),
            Axes::Tree(x) if x.is_none(py) => Err(PyTypeError::new_err(format!(
                "vmap(): {name} should be an integer or a tree of integers and None, got NoneType"
            ))),
            Axes::Tree(x) => Ok(x),
        }
    }
}

struct Mapped {
    in_axes: Py<PyAny>,
    out_axes: Py<PyAny>,
}

impl Transform for Mapped {
    fn call<'py>(
        &self,
        fun: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        if kwargs.is_some_and(|k| !k.is_empty()) {
            return Err(PyTypeError::new_err("[vmap] Keyword arguments are not supported."));
        }
        // The axes of a single argument are given without a tuple around them.
        let tree = if args.len() == 1 { args.get_item(0)? } else { args.clone().into_any() };
        let (mut inputs, mut in_axes) = (Vec::new(), Vec::new());
        flatten(&tree, true, &mut inputs)?;
        axes_of("vmap", &tree, self.in_axes.bind(py), &mut in_axes)?;
        if args.is_empty() {
            // There is no axis to take apart; what the function says of the call is told first.
            flatten(&fun.call0()?, true, &mut Vec::new())?;
        }
        let mut returned: Option<Bound<'py, PyAny>> = None;
        let body = |arrays: &[Array]| {
            let given = rebuild(&tree, &mut arrays.iter().cloned())?;
            let value = match args.len() {
                1 => fun.call1((given,))?,
                _ => fun.call1(given.cast_into::<PyTuple>()?)?,
            };
            let (mut outputs, mut axes) = (Vec::new(), Vec::new());
            flatten(&value, true, &mut outputs)?;
            axes_of("vmap", &value, self.out_axes.bind(py), &mut axes)?;
            returned = Some(value);
            Ok((outputs, axes))
        };
        let outputs = guarded(body, |f| crate::autodiff::vmap(f, &inputs, &in_axes))?;
        // INVARIANT: the transform succeeded, so the function returned.
        rebuild(&returned.expect("the function returned"), &mut outputs.into_iter())
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.in_axes)?;
        visit.call(&self.out_axes)
    }
}

/// A function that applies another one to every element along an axis of its arguments, all at once.
///
/// `fun` sees arrays without that axis; operations run once, on all elements. Calls nest, and go with
/// gradients and `compile`.
///
/// Args:
///     fun (Callable): A function of trees of arrays that returns an array or a tree of arrays.
///     in_axes (int | tree, optional): Axis along which each argument is taken apart: one integer for all, or
///         a tuple with an entry for each argument (for a single one, its entry alone will do). An entry is
///         an integer, None for what every element shares, or a tree of entries: a list stands for lists, a
///         tuple for tuples, a dict for dicts. Default: 0.
///     out_axes (int | tree, optional): Axis along which each result is stacked, in the same way. Default: 0.
///
/// Returns:
///     Callable: Takes the arguments of `fun` and returns its results, stacked.
///
/// Raises:
///     ValueError: when called, if the lengths of the axes differ or a tree does not fit.
///     IndexError: when called, if an axis is out of range.
///     TypeError: for None in place of a whole tree.
///
/// >>> mx.vmap(lambda x, y: x * y, in_axes=(0, None))(mx.array([1, 2]), mx.array(3))
/// array([3, 6], dtype=int32)
#[pyfunction]
#[pyo3(signature = (fun, in_axes=Axes::First, out_axes=Axes::First), text_signature = "(fun, in_axes=0, out_axes=0)")]
fn vmap(fun: Bound<'_, PyAny>, in_axes: Axes, out_axes: Axes) -> PyResult<Transformed> {
    callable("vmap", &fun)?;
    let py = fun.py();
    let transform =
        Mapped { in_axes: in_axes.tree(py, "in_axes")?, out_axes: out_axes.tree(py, "out_axes")? };
    Ok(Transformed::new(fun, transform))
}

/// Adds the function.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(vmap, m)?)
}
