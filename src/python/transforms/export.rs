//! Functions to and from files, and graphs as text. The Python function is called once for each form of its
//! arguments; what it builds is kept (`compile::export`, `io::function`).

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use super::guarded;
use super::transformed::callable;
use super::trees::flatten;
use crate::compile::export::described::{Arg, Described, Request, describe};
use crate::compile::export::dot::{dot, letters};
use crate::compile::export::{Exported, Restored, Spec, trace};
use crate::core::Array;
use crate::core::fork;
use crate::core::layout::show;
use crate::core::notes::listen;
use crate::io::function;
use crate::python::array::PyArray;
use crate::python::array::arguments::type_name;
use crate::python::array::dtype::PyDtype;
use crate::python::runtime::device::device;
use crate::python::runtime::io::path_of;

/// Arguments of an exported function: arrays by position, then arrays by name, in the order of the names.
struct Arguments {
    arrays: Vec<Array>,
    keywords: Vec<String>,
}

impl Arguments {
    /// From arrays and named arrays, or from one sequence and/or one dict of arrays.
    fn new(op: &str, args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Arguments> {
        let refused = || {
            PyValueError::new_err(format!(
                "[{op}] Inputs can either be a variable number of positional and keyword arrays or a single tuple \
                 and/or dictionary of arrays."
            ))
        };
        let list = |items: &mut dyn Iterator<Item = Bound<'_, PyAny>>| -> PyResult<Vec<Array>> {
            items.map(|a| a.cast::<PyArray>().map(|a| a.get().array()).map_err(|_| refused())).collect()
        };
        let none = kwargs.is_none_or(|k| k.is_empty());
        let first = args.get_item(0).ok();
        let (mut arrays, mut named) = (Vec::new(), kwargs.cloned());
        match &first {
            Some(x) if none && !x.is_instance_of::<PyArray>() && args.len() <= 2 => {
                let mut rest = args.iter();
                if let Ok(t) = x.cast::<PyTuple>() {
                    arrays = list(&mut t.iter())?;
                    rest.next();
                } else if let Ok(l) = x.cast::<PyList>() {
                    arrays = list(&mut l.iter())?;
                    rest.next();
                }
                named = rest.next().map(|d| d.cast_into::<PyDict>()).transpose().map_err(|_| refused())?;
                if rest.next().is_some() {
                    return Err(refused());
                }
            }
            _ => arrays = list(&mut args.iter())?,
        }
        let mut keyed: Vec<(String, Array)> = Vec::new();
        for (k, v) in named.iter().flatten() {
            let name = k.extract().map_err(|_| refused())?;
            keyed.push((name, v.cast::<PyArray>().map_err(|_| refused())?.get().array()));
        }
        keyed.sort_by(|a, b| a.0.cmp(&b.0));
        let (keywords, values): (Vec<String>, Vec<Array>) = keyed.into_iter().unzip();
        arrays.extend(values);
        Ok(Arguments { arrays, keywords })
    }

    /// What is given to the function for placeholders of the arguments.
    fn call(&self, fun: &Bound<'_, PyAny>, arrays: &[Array]) -> PyResult<Vec<Array>> {
        let py = fun.py();
        let (args, named) = arrays.split_at(arrays.len() - self.keywords.len());
        let args = PyTuple::new(py, args.iter().map(|a| PyArray::new(a.clone())))?;
        let kwargs = PyDict::new(py);
        for (k, a) in self.keywords.iter().zip(named) {
            kwargs.set_item(k, PyArray::new(a.clone()))?;
        }
        outputs(&fun.call(args, Some(&kwargs))?)
    }

    /// Adds what `fun` does with arguments like these.
    fn export(self, fun: &Bound<'_, PyAny>, to: &mut Exported) -> PyResult<()> {
        let traced = guarded(|a: &[Array]| self.call(fun, a), |f| trace(f, &self.arrays, to.shapeless))?;
        // Evaluation waits, and does so without the interpreter.
        Ok(fun.py().detach(|| to.add(&traced, self.keywords))?)
    }

