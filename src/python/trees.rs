//! Trees of Python containers (dict, list, tuple) with arrays as leaves: flattened for the transforms, which
//! know only lists of arrays, and rebuilt around their results.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

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
