//! `eval`, `grad` and its family over trees of arrays. An exception inside a user's function comes out of the
//! transform as it was raised.

pub(super) mod compile;
pub(super) mod custom;
pub(super) mod export;
pub(super) mod pipeline;
pub(super) mod transformed;
pub(super) mod trees;
pub(super) mod vmap;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySequence, PyString, PyTuple};

use self::transformed::{Transform, Transformed, callable};
use self::trees::{Swapped, flatten, map, rebuild};
use super::array::arguments::{Arr, Ints, type_name};
use super::array::{Out, PyArray};
use super::runtime::device::S;
use crate::core::{Array, Result};
use crate::ops;

fn leaves(args: &Bound<'_, PyTuple>) -> PyResult<Vec<Array>> {
    let mut all = Vec::new();
    flatten(args.as_any(), false, &mut all)?;
    Ok(all)
}

/// Computes arrays and waits for them.
///
/// Operations only build a graph; this computes what the arrays need of it. Printing, `item`, conversion and
/// comparison as bool do the same for their array.
///
/// Args:
///     args (array | tree): Arrays, or trees (dict, list, tuple) of arrays; other leaves are passed over.
///
/// Returns:
///     None
///
/// Raises:
///     RuntimeError: if an operation fails, memory among its reasons.
///
/// >>> x = mx.ones(2) + 1
/// >>> mx.eval(x, {'w': mx.zeros(3)})
#[pyfunction]
#[pyo3(signature = (*args))]
fn eval(py: Python<'_>, args: &Bound<'_, PyTuple>) -> PyResult<()> {
    let all = leaves(args)?;
    Ok(py.detach(|| crate::eval::eval(&all))?)
}

/// Starts to compute arrays and does not wait for them.
///
/// It returns once the work is submitted or, where a graph is large and runs on a GPU, handed to the thread
/// that submits it. The results may go into other operations at once; who reads one waits for it. So the next
/// step of a loop can be built while this one runs.
///
/// Args:
///     args (array | tree): Arrays, or trees (dict, list, tuple) of arrays; other leaves are passed over.
///
/// Returns:
///     None
///
/// Raises:
///     ValueError: inside a transformed function.
///
/// What goes wrong later is raised once by the next `synchronize` or `eval` on that stream, and whenever a
/// result that failed is read.
///
/// >>> x = mx.ones(2) + 1
/// >>> mx.async_eval(x)
/// >>> x.tolist()
/// [2.0, 2.0]
#[pyfunction]
#[pyo3(signature = (*args))]
fn async_eval(py: Python<'_>, args: &Bound<'_, PyTuple>) -> PyResult<()> {
    let all = leaves(args)?;
    Ok(py.detach(|| crate::eval::async_eval(&all))?)
}

/// Runs a transform whose function may raise; the exception comes out as it was.
pub(super) fn guarded<R, T>(
    mut body: impl FnMut(&[Array]) -> PyResult<R>,
    transform: impl FnOnce(&mut dyn FnMut(&[Array]) -> Result<R>) -> Result<T>,
) -> PyResult<T> {
    Ok(transform(&mut |arrays| Ok(body(arrays)?))?)
}

/// `grad` and `value_and_grad`.
struct Grad {
    op: &'static str,
    argnums: Vec<usize>,
    argnames: Vec<String>,
    with_value: bool,
}

