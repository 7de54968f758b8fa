//! Errors that say how a function is called. Every function of the module, and the methods of its arrays, are entered
//! through a trampoline, which does nothing but pass the call on; a TypeError on its way back gets the function's name
//! and signature from `mlx._signatures`. One trampoline is compiled for each place of a table, because the interpreter
//! tells a function neither its name nor its place.

use std::ffi::{CString, c_int};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyString, PyTuple, PyType};

pub type Object = *mut ffi::PyObject;
pub type Vector = ffi::PyCFunctionFastWithKeywords;
type Tuple = ffi::PyCFunctionWithKeywords;

/// A function that a trampoline enters, and its name: `zeros`, `random.uniform`, `array.reshape`.
struct Place {
    function: AtomicPtr<()>,
    name: OnceLock<String>,
}

#[allow(clippy::declare_interior_mutable_const)]
const EMPTY: Place = Place { function: AtomicPtr::new(std::ptr::null_mut()), name: OnceLock::new() };

impl Place {
    fn name(&self) -> &str {
        self.name.get().map_or("", |n| n)
    }
}

// Rows of 16 places for each calling convention.
const VECTOR_ROWS: usize = 48;
const NOTHING_ROWS: usize = 6;
const TUPLE_ROWS: usize = 6;
static VECTORS: [Place; VECTOR_ROWS * 16] = [EMPTY; VECTOR_ROWS * 16];
static NOTHINGS: [Place; NOTHING_ROWS * 16] = [EMPTY; NOTHING_ROWS * 16];
static TUPLES: [Place; TUPLE_ROWS * 16] = [EMPTY; TUPLE_ROWS * 16];
static USED: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

unsafe extern "C" fn vector<const I: usize>(
    slf: Object,
    args: *const Object,
    count: ffi::Py_ssize_t,
    names: Object,
) -> Object {
    // SAFETY: the place got a function of this type before the trampoline was handed out; the arguments live until this
    // returns.
    unsafe {
        let function: Vector = std::mem::transmute(VECTORS[I].function.load(Ordering::Relaxed));
        let result = function(slf, args, count, names);
        if result.is_null() {
            explain_vector(&VECTORS[I], args, count, names);
        }
        result
    }
}

/// Enters a function without arguments; takes them to be able to say so.
unsafe extern "C" fn nothing<const I: usize>(
    slf: Object,
    args: *const Object,
    count: ffi::Py_ssize_t,
    names: Object,
) -> Object {
    // SAFETY: as in `vector`.
    unsafe {
        let mut result = std::ptr::null_mut();
        if count > 0 || !names.is_null() && ffi::PyTuple_Size(names) > 0 {
            let text = format!("{}() takes no arguments", NOTHINGS[I].name());
            PyTypeError::new_err(text).restore(Python::assume_attached());
        } else {
            let function: ffi::PyCFunction =
                std::mem::transmute(NOTHINGS[I].function.load(Ordering::Relaxed));
            result = function(slf, std::ptr::null_mut());
        }
        if result.is_null() {
            explain_vector(&NOTHINGS[I], args, count, names);
        }
        result
    }
}

unsafe extern "C" fn tuple<const I: usize>(slf: Object, args: Object, named: Object) -> Object {
    // SAFETY: as in `vector`.
    unsafe {
        let function: Tuple = std::mem::transmute(TUPLES[I].function.load(Ordering::Relaxed));
        let result = function(slf, args, named);
        if result.is_null() {
            explain_tuple(&TUPLES[I], args, named);
        }
        result
    }
}

/// The trampolines of rows of places.
macro_rules! rows {
    ($call:ident: $($row:literal)*) => {
        [$([
            $call::<{ $row * 16 }>,
            $call::<{ $row * 16 + 1 }>,
            $call::<{ $row * 16 + 2 }>,
            $call::<{ $row * 16 + 3 }>,
            $call::<{ $row * 16 + 4 }>,
            $call::<{ $row * 16 + 5 }>,
            $call::<{ $row * 16 + 6 }>,
            $call::<{ $row * 16 + 7 }>,
            $call::<{ $row * 16 + 8 }>,
            $call::<{ $row * 16 + 9 }>,
            $call::<{ $row * 16 + 10 }>,
            $call::<{ $row * 16 + 11 }>,
            $call::<{ $row * 16 + 12 }>,
            $call::<{ $row * 16 + 13 }>,
            $call::<{ $row * 16 + 14 }>,
            $call::<{ $row * 16 + 15 }>,
        ]),*]
    };
}

