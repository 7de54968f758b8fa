//! Host side of shaders/index/mask_rank.comp: ranks of the true elements of a boolean matrix.

use crate::bail;
use crate::core::Result;
use crate::core::layout::show;
use crate::kernels::DeviceView;
use crate::vulkan::kernels::elem::{Defines, Push, WG, collapse, define, dims, grid};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

/// Elements of a block.
const BLOCK: u64 = WG as u64 * 16;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct MaskKey {
    mode: u32,
}

impl KernelKey for MaskKey {
    fn name(&self) -> String {
        format!("mask_{}", ["count", "sum", "rank"][self.mode as usize])
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = Defines::new();
        define(&mut d, "MODE", self.mode);
        Module { source: Source::File("mask_rank.comp"), defines: d, spec: vec![WG], ..Default::default() }
    }
}

/// Writes to `dst` (contiguous int32 of the shape of `src`, a boolean matrix) how many elements before each in
/// its row are true.
pub fn rank(enc: &mut CommandEncoder, src: &DeviceView, dst: &DeviceView) -> Result<()> {
    if src.size() == 0 {
        return Ok(());
    }
    let n = src.shape[1] as u64;
    let rows = src.size() as u64 / n;
    let blocks = n.div_ceil(BLOCK);
    if n > 1 << 31 || rows * blocks > u64::from(u32::MAX) {
        bail!(Value, "[mask_rank] Shape {} is too large.", show(&src.shape));
    }
    let row = collapse([(src.shape[0], src.strides[0])]);
    let line = collapse([(src.shape[1], src.strides[1])]);
    let list: Vec<(i64, i64)> = row.iter().chain(&line).copied().collect();
    let params = dims(enc, &list)?;
    let sums = (enc.temp(4 * (rows * blocks) as usize)?, 4 * rows * blocks);
    let counts = [rows, n, blocks, row.len() as u64, line.len() as u64].map(|x| x as u32);
    let push = Push::default().u64s(&[src.ptr, dst.ptr, sums.0, params]).u32s(&counts);
    let grids = [rows * blocks, rows, rows * blocks];
    for mode in 0..3 {
        let pipeline = enc.device().pipeline(&MaskKey { mode })?;
        let groups = grid(enc, grids[mode as usize]);
        let (reads, writes) = match mode {
            0 => ([src.range(), (0, 0)], sums),
            1 => ([sums, (0, 0)], sums),
            _ => ([src.range(), sums], dst.range()),
        };
        enc.dispatch(&pipeline, &push, groups, &reads, &[writes])?;
    }
    Ok(())
}
