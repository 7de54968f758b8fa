//! `a[index]` and what is written there, on arrays: integers, slices of any step, `...`, new axes and index arrays, in
//! any mixture. Integers and slices become one slice, index arrays one gather or scatter, the rest views. Bounds are
//! kept as they were written where lengths vary: `a[-1]` is the last element of any array.

use smallvec::SmallVec;

use super::indexing::gather;
use super::scatter::{Part, Target, scatter};
use super::slice_update::slice_update;
use crate::bail;
use crate::core::layout::{broadcast_shapes, show};
use crate::core::notes::note;
use crate::core::{Array, Error, Param, Result, Shape, Stored, Stream, lengths_vary};
use crate::kernels::index::indexed::Combine;
use crate::ops::composite;
use crate::ops::elementwise::{add, maximum, minimum, multiply};
use crate::ops::view::{broadcast_to, expand_dims, reshape, slice, squeeze};
use crate::params;

/// One item of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// A position; negative ones count from the end.
    Int(i64),
    /// Start, stop and step as Python reads them.
    Slice(Option<i64>, Option<i64>, i64),
    /// A new axis.
    New,
    /// All axes that no other item stands for.
    Rest,
    /// The next one of the index arrays.
    Pick,
}

/// The items of an index.
pub type Items = SmallVec<[Item; 6]>;

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
struct Plan<'a> {
    terms: SmallVec<[Term; 8]>,
    part: Part,
    stop: Shape,
    /// Index arrays, with the axes that they select on.
    picks: &'a [Array],
    axes: SmallVec<[usize; 4]>,
    /// Whether the box is the whole array.
    whole: bool,
}

/// Where the axes of the index arrays go.
struct Place {
    /// Axes of the result before them.
    result: usize,
    /// Those of them that are axes of the box.
    kept: usize,
    /// Axes of the box that are not picked before them, with those of integers.
    at: usize,
}

/// Start, stop, step and length of a slice over an axis of `n` elements, as Python counts them.
fn bounds(start: Option<i64>, stop: Option<i64>, step: i64, n: i64) -> Result<(i64, i64, i64, i64)> {
    if step == 0 {
        bail!(Value, "[index] Slice step cannot be zero.");
    }
    let step = step.max(-i64::MAX);
    let (lo, hi) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let clamp = |v: Option<i64>, default: i64| match v {
        None => default,
        Some(v) if v < 0 => v.saturating_add(n).max(lo),
        Some(v) => v.min(hi),
    };
    let start = clamp(start, if step > 0 { lo } else { hi });
    let stop = clamp(stop, if step > 0 { hi } else { lo });
    let span = if step > 0 { stop - start } else { start - stop };
    let len = if span <= 0 { 0 } else { (span - 1) / step.abs() + 1 };
    Ok(if len == 0 { (0, 0, 1, 0) } else { (start, stop, step, len) })
}

