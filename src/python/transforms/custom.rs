//! `custom_function` and `checkpoint`: functions with rules of their own, over trees of arrays.

use std::sync::{Arc, Mutex, OnceLock};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use super::transformed::{Transform, Transformed, callable};
use super::trees::{axes_of, flatten, hollow, map, rebuild};
use crate::autodiff::{JvpRule, Rules, VjpRule, VmapRule};
use crate::core::{Array, Derivatives, Result, default_device, default_stream, fork};
use crate::python::array::PyArray;
use crate::python::array::arguments::type_name;

/// A call: the forms of its arguments and of what the function returned. Rules live until the results are dropped,
/// which may be long after they were computed: they hold no arrays but those of keyword arguments.
struct Form {
    /// The single argument, or the tuple of all.
    args: Py<PyAny>,
    kwargs: Option<Py<PyDict>>,
    returned: Py<PyAny>,
}

fn tree(like: &Bound<'_, PyAny>, arrays: &[Array]) -> PyResult<Py<PyAny>> {
    Ok(rebuild(like, &mut arrays.iter().cloned())?.unbind())
}

/// One derivative for every array of `like`; `None` in a tree of derivatives, or in place of one, is zero.
fn derivatives(like: &Bound<'_, PyAny>, got: &Bound<'_, PyAny>, out: &mut Derivatives) -> PyResult<()> {
    let mut below = Vec::new();
    flatten(like, false, &mut below)?;
    if got.is_none() {
        out.extend(std::iter::repeat_n(None, below.len()));
    } else if like.is_instance_of::<PyArray>() {
        let array = match got.cast::<PyArray>() {
            Ok(a) => a.get().array(),
            Err(_) => {
                return Err(PyValueError::new_err(format!(
                    "[custom_function] Expected an array as a derivative, got {}.",
                    type_name(got)
                )));
            }
        };
        out.push(Some(array));
    } else if let (Ok(l), Ok(g)) = (like.cast::<PyDict>(), got.cast::<PyDict>()) {
        for (k, v) in l.iter() {
            match g.get_item(&k)? {
                Some(g) => derivatives(&v, &g, out)?,
                None => derivatives(&v, &l.py().None().into_bound(l.py()), out)?,
            }
        }
    } else if like.is_instance_of::<PyList>() || like.is_instance_of::<PyTuple>() {
        let items: Vec<_> = like.try_iter()?.collect::<PyResult<_>>()?;
        let given: Vec<_> = got.try_iter()?.collect::<PyResult<_>>()?;
        if items.len() != given.len() {
            return Err(PyValueError::new_err(format!(
                "[custom_function] A rule gave {} derivatives, expected {}.",
                given.len(),
                items.len()
            )));
        }
        for (l, g) in items.iter().zip(&given) {
            derivatives(l, g, out)?;
        }
    }
    Ok(())
}

impl Form {
    /// Calls a rule with keyword arguments of the call.
    fn call<'py>(
        &self,
        py: Python<'py>,
        rule: &Py<PyAny>,
        args: &[Py<PyAny>],
    ) -> PyResult<Bound<'py, PyAny>> {
        let kwargs = self.kwargs.as_ref().map(|k| k.bind(py));
        rule.bind(py).call(PyTuple::new(py, args.iter().map(|a| a.bind(py)))?, kwargs)
    }
}

fn vjp_rule(form: Arc<Form>, rule: Py<PyAny>) -> Arc<VjpRule> {
    Arc::new(move |primals, cotangents, outputs| {
        Python::attach(|py| -> PyResult<Derivatives> {
            let (args, returned) = (form.args.bind(py), form.returned.bind(py));
            let given = [tree(args, primals)?, tree(returned, cotangents)?, tree(returned, outputs)?];
            let mut out = Derivatives::new();
            derivatives(args, &form.call(py, &rule, &given)?, &mut out)?;
            Ok(out)
        })
        .map_err(Into::into)
    })
}

/// A tree of tangents, with None where there is none.
fn sparse<'py>(
    like: &Bound<'py, PyAny>,
    tangents: &mut impl Iterator<Item = Option<Array>>,
) -> PyResult<Bound<'py, PyAny>> {
    map(like, &mut |leaf| {
        if !leaf.is_instance_of::<PyArray>() {
            return Ok(leaf.clone());
        }
        let tangent =
            tangents.next().flatten().map(|a| Bound::new(leaf.py(), PyArray::new(a))).transpose()?;
        Ok(tangent.map_or_else(|| leaf.py().None().into_bound(leaf.py()), Bound::into_any))
    })
}

fn jvp_rule(form: Arc<Form>, rule: Py<PyAny>) -> Arc<JvpRule> {
    Arc::new(move |primals, tangents| {
        Python::attach(|py| -> PyResult<Derivatives> {
            let args = form.args.bind(py);
            let tangents = sparse(args, &mut tangents.iter().cloned())?.unbind();
            let got = form.call(py, &rule, &[tree(args, primals)?, tangents])?;
            let mut out = Derivatives::new();
            derivatives(form.returned.bind(py), &got, &mut out)?;
            Ok(out)
        })
        .map_err(Into::into)
    })
}

