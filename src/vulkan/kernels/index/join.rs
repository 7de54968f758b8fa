//! Host side of shaders/index/join.comp: arrays side by side along an axis, and an array inside of a filled one.

use smallvec::SmallVec;

use super::indexed::{define_unit, widest};
use crate::core::Result;
use crate::core::layout::{collapse, row_major};
use crate::kernels::DeviceView;
use crate::vulkan::kernels::elem::{Defines, Push, WG, define, grid};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source, tune};

/// Axes before a row.
const MAX_AXES: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    /// Bytes copied at once, and those of an element.
    unit: u64,
    size: usize,
    axes: usize,
}

impl KernelKey for Key {
    fn name(&self) -> String {
        format!("join_{}B_{}d", self.unit, self.axes)
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = Defines::new();
        define_unit(&mut d, self.unit);
        define(&mut d, "SIZE", self.size);
        define(&mut d, "AXES", format!("{}u", self.axes));
        Module { source: Source::File("join.comp"), defines: d, spec: vec![WG], ..Default::default() }
    }
}

/// An axis before the row: its length, and which of its positions the arrays give.
#[derive(Debug, Clone, Copy)]
struct Axis {
    size: i64,
    before: i64,
    inside: i64,
}

/// Columns that an array gives.
struct Part<'a> {
    from: &'a DeviceView,
    start: i64,
    len: i64,
    /// Of the axes before the row.
    strides: SmallVec<[i64; 4]>,
}

/// Elements of `axes` of `v`, if they lie together.
fn together(v: &DeviceView, from: usize) -> bool {
    let (shape, strides) = (&v.shape[from..], &v.strides[from..]);
    let dense = row_major(shape);
    (0..shape.len()).all(|i| shape[i] == 1 || strides[i] == dense[i])
}

/// Writes `dst` as `arrays` one after another along an axis; false where copies of each are better, or the kernel does not
/// reach. `dst` is row-major.
pub fn concatenate(
    enc: &mut CommandEncoder,
    arrays: &[DeviceView],
    axis: usize,
    dst: &DeviceView,
) -> Result<bool> {
    let inner: i64 = dst.shape[axis + 1..].iter().product();
    let width = dst.shape[axis] * inner;
    let rows: i64 = dst.shape[..axis].iter().product();
    let arrays: SmallVec<[&DeviceView; 8]> = arrays.iter().filter(|a| a.size() > 0).collect();
    let suits = tune::index::joins(rows, width * dst.dtype.size() as i64, arrays.len());
    if !suits || !arrays.iter().all(|a| together(a, axis)) {
        return Ok(false);
    }
    let lists: SmallVec<[&[i64]; 8]> = arrays.iter().map(|a| &a.strides[..axis]).collect();
    let (outer, strides) = collapse(&dst.shape[..axis], &lists);
    let mut start = 0;
    let mut parts: SmallVec<[Part; 8]> = SmallVec::new();
    for (from, strides) in arrays.iter().zip(strides) {
        let len = from.shape[axis] * inner;
        parts.push(Part { from, start, len, strides: strides.iter().copied().collect() });
        start += len;
    }
    let outer: SmallVec<[Axis; 4]> =
        outer.iter().map(|&size| Axis { size, before: 0, inside: size }).collect();
    run(enc, &outer, width, &parts, None, dst)
}

/// Writes `dst` as `value` everywhere but from `start` on, where `inside` stands; false as [`concatenate`]. `dst` is row-major,
/// `value` one element.
pub fn inside(
    enc: &mut CommandEncoder,
    value: &DeviceView,
    inside: &DeviceView,
    start: &[i64],
    dst: &DeviceView,
) -> Result<bool> {
    let whole = |k: &usize| inside.shape[*k] == dst.shape[*k];
    let axis = (0..dst.ndim()).rev().find(|k| !whole(k)).unwrap_or(0);
    let inner: i64 = dst.shape[axis + 1..].iter().product();
    let width = dst.shape[axis] * inner;
    if dst.ndim() == 0 || inside.size() == 0 || !together(inside, axis) || tune::index::JOIN.disabled() {
        return Ok(false);
    }
    let mut outer: SmallVec<[Axis; 4]> = SmallVec::new();
    let mut strides: SmallVec<[i64; 4]> = SmallVec::new();
    for k in 0..axis {
        let (size, stride) = (dst.shape[k], inside.strides[k]);
        match (outer.last_mut(), strides.last_mut()) {
            _ if size == 1 => {}
            (Some(last), Some(before)) if whole(&k) && *before == stride * size => {
                *last =
                    Axis { size: last.size * size, before: last.before * size, inside: last.inside * size };
                *before = stride;
            }
            _ => {
                outer.push(Axis { size, before: start[k], inside: inside.shape[k] });
                strides.push(stride);
            }
        }
    }
    let part = Part { from: inside, start: start[axis] * inner, len: inside.shape[axis] * inner, strides };
    run(enc, &outer, width, &[part], Some(value), dst)
}

fn run(
    enc: &mut CommandEncoder,
    outer: &[Axis],
    width: i64,
    parts: &[Part],
    value: Option<&DeviceView>,
    dst: &DeviceView,
) -> Result<bool> {
    let size = dst.dtype.size() as i64;
    // A single row has an axis too.
    let one = [Axis { size: 1, before: 0, inside: 1 }];
    let axes = if outer.is_empty() { &one[..] } else { outer };
    let steps = parts.iter().flat_map(|p| p.strides.iter().copied().chain([p.start, p.len]));
    let addresses: SmallVec<[u64; 8]> = parts.iter().map(|p| p.from.ptr).collect();
    let unit = widest(size, width, steps, &addresses);
    let per = unit / size;
    let total = dst.size() as i64 / per;
    let fits = total < 1 << 31 && axes.len() <= MAX_AXES && dst.is_row_contiguous();
    if !fits || !dst.ptr.is_multiple_of(16) || parts.iter().any(|p| p.from.ptr % size as u64 != 0) {
        return Ok(false);
    }
    let mut block = Vec::with_capacity(16 * axes.len() + parts.len() * (16 + 8 * axes.len()));
    // FITS: fewer than 2^31 units.
    let words = |block: &mut Vec<u8>, list: &[i64]| {
        list.iter().for_each(|&w| block.extend_from_slice(&(w as u32).to_ne_bytes()));
    };
    axes.iter().for_each(|a| words(&mut block, &[a.size, a.before, a.inside, 0]));
    for p in parts {
        block.extend_from_slice(&p.from.ptr.to_ne_bytes());
        words(&mut block, &[p.start / per, (p.start + p.len) / per]);
        let strides = p.strides.iter().copied().chain(std::iter::repeat(0)).take(axes.len());
        strides.for_each(|s| block.extend_from_slice(&(s / per).to_ne_bytes()));
    }
    let places = enc.params(&block)?;
    let push = Push::default().u64s(&[dst.ptr, value.map_or(0, |v| v.ptr), places]);
    let push = push.u32s(&[total as u32, (width / per) as u32, parts.len() as u32]);
    let key = Key { unit: unit as u64, size: size as usize, axes: axes.len() };
    let pipeline = enc.device().pipeline(&key)?;
    let vectors = (total * unit).cast_unsigned().div_ceil(16);
    let groups = grid(enc, vectors.div_ceil(u64::from(WG)));
    let reads: SmallVec<[_; 8]> = parts.iter().map(|p| p.from).chain(value).map(DeviceView::range).collect();
    enc.dispatch(&pipeline, &push, groups, &reads, &[dst.range()])?;
    Ok(true)
}