impl Grad {
    fn new(
        op: &'static str,
        fun: &Bound<'_, PyAny>,
        argnums: Option<Ints>,
        argnames: Option<Bound<'_, PyAny>>,
        with_value: bool,
    ) -> PyResult<Self> {
        callable(op, fun)?;
        let argnames = match argnames {
            None => Vec::new(),
            Some(n) if n.is_instance_of::<PyString>() => vec![n.extract::<String>()?],
            // Any walk over texts; a name that stands there twice counts once.
            Some(n) => n.try_iter()?.map(|name| name?.extract()).collect::<PyResult<_>>()?,
        };
        let mut nums: Vec<usize> = Vec::new();
        match argnums {
            None if argnames.is_empty() => nums.push(0),
            None => {}
            Some(list) => {
                for i in list.list {
                    let text = match usize::try_from(i) {
                        Err(_) => format!("[{op}] Can't compute the gradient of negative argument index {i}"),
                        Ok(n) if nums.contains(&n) => {
                            format!("[{op}] Duplicate argument index {i} is not allowed.")
                        }
                        Ok(n) => {
                            nums.push(n);
                            continue;
                        }
                    };
                    return Err(PyValueError::new_err(text));
                }
            }
        }
        if nums.is_empty() && argnames.is_empty() {
            return Err(PyValueError::new_err(format!("[{op}] Gradient wrt no argument requested")));
        }
        nums.sort_unstable();
        Ok(Grad { op, argnums: nums, argnames, with_value })
    }

    /// The differentiated arguments: positional trees first, then named ones in the order of the call.
    fn chosen<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<(Vec<Bound<'py, PyAny>>, Vec<Bound<'py, PyAny>>)> {
        let op = self.op;
        let mut trees = Vec::new();
        for &i in &self.argnums {
            if i >= args.len() {
                return Err(PyValueError::new_err(format!(
                    "[{op}] Can't compute the gradient of argument index {i} because the function is called \
                     with only {} positional arguments.",
                    args.len()
                )));
            }
            trees.push(args.get_item(i)?);
        }
        let given: Vec<(String, Bound<'py, PyAny>)> = match kwargs {
            Some(k) => k.iter().map(|(k, v)| Ok((k.extract()?, v))).collect::<PyResult<_>>()?,
            None => Vec::new(),
        };
        for name in &self.argnames {
            if !given.iter().any(|(k, _)| k == name) {
                let have: String = given.iter().map(|(k, _)| format!("{k},")).collect();
                return Err(PyValueError::new_err(format!(
                    "[{op}] Can't compute the gradient of keyword argument '{name}' because the function is \
                     called with the following keyword arguments {{{have}}}"
                )));
            }
        }
        let mut names = Vec::new();
        for (k, v) in given {
            if self.argnames.contains(&k) {
                names.push(PyString::new(args.py(), &k).into_any());
                trees.push(v);
            }
        }
        Ok((trees, names))
    }

    fn check(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let is_array = |x: &Bound<'_, PyAny>| x.is_instance_of::<PyArray>();
        let leads =
            || value.cast::<PyTuple>().is_ok_and(|t| t.get_item(0).is_ok_and(|first| is_array(&first)));
        if is_array(value) || (self.with_value && leads()) {
            return Ok(());
        }
        let what = if self.with_value {
            "either a scalar array or a tuple with the first value being a scalar array \
             (Union[array, tuple[array, Any, ...]])"
        } else {
            "a scalar array"
        };
        Err(PyValueError::new_err(format!(
            "[{}] The return value of the function whose gradient we want to compute should be {what}; but {} \
             was returned.",
            self.op,
            type_name(value)
        )))
    }
}

