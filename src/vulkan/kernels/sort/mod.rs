//! Stable sort and argsort along one axis. Of short rows a workgroup has many (`rows`); rows that fit its shared memory are
//! sorted in one pass; longer ones as tiles that are then merged, doubling the run length in each pass (shaders/sort/sort.comp), or by
//! radix where they are so long that this takes fewer passes over memory (`radix`). Complex values, which do
//! not follow from their keys, are sorted by index. MLX_VK_SORT=radix|merge forces a way for longer rows.

pub(in crate::vulkan) mod choice;
pub(in crate::vulkan) mod radix;
mod rows;
pub mod search;
pub mod select;
pub mod tops;

use std::sync::OnceLock;

use super::elem::{Defines, Push, collapse, define, dims, grid, ordered, ranks};
use crate::bail;
use crate::core::env::{KernelVariant, Values, Variable};
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source, tune};

pub static SORT: Variable = Variable::new(
    "MLX_VK_SORT",
    "by length",
    Values::Word(&["radix", "merge"]),
    "How rows are sorted that one workgroup does not hold",
);

pub static SORT_RADIX: KernelVariant = KernelVariant::new("sort_radix", "merges");

/// What comes out of a sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::vulkan) enum Output {
    Values,
    Indices,
    /// The values at the indices.
    Gathered,
}

impl Output {
    /// Whether indices are carried along.
    pub(in crate::vulkan) fn carries(self) -> bool {
        self != Output::Values
    }

    /// Sorted values of a dtype, or under `arg` their indices; complex ones do not follow from their keys.
    pub(in crate::vulkan) fn of(src: Dtype, arg: bool) -> Output {
        match src {
            _ if arg => Output::Indices,
            Dtype::C64 => Output::Gathered,
            _ => Output::Values,
        }
    }

    /// The operation, in names of kernels and errors.
    pub(in crate::vulkan) fn op(self) -> &'static str {
        if self == Output::Indices { "argsort" } else { "sort" }
    }

    /// Macros of the kernels.
    pub(in crate::vulkan) fn define(self, d: &mut Defines, src: Dtype) {
        define(d, "OUT_SIZE", if self == Output::Indices { 4 } else { src.size() });
        let flags = [(self.carries(), "ARG"), (self == Output::Gathered, "GATHER")];
        flags.iter().filter(|x| x.0).for_each(|x| define(d, x.1, 1));
    }
}

/// A sort of `rows` rows of `n` elements; `params` holds `nk` row axes of the source, then of the destination.
pub(in crate::vulkan) struct Job<'a> {
    pub src: &'a DeviceView,
    pub dst: &'a DeviceView,
    pub out: Output,
    pub strides: [i64; 2],
    pub n: u64,
    pub rows: u64,
    pub params: u64,
    pub nk: u32,
    /// From a row to the next, in the source and in the destination; none where there is one row.
    pub next_row: [Option<i64>; 2],
}

impl Job<'_> {
    /// Bytes of a key.
    pub(in crate::vulkan) fn key_size(&self) -> u64 {
        if self.src.dtype.size() == 8 { 8 } else { 4 }
    }

    /// Scratch for all keys, and for the indices if they are carried along, as (address, bytes).
    pub(in crate::vulkan) fn scratch(&self, enc: &mut CommandEncoder) -> Result<[(u64, u64); 2]> {
        let mut part = |bytes: u64| -> Result<(u64, u64)> { Ok((enc.temp(bytes as usize)?, bytes)) };
        let count = self.rows * self.n;
        Ok([part(count * self.key_size())?, if self.out.carries() { part(count * 4)? } else { (0, 0) }])
    }
}