#[rustfmt::skip]
static VECTOR_CALLS: [[Vector; 16]; VECTOR_ROWS] = rows!(vector:
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
    24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47
);
static NOTHING_CALLS: [[Vector; 16]; NOTHING_ROWS] = rows!(nothing: 0 1 2 3 4 5);
static TUPLE_CALLS: [[Tuple; 16]; TUPLE_ROWS] = rows!(tuple: 0 1 2 3 4 5);

/// The arguments of a call that `names` names, if there are any.
///
/// # Safety
/// The tuple `names`, or nothing, and as many objects at `args`.
pub unsafe fn named(py: Python<'_>, args: *const Object, names: Object) -> PyResult<Bound<'_, PyDict>> {
    let named = PyDict::new(py);
    // SAFETY: by the caller.
    if let Some(names) = unsafe { Bound::from_borrowed_ptr_or_opt(py, names) } {
        for (i, name) in names.cast::<PyTuple>()?.iter().enumerate() {
            // SAFETY: as above.
            named.set_item(name, unsafe { Bound::from_borrowed_ptr(py, *args.add(i)) })?;
        }
    }
    Ok(named)
}

#[cold]
unsafe fn explain_vector(place: &Place, args: *const Object, count: ffi::Py_ssize_t, names: Object) {
    // SAFETY: the interpreter is attached while it calls functions; `count` positional arguments and those that
    // `names` names lie at `args`.
    unsafe {
        let py = Python::assume_attached();
        explain(py, place, || {
            let at = |i: usize| Bound::from_borrowed_ptr(py, *args.add(i));
            // FITS: the interpreter counts arguments.
            let count = count as usize;
            let named = named(py, args.add(count), names)?;
            Ok((PyTuple::new(py, (0..count).map(at))?.into_any(), named.into_any()))
        });
    }
}

#[cold]
unsafe fn explain_tuple(place: &Place, args: Object, named: Object) {
    // SAFETY: as in `explain_vector`; a tuple, and a dictionary or nothing.
    unsafe {
        let py = Python::assume_attached();
        explain(py, place, || {
            let named = Bound::from_borrowed_ptr_or_opt(py, named);
            Ok((Bound::from_borrowed_ptr(py, args), named.unwrap_or_else(|| PyDict::new(py).into_any())))
        });
    }
}

/// Adds the name and the signature to the error that is on its way to the caller.
fn explain<'py>(
    py: Python<'py>,
    place: &Place,
    arguments: impl FnOnce() -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
) {
    // SAFETY: the interpreter is attached.
    let kind = unsafe { ffi::PyErr_Occurred() };
    if kind != py.get_type::<PyTypeError>().as_ptr() && kind != py.get_type::<PyOverflowError>().as_ptr() {
        return;
    }
    let Some(error) = PyErr::take(py) else { return };
    // What Python code raised that the function called has a traceback, and stays what it is.
    if error.traceback(py).is_none() {
        // Without the text the error still is one.
        drop(arguments().and_then(|(args, named)| add_text(place.name(), &error, &args, &named)));
    }
    error.restore(py);
}

fn add_text<'py>(
    name: &str,
    error: &PyErr,
    args: &Bound<'py, PyAny>,
    named: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = args.py();
    py.import("mlx._signatures")?.call_method1("explain", (name, error.value(py), args, named))
}

/// The error of a constructor with the class's name and signature. Constructors have no trampolines.
pub fn explained(py: Python<'_>, name: &str, error: PyErr, args: &[&Bound<'_, PyAny>]) -> PyErr {
    let text = PyTuple::new(py, args)
        .and_then(|args| add_text(name, &error, args.as_any(), PyDict::new(py).as_any()));
    drop(text);
    error
}

