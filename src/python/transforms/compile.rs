//! `compile` over trees of arrays and constants. A call is looked up by the form of its arguments: shapes and
//! dtypes of arrays, the values of everything else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use super::guarded;
use super::transformed::{Transform, Transformed, callable};
use super::trees::{below, fill, flatten, hollow, rebuild};
use crate::compile::{self, Compiled};
use crate::core::Array;
use crate::core::device::current_stream;
use crate::core::fork;
use crate::ops::random::{global_key, set_global_key};
use crate::python::array::PyArray;
use crate::python::array::arguments::type_name;
use crate::python::ops::random::RandomState;

/// The form of a call as bytes, and its arrays.
#[derive(Default)]
struct Call {
    key: Vec<u8>,
    arrays: Vec<Array>,
    shapeless: bool,
}

impl Call {
    fn number(&mut self, v: usize) {
        self.key.extend_from_slice(&(v as u64).to_ne_bytes());
    }

    fn array(&mut self, a: Array) {
        // FITS: the place in Dtype::ALL.
        self.key.extend_from_slice(&[b'a', a.dtype() as u8]);
        self.number(a.ndim());
        if !self.shapeless {
            for &d in a.shape() {
                self.key.extend_from_slice(&d.to_ne_bytes());
            }
        }
        self.arrays.push(a);
    }

    fn text(&mut self, tag: u8, s: &str) {
        self.key.push(tag);
        self.number(s.len());
        self.key.extend_from_slice(s.as_bytes());
    }

    fn add(&mut self, x: &Bound<'_, PyAny>, depth: usize) -> PyResult<()> {
        let below = below(depth)?;
        if let Ok(a) = x.cast::<PyArray>() {
            self.array(a.get().array());
        } else if let Ok(d) = x.cast::<PyDict>() {
            self.key.push(b'd');
            self.number(d.len());
            for (k, v) in d.iter() {
                self.text(b'k', &k.str()?.to_string_lossy());
                self.add(&v, below)?;
            }
        } else if let Ok(l) = x.cast::<PyList>() {
            self.key.push(b'l');
            self.number(l.len());
            l.iter().try_for_each(|v| self.add(&v, below))?;
        } else if let Ok(t) = x.cast::<PyTuple>() {
            self.key.push(b't');
            // A function may treat a named tuple in its own way.
            self.number(t.get_type().as_ptr() as usize);
            self.number(t.len());
            t.iter().try_for_each(|v| self.add(&v, below))?;
        } else if x.is_none() {
            self.key.push(b'n');
        } else if let Ok(s) = x.cast::<PyString>() {
            self.text(b's', &s.to_string_lossy());
        } else if let Ok(b) = x.cast::<PyBool>() {
            self.key.extend_from_slice(&[b'b', u8::from(b.is_true())]);
        } else if x.is_instance_of::<PyInt>() {
            self.text(b'i', &x.str()?.to_string_lossy());
        } else if let Ok(f) = x.cast::<PyFloat>() {
            self.key.push(b'f');
            self.key.extend_from_slice(&f.value().to_ne_bytes());
        } else {
            return Err(PyValueError::new_err(format!(
                "[compile] Function arguments must be trees of arrays or constants (floats, ints, strings, or \
                 None), but received type {}.",
                type_name(x)
            )));
        }
        Ok(())
    }
}

/// Arrays that a function reads or writes besides its arguments: those of a tree of containers, in which the
/// state of the random generator may appear.
struct State(Option<Py<PyAny>>);

/// The places of a state tree that hold the random generator's key.
fn generators(x: &Bound<'_, PyAny>, out: &mut usize) -> PyResult<()> {
    if x.is_instance_of::<RandomState>() {
        *out += 1;
    } else if let Ok(d) = x.cast::<PyDict>() {
        d.iter().try_for_each(|(_, v)| generators(&v, out))?;
    } else if x.is_instance_of::<PyList>() || x.is_instance_of::<PyTuple>() {
        for v in x.try_iter()? {
            generators(&v?, out)?;
        }
    }
    Ok(())
}