/// Ranges that a kernel touches, without those that are not there.
pub(in crate::vulkan) fn present(ranges: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    ranges.into_iter().filter(|r| r.1 > 0).collect()
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SortKey {
    src: Dtype,
    out: Output,
    merge: bool,
    part_out: bool,
    lanes: u32,
    items: u32,
}

impl KernelKey for SortKey {
    fn name(&self) -> String {
        let what = self.out.op();
        format!("{what}_{}_{}", if self.merge { "merge" } else { "tile" }, self.src)
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = Defines::new();
        ordered(&mut d, self.src);
        self.out.define(&mut d, self.src);
        define(&mut d, "MODE", u32::from(self.merge));
        define(&mut d, "ITEMS", format!("{}u", self.items));
        if self.part_out {
            define(&mut d, "PART_OUT", 1);
        }
        Module {
            source: Source::File("sort.comp"),
            defines: d,
            spec: vec![self.lanes],
            subgroup_size: None,
            spirv16: false,
        }
    }
}

/// Sorts along `axis`, ascending, NaN last; `dst` has the shape and dtype of `src`, any strides.
pub fn sort(enc: &mut CommandEncoder, src: &DeviceView, axis: usize, dst: &DeviceView) -> Result<()> {
    run(enc, src, axis, dst, Output::of(src.dtype, false))
}

/// Indices (u32) that sort along `axis`, stable; `dst` has the shape of `src`, any strides.
pub fn argsort(enc: &mut CommandEncoder, src: &DeviceView, axis: usize, dst: &DeviceView) -> Result<()> {
    run(enc, src, axis, dst, Output::Indices)
}

/// The way that MLX_VK_SORT asks for.
fn forced(way: &str) -> bool {
    static WAY: OnceLock<Option<&str>> = OnceLock::new();
    *WAY.get_or_init(|| SORT.word()) == Some(way)
}

/// The sort of `src` along `axis`; none where there is nothing to do. `dst` may be shorter along it.
fn job<'a>(
    enc: &mut CommandEncoder,
    src: &'a DeviceView,
    axis: usize,
    dst: &'a DeviceView,
    out: Output,
) -> Result<Option<Job<'a>>> {
    let op = out.op();
    if src.dtype == Dtype::F64 {
        bail!(Value, "[{op}] float64 is not supported on the GPU.");
    }
    if src.size() == 0 {
        return Ok(None);
    }
    let n = src.shape[axis] as u64;
    let rows = src.size() as u64 / n;
    if rows > u64::from(u32::MAX) || n > 1 << 30 {
        bail!(Value, "[{op}] Shape {} is too large.", crate::core::layout::show(&src.shape));
    }
    // Both layouts over the same collapsed row axes.
    let others: Vec<usize> = (0..src.ndim()).filter(|&a| a != axis && src.shape[a] != 1).collect();
    let mut from: Vec<(i64, i64)> = others.iter().map(|&a| (src.shape[a], src.strides[a])).collect();
    let mut to: Vec<(i64, i64)> = others.iter().map(|&a| (dst.shape[a], dst.strides[a])).collect();
    let (a, b) = (collapse(from.iter().copied()), collapse(to.iter().copied()));
    if a.len() == b.len() && a.iter().zip(&b).all(|(x, y)| x.0 == y.0) {
        (from, to) = (a, b);
    }
    let nk = from.len() as u32;
    let next_row = [&from, &to].map(|axes| axes.last().map(|a| a.1));
    let list: Vec<(i64, i64)> = from.into_iter().chain(to).collect();
    let params = dims(enc, &list)?;
    let strides = [src.strides[axis], dst.strides[axis]];
    Ok(Some(Job { src, dst, out, strides, n, rows, params, nk, next_row }))
}

fn run(enc: &mut CommandEncoder, src: &DeviceView, axis: usize, dst: &DeviceView, out: Output) -> Result<()> {
    let Some(job) = job(enc, src, axis, dst, out)? else { return Ok(()) };
    let n = job.n;
    if tune::sort::is_short(n) {
        return rows::sort(enc, &job);
    }
    if by_radix(enc, n, src.dtype, out.carries()) {
        return radix::sort(enc, &job);
    }
    let shared = enc.device().features().shared_memory;
    let (lanes, items) = tune::sort::merged(n, job.key_size(), out.carries(), shared);
    merge_sort(enc, &job, lanes, items)
}

/// Whether rows of `n` elements are sorted by radix.
pub(in crate::vulkan) fn by_radix(enc: &CommandEncoder, n: u64, dtype: Dtype, carries: bool) -> bool {
    let f = enc.device().features();
    let key = if dtype.size() == 8 { 8 } else { 4 };
    let (lanes, items) = tune::sort::merged(n, key, carries, f.shared_memory);
    let merges = n.div_ceil(lanes * items).next_power_of_two().ilog2();
    let shorter = tune::sort::radix_pays(merges, dtype.size());
    let suited = ranks(f) && merges > 0;
    suited && !forced("merge") && !SORT_RADIX.disabled() && (shorter || forced("radix"))
}

fn merge_sort(enc: &mut CommandEncoder, job: &Job, lanes: u64, items: u64) -> Result<()> {
    let Job { src, dst, n, rows, .. } = *job;
    let tile = lanes * items;
    let tiles = n.div_ceil(tile);
    let passes = tiles.next_power_of_two().ilog2();
    let mut scratch = [[(0u64, 0u64); 2]; 2];
    for s in scratch.iter_mut().take(passes.min(2) as usize) {
        *s = job.scratch(enc)?;
    }
    for pass in 0..=passes {
        let last = pass == passes;
        let (input, output) = (scratch[(pass as usize + 1) % 2], scratch[pass as usize % 2]);
        let key = SortKey {
            src: src.dtype,
            out: job.out,
            merge: pass > 0,
            part_out: !last,
            lanes: lanes as u32,
            items: items as u32,
        };
        let run = if pass == 0 { tile } else { tile << (pass - 1) };
        let push = Push::default()
            .u64s(&[src.ptr, dst.ptr, job.params, input[0].0, input[1].0, output[0].0, output[1].0])
            .i64s(&job.strides)
            .u32s(&[n as u32, tiles as u32, job.nk, run as u32, rows as u32]);
        // The last pass of a gathering sort reads the source once more.
        let reads = present((pass > 0).then_some(input).into_iter().flatten().chain([src.range()]));
        let writes = if last { vec![dst.range()] } else { present(output) };
        let pipeline = enc.device().pipeline(&key)?;
        let groups = grid(enc, rows * tiles);
        enc.dispatch(&pipeline, &push, groups, &reads, &writes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::shader::compiler;

    #[test]
    fn every_variant_compiles() {
        for src in Dtype::ALL.into_iter().filter(|&d| d != Dtype::F64) {
            let values = Output::of(src, false);
            for out in [values, Output::Indices] {
                for (merge, part_out) in [(false, false), (true, true), (true, false)] {
                    let key = SortKey { src, out, merge, part_out, lanes: 256, items: 4 };
                    compiler::spirv(&key.name(), &key.module(&Features::default())).unwrap();
                }
            }
        }
    }
}