impl Grad {
    /// Calls the function with `arrays` in the places of the arrays of `trees`, and returns what it returned with
    /// the arrays therein. The caller's containers have their arrays back afterwards, whatever happened.
    fn on<'py>(
        &self,
        fun: &Bound<'py, PyAny>,
        call: (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>),
        chosen: (&[Bound<'py, PyAny>], &[Bound<'py, PyAny>]),
        arrays: &[Array],
    ) -> PyResult<(Bound<'py, PyAny>, Vec<Array>)> {
        let ((args, kwargs), (trees, names)) = (call, chosen);
        let (mut swapped, mut arrays) = (Swapped::default(), arrays.iter().cloned());
        let mut run = || -> PyResult<_> {
            let mut positional: Vec<Bound<'py, PyAny>> = args.iter().collect();
            for (&i, t) in self.argnums.iter().zip(trees) {
                positional[i] = swapped.put(t, &mut arrays)?;
            }
            let named = kwargs.map(|k| k.copy()).transpose()?;
            if let Some(named) = &named {
                for (name, t) in names.iter().zip(&trees[self.argnums.len()..]) {
                    named.set_item(name, swapped.put(t, &mut arrays)?)?;
                }
            }
            let value = fun.call(PyTuple::new(args.py(), positional)?, named.as_ref())?;
            self.check(&value)?;
            let mut outputs = Vec::new();
            flatten(&value, false, &mut outputs)?;
            Ok((value, outputs))
        };
        let result = run();
        let undone = swapped.undo();
        let result = result?;
        undone.map(|()| result)
    }
}

impl Transform for Grad {
    fn call<'py>(
        &self,
        fun: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let (trees, names) = self.chosen(args, kwargs)?;
        let mut inputs = Vec::new();
        for t in &trees {
            flatten(t, true, &mut inputs)?;
        }
        if inputs.is_empty() {
            return Err(PyValueError::new_err("[grad] Must specify at least one argument."));
        }
        // Gradients have the form that the arguments have now: the function may change its containers.
        let forms =
            trees.iter().map(|t| map(t, &mut |leaf| Ok(leaf.clone()))).collect::<PyResult<Vec<_>>>()?;
        let mut returned: Option<Bound<'py, PyAny>> = None;
        let body = |arrays: &[Array]| {
            let (value, outputs) = self.on(fun, (args, kwargs), (&trees, &names), arrays)?;
            returned = Some(value);
            Ok(outputs)
        };
        let which: Vec<usize> = (0..inputs.len()).collect();
        let (values, grads) = guarded(body, |f| crate::autodiff::value_and_grad(f, &inputs, &which))?;
        let mut grads = grads.into_iter();
        let mut parts =
            forms.iter().map(|t| rebuild(t, &mut grads)).collect::<PyResult<Vec<_>>>()?.into_iter();
        let mut positional: Vec<_> = parts.by_ref().take(self.argnums.len()).collect();
        let first = match positional.len() {
            0 => py.None().into_bound(py),
            1 => positional.remove(0),
            _ => PyTuple::new(py, positional)?.into_any(),
        };
        let grads = if self.argnames.is_empty() {
            first
        } else {
            let by_name = PyDict::new(py);
            for (name, part) in names.iter().zip(parts) {
                by_name.set_item(name, part)?;
            }
            (first, by_name).into_pyobject(py)?.into_any()
        };
        if !self.with_value {
            return Ok(grads);
        }
        // INVARIANT: the transform succeeded, so the function returned.
        let value = rebuild(&returned.expect("the function returned"), &mut values.into_iter())?;
        Ok((value, grads).into_pyobject(py)?.into_any())
    }
}

/// A function that returns the gradient of another one.
///
/// `fun` returns a scalar array. Its arguments may be trees (dict, list, tuple) of arrays, whose gradient has
/// the same form. It gets the dicts, lists and modules themselves, with other arrays in the places of theirs
/// until it returns: what it writes there stays. Gradients of gradients nest to any order.
///
/// Args:
///     fun (Callable): The function to differentiate.
///     argnums (int | Sequence[int], optional): Positions of the arguments by which to differentiate.
///         Default: None, 0 where no names are given.
///     argnames (str | Iterable[str], optional): Names of the arguments by which to differentiate. Default:
///         [].
///
/// Returns:
///     Callable: Takes the arguments of `fun`. One position gives a gradient, several a tuple; with names it
///         is the pair of that (None without positions) and a dict.
///
/// Raises:
///     ValueError: if positions or names repeat or are out of range; when called, if `fun` returns something
///         else than a scalar array, or an argument holds something else than arrays.
///
/// >>> mx.grad(lambda x: x * x)(mx.array(3.0))
/// array(6, dtype=float32)
/// >>> mx.grad(lambda x, y: x * y, argnums=(0, 1))(mx.array(2.0), mx.array(5.0))
/// (array(5, dtype=float32), array(2, dtype=float32))
#[pyfunction]
#[pyo3(
    signature = (fun, argnums=None, argnames=None),
    text_signature = "(fun, argnums=None, argnames=[])"
)]
fn grad(
    fun: Bound<'_, PyAny>,
    argnums: Option<Ints>,
    argnames: Option<Bound<'_, PyAny>>,
) -> PyResult<Transformed> {
    let transform = Grad::new("grad", &fun, argnums, argnames, false)?;
    Ok(Transformed::new(fun, transform))
}

