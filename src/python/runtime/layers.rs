//! Layers that a model calls for every token: what their `__call__` does in the common case, without a frame of Python and its
//! lookups. Whatever is not that case (a subclass, an array-like, a missing item, an error) goes to the function of
//! Python, which says what the layer does and stays the only place that does.

use std::ffi::CString;
use std::sync::OnceLock;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyString, PyTuple, PyType};

use super::device::current;
use crate::core::{Array, Result as Made, panics};
use crate::ops;
use crate::ops::fast::{self, Offset, Rotation};
use crate::ops::quantized::quantized_matmul::Quantized;
use crate::python::array::PyArray;
use crate::python::array::arguments::exact_int;
use crate::python::docs::signatures::{Object, Vector, named};

/// A class whose calls come here.
struct Layer {
    class: Py<PyType>,
    python: Py<PyAny>,
}

/// What a layer computes of its argument and of a second one, if it has that; `None` where it is not the common case.
type Quick = for<'py> fn(&Items<'py>, Array, Option<Borrowed<'_, 'py, PyAny>>) -> Option<Made<Array>>;

/// The layers, by name, what each computes, and the name of its second argument.
const KINDS: [(&str, Quick, Option<&str>); 4] = [
    ("quantized_linear", quantized_linear, None),
    ("linear", linear, None),
    ("rms_norm", rms_norm, None),
    ("rope", rope, Some("offset")),
];

static LAYERS: [OnceLock<Layer>; KINDS.len()] = [const { OnceLock::new() }; KINDS.len()];

static CALLS: [Vector; KINDS.len()] = [call::<0>, call::<1>, call::<2>, call::<3>];

/// A layer: its items are those of the dict that it is, its options its attributes.
struct Items<'py> {
    layer: Bound<'py, PyDict>,
    options: Bound<'py, PyDict>,
}