    /// Tells a Python function in MLX's words what `fun` does with arguments like these.
    fn tell(self, fun: &Bound<'_, PyAny>, shapeless: bool, callback: &Bound<'_, PyAny>) -> PyResult<()> {
        // The primitives themselves, not what stands for them at other lengths.
        let run = || guarded(|a: &[Array]| self.call(fun, a), |f| trace(f, &self.arrays, false));
        let (traced, notes) = listen(run);
        let traced = traced?;
        let (inputs, outputs) = (&traced.inputs, &traced.outputs);
        let request = Request { inputs, outputs, notes: &notes, shapeless, simplify: true };
        tell(&describe(&request)?, &self.keywords, callback)
    }
}

/// What an exported function returned.
fn outputs(value: &Bound<'_, PyAny>) -> PyResult<Vec<Array>> {
    let array = |x: Bound<'_, PyAny>| {
        x.cast::<PyArray>().map(|a| a.get().array()).map_err(|_| {
            PyValueError::new_err(
                "[export_function] Outputs can be either a single array, a tuple, or a list of arrays.",
            )
        })
    };
    if let Ok(t) = value.cast::<PyTuple>() {
        return t.iter().map(array).collect();
    }
    match value.cast::<PyList>() {
        Ok(l) => l.iter().map(array).collect(),
        Err(_) => Ok(vec![array(value.clone())?]),
    }
}

fn path(op: &str, file: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    match path_of(file)? {
        Some(p) => Ok(p.into()),
        None => Err(PyTypeError::new_err(format!("[{op}] Expected a path, got {}.", type_name(file)))),
    }
}

/// Writes what a function computes to a file, from which `import_function` makes a function again.
///
/// The function is run once on the example arguments, and the graph that it builds is stored with the arrays
/// that it closes over. What happens in Python is not stored.
///
/// A callable instead of a path is called with one dict after the other. Their `type` is `inputs`,
/// `keyword_inputs`, `outputs` or `constants`, then `primitive` for each operation, with MLX's `name` for it, its
/// `arguments`, and `inputs` and `outputs` as tuples of a name, a shape and a dtype.
///
/// Args:
///     file_or_callback (str | Path | Callable): Where to write; a callable is called instead with a dict for
///         each part of the description.
///     fun (Callable): Returns an array, or a tuple or list of arrays.
///     args (array | Sequence[array]): Example arguments by position, or one sequence of them.
///     shapeless (bool, optional): Whether the function will take arrays of other shapes, but as many axes.
///         Default: False.
///     metadata (str, optional): Text to keep beside it. Default: None.
///     kwargs (array): Example arguments by name.
///
/// Returns:
///     None
///
/// Raises:
///     ValueError: if the arguments or results are something else than arrays, or an operation cannot be
///         exported.
///     RuntimeError: if the file cannot be written.
///
/// >>> import tempfile, os; path = os.path.join(tempfile.mkdtemp(), 'f.mlxfn')
/// >>> mx.export_function(path, lambda x: x * x, mx.array(1.0))
#[pyfunction]
#[pyo3(signature = (file_or_callback, fun, *args, shapeless=false, metadata=None, **kwargs))]
fn export_function(
    file_or_callback: &Bound<'_, PyAny>,
    fun: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    shapeless: bool,
    metadata: Option<String>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    const OP: &str = "export_function";
    callable(OP, fun)?;
    device(); // chosen now if it was not yet: calls are told apart by it
    let py = fun.py();
    let mut exported = Exported { shapeless, ..Default::default() };
    let arguments = Arguments::new(OP, args, kwargs)?;
    if file_or_callback.is_callable() {
        if metadata.is_some() {
            return Err(PyValueError::new_err(
                "[export_function] Metadata is only supported when exporting to a file.",
            ));
        }
        return arguments.tell(fun, shapeless, file_or_callback);
    }
    let path = path(OP, file_or_callback)?;
    arguments.export(fun, &mut exported)?;
    exported.metadata = metadata.unwrap_or_default();
    Ok(py.detach(|| function::save(&path, &exported))?)
}

