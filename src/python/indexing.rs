//! What an index selects, and `a[index]`: integers, slices of any step, `...`, `None` and arrays of integers,
//! in any mixture. Slices and integers become one slice, index arrays one gather, the rest views; index
//! arrays are never waited for.

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PyList, PySlice, PyTuple};
use smallvec::SmallVec;

use super::array::PyArray;
use super::convert::{make, to_array};
use super::device::current;
use crate::core::layout::{broadcast_shapes, show};
use crate::core::{Array, Dtype, Shape, Stream};
use crate::ops::{self, Part};

enum Item<'py> {
    Int(i64),
    Slice(Bound<'py, PySlice>),
    New,
    Rest,
    Pick(Array),
}

/// A term of the index over the array's axes, with `...` written out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Term {
    /// An axis of the part that the result keeps.
    Axis(usize),
    /// An axis that an integer removed.
    Int(usize),
    /// An axis that an index array selects on.
    Pick(usize),
    /// A new axis.
    New,
}

/// What an index selects: a strided box of the array, index arrays on some of its axes, and how all become
/// the axes of the result.
pub(super) struct Plan {
    terms: SmallVec<[Term; 8]>,
    pub part: Part,
    stop: Shape,
    /// Index arrays, with the axes that they select on.
    pub picks: Vec<Array>,
    pub axes: Vec<usize>,
    /// Whether the box is the whole array.
    pub whole: bool,
}

/// Where the axes of the index arrays go.
pub(super) struct Place {
    /// Axes of the result before them.
    result: usize,
    /// Those of them that are axes of the box.
    kept: usize,
    /// Axes of the box that are not picked before them, with those of integers.
    pub at: usize,
}

pub(super) fn cannot() -> PyErr {
    PyValueError::new_err("[index] Cannot index mlx array using the given type.")
}

/// An index array, if the object stands for one.
pub(super) fn array_of(obj: &Bound<'_, PyAny>) -> PyResult<Option<Array>> {
    if let Ok(a) = obj.cast::<PyArray>() {
        return Ok(Some(a.get().array()));
    }
    if obj.is_instance_of::<PyList>() {
        return make(obj, None).map(Some);
    }
    let py = obj.py();
    if obj.hasattr(intern!(py, "__array__"))? || obj.hasattr(intern!(py, "__mlx_array__"))? {
        return to_array(obj, None).map(Some);
    }
    Ok(None)
}

fn item<'py>(obj: &Bound<'py, PyAny>) -> PyResult<Item<'py>> {
    if let Ok(s) = obj.cast::<PySlice>() {
        return Ok(Item::Slice(s.clone()));
    }
    if obj.is_none() {
        return Ok(Item::New);
    }
    if obj.is_instance_of::<PyEllipsis>() {
        return Ok(Item::Rest);
    }
    if obj.is_instance_of::<PyBool>() {
        return Err(cannot());
    }
    let arrays = obj.is_instance_of::<PyArray>() || obj.is_instance_of::<PyList>();
    if !arrays && let Some(i) = whole_number(obj)? {
        return Ok(Item::Int(i));
    }
    let a = array_of(obj)?.ok_or_else(cannot)?;
    match a.dtype() {
        Dtype::Bool => Err(PyValueError::new_err("[index] Boolean indices are not yet supported here.")),
        d if !d.is_integer() => Err(PyValueError::new_err(format!(
            "[index] Got indices with invalid dtype {d}. Indices must be integral."
        ))),
        _ => Ok(Item::Pick(a)),
    }
}

/// The object as an integer, held inside 64 bits: beyond them a bound only says on which side it lies.
fn whole_number(obj: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if let Ok(v) = obj.extract::<i64>() {
        return Ok(Some(v));
    }
    let v = match obj.is_instance_of::<PyInt>() {
        true => obj.clone(),
        false => match obj.call_method0(intern!(obj.py(), "__index__")) {
            Ok(v) => v,
            Err(_) => return Ok(None),
        },
    };
    match v.extract::<i64>() {
        Ok(v) => Ok(Some(v)),
        Err(_) => Ok(Some(if v.lt(0)? { i64::MIN } else { i64::MAX })),
    }
}

fn bound(obj: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if obj.is_none() {
        return Ok(None);
    }
    let number = match obj.is_instance_of::<PyArray>() || obj.is_instance_of::<PyBool>() {
        true => None,
        false => whole_number(obj)?,
    };
    number.map(Some).ok_or_else(|| PyValueError::new_err("[index] Slice indices must be integers or None."))
}