/// A function that returns the value of another one and its gradient, both from one evaluation.
///
/// As `grad`, but `fun` may also return a tuple whose first element is the scalar; the others are handed
/// through. See `mlx.nn.value_and_grad` for the parameters of a module.
///
/// Args:
///     fun (Callable): The function to differentiate.
///     argnums (int | Sequence[int], optional): Positions of the arguments by which to differentiate.
///         Default: None, 0 where no names are given.
///     argnames (str | Iterable[str], optional): Names of the arguments by which to differentiate. Default:
///         [].
///
/// Returns:
///     Callable: Takes the arguments of `fun` and returns the pair of what `fun` returns and of what `grad`
///         would.
///
/// Raises:
///     ValueError: if positions or names repeat or are out of range; when called, if the value is no scalar
///         array, or an argument holds something else than arrays.
///
/// >>> mx.value_and_grad(lambda x: x * x)(mx.array(3.0))
/// (array(9, dtype=float32), array(6, dtype=float32))
#[pyfunction]
#[pyo3(
    signature = (fun, argnums=None, argnames=None),
    text_signature = "(fun, argnums=None, argnames=[])"
)]
fn value_and_grad(
    fun: Bound<'_, PyAny>,
    argnums: Option<Ints>,
    argnames: Option<Bound<'_, PyAny>>,
) -> PyResult<Transformed> {
    let transform = Grad::new("value_and_grad", &fun, argnums, argnames, true)?;
    Ok(Transformed::new(fun, transform))
}

/// The arrays of a sequence; the rows of an array are one.
fn list_of(op: &str, name: &str, x: &Bound<'_, PyAny>) -> PyResult<Vec<Array>> {
    let wrong = |what: &Bound<'_, PyAny>| {
        let kind = type_name(what);
        PyTypeError::new_err(format!(
            "{op}(): {name} should be a sequence of arrays, got {kind} in its place"
        ))
    };
    if !x.is_instance_of::<PyArray>() && x.cast::<PySequence>().is_err() {
        return Err(wrong(x));
    }
    x.try_iter()
        .map_err(|_| wrong(x))?
        .map(|a| a.and_then(|a| a.cast::<PyArray>().map(|a| a.get().array()).map_err(|_| wrong(&a))))
        .collect()
}

/// Calls a Python function on arrays and takes an array or a sequence of arrays back.
fn plain<'py>(fun: &Bound<'py, PyAny>, arrays: &[Array]) -> PyResult<Vec<Array>> {
    let args = PyTuple::new(fun.py(), arrays.iter().map(|a| PyArray::new(a.clone())))?;
    let value = fun.call1(args)?;
    if !(value.is_instance_of::<PyArray>()
        || value.is_instance_of::<PyTuple>()
        || value.is_instance_of::<PyList>())
    {
        return Err(PyTypeError::new_err(format!(
            "the function should return an array or a sequence of arrays; but {} was returned",
            type_name(&value)
        )));
    }
    match value.cast::<PyArray>() {
        Ok(a) => Ok(vec![a.get().array()]),
        Err(_) => list_of("the function", "the return value", &value),
    }
}