/// Letters for the values of a description: arguments, results, constants, then the others as they are made.
fn value_names(graph: &Described) -> HashMap<usize, String> {
    let made = graph.operations.iter().flat_map(|o| &o.outputs);
    let mut names = HashMap::new();
    for &v in graph.inputs.iter().chain(&graph.outputs).chain(&graph.constants()).chain(made) {
        let n = names.len() + 1;
        names.entry(v).or_insert_with(|| letters(n));
    }
    names
}

fn argument(py: Python<'_>, arg: &Arg) -> PyResult<Py<PyAny>> {
    Ok(match arg {
        Arg::Int(v) => v.into_pyobject(py)?.into_any().unbind(),
        Arg::Float(v) => v.into_pyobject(py)?.into_any().unbind(),
        Arg::Bool(v) => PyBool::new(py, *v).to_owned().into_any().unbind(),
        Arg::Text(v) => PyString::new(py, v).into_any().unbind(),
        Arg::Dtype(v) => PyDtype(*v).into_pyobject(py)?.into_any().unbind(),
        Arg::List(v) => PyList::new(py, v)?.into_any().unbind(),
        Arg::Tuple(v) => PyTuple::new(py, v)?.into_any().unbind(),
    })
}

/// Calls a Python function with a dict for each part of a description.
fn tell(graph: &Described, keywords: &[String], callback: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = callback.py();
    let names = value_names(graph);
    let named = |&v: &usize| -> PyResult<Py<PyAny>> {
        let (shape, dtype) = &graph.values[v].spec;
        let shape = PyTuple::new(py, shape.iter())?;
        Ok((&names[&v], shape, PyDtype(*dtype)).into_pyobject(py)?.into_any().unbind())
    };
    let list =
        |items: Vec<Py<PyAny>>| -> PyResult<Py<PyAny>> { Ok(PyList::new(py, items)?.into_any().unbind()) };
    let all = |values: &[usize]| list(values.iter().map(named).collect::<PyResult<Vec<_>>>()?);
    let send = |kind: &str, fields: Vec<(&str, Py<PyAny>)>| -> PyResult<()> {
        let dict = PyDict::new(py);
        dict.set_item("type", kind)?;
        for (k, v) in fields {
            dict.set_item(k, v)?;
        }
        callback.call1((dict,))?;
        Ok(())
    };
    send("inputs", vec![("inputs", all(&graph.inputs)?)])?;
    let positional = graph.inputs.len() - keywords.len();
    let keywords = keywords.iter().zip(&graph.inputs[positional..]);
    let keywords = keywords
        .map(|(k, v)| Ok((k, &names[v]).into_pyobject(py)?.into_any().unbind()))
        .collect::<PyResult<Vec<_>>>()?;
    send("keyword_inputs", vec![("keywords", list(keywords)?)])?;
    send("outputs", vec![("outputs", all(&graph.outputs)?)])?;
    let constants = graph.constants();
    let values = constants.iter().filter_map(|v| graph.values[*v].constant.clone().map(|a| (&names[v], a)));
    let values = values
        .map(|(n, a)| Ok((n, PyArray::new(a)).into_pyobject(py)?.into_any().unbind()))
        .collect::<PyResult<Vec<_>>>()?;
    send("constants", vec![("constants", list(values)?)])?;
    for o in &graph.operations {
        let args = o.args.iter().map(|a| argument(py, a)).collect::<PyResult<Vec<_>>>()?;
        let fields = vec![
            ("name", PyString::new(py, &o.name).into_any().unbind()),
            ("inputs", all(&o.inputs)?),
            ("outputs", all(&o.outputs)?),
            ("arguments", list(args)?),
        ];
        send("primitive", fields)?;
    }
    Ok(())
}

/// A function from a file.
#[pyclass(name = "_imported_func", module = "mlx.core", frozen)]
struct ImportedFunction {
    exported: Exported,
    functions: Vec<Restored>,
}

fn signature(text: &mut String, indent: &str, positional: usize, keywords: &[String], specs: &[Spec]) {
    let named = keywords.len();
    text.push_str(&format!("{positional} positional inputs and {named} keyword inputs:\n"));
    for (i, (shape, dtype)) in specs.iter().enumerate() {
        let label = match i.checked_sub(positional) {
            None => (i + 1).to_string(),
            Some(k) => format!("\"{}\"", keywords[k]),
        };
        text.push_str(&format!("{indent}{label}: {} {dtype}\n", show(shape)));
    }
}