impl State {
    /// The arrays in order; keys of the random generator come last.
    fn arrays(&self, py: Python<'_>) -> PyResult<Vec<Array>> {
        let mut all = Vec::new();
        if let Some(tree) = &self.0 {
            flatten(tree.bind(py), false, &mut all)?;
            let mut keys = 0;
            generators(tree.bind(py), &mut keys)?;
            if keys > 0 {
                all.push(global_key()?);
            }
        }
        Ok(all)
    }

    /// Puts other arrays in their places.
    fn replace(&self, py: Python<'_>, arrays: &[Array]) -> PyResult<()> {
        if let Some(tree) = &self.0 {
            let mut arrays = arrays.iter().cloned();
            fill(tree.bind(py), &mut arrays)?;
            if let Some(key) = arrays.next() {
                set_global_key(key);
            }
        }
        Ok(())
    }
}

/// A recorded call.
struct Entry {
    tape: Compiled,
    /// The form of what the function returned.
    returned: Py<PyAny>,
    /// Arrays in the returned tree; the captured outputs come after them.
    count: usize,
}

/// `compile`, with what was recorded so far.
struct Compile {
    inputs: State,
    outputs: State,
    shapeless: bool,
    entries: Mutex<HashMap<Vec<u8>, Arc<Entry>>>,
}

impl Compile {
    fn entries(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Arc<Entry>>> {
        fork::lock(&self.entries)
    }

    /// Calls the function on placeholders and compiles what it builds.
    fn record<'py>(
        &self,
        fun: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
        call: &Call,
    ) -> PyResult<Entry> {
        let py = args.py();
        let before = self.inputs.arrays(py)?;
        let mut returned: Option<(Bound<'py, PyAny>, usize)> = None;
        let body = |arrays: &[Array]| {
            let own = arrays.len() - before.len();
            let mut given = arrays[..own].iter().cloned();
            let args = rebuild(args.as_any(), &mut given)?.cast_into::<PyTuple>()?;
            let kwargs = kwargs.map(|k| rebuild(k.as_any(), &mut given)).transpose()?;
            self.inputs.replace(py, &arrays[own..])?;
            let kwargs = kwargs.map(|k| k.cast_into::<PyDict>()).transpose()?;
            let value = fun.call(args, kwargs.as_ref());
            let (outputs, written) = match &value {
                Ok(v) => {
                    let mut outputs = Vec::new();
                    flatten(v, false, &mut outputs)?;
                    (outputs, self.outputs.arrays(py))
                }
                Err(_) => (Vec::new(), Ok(Vec::new())),
            };
            // What the caller sees of its state is never a placeholder.
            self.inputs.replace(py, &before)?;
            let value = value?;
            let count = outputs.len();
            returned = Some((value, count));
            Ok([outputs, written?].concat())
        };
        let tape = guarded(body, |f| compile::record(f, &call.arrays, self.shapeless))?;
        // Evaluation waits, and does so without the interpreter.
        let tape = py.detach(|| compile::simplified(&tape).map(|t| Compiled::new(&t, self.shapeless)))?;
        // INVARIANT: recording succeeded, so the function returned.
        let (value, count) = returned.expect("the function returned");
        Ok(Entry { tape, returned: hollow(&value)?.unbind(), count })
    }
}

impl Transform for Compile {
    fn call<'py>(
        &self,
        fun: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let mut call = Call { shapeless: self.shapeless, ..Default::default() };
        // What was recorded on one stream runs there: another needs its own recording.
        call.key.extend_from_slice(&current_stream().index.to_le_bytes());
        args.iter().try_for_each(|a| call.add(&a, 0))?;
        if let Some(kwargs) = kwargs {
            call.add(kwargs.as_any(), 0)?;
        }
        // What it refuses does not depend on who calls it.
        if !compile::is_enabled() || compile::is_recording() {
            return fun.call(args, kwargs);
        }
        call.key.push(b'|');
        for a in self.inputs.arrays(py)? {
            call.array(a);
        }
        let known = self.entries().get(&call.key).cloned();
        let entry = match known {
            Some(e) => e,
            None => {
                let entry = match self.record(fun, args, kwargs, &call) {
                    // Another transform follows the arguments through the function itself, as it does in MLX.
                    Err(e)
                        if e.is_instance_of::<PyValueError>(py)
                            && call.arrays.iter().any(Array::is_tracer) =>
                    {
                        return fun.call(args, kwargs);
                    }
                    recorded => Arc::new(recorded?),
                };
                // Another thread may have been faster: its entry must not die under the lock.
                let older = self.entries().insert(call.key.clone(), entry.clone());
                drop(older);
                entry
            }
        };
        let tape = match entry.tape.find(&call.arrays) {
            Some(tape) => tape,
            None => py.detach(|| entry.tape.tape(&call.arrays))?,
        };
        let outputs = tape.play(&call.arrays, false)?;
        self.outputs.replace(py, &outputs[entry.count..])?;
        rebuild(entry.returned.bind(py), &mut outputs[..entry.count].iter().cloned())
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.inputs.0)?;
        visit.call(&self.outputs.0)
    }
}