/// Axes as a tree of integers and None.
fn axes_tree<'py>(
    like: &Bound<'py, PyAny>,
    axes: &mut impl Iterator<Item = Option<usize>>,
) -> PyResult<Bound<'py, PyAny>> {
    map(like, &mut |leaf| {
        let axis = if leaf.is_instance_of::<PyArray>() { axes.next().flatten() } else { None };
        Ok(axis.into_pyobject(leaf.py())?.into_any())
    })
}

fn vmap_rule(form: Arc<Form>, rule: Py<PyAny>) -> Arc<VmapRule> {
    Arc::new(move |inputs, axes| {
        Python::attach(|py| -> PyResult<_> {
            let args = form.args.bind(py);
            let axes = axes_tree(args, &mut axes.iter().copied())?.unbind();
            let got = form.call(py, &rule, &[tree(args, inputs)?, axes])?;
            let pair = got.cast_into::<PyTuple>().ok().filter(|t| t.len() == 2).ok_or_else(|| {
                PyValueError::new_err(
                    "[custom_function] A vmap rule returns a pair: outputs and their batch axes.",
                )
            })?;
            let (values, out_axes) = (pair.get_item(0)?, pair.get_item(1)?);
            let (mut arrays, mut places) = (Vec::new(), Vec::new());
            flatten(&values, true, &mut arrays)?;
            axes_of("custom_function", &values, &out_axes, &mut places)?;
            let place = |(a, axis): (&Array, Option<i64>)| -> Result<Option<usize>> {
                let normal = |ax| crate::core::layout::normalize_axis("custom_function", ax, a.ndim());
                axis.map(normal).transpose()
            };
            let places = arrays.iter().zip(places).map(place).collect::<Result<Vec<_>>>()?;
            Ok((arrays, places))
        })
        .map_err(Into::into)
    })
}

#[derive(Default)]
struct PyRules {
    vjp: Option<Py<PyAny>>,
    jvp: Option<Py<PyAny>>,
    vmap: Option<Py<PyAny>>,
}

/// A function whose derivatives and vectorised form are given by the user.
///
/// Rules are set by the decorators `vjp`, `jvp` and `vmap` of the object. Where one is missing, that of the
/// function's operations is used.
///
/// Args:
///     f (Callable): A function of trees of arrays that returns an array or a tree of arrays.
///
/// Raises:
///     TypeError: if it cannot be called.
///
/// >>> @mx.custom_function
/// ... def f(x):
/// ...     return mx.sin(x)
/// >>> @f.vjp
/// ... def f_vjp(primals, cotangent, output):
/// ...     return 10 * cotangent
/// >>> mx.grad(f)(mx.array(1.0))
/// array(10, dtype=float32)
#[pyclass(name = "custom_function", module = "mlx.core", frozen)]
struct CustomFunction {
    f: Py<PyAny>,
    rules: Mutex<PyRules>,
}

impl CustomFunction {
    fn rules(&self) -> std::sync::MutexGuard<'_, PyRules> {
        fork::lock(&self.rules)
    }

    fn set(
        &self,
        rule: Bound<'_, PyAny>,
        slot: impl FnOnce(&mut PyRules) -> &mut Option<Py<PyAny>>,
    ) -> PyResult<()> {
        callable("custom_function", &rule)?;
        let old = slot(&mut self.rules()).replace(rule.unbind());
        drop(old);
        Ok(())
    }
}

#[pymethods]
impl CustomFunction {
    #[new]
    #[pyo3(signature = (f))]
    fn new(f: Bound<'_, PyAny>) -> PyResult<Self> {
        callable("custom_function", &f)?;
        Ok(CustomFunction { f: f.unbind(), rules: Mutex::default() })
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let rules = {
            let r = self.rules();
            [&r.vjp, &r.jvp, &r.vmap].map(|f| f.as_ref().map(|f| f.clone_ref(py)))
        };
        let [vjp, jvp, vmap] = rules;
        if vjp.is_none() && jvp.is_none() && vmap.is_none() {
            return self.f.bind(py).call(args, kwargs);
        }
        // The function gets containers of its own, as it does in other transforms.
        let copied = |x: &Bound<'py, PyAny>| map(x, &mut |leaf| Ok(leaf.clone()));
        let own = copied(args.as_any())?.cast_into::<PyTuple>()?;
        let named =
            kwargs.map(|k| copied(k.as_any())?.cast_into::<PyDict>().map_err(PyErr::from)).transpose()?;
        let value = self.f.bind(py).call(own, named.as_ref())?;
        let tree = if args.len() == 1 { args.get_item(0)? } else { args.clone().into_any() };
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        flatten(&tree, false, &mut inputs)?;
        flatten(&value, false, &mut outputs)?;
        let form = Arc::new(Form {
            args: hollow(&tree)?.unbind(),
            kwargs: kwargs.map(|k| k.clone().unbind()),
            returned: hollow(&value)?.unbind(),
        });
        let rules = Rules {
            vjp: vjp.map(|f| vjp_rule(form.clone(), f)),
            jvp: jvp.map(|f| jvp_rule(form.clone(), f)),
            vmap: vmap.map(|f| vmap_rule(form, f)),
        };
        let s = default_stream(default_device());
        let results = crate::autodiff::custom(&inputs, &outputs, rules, s)?;
        rebuild(&value, &mut results.into_iter())
    }

