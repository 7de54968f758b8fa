//! Host side of shaders/index/scatter_sums.comp: sums of scattered floats as exact integers, which atomics may add in any
//! order. Four passes: the exponents of all addends, top exponents of places where the bins are too few for all, the sums, and
//! what they come to. `scatter` calls it where `tune::index` says so.

use smallvec::SmallVec;

use super::indexed::{Indices, Words};
use crate::core::env::KernelVariant;
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::kernels::index::indexed::{Groups, Walk};
use crate::vulkan::kernels::elem::{Defines, Push, WG, define, grid, operand};
use crate::vulkan::kernels::elementwise::copy;
use crate::vulkan::tune::index::{
    self, SUM_BATCH, SUM_BINS, SUM_CLEARED, SUM_LOADS, SUM_PLACES_OF_LANE, SUM_SEEN_BITS,
};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

pub static SCATTER_SUMS_WIDE: KernelVariant =
    KernelVariant::new("scatter_sums_wide", "two 32-bit atomics for each 64-bit addend of scattered sums");

/// Modes of the shader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mode {
    Range,
    Tops,
    Add,
    Finish,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Sums {
    mode: Mode,
    dtype: Dtype,
    hold: bool,
    /// Sums are added by 64-bit atomics.
    wide: bool,
    indices: Indices,
    axes: usize,
}

impl KernelKey for Sums {
    fn name(&self) -> String {
        format!("scatter_sums_{:?}_{}_{}", self.mode, self.dtype, self.indices.name()).to_lowercase()
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = Defines::new();
        operand(&mut d, "A", self.dtype);
        self.indices.define(&mut d);
        let mantissa = mantissa(self.dtype);
        define(&mut d, "A_MANTISSA", mantissa);
        define(&mut d, "DROP", mantissa_of_f32() - mantissa);
        define(&mut d, "DROP_STORED", 32 - 8 * self.dtype.size());
        define(&mut d, "BINS", format!("{SUM_BINS}u"));
        define(&mut d, "CLEARED", format!("{SUM_CLEARED}u"));
        define(&mut d, "SEEN_BITS", format!("{SUM_SEEN_BITS}u"));
        define(&mut d, "SEEN", format!("{}u", 1 << SUM_SEEN_BITS));
        define(&mut d, "LOADS", format!("{SUM_LOADS}u"));
        define(&mut d, "BATCH", format!("{SUM_BATCH}u"));
        define(&mut d, "PLACES", format!("{SUM_PLACES_OF_LANE}u"));
        define(&mut d, "MODE", self.mode as u32);
        define(&mut d, "AXES", format!("{}u", self.axes));
        let flags = [(self.hold, "HOLD"), (self.wide && self.mode == Mode::Add, "ATOMIC64")];
        flags.iter().filter(|f| f.0).for_each(|f| define(&mut d, f.1, 1));
        Module { source: Source::File("scatter_sums.comp"), defines: d, spec: vec![WG], ..Default::default() }
    }
}

/// Bits of a mantissa without the first one.
fn mantissa(dtype: Dtype) -> u32 {
    match dtype {
        Dtype::F16 => 10,
        Dtype::BF16 => 7,
        _ => mantissa_of_f32(),
    }
}

fn mantissa_of_f32() -> u32 {
    f32::MANTISSA_DIGITS - 1
}

/// Exponents of a bin in whose 63 bits `addends` numbers fit, whatever they are.
fn window(dtype: Dtype, addends: u64) -> u32 {
    let count = u64::BITS - addends.leading_zeros();
    (u64::BITS - (mantissa(dtype) + 1) - count).min(u32::BITS - 1)
}

/// Elements of the base from the first one on that a walk can reach, or none where steps lead below it.
fn span(walk: &Walk) -> Option<u64> {
    let axes = walk.dims.iter().map(|d| (d.base, d.size));
    let mut last = 0u64;
    for (step, len) in axes.chain(walk.picks.iter().map(|p| (p.stride, p.limit))) {
        let step = u64::try_from(step).ok()?;
        last = last.checked_add(step.checked_mul(len.max(1) as u64 - 1)?)?;
    }
    Some(last + 1)
}