/// A function that computes what another one does, from a recording of it.
///
/// The first call for each form of the arguments (tree, shapes, dtypes, constants) runs `fun` and records the
/// graph that it builds, which is simplified; elementwise operations are joined into one kernel. Later calls
/// compute the recorded graph and do not call `fun`, so that side effects such as printing happen once.
/// Arrays that `fun` closes over become constants unless `inputs` names their container.
///
/// Args:
///     fun (Callable): A function of trees of arrays and constants (numbers, strings, None) that returns a
///         tree of arrays.
///     inputs (list | dict, optional): Containers of arrays that `fun` reads besides its arguments, such as a
///         model's state. Default: None.
///     outputs (list | dict, optional): Containers of arrays that `fun` changes. Default: None.
///     shapeless (bool, optional): Whether arrays of other shapes, but as many axes, use the same recording. What
///         is made from them follows, gradients and batches too; a number that `fun` reads from a shape stays.
///         Default: False.
///
/// Returns:
///     Callable: Takes the arguments of `fun` and returns what it returns.
///
/// Raises:
///     ValueError: when called, if an argument is something else, `fun` asks for the values of arrays, or an
///         array that is an argument is also reached in another way, such as through a closure, while `fun`
///         is recorded. With `shapeless` also where `fun` draws random numbers or calls `eye`, whose shapes
///         are numbers.
///
/// >>> f = mx.compile(lambda x: mx.exp(-x) + 1)
/// >>> f(mx.array([0.0, 0.0]))
/// array([2, 2], dtype=float32)
#[pyfunction]
#[pyo3(name = "compile", signature = (fun, inputs=None, outputs=None, shapeless=false))]
fn compile_(
    fun: Bound<'_, PyAny>,
    inputs: Option<Bound<'_, PyAny>>,
    outputs: Option<Bound<'_, PyAny>>,
    shapeless: bool,
) -> PyResult<Transformed> {
    callable("compile", &fun)?;
    let transform = Compile {
        inputs: State(inputs.map(Bound::unbind)),
        outputs: State(outputs.map(Bound::unbind)),
        shapeless,
        entries: Mutex::default(),
    };
    Ok(Transformed::new(fun, transform))
}

/// From now on compiled functions call what they were made from, for finding faults.
///
/// The environment variable MLX_DISABLE_COMPILE does the same from the start; `enable_compile` undoes both.
///
/// Returns:
///     None
///
/// >>> mx.disable_compile()
/// >>> mx.enable_compile()
#[pyfunction]
fn disable_compile() {
    compile::set_enabled(false);
}

/// From now on compiled functions use their recordings again: undoes `disable_compile`.
///
/// It also wins over the environment variable MLX_DISABLE_COMPILE.
///
/// Returns:
///     None
///
/// >>> mx.enable_compile()
#[pyfunction]
fn enable_compile() {
    compile::set_enabled(true);
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(compile_, m)?)?;
    m.add_function(wrap_pyfunction!(disable_compile, m)?)?;
    m.add_function(wrap_pyfunction!(enable_compile, m)?)
}
