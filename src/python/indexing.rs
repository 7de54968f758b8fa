//! Basic indexing: integers, slices of any step, `...` and `None`, plus one array of integers on one axis
//! when reading. Everything is turned into one slice, one take and views.

use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyList, PySlice, PyTuple};
use smallvec::SmallVec;

use super::array::PyArray;
use super::array_ops::{ADD, Binary, DIV, MAXIMUM, MINIMUM, MUL, SUB};
use super::convert::{make, operand, to_array};
use super::device::current;
use crate::core::layout::show;
use crate::core::{Array, Shape, Stream};
use crate::ops;

enum Item<'py> {
    Int(i64),
    Slice(Bound<'py, PySlice>),
    New,
    Rest,
    Take(Array),
}

/// What an index selects: a strided box of the array, and how its axes become those of the result.
struct Plan {
    start: Shape,
    stop: Shape,
    step: Shape,
    /// Length of the box along each axis of the array.
    shape: Shape,
    /// Axes of the array that integers removed.
    removed: SmallVec<[i64; 6]>,
    /// Axes of the result that `None` added.
    added: SmallVec<[i64; 6]>,
    /// An integer array and the axis (of the box without removed axes) that it selects on.
    take: Option<(Array, usize)>,
    whole: bool,
}

fn cannot() -> PyErr {
    PyValueError::new_err("[index] Cannot index mlx array using the given type.")
}

fn item<'py>(obj: &Bound<'py, PyAny>) -> PyResult<Item<'py>> {
    if obj.is_none() {
        return Ok(Item::New);
    }
    if obj.is_instance_of::<PyBool>() {
        return Err(cannot());
    }
    if let Ok(s) = obj.cast::<PySlice>() {
        return Ok(Item::Slice(s.clone()));
    }
    if obj.is_instance_of::<PyEllipsis>() {
        return Ok(Item::Rest);
    }
    let a = if let Ok(a) = obj.cast::<PyArray>() {
        a.get().array()
    } else if obj.is_instance_of::<PyList>() {
        make(obj, None)?
    } else if let Ok(i) = obj.extract::<i64>() {
        return Ok(Item::Int(i));
    } else {
        return Err(cannot());
    };
    if a.dtype() == crate::core::Dtype::Bool {
        return Err(PyValueError::new_err("[index] boolean indices are not yet supported"));
    }
    if !a.dtype().is_integer() {
        return Err(PyValueError::new_err(format!(
            "[index] Got indices with invalid dtype {}. Indices must be integral.",
            a.dtype()
        )));
    }
    Ok(Item::Take(a))
}

fn whole_number(obj: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if obj.is_none() {
        return Ok(None);
    }
    if obj.is_instance_of::<PyArray>() {
        return Err(PyValueError::new_err("[index] Slice indices must be integers or None."));
    }
    match obj.call_method0(intern!(obj.py(), "__index__")) {
        Ok(v) => Ok(Some(v.extract::<i64>().or_else(|_| {
            // Beyond 64 bits a bound only says on which side it lies.
            PyResult::Ok(if v.lt(0)? { i64::MIN } else { i64::MAX })
        })?)),
        Err(_) => Err(PyValueError::new_err("[index] Slice indices must be integers or None.")),
    }
}

/// Start, stop, step and length of a slice over an axis of `n` elements, as Python counts them.
fn bounds(s: &Bound<'_, PySlice>, n: i64) -> PyResult<(i64, i64, i64, i64)> {
    let py = s.py();
    let part = |name| whole_number(&s.getattr(name)?);
    let step = part(intern!(py, "step"))?.unwrap_or(1);
    if step == 0 {
        return Err(PyValueError::new_err("[index] Slice step cannot be zero."));
    }
    let step = step.max(-i64::MAX);
    let (lo, hi) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let clamp = |v: Option<i64>, default: i64| match v {
        None => default,
        Some(v) if v < 0 => v.saturating_add(n).max(lo),
        Some(v) => v.min(hi),
    };
    let start = clamp(part(intern!(py, "start"))?, if step > 0 { lo } else { hi });
    let stop = clamp(part(intern!(py, "stop"))?, if step > 0 { hi } else { lo });
    let span = if step > 0 { stop - start } else { start - stop };
    let len = if span <= 0 { 0 } else { (span - 1) / step.abs() + 1 };
    if len == 0 {
        return Ok((0, 0, 1, 0));
    }
    Ok((start, stop, step, len))
}

