//! Trees of Python containers (dict, list, tuple) with arrays as leaves: flattened for the transforms, which
//! know only lists of arrays, and rebuilt around their results. Copies are plain dicts and lists; tuples keep their
//! type. `grad` alone works inside the caller's own containers ([`Swapped`]).

use std::collections::{HashMap, HashSet};

use pyo3::exceptions::{PyRecursionError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyTuple};

use crate::core::Array;
use crate::python::array::PyArray;

/// Deepest nesting: a container may hold itself.
const DEEPEST: usize = 500;

/// What a node of a tree is.
pub enum Kind<'a, 'py> {
    Dict(&'a Bound<'py, PyDict>),
    List(&'a Bound<'py, PyList>),
    Tuple(&'a Bound<'py, PyTuple>),
    Leaf,
}

impl<'a, 'py> Kind<'a, 'py> {
    pub fn of(x: &'a Bound<'py, PyAny>) -> Self {
        if let Ok(d) = x.cast::<PyDict>() {
            Kind::Dict(d)
        } else if let Ok(l) = x.cast::<PyList>() {
            Kind::List(l)
        } else if let Ok(t) = x.cast::<PyTuple>() {
            Kind::Tuple(t)
        } else {
            Kind::Leaf
        }
    }
}

type LeafFn<'a, 'py> = &'a mut dyn FnMut(&Bound<'py, PyAny>) -> PyResult<()>;
type MapFn<'a, 'py> = &'a mut dyn FnMut(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>;

/// The depth below a container.
pub fn below(depth: usize) -> PyResult<usize> {
    if depth >= DEEPEST {
        let text = format!("[tree] Containers are nested more than {DEEPEST} deep, or hold themselves.");
        return Err(PyRecursionError::new_err(text));
    }
    Ok(depth + 1)
}

/// Calls `f` with each leaf in order.
fn visit<'py>(tree: &Bound<'py, PyAny>, depth: usize, f: LeafFn<'_, 'py>) -> PyResult<()> {
    if tree.is_exact_instance_of::<PyArray>() {
        return f(tree);
    }
    match Kind::of(tree) {
        Kind::Dict(d) => {
            let depth = below(depth)?;
            d.iter().try_for_each(|(_, v)| visit(&v, depth, f))
        }
        Kind::List(l) => {
            let depth = below(depth)?;
            l.iter().try_for_each(|v| visit(&v, depth, f))
        }
        Kind::Tuple(t) => {
            let depth = below(depth)?;
            t.iter().try_for_each(|v| visit(&v, depth, f))
        }
        Kind::Leaf => f(tree),
    }
}

/// Appends the arrays of a tree in order. Other leaves are an error when `strict`, else passed over.
pub fn flatten(tree: &Bound<'_, PyAny>, strict: bool, out: &mut Vec<Array>) -> PyResult<()> {
    visit(tree, 0, &mut |leaf| {
        match leaf.cast::<PyArray>() {
            Ok(a) => out.push(a.get().array()),
            Err(_) if strict => {
                return Err(PyValueError::new_err("[tree_flatten] The argument should contain only arrays"));
            }
            Err(_) => {}
        }
        Ok(())
    })
}

/// A tuple of the type of `like`: named tuples take their items one by one, others as a list.
fn tuple_like<'py>(like: &Bound<'py, PyTuple>, items: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    let py = like.py();
    if like.is_exact_instance_of::<PyTuple>() {
        return Ok(PyTuple::new(py, items)?.into_any());
    }
    match like.hasattr("_fields")? {
        true => like.get_type().call1(PyTuple::new(py, items)?),
        false => like.get_type().call1((PyList::new(py, items)?,)),
    }
}

fn map_below<'py>(tree: &Bound<'py, PyAny>, depth: usize, f: MapFn<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
    let py = tree.py();
    match Kind::of(tree) {
        Kind::Dict(d) => {
            let depth = below(depth)?;
            let new = PyDict::new(py);
            for (k, v) in d.iter() {
                new.set_item(k, map_below(&v, depth, f)?)?;
            }
            Ok(new.into_any())
        }
        Kind::List(l) => {
            let depth = below(depth)?;
            let items = l.iter().map(|v| map_below(&v, depth, f)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, items)?.into_any())
        }
        Kind::Tuple(t) => {
            let depth = below(depth)?;
            tuple_like(t, t.iter().map(|v| map_below(&v, depth, f)).collect::<PyResult<Vec<_>>>()?)
        }
        Kind::Leaf => f(tree),
    }
}