    /// Sets the rule of reverse mode; a decorator.
    ///
    /// Args:
    ///     f (Callable): Takes (primals, cotangents, outputs) and returns the cotangents of the primals, in
    ///         their form: an array for one argument, a tuple for several.
    ///
    /// Returns:
    ///     custom_function: The object itself.
    ///
    /// >>> f = mx.custom_function(lambda x: x)
    /// >>> f.vjp(lambda primals, cotangent, output: 3 * cotangent) is f
    /// True
    #[pyo3(signature = (f))]
    fn vjp<'py>(slf: Bound<'py, Self>, f: Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        slf.get().set(f, |r| &mut r.vjp)?;
        Ok(slf)
    }

    /// Sets the rule of forward mode; a decorator.
    ///
    /// Args:
    ///     f (Callable): Takes (primals, tangents) and returns the tangents of the outputs.
    ///
    /// Returns:
    ///     custom_function: The object itself.
    ///
    /// >>> f = mx.custom_function(lambda x: x)
    /// >>> f.jvp(lambda primals, tangents: tangents) is f
    /// True
    #[pyo3(signature = (f))]
    fn jvp<'py>(slf: Bound<'py, Self>, f: Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        slf.get().set(f, |r| &mut r.jvp)?;
        Ok(slf)
    }

    /// Sets the vectorised form; a decorator.
    ///
    /// Args:
    ///     f (Callable): Takes (inputs, axes), where an axis is None for what is not mapped, and returns the
    ///         outputs and their axes.
    ///
    /// Returns:
    ///     custom_function: The object itself.
    ///
    /// >>> f = mx.custom_function(lambda x: x)
    /// >>> f.vmap(lambda inputs, axes: (inputs, axes)) is f
    /// True
    #[pyo3(signature = (f))]
    fn vmap<'py>(slf: Bound<'py, Self>, f: Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        slf.get().set(f, |r| &mut r.vmap)?;
        Ok(slf)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.f)
    }
}

struct Checkpointed;

impl Transform for Checkpointed {
    fn call<'py>(
        &self,
        fun: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let call = PyTuple::new(
            py,
            [
                args.clone().into_any(),
                kwargs.map_or_else(|| PyDict::new(py).into_any(), |k| k.clone().into_any()),
            ],
        )?;
        let mut inputs = Vec::new();
        flatten(call.as_any(), false, &mut inputs)?;
        let returned: Arc<OnceLock<Py<PyAny>>> = Arc::default();
        let (fun, form, first) = (fun.clone().unbind(), hollow(call.as_any())?.unbind(), returned.clone());
        let f: crate::autodiff::Shared = Arc::new(move |arrays: &[Array]| {
            Python::attach(|py| -> PyResult<Vec<Array>> {
                let call = rebuild(form.bind(py), &mut arrays.iter().cloned())?;
                let args = call.get_item(0)?.cast_into::<PyTuple>()?;
                let value = fun.bind(py).call(args, Some(&call.get_item(1)?.cast_into::<PyDict>()?))?;
                let mut outputs = Vec::new();
                flatten(&value, false, &mut outputs)?;
                if first.get().is_none() {
                    let _ = first.set(hollow(&value)?.unbind());
                }
                Ok(outputs)
            })
            .map_err(Into::into)
        });
        let results = crate::autodiff::checkpoint(&f, &inputs)?;
        // INVARIANT: the function was called and returned.
        rebuild(returned.get().expect("the function returned").bind(py), &mut results.into_iter())
    }
}

/// A function that computes what another one does, but does not keep its intermediate arrays for the
/// gradient.
///
/// The gradient calls `fun` again, which takes time and saves memory. Chen et al. 2016, "Training Deep Nets
/// with Sublinear Memory Cost" (arXiv 1604.06174).
///
/// Args:
///     fun (Callable): A function of trees of arrays that returns an array or a tree of arrays.
///
/// Returns:
///     Callable: Takes the arguments of `fun` and returns what it returns.
///
/// Raises:
///     TypeError: if `fun` cannot be called.
///
/// >>> f = mx.checkpoint(lambda x: mx.sin(mx.exp(x)))
/// >>> mx.grad(f)(mx.array(0.0))
/// array(0.540302, dtype=float32)
#[pyfunction]
fn checkpoint(fun: Bound<'_, PyAny>) -> PyResult<Transformed> {
    callable("checkpoint", &fun)?;
    Ok(Transformed::new(fun, Checkpointed))
}

/// Adds the names.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<CustomFunction>()?;
    m.add_function(wrap_pyfunction!(checkpoint, m)?)
}
