//! Host side of shaders/index/gather.comp. Rows that lie together are copied in the widest units that addresses,
//! steps and the length of a row allow.

use super::indexed::{Indices, Words, define_unit, shift, widest};
use crate::bail;
use crate::core::Result;
use crate::kernels::DeviceView;
use crate::kernels::index::indexed::{Role, Walk};
use crate::vulkan::kernels::elem::{Defines, Push, WG, define, grid};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct GatherKey {
    /// Bytes copied at once.
    unit: u64,
    indices: Indices,
    axes: usize,
    /// Four neighbours along the last axis a lane.
    four: bool,
    /// 64-bit positions.
    big: bool,
}

impl KernelKey for GatherKey {
    fn name(&self) -> String {
        format!("gather_{}B_{}", self.unit, self.indices.name())
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = Defines::new();
        define_unit(&mut d, self.unit);
        self.indices.define(&mut d);
        define(&mut d, "AXES", format!("{}u", self.axes));
        let flags = [(self.four, "FOUR"), (self.big, "BIG")];
        flags.iter().filter(|f| f.0).for_each(|f| define(&mut d, f.1, 1));
        Module { source: Source::File("gather.comp"), defines: d, spec: vec![WG], ..Default::default() }
    }
}

/// Writes the dense, contiguous array `dst` of a walk over the base `src`. Index arrays are of one integer
/// dtype; negative indices count from the end, others out of range are held inside the axis.
pub fn gather(
    enc: &mut CommandEncoder,
    walk: &Walk,
    src: &DeviceView,
    indices: &[DeviceView],
    dst: &DeviceView,
) -> Result<()> {
    if walk.size() == 0 {
        return Ok(());
    }
    let kind = Indices::of("gather", indices)?;
    let size = src.dtype.size() as i64;
    let mut dims = &walk.dims[..];
    let mut row = 1;
    if let Some((last, others)) = dims.split_last()
        && last.role == Role::Row
        && last.base == 1
    {
        (row, dims) = (last.size, others);
    }
    let steps = dims.iter().map(|d| d.base).chain(walk.picks.iter().map(|p| p.stride));
    let unit = widest(size, row, steps, &[src.ptr, dst.ptr]);
    let per = unit / size;
    let inner = row / per;
    if inner > i64::from(u32::MAX) {
        bail!(Value, "[gather] Rows of more than 4294967295 elements are not supported.");
    }
    let mut words = Words::default();
    dims.iter().for_each(|d| words.axis(&[d.size, d.base / per], d));
    words.picks(walk, indices, |k| walk.picks[k].stride / per);
    let params = words.upload(enc)?;
    let four = inner == 1
        && unit == size
        && dst.ptr.is_multiple_of(16)
        && dims.last().is_some_and(|d| d.size % 4 == 0);
    let total = walk.size() / if four { 4 } else { per as u64 };
    let push = Push::default().u64s(&[src.ptr, dst.ptr, params, total]);
    let push = push.u32s(&[inner as u32, shift(inner as u64)]);
    let big = walk.size() / per as u64 >= 1 << 31;
    let key = GatherKey { unit: unit as u64, indices: kind, axes: dims.len(), four, big };
    let pipeline = enc.device().pipeline(&key)?;
    let block = u64::from(if four { WG } else { 2 * WG });
    let groups = grid(enc, total.div_ceil(block));
    let reads: Vec<_> = std::iter::once(src).chain(indices).map(DeviceView::range).collect();
    enc.dispatch(&pipeline, &push, groups, &reads, &[dst.range()])
}