/// A tree of the same form with what `f` makes of each leaf.
pub fn map<'py>(tree: &Bound<'py, PyAny>, f: MapFn<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
    map_below(tree, 0, f)
}

/// A tree of the same form whose arrays come from `arrays`, in the order of [`flatten`]; other leaves are kept.
pub fn rebuild<'py>(
    tree: &Bound<'py, PyAny>,
    arrays: &mut impl Iterator<Item = Array>,
) -> PyResult<Bound<'py, PyAny>> {
    map(tree, &mut |leaf| {
        if leaf.is_instance_of::<PyArray>()
            && let Some(a) = arrays.next()
        {
            return Ok(Bound::new(leaf.py(), PyArray::new(a))?.into_any());
        }
        Ok(leaf.clone())
    })
}

/// A tree of the same form that holds none of its arrays: each is replaced by one without values. For what outlives a
/// call and is [`rebuild`]t: memory is not kept for the sake of a form.
pub fn hollow<'py>(tree: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let nothing = Bound::new(tree.py(), PyArray::new(crate::ops::scalar_bool(false)?))?.into_any();
    map(tree, &mut |leaf| Ok(if leaf.is_instance_of::<PyArray>() { &nothing } else { leaf }.clone()))
}

/// Puts arrays into the places of a tree's arrays, in the order of [`flatten`]; the containers stay what they are.
pub fn fill(tree: &Bound<'_, PyAny>, arrays: &mut impl Iterator<Item = Array>) -> PyResult<()> {
    fill_below(tree, 0, arrays)
}

fn fill_below(
    tree: &Bound<'_, PyAny>,
    depth: usize,
    arrays: &mut impl Iterator<Item = Array>,
) -> PyResult<()> {
    let py = tree.py();
    let depth = below(depth)?;
    let place = |v: &Bound<'_, PyAny>, arrays: &mut dyn Iterator<Item = Array>| {
        if !v.is_instance_of::<PyArray>() {
            return Ok::<_, PyErr>(None);
        }
        arrays.next().map(|a| Bound::new(py, PyArray::new(a))).transpose()
    };
    match Kind::of(tree) {
        Kind::Dict(d) => {
            for (k, v) in d.iter().collect::<Vec<_>>() {
                match place(&v, arrays)? {
                    Some(a) => d.set_item(k, a)?,
                    None => fill_below(&v, depth, arrays)?,
                }
            }
        }
        Kind::List(l) => {
            for i in 0..l.len() {
                let v = l.get_item(i)?;
                match place(&v, arrays)? {
                    Some(a) => l.set_item(i, a)?,
                    None => fill_below(&v, depth, arrays)?,
                }
            }
        }
        // A tuple keeps its arrays; their replacements are passed over.
        Kind::Tuple(t) => {
            for v in t {
                if place(&v, arrays)?.is_none() {
                    fill_below(&v, depth, arrays)?;
                }
            }
        }
        Kind::Leaf => {}
    }
    Ok(())
}

/// A caller's trees while a function works on them: other arrays stand in the places of their arrays. Dicts and lists
/// are the caller's own, tuples are made anew. [`Swapped::undo`] puts back what the function left where it was.
#[derive(Default)]
pub struct Swapped<'py> {
    /// What stands in for what, by address; both are kept alive by it.
    originals: HashMap<usize, (Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    /// Dicts and lists that were changed.
    touched: Vec<Bound<'py, PyAny>>,
}

impl<'py> Swapped<'py> {
    /// The tree with the next of `arrays` for each of its arrays.
    pub fn put(
        &mut self,
        tree: &Bound<'py, PyAny>,
        arrays: &mut dyn Iterator<Item = Array>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.put_below(tree, 0, arrays)
    }

