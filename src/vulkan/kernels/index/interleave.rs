//! Host side of shaders/index/interleave.comp: an array with every so many columns replaced.

use super::indexed::define_unit;
use crate::core::Result;
use crate::core::layout::collapse;
use crate::kernels::DeviceView;
use crate::vulkan::kernels::elem::{Defines, Push, WG, define, grid};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source, tune};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    /// Bytes of an element.
    unit: u64,
    step: u32,
}

impl KernelKey for Key {
    fn name(&self) -> String {
        format!("interleave_{}B_{}", self.unit, self.step)
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = Defines::new();
        define_unit(&mut d, self.unit);
        define(&mut d, "STEP", format!("{}u", self.step));
        Module { source: Source::File("interleave.comp"), defines: d, spec: vec![WG], ..Default::default() }
    }
}

/// Writes `dst` as `src` with `update` from `start` on, every `step` elements along each axis; false where a copy and a
/// write are better, or the kernel does not reach. `dst` and `src` are of one shape.
pub fn interleave(
    enc: &mut CommandEncoder,
    src: &DeviceView,
    update: &DeviceView,
    (start, step): (&[i64], &[i64]),
    dst: &DeviceView,
) -> Result<bool> {
    let Some(last) = dst.ndim().checked_sub(1) else { return Ok(false) };
    let whole = (0..last).all(|k| step[k] == 1 && update.shape[k] == dst.shape[k]);
    let suits = whole && update.size() > 0 && tune::index::interleaves(step[last]);
    let dense = |v: &DeviceView| v.is_row_contiguous() && v.ptr.is_multiple_of(16);
    if !suits || !dense(src) || !dense(dst) || dst.size() >= 1 << 31 {
        return Ok(false);
    }
    let (_, strides) = collapse(&update.shape[..last], &[&update.strides[..last]]);
    let row_step = match strides[0][..] {
        [] => 0,
        [one] => one,
        _ => return Ok(false),
    };
    let size = dst.dtype.size() as u64;
    let push = Push::default().u64s(&[src.ptr, update.ptr, dst.ptr]).i64s(&[row_step, update.strides[last]]);
    let sizes = [dst.size() as i64, dst.shape[last], start[last], update.shape[last]];
    // FITS: fewer than 2^31 elements.
    let push = push.u32s(&sizes.map(|n| n as u32));
    let pipeline = enc.device().pipeline(&Key { unit: size, step: step[last] as u32 })?;
    let vectors = (dst.size() as u64 * size).div_ceil(16);
    let groups = grid(enc, vectors.div_ceil(u64::from(WG)));
    enc.dispatch(&pipeline, &push, groups, &[src.range(), update.range()], &[dst.range()])?;
    Ok(true)
}
