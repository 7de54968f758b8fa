//! Trees of Python containers (dict, list, tuple) with arrays as leaves: flattened for the transforms, which
//! know only lists of arrays, and rebuilt around their results.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyTuple};

use super::array::PyArray;
use crate::core::Array;

/// Appends the arrays of a tree in order. Other leaves are an error when `strict`, else passed over.
pub fn flatten(tree: &Bound<'_, PyAny>, strict: bool, out: &mut Vec<Array>) -> PyResult<()> {
    if let Ok(a) = tree.cast::<PyArray>() {
        out.push(a.get().array());
    } else if let Ok(d) = tree.cast::<PyDict>() {
        for (_, v) in d.iter() {
            flatten(&v, strict, out)?;
        }
    } else if let Ok(l) = tree.cast::<PyList>() {
        for v in l {
            flatten(&v, strict, out)?;
        }
    } else if let Ok(t) = tree.cast::<PyTuple>() {
        for v in t {
            flatten(&v, strict, out)?;
        }
    } else if strict {
        return Err(PyValueError::new_err("[tree_flatten] The argument should contain only arrays"));
    }
    Ok(())
}

/// A tree of the same form whose arrays come from `arrays`, in the order of [`flatten`]; other leaves are kept.
pub fn rebuild<'py>(
    tree: &Bound<'py, PyAny>,
    arrays: &mut impl Iterator<Item = Array>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = tree.py();
    if tree.is_instance_of::<PyArray>() {
        return match arrays.next() {
            Some(a) => Ok(Bound::new(py, PyArray::new(a))?.into_any()),
            None => Ok(tree.clone()),
        };
    }
    if let Ok(d) = tree.cast::<PyDict>() {
        let new = PyDict::new(py);
        for (k, v) in d.iter() {
            new.set_item(k, rebuild(&v, arrays)?)?;
        }
        return Ok(new.into_any());
    }
    if let Ok(l) = tree.cast::<PyList>() {
        let new = PyList::empty(py);
        for v in l {
            new.append(rebuild(&v, arrays)?)?;
        }
        return Ok(new.into_any());
    }
    if let Ok(t) = tree.cast::<PyTuple>() {
        let items = t.iter().map(|v| rebuild(&v, arrays)).collect::<PyResult<Vec<_>>>()?;
        // Named tuples are rebuilt as what they are.
        if t.hasattr("_fields")? {
            return t.get_type().call1(PyTuple::new(py, items)?);
        }
        return Ok(PyTuple::new(py, items)?.into_any());
    }
    Ok(tree.clone())
}

/// Puts arrays into the places of a tree's arrays, in the order of [`flatten`]; the containers stay what they are.
pub fn fill(tree: &Bound<'_, PyAny>, arrays: &mut impl Iterator<Item = Array>) -> PyResult<()> {
    let py = tree.py();
    let place = |v: &Bound<'_, PyAny>, arrays: &mut dyn Iterator<Item = Array>| {
        if !v.is_instance_of::<PyArray>() {
            return Ok::<_, PyErr>(None);
        }
        arrays.next().map(|a| Bound::new(py, PyArray::new(a))).transpose()
    };
    if let Ok(d) = tree.cast::<PyDict>() {
        let items: Vec<_> = d.iter().collect();
        for (k, v) in items {
            match place(&v, arrays)? {
                Some(a) => d.set_item(k, a)?,
                None => fill(&v, arrays)?,
            }
        }
    } else if let Ok(l) = tree.cast::<PyList>() {
        for i in 0..l.len() {
            let v = l.get_item(i)?;
            match place(&v, arrays)? {
                Some(a) => l.set_item(i, a)?,
                None => fill(&v, arrays)?,
            }
        }
    } else if let Ok(t) = tree.cast::<PyTuple>() {
        // A tuple keeps its arrays; their replacements are passed over.
        for v in t {
            if place(&v, arrays)?.is_none() {
                fill(&v, arrays)?;
            }
        }
    }
    Ok(())
}

/// One axis for every array of a tree, from a prefix of that tree: an integer or `None` stands for all arrays
/// below it.
pub fn axes_of(
    op: &str,
    tree: &Bound<'_, PyAny>,
    axes: &Bound<'_, PyAny>,
    out: &mut Vec<Option<i64>>,
) -> PyResult<()> {
    let items = |x: &Bound<'_, PyAny>| -> PyResult<Option<Vec<Py<PyAny>>>> {
        if x.is_instance_of::<PyList>() || x.is_instance_of::<PyTuple>() {
            return Ok(Some(x.try_iter()?.map(|v| Ok(v?.unbind())).collect::<PyResult<_>>()?));
        }
        Ok(None)
    };
    let single = axes.is_none() || axes.is_instance_of::<PyInt>();
    if single {
        let axis = if axes.is_none() { None } else { Some(axes.extract::<i64>()?) };
        let mut below = Vec::new();
        flatten(tree, true, &mut below)?;
        out.extend(std::iter::repeat_n(axis, below.len()));
        return Ok(());
    }
    let mismatch =
        || PyValueError::new_err("[tree_map] Additional input tree is not a valid prefix of the first tree.");
    let py = tree.py();
    if let (Ok(t), Ok(a)) = (tree.cast::<PyDict>(), axes.cast::<PyDict>()) {
        for (k, v) in t.iter() {
            let axis = a.get_item(&k)?.ok_or_else(mismatch)?;
            axes_of(op, &v, &axis, out)?;
        }
        return Ok(());
    }
    match (items(tree)?, items(axes)?) {
        (Some(t), Some(a)) if t.len() == a.len() => {
            t.iter().zip(&a).try_for_each(|(t, a)| axes_of(op, t.bind(py), a.bind(py), out))
        }
        (Some(_), Some(_)) => Err(mismatch()),
        _ if tree.is_instance_of::<PyArray>() => {
            Err(PyValueError::new_err(format!("[{op}] axis must be int or None.")))
        }
        _ if axes.is_instance_of::<PyDict>() || items(axes)?.is_some() => Err(mismatch()),
        _ => Err(PyValueError::new_err(format!("[{op}] axis must be int or None."))),
    }
}