/// Adds the updates as [`super::scatter::scatter`] does, up to `per_line` of them to an element; false if it is better done by
/// other means. What `base` holds is not copied where all of it is read anyway.
pub(super) fn scatter(
    enc: &mut CommandEncoder,
    hold: bool,
    walk: &Walk,
    updates: &DeviceView,
    indices: &[DeviceView],
    base: Option<&DeviceView>,
    dst: &DeviceView,
) -> Result<bool> {
    let Groups { per_line, .. } = walk.groups();
    let (size, width) = (walk.size(), walk.size() / walk.groups().size());
    let (from, bytes) = updates.range();
    let element = dst.dtype.size() as u64;
    let held = bytes / element;
    let Some(span) = span(walk) else { return Ok(false) };
    if !index::scatter_exactly(span, size, held, width) {
        return Ok(false);
    }
    let base = match base {
        Some(base) if span != dst.size() as u64 => {
            copy(enc, base, dst)?;
            None
        }
        base => base,
    };
    let wg = u64::from(WG);
    let most = index::sum_groups(enc.device().profile());
    let some = |n: u64| n.div_ceil(wg).min(most);
    // What each of these workgroups knows is read at once by one.
    let known = some((held + span) * element / 16 + 1).min(4 * wg);
    let padded = span.next_multiple_of(4);
    // What is known of all, the bins, the marks, and what each workgroup knows.
    let bytes = 16 + padded * (8 * SUM_BINS + 4) + 16 * wg;
    let table = (enc.temp(bytes as usize)?, bytes);
    let mut words = Words::default();
    for d in &walk.dims {
        words.axis(&[d.size, d.base, d.dense], d);
    }
    words.picks(walk, indices, |k| walk.picks[k].stride);
    let job = Job {
        hold,
        dtype: dst.dtype,
        indices: Indices::of("scatter", indices)?,
        axes: walk.dims.len(),
        base: (base.map_or(dst.ptr, |b| b.ptr), span * element),
        dst: dst.ptr,
        params: words.upload(enc)?,
        table,
        sizes: [span, padded, u64::from(window(dst.dtype, per_line + 1))].map(|n| n as u32),
    };
    let mut reads: SmallVec<[_; 6]> =
        std::iter::once(updates).chain(indices).map(DeviceView::range).collect();
    let row = |n: u64| [n as u32, 1, 1];
    job.run(enc, Mode::Range, (from, held, 0), row(known), &[updates.range(), job.base], &[table])?;
    let each = index::sum_updates(size, wg * most, span);
    let groups = grid(enc, size.div_ceil(wg * each));
    reads.push(job.base);
    job.run(enc, Mode::Tops, (updates.ptr, size, known), row(some(size)), &reads, &[table])?;
    job.run(enc, Mode::Add, (updates.ptr, size, each), groups, &reads[..reads.len() - 1], &[table])?;
    let groups = grid(enc, span.div_ceil(SUM_PLACES_OF_LANE * wg));
    job.run(enc, Mode::Finish, (0, 0, 0), groups, &[table, job.base], &[dst.range()])?;
    Ok(true)
}

/// What all passes of a scatter have in common.
struct Job {
    hold: bool,
    dtype: Dtype,
    indices: Indices,
    axes: usize,
    /// What the table has places for, before any is added.
    base: (u64, u64),
    dst: u64,
    params: u64,
    table: (u64, u64),
    /// Places, the same padded, exponents of a bin.
    sizes: [u32; 3],
}

impl Job {
    /// One pass over `src`: an address, a count, and how many of them a lane has, or workgroups of the first pass.
    fn run(
        &self,
        enc: &mut CommandEncoder,
        mode: Mode,
        src: (u64, u64, u64),
        groups: [u32; 3],
        reads: &[(u64, u64)],
        writes: &[(u64, u64)],
    ) -> Result<()> {
        let wide = enc.device().features().atomic_int64 && !SCATTER_SUMS_WIDE.disabled();
        let key = Sums {
            mode,
            dtype: self.dtype,
            hold: self.hold,
            wide: wide && mode == Mode::Add,
            indices: self.indices,
            axes: self.axes,
        };
        let pipeline = enc.device().pipeline(&key)?;
        let [span, padded, window] = self.sizes;
        let push = Push::default().u64s(&[src.0, self.base.0, self.dst, self.params, self.table.0]);
        let push = push.u32s(&[src.1 as u32, span, padded, window, src.2 as u32]);
        enc.dispatch(&pipeline, &push, groups, reads, writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::layout::row_major;

    #[test]
    fn places_end_with_the_last_element_that_a_walk_reaches() {
        let base = [8i64, 9];
        let w = Walk::outer((&base, &[9, 1]), &[6, 2, 1], (&[4], &[1]), &[&[1]], &[1], &[Some(2)], 0);
        assert_eq!(span(&w), Some(72));
        let w = Walk::along((&base, &row_major(&base)), &[3, 1], (&[8, 3], &[3, 1]), 1);
        assert_eq!(span(&w), Some(72));
        let w = Walk::along((&base, &[-9, 1]), &[3, 1], (&[8, 3], &[3, 1]), 1);
        assert_eq!(span(&w), None);
    }

    #[test]
    fn bins_hold_as_many_addends_as_may_meet() {
        for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
            for addends in [2u64, 257, 1 << 20, (1 << 23) + 1, 1 << 32] {
                let (digits, window) = (mantissa(dtype) + 1, window(dtype, addends));
                let largest = ((1u128 << digits) - 1) << (window - 1);
                assert!(window > 0 && largest * u128::from(addends) < 1 << 63, "{dtype} {addends}");
            }
        }
    }
}