type Pair = (Vec<PyArray>, Vec<PyArray>);

fn pair(lists: (Vec<Array>, Vec<Array>)) -> Pair {
    let wrap = |l: Vec<Array>| l.into_iter().map(PyArray::new).collect();
    (wrap(lists.0), wrap(lists.1))
}

/// Outputs of a function, and the products of cotangents with its Jacobian (reverse mode).
///
/// The product for a primal is the gradient of the sum of outputs times cotangents.
///
/// Args:
///     fun (Callable): A function of arrays that returns an array or a list of arrays.
///     primals (Sequence[array]): Where it is evaluated.
///     cotangents (Sequence[array]): One for each output, of its shape.
///
/// Returns:
///     tuple[list[array], list[array]]: The outputs, and one product for each primal.
///
/// Raises:
///     ValueError: if there are not as many cotangents as outputs, or a shape differs.
///
/// >>> mx.vjp(lambda x: 2 * x, [mx.array(3.0)], [mx.array(1.0)])
/// ([array(6, dtype=float32)], [array(2, dtype=float32)])
#[pyfunction]
fn vjp(fun: &Bound<'_, PyAny>, primals: &Bound<'_, PyAny>, cotangents: &Bound<'_, PyAny>) -> PyResult<Pair> {
    let primals = list_of("vjp", "primals", primals)?;
    let cotangents = list_of("vjp", "cotangents", cotangents)?;
    guarded(|a| plain(fun, a), |f| crate::autodiff::vjp(f, &primals, &cotangents)).map(pair)
}

/// Outputs of a function, and the products of its Jacobian with tangents (forward mode).
///
/// The product for an output is its derivative in the direction of the tangents.
///
/// Args:
///     fun (Callable): A function of arrays that returns an array or a list of arrays.
///     primals (Sequence[array]): Where it is evaluated.
///     tangents (Sequence[array]): One for each primal, of its shape.
///
/// Returns:
///     tuple[list[array], list[array]]: The outputs, and one product for each output.
///
/// Raises:
///     ValueError: if there are not as many tangents as primals, or a shape differs.
///
/// >>> mx.jvp(lambda x: 2 * x, [mx.array(3.0)], [mx.array(1.0)])
/// ([array(6, dtype=float32)], [array(2, dtype=float32)])
#[pyfunction]
fn jvp(fun: &Bound<'_, PyAny>, primals: &Bound<'_, PyAny>, tangents: &Bound<'_, PyAny>) -> PyResult<Pair> {
    let primals = list_of("jvp", "primals", primals)?;
    let tangents = list_of("jvp", "tangents", tangents)?;
    guarded(|a| plain(fun, a), |f| crate::autodiff::jvp(f, &primals, &tangents)).map(pair)
}

/// The array itself, through which no gradient flows.
///
/// To transforms it is a constant. Nothing is computed or copied.
///
/// Args:
///     a (array): Elements of any shape and dtype.
///
/// Returns:
///     array: `a`, whose derivative counts as zero.
///
/// Raises:
///     TypeError: if `a` is no array.
///
/// >>> mx.grad(lambda x: x * mx.stop_gradient(x))(mx.array(3.0))
/// array(3, dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, /, *, stream=None))]
fn stop_gradient(a: Arr, stream: S) -> Out {
    let _ = stream;
    Ok(PyArray::new(ops::stop_gradient(&a.0)))
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    for f in [
        wrap_pyfunction!(eval, m)?,
        wrap_pyfunction!(async_eval, m)?,
        wrap_pyfunction!(grad, m)?,
        wrap_pyfunction!(value_and_grad, m)?,
        wrap_pyfunction!(vjp, m)?,
        wrap_pyfunction!(jvp, m)?,
        wrap_pyfunction!(stop_gradient, m)?,
    ] {
        m.add_function(f)?;
    }
    Ok(())
}