#[pymethods]
impl ImportedFunction {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        const OP: &str = "import_function::call";
        let given = Arguments::new(OP, args, kwargs)?;
        let known = &self.exported;
        let found =
            known.traces.iter().position(|t| t.takes(&given.arrays, &given.keywords, known.shapeless));
        let Some(found) = found else {
            let mut text = format!(
                "[{OP}] No imported function found which matches the given positional and keyword arguments. \
                 Possible functions include:\n"
            );
            for (i, t) in known.traces.iter().enumerate() {
                text.push_str(&format!(" {}. Function with ", i + 1));
                signature(&mut text, "   ", t.positional(), &t.keywords, &t.inputs);
            }
            text.push_str("\nCalled with ");
            let specs: Vec<Spec> = given.arrays.iter().map(|a| (a.shape().into(), a.dtype())).collect();
            let positional = specs.len() - given.keywords.len();
            signature(&mut text, "  ", positional, &given.keywords, &specs);
            return Err(PyValueError::new_err(text));
        };
        let outputs = self.functions[found].call(&given.arrays)?;
        PyTuple::new(args.py(), outputs.into_iter().map(PyArray::new))
    }
}

/// The function that `export_function` or an exporter wrote to a file.
///
/// It takes arrays by position and by name as it was exported, or a sequence and a dict of them, and returns
/// a tuple of arrays. It can be differentiated, mapped and compiled.
///
/// Args:
///     file (str | Path): The file.
///     return_metadata (bool, optional): Whether to return the metadata too. Default: False.
///
/// Returns:
///     Callable | tuple[Callable, str]: The function, and the text that was saved with it. It raises
///         ValueError for arrays of other shapes or dtypes than it was exported for.
///
/// Raises:
///     RuntimeError: if the file is missing, damaged or something else.
///
/// >>> import tempfile, os; path = os.path.join(tempfile.mkdtemp(), 'f.mlxfn')
/// >>> mx.export_function(path, lambda x: x * x, mx.array(1.0))
/// >>> mx.import_function(path)(mx.array(3.0))[0]
/// array(9, dtype=float32)
#[pyfunction]
#[pyo3(signature = (file, return_metadata=false))]
fn import_function<'py>(file: &Bound<'py, PyAny>, return_metadata: bool) -> PyResult<Bound<'py, PyAny>> {
    let path = path("import_function", file)?;
    device();
    let py = file.py();
    let f = py.detach(|| {
        let exported = function::load(&path)?;
        let functions = exported.functions()?;
        crate::core::Result::Ok(ImportedFunction { exported, functions })
    })?;
    let metadata = f.exported.metadata.clone();
    let f = Bound::new(py, f)?.into_any();
    if return_metadata { Ok((f, metadata).into_pyobject(py)?.into_any()) } else { Ok(f) }
}

/// Collects what a function does for several forms of its arguments; `exporter` makes it.
///
/// Call it with example arguments once for each form. The file is complete when the exporter is closed, or
/// left as a context manager.
#[pyclass(module = "mlx.core", frozen)]
struct FunctionExporter {
    fun: Py<PyAny>,
    path: PathBuf,
    /// `None` once it is closed.
    exported: Mutex<Option<Exported>>,
}

impl FunctionExporter {
    fn exported(&self) -> MutexGuard<'_, Option<Exported>> {
        fork::lock(&self.exported)
    }
}

#[pymethods]
impl FunctionExporter {
    /// Adds what the function does with arrays like these.
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__(&self, args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        // The function may do anything, such as call this exporter: nothing is held while it runs.
        let Some(mut exported) = self.exported().take() else {
            return Err(PyRuntimeError::new_err(
                "[export_function] Attempting to write after exporting is closed.",
            ));
        };
        let result = Arguments::new("export_function", args, kwargs)
            .and_then(|a| a.export(self.fun.bind(args.py()), &mut exported));
        *self.exported() = Some(exported);
        result
    }