impl<'a> Plan<'a> {
    fn new(of: &[i64], items: &[Item], picks: &'a [Array]) -> Result<Plan<'a>> {
        let n = of.len();
        let used = items.iter().filter(|i| !matches!(i, Item::New | Item::Rest)).count();
        if items.iter().filter(|i| matches!(i, Item::Rest)).count() > 1 {
            bail!(Value, "[index] An index can only have a single ellipsis (...)");
        }
        if used > n {
            bail!(Value, "[index] Too many indices for array with {n} dimensions.");
        }
        let part = Part {
            start: Shape::from_elem(0, n),
            step: Shape::from_elem(1, n),
            shape: Shape::from_slice(of),
        };
        let mut p = Plan {
            terms: SmallVec::new(),
            part,
            stop: Shape::from_slice(of),
            picks,
            axes: SmallVec::new(),
            whole: true,
        };
        let mut axis = 0;
        for &item in items {
            match item {
                Item::New => p.terms.push(Term::New),
                Item::Rest => {
                    for _ in 0..n - used {
                        p.terms.push(Term::Axis(axis));
                        axis += 1;
                    }
                }
                Item::Int(i) => {
                    let d = of[axis];
                    let at = if i < 0 { i.saturating_add(d) } else { i };
                    if at < 0 || at >= d {
                        bail!(Index, "[index] Index {i} is out of bounds for axis {axis} with size {d}.");
                    }
                    p.set(axis, (at, at + 1, 1, 1), false);
                    p.terms.push(Term::Int(axis));
                    axis += 1;
                }
                Item::Slice(start, stop, step) => {
                    let d = of[axis];
                    let b = bounds(start, stop, step, d)?;
                    p.set(axis, b, b.0 == 0 && b.2 == 1 && b.3 == d);
                    p.terms.push(Term::Axis(axis));
                    axis += 1;
                }
                Item::Pick => {
                    p.axes.push(axis);
                    p.terms.push(Term::Pick(axis));
                    axis += 1;
                }
            }
        }
        for axis in axis..n {
            p.terms.push(Term::Axis(axis));
        }
        Ok(p)
    }

    fn set(&mut self, axis: usize, (start, stop, step, len): (i64, i64, i64, i64), all: bool) {
        (self.part.start[axis], self.stop[axis]) = (start, stop);
        (self.part.step[axis], self.part.shape[axis]) = (step, len);
        self.whole &= all;
    }

    /// The box, as a view of the array.
    fn view(&self, a: &Array, s: Stream) -> Result<Array> {
        if self.whole {
            return Ok(a.clone());
        }
        slice(a, &self.part.start, &self.stop, &self.part.step, s)
    }

    /// Whether each axis of the box is one of the result, in order, and no other is.
    fn plain(&self) -> bool {
        self.terms.iter().all(|t| matches!(t, Term::Axis(_)))
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
    fn place_reading(&self) -> Place {
        self.place(|t| matches!(t, Term::Pick(_) | Term::Int(_)), |_| false)
    }

    /// As MLX places them in assignments: integers do not count at all.
    fn place_writing(&self) -> Place {
        self.place(|t| matches!(t, Term::Pick(_)), |t| matches!(t, Term::Int(_)))
    }

    /// Shape of the broadcast index arrays.
    fn index_shape(&self) -> Result<Shape> {
        let mut shape = Shape::new();
        for p in self.picks {
            shape = broadcast_shapes("broadcast_shapes", &shape, p.shape())?;
        }
        Ok(shape)
    }

    /// Shape of the result.
    fn result_shape(&self, place: &Place) -> Result<Shape> {
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
    fn dense_shape(&self, place: &Place) -> Result<Shape> {
        let kept = (0..self.part.shape.len()).filter(|axis| !self.axes.contains(axis));
        let mut shape: Shape = kept.map(|axis| self.part.shape[axis]).collect();
        shape.insert_many(place.at, self.index_shape()?);
        Ok(shape)
    }
}

/// The array of `inputs` and the index arrays after it, as a node that follows shapes.
fn follows(
    name: &'static str,
    how: Option<Combine>,
    inputs: &[&Array],
    items: &[Item],
    picks: &[Array],
    s: Stream,
) -> Result<Option<Array>> {
    if !lengths_vary() {
        return Ok(None);
    }
    let all: Vec<&Array> = inputs.iter().copied().chain(picks).collect();
    let params = || {
        let first = how.map(|how| COMBINES.iter().position(|c| *c == how).unwrap_or(0));
        first.map(Param::from).into_iter().chain([Param::Ints(written(items))]).collect()
    };
    composite::one(name, params, &all, s)
}

/// `a[index]`: `picks` has an integer array for each [`Item::Pick`].
///
/// # Errors
/// Index error for a position that does not exist; value error for indices that do not fit the array or each other.
pub fn get(a: &Array, items: &[Item], picks: &[Array], s: Stream) -> Result<Array> {
    if let Some(out) = follows("index", None, &[a], items, picks, s)? {
        return Ok(out);
    }
    let p = Plan::new(a.shape(), items, picks)?;
    let mut x = p.view(a, s)?;
    if p.plain() {
        return Ok(x);
    }
    let ints: SmallVec<[i64; 6]> = p
        .terms
        .iter()
        .filter_map(|t| if let Term::Int(axis) = t { Some(*axis as i64) } else { None })
        .collect();
    if !ints.is_empty() {
        x = squeeze(&x, Some(&ints), s)?;
        if matches!(items, [Item::Int(_)]) {
            note(std::slice::from_ref(&x), || ("item", params![p.part.start[0]], vec![a.clone()]));
        }
    }
    let place = p.place_reading();
    let mut width = 0;
    if !p.picks.is_empty() {
        // FITS: axes, which are not negative.
        let before = |axis: usize| ints.iter().filter(|&&i| (i as usize) < axis).count();
        let axes: SmallVec<[usize; 4]> = p.axes.iter().map(|&axis| axis - before(axis)).collect();
        width = p.index_shape()?.len();
        x = gather(&x, p.picks, &axes, &vec![None; axes.len()], place.kept, s)?;
    }
    let kept = p.terms.iter().filter(|t| matches!(t, Term::Axis(_) | Term::New)).enumerate();
    let added: SmallVec<[i64; 6]> = kept
        .filter(|(_, t)| matches!(t, Term::New))
        .map(|(i, _)| (i + if i < place.result { 0 } else { width }) as i64)
        .collect();
    if !added.is_empty() {
        x = expand_dims(&x, &added, s)?;
    }
    Ok(x)
}

/// `value`, without leading axes of length one that are too many, broadcast to a result's shape.
fn broadcast_value(value: &Array, want: &[i64], s: Stream) -> Result<Option<Array>> {
    let extra = value.ndim().saturating_sub(want.len());
    if value.shape()[..extra].iter().any(|&d| d != 1) {
        return Ok(None);
    }
    let shape = &value.shape()[extra..];
    let fits = shape.iter().rev().zip(want.iter().rev()).all(|(&have, &to)| have == 1 || have == to);
    if !fits {
        return Ok(None);
    }
    Ok(Some(broadcast_to(&reshape(value, shape, s)?, want, s)?))
}

/// The error for values that [`broadcast_value`] does not fit.
fn misfit(value: &Array, want: &[i64]) -> Error {
    let (have, want) = (show(value.shape()), show(want));
    Error::Value(format!("[index] Cannot broadcast array of shape {have} into shape {want}."))
}

/// `value` in the shape of updates for the box, and where these have the axes of index arrays.
fn placed(p: &Plan<'_>, value: &Array, s: Stream) -> Result<(Array, Place)> {
    if p.plain() && value.shape() == p.part.shape.as_slice() {
        return Ok((value.clone(), Place { result: 0, kept: 0, at: 0 }));
    }
    let mut first = None;
    for place in [p.place_writing(), p.place_reading()] {
        let want = p.result_shape(&place)?;
        if let Some(v) = broadcast_value(value, &want, s)? {
            return Ok((reshape(&v, &p.dense_shape(&place)?, s)?, place));
        }
        first.get_or_insert(want);
    }
    Err(misfit(value, &first.unwrap_or_else(Shape::new)))
}

/// Combines `value`, already of the dtype of `a`, with the elements that the index selects.
///
/// # Errors
/// As for [`get`], and for values that do not broadcast to what the index selects.
pub fn update(
    a: &Array,
    items: &[Item],
    picks: &[Array],
    value: &Array,
    how: Combine,
    s: Stream,
) -> Result<Array> {
    if let Some(out) = follows("index_update", Some(how), &[a, value], items, picks, s)? {
        return Ok(out);
    }
    let p = Plan::new(a.shape(), items, picks)?;
    let (v, place) = placed(&p, value, s)?;
    if v.size() == 0 && p.picks.iter().all(|x| x.size() == 0 || a.size() > 0) {
        return Ok(a.clone());
    }
    if !p.picks.is_empty() {
        let to = Target {
            part: (!p.whole).then(|| p.part.clone()),
            indices: p.picks,
            axes: &p.axes,
            windows: &vec![None; p.axes.len()],
            at: place.at,
            hold: false,
        };
        return scatter(a, &v, to, how, s);
    }
    let old = || p.view(a, s);
    let given = if value.ndim() == 0 { value } else { &v };
    let new = match how {
        Combine::Set => v.clone(),
        Combine::Add => add(&old()?, &v, s)?,
        Combine::Prod => multiply(&old()?, &v, s)?,
        Combine::Max => maximum(&old()?, &v, s)?,
        Combine::Min => minimum(&old()?, &v, s)?,
    };
    let part = &p.part;
    if p.whole {
        said(&new, a, given, part, how);
        return Ok(new);
    }
    let mut stop = part.start.clone();
    for (stop, (step, n)) in stop.iter_mut().zip(part.step.iter().zip(&part.shape)) {
        *stop += step * n;
    }
    let out = slice_update(a, &new, &part.start, &stop, &part.step, s)?;
    said(&out, a, given, part, how);
    Ok(out)
}

/// MLX combines the updates of a slice in the primitive that writes them, and broadcasts them there.
fn said(out: &Array, a: &Array, update: &Array, part: &Part, how: Combine) {
    let how = match how {
        Combine::Set => return,
        Combine::Add => "sum",
        Combine::Prod => "prod",
        Combine::Max => "max",
        Combine::Min => "min",
    };
    note(std::slice::from_ref(out), || {
        let lists = params![&part.start[..], &part.step[..], how, &part.shape[..]];
        ("slice_update", lists, vec![a.clone(), update.clone()])
    });
}

const COMBINES: [Combine; 5] = [Combine::Set, Combine::Add, Combine::Prod, Combine::Max, Combine::Min];

/// Items as numbers: four for each.
fn written(items: &[Item]) -> Vec<i64> {
    let one = |item: &Item| match *item {
        Item::Int(i) => [0, i, 0, 0],
        Item::New => [1, 0, 0, 0],
        Item::Rest => [2, 0, 0, 0],
        Item::Pick => [3, 0, 0, 0],
        Item::Slice(start, stop, step) => {
            let given = i64::from(start.is_some()) + 2 * i64::from(stop.is_some());
            [4 + given, start.unwrap_or(0), stop.unwrap_or(0), step]
        }
    };
    items.iter().flat_map(one).collect()
}

fn read(numbers: &[i64]) -> Result<Items> {
    let one = |n: &[i64; 4]| match *n {
        [0, i, ..] => Ok(Item::Int(i)),
        [1, ..] => Ok(Item::New),
        [2, ..] => Ok(Item::Rest),
        [3, ..] => Ok(Item::Pick),
        [kind @ 4..=7, start, stop, step] => {
            let given = |bit: i64, v: i64| (kind & bit != 0).then_some(v);
            Ok(Item::Slice(given(1, start), given(2, stop), step))
        }
        _ => bail!(Value, "[index] There is no item {n:?}."),
    };
    numbers.as_chunks::<4>().0.iter().map(one).collect()
}

/// A stored index, or update.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    let own = if c.name == "index" { 1 } else { 2 };
    let items = read(c.ints(own - 1)?)?;
    let Some((inputs, picks)) = c.inputs.split_at_checked(own) else { return c.unknown() };
    let wanted = items.iter().filter(|i| matches!(i, Item::Pick)).count();
    if picks.len() != wanted || !picks.iter().all(|p| p.dtype().is_integer()) {
        bail!(Value, "[index] Expected {wanted} index arrays of integers, got {}.", picks.len());
    }
    match inputs {
        [a] => get(a, &items, picks, c.stream),
        [a, value] if a.dtype() == value.dtype() => {
            update(a, &items, picks, value, c.choice(0, &COMBINES)?, c.stream)
        }
        _ => c.unknown(),
    }
}