/// What a function's definition says of it, with a trampoline of its own; `None` where all are taken.
fn definition(
    function: &Bound<'_, PyCFunction>,
    name: &str,
) -> PyResult<Option<&'static mut ffi::PyMethodDef>> {
    let text = |key: &str| -> PyResult<Option<String>> { function.getattr(key)?.extract() };
    let short = name.rsplit('.').next().unwrap_or(name);
    let mut doc = text("__doc__")?.unwrap_or_default();
    if let Some(signature) = text("__text_signature__")? {
        doc = format!("{short}{signature}\n--\n\n{doc}");
    }
    // SAFETY: the object is a builtin function, alive here.
    let (entry, flags) = unsafe {
        (ffi::PyCFunction_GetFunction(function.as_ptr()), ffi::PyCFunction_GetFlags(function.as_ptr()))
    };
    let Some(entry) = entry else { return Ok(None) };
    const VECTOR: c_int = ffi::METH_FASTCALL | ffi::METH_KEYWORDS;
    const TUPLE: c_int = ffi::METH_VARARGS | ffi::METH_KEYWORDS;
    let table = [VECTOR, ffi::METH_NOARGS, TUPLE].iter().position(|&f| f == flags);
    let Some(table) = table else { return Ok(None) };
    let i = USED[table].fetch_add(1, Ordering::Relaxed);
    let (places, call) = match table {
        0 => (&VECTORS[..], VECTOR_CALLS.as_flattened().get(i).map(|&f| vector_pointer(f))),
        1 => (&NOTHINGS[..], NOTHING_CALLS.as_flattened().get(i).map(|&f| vector_pointer(f))),
        _ => {
            let pointer = |&f| ffi::PyMethodDefPointer { PyCFunctionWithKeywords: f };
            (&TUPLES[..], TUPLE_CALLS.as_flattened().get(i).map(pointer))
        }
    };
    let (Some(place), Some(ml_meth)) = (places.get(i), call) else { return Ok(None) };
    place.function.store(entry as *mut (), Ordering::Relaxed);
    let _ = place.name.set(name.into());
    let ml_flags = if table == 2 { TUPLE } else { VECTOR };
    // The interpreter keeps the definition as long as it lives.
    let (ml_name, ml_doc) = (CString::new(short)?.into_raw(), CString::new(doc)?.into_raw());
    Ok(Some(Box::leak(Box::new(ffi::PyMethodDef { ml_name, ml_meth, ml_flags, ml_doc }))))
}

fn vector_pointer(f: Vector) -> ffi::PyMethodDefPointer {
    ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: f }
}

/// Puts trampolines before the functions of modules, each with the prefix of its names. A function with several names
/// stays one; it is called what it says itself, or else what it is called first.
pub fn of_modules(modules: &[(Bound<'_, PyModule>, String)]) -> PyResult<()> {
    let mut done: Vec<(Bound<'_, PyCFunction>, Bound<'_, PyAny>)> = Vec::new();
    for (m, prefix) in modules {
        for (key, value) in m.dict().iter() {
            let (key, Ok(function)) = (key.cast_into::<PyString>()?, value.cast_into::<PyCFunction>()) else {
                continue;
            };
            if let Some((_, new)) = done.iter().find(|(old, _)| old.is(&function)) {
                m.setattr(&key, new)?;
                continue;
            }
            let own = function.getattr("__name__")?.cast_into::<PyString>()?;
            let known = m.getattr_opt(&own)?.is_some_and(|f| f.is(&function));
            let name = format!("{prefix}{}", if known { &own } else { &key });
            let Some(definition) = definition(&function, &name)? else { continue };
            let module = function.getattr("__module__")?;
            // SAFETY: the definition lives for ever; the module is what the function had as `self`.
            let new = unsafe {
                let slf = ffi::PyCFunction_GetSelf(function.as_ptr());
                let new = ffi::PyCFunction_NewEx(definition, slf, module.as_ptr());
                Bound::from_owned_ptr_or_err(m.py(), new)?
            };
            m.setattr(&key, &new)?;
            done.push((function, new));
        }
    }
    Ok(())
}

/// Puts trampolines before the methods of a class, of which `instance` is one.
pub fn of_class(instance: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = instance.py();
    let class = instance.get_type();
    let prefix = class.name()?;
    let names: Vec<String> = class
        .getattr("__dict__")?
        .call_method0("keys")?
        .try_iter()?
        .map(|k| k?.extract())
        .collect::<PyResult<_>>()?;
    for key in names.iter().filter(|k| !k.starts_with("__") || k.as_str() == "__dlpack__") {
        let Ok(function) = instance.getattr(key.as_str()).and_then(|f| Ok(f.cast_into::<PyCFunction>()?))
        else {
            continue;
        };
        let Some(definition) = definition(&function, &format!("{prefix}.{key}"))? else { continue };
        // SAFETY: the definition lives for ever, and its function takes instances of this class.
        let method = unsafe {
            let class: &Bound<'_, PyType> = &class;
            Bound::from_owned_ptr_or_err(py, ffi::PyDescr_NewMethod(class.as_type_ptr(), definition))?
        };
        class.setattr(key.as_str(), method)?;
    }
    Ok(())
}