    /// Writes the file; calls after that raise ValueError.
    ///
    /// Returns:
    ///     None
    ///
    /// Raises:
    ///     RuntimeError: if the file cannot be written.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(exported) = self.exported().take() else { return Ok(()) };
        Ok(py.detach(|| function::save(&self.path, &exported))?)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Option<Py<PyAny>>,
        exc_value: Option<Py<PyAny>>,
        traceback: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let _ = (exc_type, exc_value, traceback);
        self.close(py)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.fun)
    }
}

/// An object that writes what a function does for several forms of its arguments to one file.
///
/// Call it with example arguments once for each form; arrays that the forms share are stored once. The file
/// is complete when it is closed, or left as a context manager.
///
/// Args:
///     file (str | Path): Where to write.
///     fun (Callable): Returns an array, or a tuple or list of arrays.
///     shapeless (bool, optional): Whether the function will take arrays of other shapes, but as many axes.
///         Default: False.
///     metadata (str, optional): Text to keep beside it. Default: None.
///
/// Returns:
///     FunctionExporter: The object.
///
/// Raises:
///     ValueError: when called, as `export_function` does.
///
/// >>> import tempfile, os; path = os.path.join(tempfile.mkdtemp(), 'f.mlxfn')
/// >>> with mx.exporter(path, lambda *xs: sum(xs)) as e: e(mx.array(1)); e(mx.array(1), mx.array(2))
#[pyfunction]
#[pyo3(signature = (file, fun, *, shapeless=false, metadata=None))]
fn exporter(
    file: &Bound<'_, PyAny>,
    fun: &Bound<'_, PyAny>,
    shapeless: bool,
    metadata: Option<String>,
) -> PyResult<FunctionExporter> {
    callable("exporter", fun)?;
    device();
    let path = path("export_function", file)?;
    let exported = Exported { shapeless, metadata: metadata.unwrap_or_default(), ..Default::default() };
    // A file that cannot be written is an error now, not at the end.
    function::save(&path, &exported)?;
    Ok(FunctionExporter { fun: fun.clone().unbind(), path, exported: Mutex::new(Some(exported)) })
}

/// Writes the graph that arrays are computed from, in the DOT language of graphviz.
///
/// Only what is not evaluated yet is shown. Arrays given by name are shown under that name, the others under
/// letters.
///
/// Args:
///     file (str | Path | object): A path, or an object with `write`.
///     args (array | tree): Arrays, or trees of arrays, whose graph is written.
///     kwargs (array): Arrays to show under their names.
///
/// Returns:
///     None
///
/// Raises:
///     ValueError: if the file is something else, or a tree holds something else than arrays.
///
/// >>> import io; f = io.StringIO(); x = mx.array(1.0)
/// >>> mx.export_to_dot(f, mx.exp(x), x=x)
/// >>> 'Exp' in f.getvalue()
/// True
#[pyfunction]
#[pyo3(signature = (file, *args, **kwargs))]
fn export_to_dot(
    file: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let mut arrays = Vec::new();
    flatten(args.as_any(), true, &mut arrays)?;
    let mut names = Vec::new();
    for (k, v) in kwargs.into_iter().flatten() {
        match v.cast::<PyArray>() {
            Ok(a) => {
                names.push((k.extract()?, a.get().array()));
                arrays.push(a.get().array());
            }
            // One name does for one array: those of a tree get letters.
            Err(_) => flatten(&v, true, &mut arrays)?,
        }
    }
    let text = dot(&arrays, &names)?;
    if let Some(path) = path_of(file)? {
        return std::fs::write(&path, text)
            .map_err(|e| PyRuntimeError::new_err(format!("[export_to_dot] Failed to open {path}: {e}.")));
    }
    if !file.hasattr("write")? {
        return Err(PyValueError::new_err(
            "[export_to_dot] Accepts file-like objects or strings to be used as filenames.",
        ));
    }
    file.call_method1("write", (text,))?;
    Ok(())
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<ImportedFunction>()?;
    m.add_class::<FunctionExporter>()?;
    m.add_function(wrap_pyfunction!(export_function, m)?)?;
    m.add_function(wrap_pyfunction!(import_function, m)?)?;
    m.add_function(wrap_pyfunction!(exporter, m)?)?;
    m.add_function(wrap_pyfunction!(export_to_dot, m)?)
}