fn plan(a: &Array, index: &Bound<'_, PyAny>) -> PyResult<Plan> {
    let mut items: SmallVec<[Item<'_>; 6]> = SmallVec::new();
    if let Ok(t) = index.cast::<PyTuple>() {
        for x in t {
            items.push(item(&x)?);
        }
    } else {
        items.push(item(index)?);
    }
    let used = items.iter().filter(|i| !matches!(i, Item::New | Item::Rest)).count();
    let rests = items.iter().filter(|i| matches!(i, Item::Rest)).count();
    if rests > 1 {
        return Err(PyValueError::new_err("[index] An index can only have a single ellipsis (...)"));
    }
    if used > a.ndim() {
        return Err(PyValueError::new_err(format!(
            "[index] Too many indices for array with {} dimensions.",
            a.ndim()
        )));
    }
    let n = a.ndim();
    let mut p = Plan {
        start: SmallVec::from_elem(0, n),
        stop: a.shape().into(),
        step: SmallVec::from_elem(1, n),
        shape: a.shape().into(),
        removed: SmallVec::new(),
        added: SmallVec::new(),
        take: None,
        whole: true,
    };
    let (mut axis, mut out) = (0usize, 0i64);
    let mut int_axes: SmallVec<[usize; 6]> = SmallVec::new();
    let mut take_axis = None;
    for it in &items {
        match it {
            Item::New => {
                p.added.push(out);
                out += 1;
            }
            Item::Rest => {
                axis += n - used;
                out += (n - used) as i64;
            }
            Item::Int(i) => {
                let d = a.shape()[axis];
                let at = if *i < 0 { *i + d } else { *i };
                if at < 0 || at >= d {
                    return Err(PyIndexError::new_err(format!(
                        "[index] Index {i} is out of bounds for axis {axis} with size {d}."
                    )));
                }
                (p.start[axis], p.stop[axis], p.shape[axis]) = (at, at + 1, 1);
                p.removed.push(axis as i64);
                p.whole = false;
                int_axes.push(axis);
                axis += 1;
            }
            Item::Slice(s) => {
                let d = a.shape()[axis];
                let (start, stop, step, len) = bounds(s, d)?;
                p.whole &= start == 0 && step == 1 && len == d;
                (p.start[axis], p.stop[axis], p.step[axis], p.shape[axis]) = (start, stop, step, len);
                axis += 1;
                out += 1;
            }
            Item::Take(x) => {
                if p.take.is_some() {
                    return Err(PyValueError::new_err("[index] Only one index array is supported."));
                }
                p.take = Some((x.clone(), axis - p.removed.len()));
                take_axis = Some(axis);
                axis += 1;
                out += x.ndim() as i64;
            }
        }
    }
    // Integers away from the index array would move its axes to the front.
    if let Some(t) = take_axis
        && (!p.added.is_empty()
            || int_axes.iter().any(|&i| {
                let (lo, hi) = (i.min(t), i.max(t));
                (lo + 1..hi).any(|k| !int_axes.contains(&k)) && t != 0
            }))
    {
        return Err(PyValueError::new_err(
            "[index] An index array together with None or with integers apart from it is not supported.",
        ));
    }
    Ok(p)
}

/// `a[index]`
pub fn get(a: &Array, index: &Bound<'_, PyAny>) -> PyResult<Array> {
    let s = current();
    let p = plan(a, index)?;
    let mut x = a.clone();
    if !p.whole {
        x = ops::slice(&x, &p.start, &p.stop, &p.step, s)?;
    }
    if !p.removed.is_empty() {
        x = ops::squeeze(&x, Some(&p.removed), s)?;
    }
    if let Some((indices, axis)) = &p.take {
        x = ops::take(&x, indices, Some(*axis as i64), s)?;
    }
    if !p.added.is_empty() {
        x = ops::expand_dims(&x, &p.added, s)?;
    }
    Ok(x)
}

/// `value` as an update of the shape that `plan` selects.
fn spread(p: &Plan, value: &Array, s: Stream) -> PyResult<Array> {
    let mut want: Shape =
        p.shape.iter().enumerate().filter(|(i, _)| !p.removed.contains(&(*i as i64))).map(|x| *x.1).collect();
    for &at in &p.added {
        want.insert(at as usize, 1);
    }
    let mut v = value.clone();
    let extra = v.ndim().saturating_sub(want.len());
    if extra > 0 && v.shape()[..extra].iter().all(|&d| d == 1) {
        let axes: Vec<i64> = (0..extra as i64).collect();
        v = ops::squeeze(&v, Some(&axes), s)?;
    }
    let fits = v.ndim() <= want.len()
        && v.shape().iter().rev().zip(want.iter().rev()).all(|(&have, &to)| have == 1 || have == to);
    if !fits {
        return Err(PyValueError::new_err(format!(
            "[index] Cannot broadcast array of shape {} into shape {}.",
            show(value.shape()),
            show(&want)
        )));
    }
    v = ops::broadcast_to(&v, &want, s)?;
    if !p.added.is_empty() {
        v = ops::squeeze(&v, Some(&p.added), s)?;
    }
    if !p.removed.is_empty() {
        v = ops::expand_dims(&v, &p.removed, s)?;
    }
    Ok(v)
}

fn update(a: &Array, p: &Plan, value: &Array) -> PyResult<Array> {
    let s = current();
    if p.take.is_some() {
        return Err(PyValueError::new_err("[index] Assignment through an index array is not supported."));
    }
    let v = spread(p, &ops::astype(value, a.dtype(), s)?, s)?;
    if p.whole {
        return Ok(v);
    }
    if v.size() == 0 {
        return Ok(a.clone());
    }
    Ok(ops::slice_update(a, &v, &p.start, &p.stop, &p.step, s)?)
}

/// `a[index] = value`, as a new array.
pub fn set(a: &Array, index: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<Array> {
    if value.is_none() {
        return Err(PyTypeError::new_err("[index] Cannot assign None to elements of an array."));
    }
    let value = if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        make(value, Some(a.dtype()))?
    } else {
        to_array(value, Some(a.dtype()))?
    };
    update(a, &plan(a, index)?, &value)
}

/// Updates of selected elements that do not lose repeated ones; made by `array.at`.
///
/// >>> mx.zeros(3).at[1:].add(2)
/// array([0, 2, 2], dtype=float32)
#[pyclass(name = "ArrayAt", module = "mlx.core", frozen)]
pub struct ArrayAt {
    array: Array,
    index: Option<Py<PyAny>>,
}

impl ArrayAt {
    /// Before the index is given.
    pub fn new(array: Array) -> Self {
        ArrayAt { array, index: None }
    }

    fn apply(&self, how: &Binary, value: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        let index = self
            .index
            .as_ref()
            .ok_or_else(|| PyValueError::new_err("[at] Must provide indices to array.at first."))?
            .bind(value.py());
        let p = plan(&self.array, index)?;
        let old = get(&self.array, index)?;
        let value = operand(value, Some(old.dtype()))?.ok_or_else(cannot)?;
        let new = how.arrays(&old, &value, current())?;
        update(&self.array, &p, &new).map(PyArray::new)
    }
}

#[pymethods]
impl ArrayAt {
    fn __getitem__(&self, indices: Py<PyAny>) -> ArrayAt {
        ArrayAt { array: self.array.clone(), index: Some(indices) }
    }
    /// The array with `value` added to the selected elements.
    fn add(&self, value: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.apply(&ADD, value)
    }
    /// The array with `value` subtracted from the selected elements.
    fn subtract(&self, value: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.apply(&SUB, value)
    }
    /// The array with the selected elements multiplied by `value`.
    fn multiply(&self, value: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.apply(&MUL, value)
    }
    /// The array with the selected elements divided by `value`.
    fn divide(&self, value: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.apply(&DIV, value)
    }
    /// The array with the larger of the selected elements and `value`.
    fn maximum(&self, value: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.apply(&MAXIMUM, value)
    }
    /// The array with the smaller of the selected elements and `value`.
    fn minimum(&self, value: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.apply(&MINIMUM, value)
    }
}

/// Runs over the first axis of an array.
#[pyclass(name = "ArrayIterator", module = "mlx.core")]
pub struct ArrayIterator {
    array: Array,
    done: i64,
    backwards: bool,
}

impl ArrayIterator {
    /// Starts at the first row; the array has at least one axis.
    pub fn new(array: Array) -> Self {
        ArrayIterator { array, done: 0, backwards: false }
    }

    /// Starts at the last row.
    pub fn reversed(array: Array) -> Self {
        ArrayIterator { array, done: 0, backwards: true }
    }
}

#[pymethods]
impl ArrayIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }
    fn __next__(&mut self) -> PyResult<Option<PyArray>> {
        let a = &self.array;
        let n = a.shape()[0];
        if self.done >= n {
            return Ok(None);
        }
        let row = if self.backwards { n - 1 - self.done } else { self.done };
        self.done += 1;
        let s = current();
        let mut start: Shape = SmallVec::from_elem(0, a.ndim());
        let mut stop: Shape = a.shape().into();
        let step: Shape = SmallVec::from_elem(1, a.ndim());
        (start[0], stop[0]) = (row, row + 1);
        let row = ops::slice(a, &start, &stop, &step, s)?;
        Ok(Some(PyArray::new(ops::squeeze(&row, Some(&[0]), s)?)))
    }
}