/// Start, stop, step and length of a slice over an axis of `n` elements, as Python counts them.
fn bounds(s: &Bound<'_, PySlice>, n: i64) -> PyResult<(i64, i64, i64, i64)> {
    let py = s.py();
    let part = |name| bound(&s.getattr(name)?);
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

impl Plan {
    pub(super) fn new(a: &Array, index: &Bound<'_, PyAny>) -> PyResult<Plan> {
        let mut items: SmallVec<[Item<'_>; 6]> = SmallVec::new();
        match index.cast::<PyTuple>() {
            Ok(t) => t.iter().try_for_each(|x| item(&x).map(|i| items.push(i)))?,
            Err(_) => items.push(item(index)?),
        }
        let n = a.ndim();
        let used = items.iter().filter(|i| !matches!(i, Item::New | Item::Rest)).count();
        if items.iter().filter(|i| matches!(i, Item::Rest)).count() > 1 {
            let text = "[index] An index can only have a single ellipsis (...)";
            return Err(PyValueError::new_err(text));
        }
        if used > n {
            let text = format!("[index] Too many indices for array with {n} dimensions.");
            return Err(PyValueError::new_err(text));
        }
        let mut p = Plan {
            terms: SmallVec::new(),
            part: Part {
                start: SmallVec::from_elem(0, n),
                step: SmallVec::from_elem(1, n),
                shape: a.shape().into(),
            },
            stop: a.shape().into(),
            picks: Vec::new(),
            axes: Vec::new(),
            whole: true,
        };
        let mut axis = 0;
        for it in items {
            match it {
                Item::New => p.terms.push(Term::New),
                Item::Rest => {
                    p.terms.extend((axis..axis + n - used).map(Term::Axis));
                    axis += n - used;
                }
                Item::Int(i) => {
                    let d = a.shape()[axis];
                    let at = if i < 0 { i.saturating_add(d) } else { i };
                    if at < 0 || at >= d {
                        return Err(PyIndexError::new_err(format!(
                            "[index] Index {i} is out of bounds for axis {axis} with size {d}."
                        )));
                    }
                    p.set(axis, (at, at + 1, 1, 1), false);
                    p.terms.push(Term::Int(axis));
                    axis += 1;
                }
                Item::Slice(s) => {
                    let d = a.shape()[axis];
                    let b = bounds(&s, d)?;
                    p.set(axis, b, b.0 == 0 && b.2 == 1 && b.3 == d);
                    p.terms.push(Term::Axis(axis));
                    axis += 1;
                }
                Item::Pick(x) => {
                    p.picks.push(x);
                    p.axes.push(axis);
                    p.terms.push(Term::Pick(axis));
                    axis += 1;
                }
            }
        }
        p.terms.extend((axis..n).map(Term::Axis));
        Ok(p)
    }

    fn set(&mut self, axis: usize, (start, stop, step, len): (i64, i64, i64, i64), all: bool) {
        (self.part.start[axis], self.stop[axis]) = (start, stop);
        (self.part.step[axis], self.part.shape[axis]) = (step, len);
        self.whole &= all;
    }

    /// The box, as a view of the array.
    pub(super) fn view(&self, a: &Array, s: Stream) -> PyResult<Array> {
        if self.whole {
            return Ok(a.clone());
        }
        Ok(ops::slice(a, &self.part.start, &self.stop, &self.part.step, s)?)
    }

    /// The axes of index arrays stand together in the place of the first one where `joined` terms lie side by
    /// side, else at the front.
    fn place(&self, joined: impl Fn(&Term) -> bool, skipped: impl Fn(&Term) -> bool) -> Place {
        let terms: SmallVec<[Term; 8]> = self.terms.iter().copied().filter(|t| !skipped(t)).collect();
        let ends = (terms.iter().position(&joined), terms.iter().rposition(&joined));
        let front = Place { result: 0, kept: 0, at: 0 };
        let (Some(first), Some(last)) = ends else { return front };
        if !terms[first..=last].iter().all(joined) {
            return front;
        }
        let start = self.terms.iter().position(|t| *t == terms[first]).unwrap_or(0);
        let before = &self.terms[..start];
        let count = |f: fn(&Term) -> bool| before.iter().filter(|t| f(t)).count();
        Place {
            result: count(|t| matches!(t, Term::Axis(_) | Term::New)),
            kept: count(|t| matches!(t, Term::Axis(_))),
            at: count(|t| matches!(t, Term::Axis(_) | Term::Int(_))),
        }
    }

    /// As NumPy places them: integers next to index arrays count as index arrays.
    pub(super) fn place_reading(&self) -> Place {
        self.place(|t| matches!(t, Term::Pick(_) | Term::Int(_)), |_| false)
    }

    /// As MLX places them in assignments: integers do not count at all.
    pub(super) fn place_writing(&self) -> Place {
        self.place(|t| matches!(t, Term::Pick(_)), |t| matches!(t, Term::Int(_)))
    }

    /// Shape of the broadcast index arrays.
    pub(super) fn index_shape(&self) -> PyResult<Shape> {
        let mut shape = Shape::new();
        for p in &self.picks {
            shape = broadcast_shapes("broadcast_shapes", &shape, p.shape())?;
        }
        Ok(shape)
    }

    /// Shape of the result.
    pub(super) fn result_shape(&self, place: &Place) -> PyResult<Shape> {
        let kept = self.terms.iter().filter_map(|t| match t {
            Term::Axis(axis) => Some(self.part.shape[*axis]),
            Term::New => Some(1),
            _ => None,
        });
        let mut shape: Shape = kept.collect();
        shape.insert_many(place.result, self.index_shape()?);
        Ok(shape)
    }

    /// Shape of updates for the box, in which the axes of integers have length one.
    pub(super) fn dense_shape(&self, place: &Place) -> PyResult<Shape> {
        let kept = (0..self.part.shape.len()).filter(|axis| !self.axes.contains(axis));
        let mut shape: Shape = kept.map(|axis| self.part.shape[axis]).collect();
        shape.insert_many(place.at, self.index_shape()?);
        Ok(shape)
    }
}

/// `a[index]`
pub fn get(a: &Array, index: &Bound<'_, PyAny>) -> PyResult<Array> {
    let s = current();
    let p = Plan::new(a, index)?;
    let mut x = p.view(a, s)?;
    let ints: SmallVec<[i64; 6]> = p
        .terms
        .iter()
        .filter_map(|t| if let Term::Int(axis) = t { Some(*axis as i64) } else { None })
        .collect();
    if !ints.is_empty() {
        x = ops::squeeze(&x, Some(&ints), s)?;
    }
    let place = p.place_reading();
    let mut width = 0;
    if !p.picks.is_empty() {
        let before = |axis: usize| ints.iter().filter(|&&i| (i as usize) < axis).count();
        let axes: SmallVec<[usize; 4]> = p.axes.iter().map(|&axis| axis - before(axis)).collect();
        width = p.index_shape()?.len();
        x = ops::gather(&x, &p.picks, &axes, &vec![None; axes.len()], place.kept, s)?;
    }
    let kept = p.terms.iter().filter(|t| matches!(t, Term::Axis(_) | Term::New)).enumerate();
    let added: SmallVec<[i64; 6]> = kept
        .filter(|(_, t)| matches!(t, Term::New))
        .map(|(i, _)| (i + if i < place.result { 0 } else { width }) as i64)
        .collect();
    if !added.is_empty() {
        x = ops::expand_dims(&x, &added, s)?;
    }
    Ok(x)
}

/// `value`, without leading axes of length one that are too many, broadcast to a result's shape.
pub(super) fn spread(value: &Array, want: &[i64], s: Stream) -> PyResult<Option<Array>> {
    let extra = value.ndim().saturating_sub(want.len());
    if value.shape()[..extra].iter().any(|&d| d != 1) {
        return Ok(None);
    }
    let shape = &value.shape()[extra..];
    let fits = shape.iter().rev().zip(want.iter().rev()).all(|(&have, &to)| have == 1 || have == to);
    if !fits {
        return Ok(None);
    }
    Ok(Some(ops::broadcast_to(&ops::reshape(value, shape, s)?, want, s)?))
}

/// The error for values that [`spread`] does not fit.
pub(super) fn misfit(value: &Array, want: &[i64]) -> PyErr {
    let (have, want) = (show(value.shape()), show(want));
    PyValueError::new_err(format!("[index] Cannot broadcast array of shape {have} into shape {want}."))
}

/// Runs over the first axis of an array: `iter(a)` makes one.
///
/// >>> [x.tolist() for x in mx.array([[1, 2], [3, 4]])]
/// [[1, 2], [3, 4]]
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