    fn put_below(
        &mut self,
        tree: &Bound<'py, PyAny>,
        depth: usize,
        arrays: &mut dyn Iterator<Item = Array>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let depth = below(depth)?;
        let new = match Kind::of(tree) {
            Kind::Dict(d) => {
                self.touched.push(tree.clone());
                for (k, v) in d.iter().collect::<Vec<_>>() {
                    let new = self.put_below(&v, depth, arrays)?;
                    if !new.is(&v) {
                        d.set_item(k, new)?;
                    }
                }
                return Ok(tree.clone());
            }
            Kind::List(l) => {
                self.touched.push(tree.clone());
                for (i, v) in l.iter().collect::<Vec<_>>().into_iter().enumerate() {
                    let new = self.put_below(&v, depth, arrays)?;
                    if !new.is(&v) {
                        l.set_item(i, new)?;
                    }
                }
                return Ok(tree.clone());
            }
            Kind::Tuple(t) => {
                let new = t.iter().map(|v| self.put_below(&v, depth, arrays));
                tuple_like(t, new.collect::<PyResult<Vec<_>>>()?)?
            }
            Kind::Leaf => match arrays.next() {
                Some(a) => Bound::new(tree.py(), PyArray::new(a))?.into_any(),
                None => return Ok(tree.clone()),
            },
        };
        // A container that is met again holds stand-ins by then.
        let original = self.originals.get(&address(tree)).map_or_else(|| tree.clone(), |(_, o)| o.clone());
        self.originals.insert(address(&new), (new.clone(), original));
        Ok(new)
    }

    /// Puts the originals back wherever their stand-ins are; what the function wrote stays.
    pub fn undo(self) -> PyResult<()> {
        let mut seen = HashSet::new();
        let mut left = self.touched;
        while let Some(x) = left.pop() {
            if !seen.insert(address(&x)) {
                continue;
            }
            let original = |v: &Bound<'py, PyAny>| self.originals.get(&address(v)).map(|(_, o)| o.clone());
            match Kind::of(&x) {
                Kind::Dict(d) => {
                    for (k, v) in d.iter().collect::<Vec<_>>() {
                        match original(&v) {
                            Some(o) => d.set_item(k, o)?,
                            None => left.push(v),
                        }
                    }
                }
                Kind::List(l) => {
                    for (i, v) in l.iter().collect::<Vec<_>>().into_iter().enumerate() {
                        match original(&v) {
                            Some(o) => l.set_item(i, o)?,
                            None => left.push(v),
                        }
                    }
                }
                Kind::Tuple(t) => left.extend(t.iter()),
                Kind::Leaf => {}
            }
        }
        Ok(())
    }
}

fn address(x: &Bound<'_, PyAny>) -> usize {
    x.as_ptr() as usize
}

/// One axis for every array of a tree, from a prefix of that tree: an integer or `None` stands for all arrays
/// below it. A list is a prefix of lists only, a tuple of tuples, a dict of dicts with the same keys. Around the
/// axis of a single array there may be a tuple.
pub fn axes_of(
    op: &str,
    tree: &Bound<'_, PyAny>,
    axes: &Bound<'_, PyAny>,
    out: &mut Vec<Option<i64>>,
) -> PyResult<()> {
    match axes.cast::<PyTuple>() {
        Ok(t) if t.len() == 1 && tree.is_instance_of::<PyArray>() => {
            prefix(op, tree, &t.get_item(0)?, 0, out)
        }
        _ => prefix(op, tree, axes, 0, out),
    }
}

fn prefix(
    op: &str,
    tree: &Bound<'_, PyAny>,
    axes: &Bound<'_, PyAny>,
    depth: usize,
    out: &mut Vec<Option<i64>>,
) -> PyResult<()> {
    let depth = below(depth)?;
    let mismatch =
        || PyValueError::new_err("[tree_map] Additional input tree is not a valid prefix of the first tree.");
    match (Kind::of(tree), Kind::of(axes)) {
        (Kind::Leaf, _) => {
            let text = || PyValueError::new_err(format!("[{op}] axis must be int or None."));
            let axis = match axes.is_none() {
                true => None,
                false => Some(axes.cast::<PyInt>().map_err(|_| text())?.extract::<i64>()?),
            };
            out.push(axis);
            Ok(())
        }
        (Kind::Dict(t), Kind::Dict(a)) if t.len() == a.len() => {
            t.iter().try_for_each(|(k, v)| prefix(op, &v, &a.get_item(&k)?.ok_or_else(mismatch)?, depth, out))
        }
        (Kind::List(t), Kind::List(a)) if t.len() == a.len() => {
            t.iter().zip(a).try_for_each(|(t, a)| prefix(op, &t, &a, depth, out))
        }
        (Kind::Tuple(t), Kind::Tuple(a)) if t.len() == a.len() => {
            t.iter().zip(a).try_for_each(|(t, a)| prefix(op, &t, &a, depth, out))
        }
        (_, Kind::Leaf) => visit(tree, 0, &mut |leaf| prefix(op, leaf, axes, depth, out)),
        _ => Err(mismatch()),
    }
}
