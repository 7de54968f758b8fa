//! Host side of shaders/sort.comp: stable sort and argsort along one axis. Rows that fit a workgroup's
//! shared memory are sorted in one pass; longer ones as tiles that are then merged, doubling the run length
//! in each pass.

use super::elem::{Defines, Push, WG, collapse, compute_type, define, dims, grid, operand};
use super::{CommandEncoder, Features, KernelKey, Module, Source};
use crate::bail;
use crate::core::{Dtype, Kind, Result};
use crate::kernels::DeviceView;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    src: Dtype,
    arg: bool,
    merge: bool,
    part_out: bool,
    lanes: u32,
    items: u32,
}

impl KernelKey for Key {
    fn name(&self) -> String {
        let what = if self.arg { "argsort" } else { "sort" };
        format!("{what}_{}_{}", if self.merge { "merge" } else { "tile" }, self.src)
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = Defines::new();
        operand(&mut d, "A", self.src);
        operand(&mut d, "B", if self.arg { Dtype::U32 } else { self.src });
        let big = self.src.size() == 8;
        define(&mut d, "MODE", u32::from(self.merge));
        define(&mut d, "ITEMS", format!("{}u", self.items));
        define(&mut d, "KEY", if big { "uint64_t" } else { "uint" });
        define(&mut d, "KEY_SIZE", if big { 8 } else { 4 });
        define(&mut d, "KEY_TOP", if big { "U64_HIGH" } else { "0xffffffffu" });
        define(&mut d, "KEY_FLIP", if big { "U64_TOP_BIT" } else { "0x80000000u" });
        debug_assert!(self.src.kind() != Kind::Signed || compute_type(self.src).starts_with("int"));
        let flags = [(self.arg, "ARG"), (self.part_out, "PART_OUT")];
        flags.iter().filter(|x| x.0).for_each(|x| define(&mut d, x.1, 1));
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
    run(enc, src, axis, dst, false)
}

/// Indices (u32) that sort along `axis`, stable; `dst` has the shape of `src`, any strides.
pub fn argsort(enc: &mut CommandEncoder, src: &DeviceView, axis: usize, dst: &DeviceView) -> Result<()> {
    run(enc, src, axis, dst, true)
}

fn run(enc: &mut CommandEncoder, src: &DeviceView, axis: usize, dst: &DeviceView, arg: bool) -> Result<()> {
    let op = if arg { "argsort" } else { "sort" };
    if src.dtype == Dtype::F64 {
        bail!(Value, "[{op}] float64 is not supported on the GPU.");
    }
    if src.size() == 0 {
        return Ok(());
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
    let list: Vec<(i64, i64)> = from.into_iter().chain(to).collect();
    let params = dims(enc, &list)?;

    // Shared memory: at most 16 KiB for a tile, which every device has.
    let big = src.dtype.size() == 8;
    let items: u64 = match (big, arg) {
        (false, false) if n > 2048 => 16,
        (true, true) => 4,
        _ => 8,
    };
    let lanes = n.div_ceil(items).next_power_of_two().clamp(32, u64::from(WG));
    let tile = lanes * items;
    let tiles = n.div_ceil(tile);
    let passes = tiles.next_power_of_two().ilog2();
    let key_bytes = rows * n * if big { 8 } else { 4 };
    let mut scratch = [[(0u64, 0u64); 2]; 2];
    for s in scratch.iter_mut().take(passes.min(2) as usize) {
        s[0] = (enc.temp(key_bytes as usize)?, key_bytes);
        if arg {
            s[1] = (enc.temp((rows * n * 4) as usize)?, rows * n * 4);
        }
    }
    for pass in 0..=passes {
        let last = pass == passes;
        let (input, output) = (scratch[(pass as usize + 1) % 2], scratch[pass as usize % 2]);
        let key = Key {
            src: src.dtype,
            arg,
            merge: pass > 0,
            part_out: !last,
            lanes: lanes as u32,
            items: items as u32,
        };
        let run = if pass == 0 { tile } else { tile << (pass - 1) };
        let push = Push::default()
            .u64s(&[src.ptr, dst.ptr, params, input[0].0, input[1].0, output[0].0, output[1].0])
            .i64s(&[src.strides[axis], dst.strides[axis]])
            .u32s(&[n as u32, tiles as u32, nk, run as u32, rows as u32]);
        let reads = if pass == 0 { vec![src.range()] } else { input.to_vec() };
        let writes = if last { vec![dst.range()] } else { output.to_vec() };
        let live = |r: Vec<(u64, u64)>| r.into_iter().filter(|x| x.1 > 0).collect::<Vec<_>>();
        let pipeline = enc.device().pipeline(&key)?;
        let groups = grid(enc, rows * tiles);
        enc.dispatch(&pipeline, &push, groups, &live(reads), &live(writes))?;
    }
    Ok(())
}
