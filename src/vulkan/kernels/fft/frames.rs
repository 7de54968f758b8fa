//! Host side of shaders/fft/overlap_add.comp: sums of overlapping rows.

use crate::bail;
use crate::core::Dtype;
use crate::core::Result;
use crate::core::layout::show;
use crate::kernels::DeviceView;
use crate::vulkan::kernels::elem::{Defines, Push, WG, collapse, dims, grid, operand};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct FramesKey(Dtype);

impl KernelKey for FramesKey {
    fn name(&self) -> String {
        format!("overlap_add_{}", self.0)
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = Defines::new();
        operand(&mut d, "A", self.0);
        operand(&mut d, "B", self.0);
        Module { source: Source::File("overlap_add.comp"), defines: d, spec: vec![WG], ..Default::default() }
    }
}

/// Sums the rows of `src` (`..., rows, n`, at least one row) into `dst` (`..., (rows - 1) * hop + n`, fresh), row `i`
/// from element `i * hop` on; float32 or complex64.
///
/// # Errors
/// Value error for other dtypes and sizes.
pub fn overlap_add(enc: &mut CommandEncoder, src: &DeviceView, hop: i64, dst: &DeviceView) -> Result<()> {
    if !matches!(src.dtype, Dtype::F32 | Dtype::C64) {
        bail!(Value, "[overlap_add] Expected float32 or complex64, got {}.", src.dtype);
    }
    if dst.size() == 0 {
        return Ok(());
    }
    let lead = src.ndim() - 2;
    let (rows, n, len) = (src.shape[lead], src.shape[lead + 1], dst.shape[lead]);
    let lines = dst.size() as i64 / len;
    if lines > i64::from(u32::MAX) {
        bail!(Value, "[overlap_add] Shape {} is too large.", show(&src.shape));
    }
    let kept = collapse((0..lead).map(|i| (src.shape[i], src.strides[i])));
    let params = dims(enc, &kept)?;
    let push = Push::default()
        .u64s(&[src.ptr, dst.ptr, params])
        .i64s(&[src.strides[lead], src.strides[lead + 1], dst.size() as i64])
        .u32s(&[lines as u32, rows as u32, n as u32, hop as u32, len as u32, kept.len() as u32]);
    let pipeline = enc.device().pipeline(&FramesKey(src.dtype))?;
    let groups = grid(enc, (dst.size() as u64).div_ceil(u64::from(WG)));
    enc.dispatch(&pipeline, &push, groups, &[src.range()], &[dst.range()])
}