impl<'py> Items<'py> {
    fn of(layer: &Bound<'py, PyAny>) -> Option<Items<'py>> {
        // SAFETY: an object that lives.
        let options = unsafe {
            let dict = ffi::PyObject_GenericGetDict(layer.as_ptr(), std::ptr::null_mut());
            Bound::from_owned_ptr_or_err(layer.py(), dict).ok()?.cast_into().ok()?
        };
        Some(Items { layer: layer.cast::<PyDict>().ok()?.clone(), options })
    }

    /// A parameter that has to be there.
    fn array(&self, name: &Bound<'py, PyString>) -> Option<Array> {
        Some(self.layer.get_item(name).ok()??.cast::<PyArray>().ok()?.get().array())
    }

    /// A parameter that there may be.
    fn if_any(&self, name: &Bound<'py, PyString>) -> Option<Option<Array>> {
        match self.layer.get_item(name).ok()? {
            Some(item) => Some(Some(item.cast::<PyArray>().ok()?.get().array())),
            None => Some(None),
        }
    }

    fn option(&self, name: &Bound<'py, PyString>) -> Option<Bound<'py, PyAny>> {
        self.options.get_item(name).ok()?
    }

    fn integer(&self, name: &Bound<'py, PyString>) -> Option<i64> {
        exact_int(self.option(name)?.as_borrowed())
    }

    fn number(&self, name: &Bound<'py, PyString>) -> Option<f64> {
        let option = self.option(name)?;
        match option.cast_exact::<PyFloat>() {
            Ok(number) => Some(number.value()),
            Err(_) => exact_int(option.as_borrowed()).map(|v| v as f64),
        }
    }
}

fn quantized_linear(layer: &Items<'_>, x: Array, _: Option<Borrowed<'_, '_, PyAny>>) -> Option<Made<Array>> {
    let py = layer.layer.py();
    let (w, scales) = (layer.array(intern!(py, "weight"))?, layer.array(intern!(py, "scales"))?);
    let (biases, bias) = (layer.if_any(intern!(py, "biases"))?, layer.if_any(intern!(py, "bias"))?);
    let (group_size, bits) = (layer.integer(intern!(py, "group_size"))?, layer.integer(intern!(py, "bits"))?);
    let mode = layer.option(intern!(py, "mode"))?.cast_into::<PyString>().ok()?;
    let q = Quantized {
        w: &w,
        scales: &scales,
        biases: biases.as_ref(),
        transpose: true,
        group_size: Some(group_size),
        bits: Some(bits),
        mode: mode.to_str().ok()?,
    };
    let stream = current();
    let y = ops::quantized_matmul(&x, &q, stream);
    Some(match bias {
        Some(bias) => y.and_then(|y| ops::add(&y, &bias, stream)),
        None => y,
    })
}

fn linear(layer: &Items<'_>, x: Array, _: Option<Borrowed<'_, '_, PyAny>>) -> Option<Made<Array>> {
    let py = layer.layer.py();
    let (w, bias) = (layer.array(intern!(py, "weight"))?, layer.if_any(intern!(py, "bias"))?);
    let stream = current();
    Some(ops::transpose(&w, None, stream).and_then(|w| match bias {
        Some(bias) => ops::addmm(&bias, &x, &w, 1.0, 1.0, stream),
        None => ops::matmul(&x, &w, stream),
    }))
}

fn rms_norm(layer: &Items<'_>, x: Array, _: Option<Borrowed<'_, '_, PyAny>>) -> Option<Made<Array>> {
    let py = layer.layer.py();
    let (w, eps) = (layer.array(intern!(py, "weight"))?, layer.number(intern!(py, "eps"))?);
    Some(fast::rms_norm(&x, Some(&w), eps as f32, current()))
}

fn rope(layer: &Items<'_>, x: Array, offset: Option<Borrowed<'_, '_, PyAny>>) -> Option<Made<Array>> {
    let py = layer.layer.py();
    let dims = layer.integer(intern!(py, "dims"))?;
    let traditional = layer.option(intern!(py, "traditional"))?.cast_exact::<PyBool>().ok()?.is_true();
    let (base, scale) = (layer.number(intern!(py, "base"))?, layer.number(intern!(py, "scale"))?);
    let offset = match offset {
        None => Offset::Fixed(0),
        Some(o) => match exact_int(o) {
            Some(v) => Offset::Fixed(v.try_into().ok()?),
            None => Offset::Each(o.cast::<PyArray>().ok()?.get().array()),
        },
    };
    let how = Rotation { dims, traditional, base: Some(base as f32), scale: scale as f32 };
    Some(fast::rope(&x, how, offset, None, current()))
}

/// What a layer returns in the common case.
fn quick(py: Python<'_>, kind: usize, slf: Object, args: &[Object], names: Object) -> Option<Py<PyArray>> {
    let (_, compute, second) = KINDS[kind];
    // SAFETY: the interpreter is attached, and the arguments of a call live as long as it.
    let (slf, of) =
        unsafe { (Bound::from_borrowed_ptr(py, slf), |&a: &Object| Borrowed::<PyAny>::from_ptr(py, a)) };
    let class = LAYERS[kind].get()?.class.bind(py);
    if !slf.get_type().is(class) {
        return None;
    }
    if !names.is_null() {
        // SAFETY: the names of a call's arguments are a tuple.
        let names = unsafe { Bound::from_borrowed_ptr(py, names) }.cast_into::<PyTuple>().ok()?;
        let name = names.get_item(0).ok()?.cast_into::<PyString>().ok()?;
        if names.len() != 1 || args.len() != 2 || Some(name.to_str().ok()?) != second {
            return None;
        }
    }
    if args.is_empty() || args.len() > 1 + usize::from(second.is_some()) {
        return None;
    }
    let x = of(&args[0]).cast::<PyArray>().ok()?.get().array();
    let y = panics::caught(KINDS[kind].0, || {
        match Items::of(&slf).and_then(|items| compute(&items, x, args.get(1).map(of))) {
            Some(y) => y.map(Some),
            None => Ok(None),
        }
    });
    Py::new(py, PyArray::new(y.ok()??)).ok()
}

/// The method of a class.
unsafe extern "C" fn call<const KIND: usize>(
    slf: Object,
    args: *const Object,
    count: ffi::Py_ssize_t,
    names: Object,
) -> Object {
    // SAFETY: the interpreter is attached while it calls functions; `count` positional arguments and those that
    // `names` names lie at `args`.
    unsafe {
        let py = Python::assume_attached();
        let named = if names.is_null() { 0 } else { ffi::PyTuple_Size(names) };
        // FITS: the interpreter counts arguments.
        let all = match (count + named) as usize {
            0 => &[][..],
            n => std::slice::from_raw_parts(args, n),
        };
        if let Some(y) = quick(py, KIND, slf, all, names) {
            return y.into_ptr();
        }
        match slow(py, KIND, slf, all, count as usize, names) {
            Ok(y) => y.into_ptr(),
            Err(e) => {
                e.restore(py);
                std::ptr::null_mut()
            }
        }
    }
}

/// Calls the function of Python.
///
/// # Safety
/// As for [`call`].
unsafe fn slow(
    py: Python<'_>,
    kind: usize,
    slf: Object,
    all: &[Object],
    count: usize,
    names: Object,
) -> PyResult<Py<PyAny>> {
    // INVARIANT: the method was made after the layer was noted.
    let python = LAYERS[kind].get().expect("a layer").python.bind(py);
    // SAFETY: by the caller.
    let (of, named) = unsafe {
        (|a: Object| Bound::<PyAny>::from_borrowed_ptr(py, a), named(py, all[count..].as_ptr(), names)?)
    };
    let given: Vec<_> = std::iter::once(slf).chain(all[..count].iter().copied()).map(of).collect();
    Ok(python.call(PyTuple::new(py, given)?, Some(&named))?.unbind())
}

/// Puts a method in the place of a class's `__call__`, which it calls where it has to.
#[pyfunction]
fn quicken(class: &Bound<'_, PyType>, kind: &str) -> PyResult<()> {
    let py = class.py();
    let at = KINDS.iter().position(|k| k.0 == kind);
    let at = at.ok_or_else(|| PyValueError::new_err(format!("[quicken] no kind of layer: {kind}.")))?;
    let python = class.getattr(intern!(py, "__call__"))?;
    let doc: Option<String> = python.getattr(intern!(py, "__doc__"))?.extract()?;
    let signature = match KINDS[at].2 {
        Some(second) => format!("__call__($self, x, {second}=0)"),
        None => "__call__($self, x)".into(),
    };
    let doc = CString::new(format!("{signature}\n--\n\n{}", doc.unwrap_or_default()))?;
    if LAYERS[at].set(Layer { class: class.clone().unbind(), python: python.unbind() }).is_err() {
        return Ok(()); // a module that was loaded once more keeps the functions of its classes
    }
    // The interpreter keeps the definition as long as it lives.
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: c"__call__".as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: CALLS[at] },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: doc.into_raw(),
    }));
    // SAFETY: the definition lives for ever, and its function takes instances of any class.
    let method =
        unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyDescr_NewMethod(class.as_type_ptr(), definition))? };
    class.setattr(intern!(py, "__call__"), method)
}

/// Adds what `mlx.nn` needs.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let t = crate::python::submodule(m, "_layers", "Calls of layers without a frame of Python.")?;
    t.add_function(wrap_pyfunction!(quicken, &t)?)
}
