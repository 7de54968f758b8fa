//! Host side of shaders/sort/search.comp: binary search of values in sorted rows, in the order that sorting has.

use crate::bail;
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::vulkan::kernels::elem::{Defines, Push, WG, define, grid, ordered};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SearchKey {
    dtype: Dtype,
    right: bool,
}

impl KernelKey for SearchKey {
    fn name(&self) -> String {
        format!("searchsorted_{}_{}", if self.right { "right" } else { "left" }, self.dtype)
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = Defines::new();
        ordered(&mut d, self.dtype);
        if self.right {
            define(&mut d, "RIGHT", 1);
        }
        Module {
            source: Source::File("search.comp"),
            defines: d,
            spec: vec![WG],
            subgroup_size: None,
            spirv16: false,
        }
    }
}

/// For each of `values` (rows, m), how many elements of its row of `sorted` (rows, n) or (1, n) come before it;
/// under `right` those equal to it count too. All without gaps; `dst` is uint32 (rows, m).
pub fn searchsorted(
    enc: &mut CommandEncoder,
    sorted: &DeviceView,
    values: &DeviceView,
    right: bool,
    dst: &DeviceView,
) -> Result<()> {
    let rows = |v: &DeviceView| if v.ndim() == 2 && v.is_row_contiguous() { v.shape[0] } else { -1 };
    let fits = rows(sorted) == 1 || (rows(sorted) >= 0 && rows(sorted) == rows(values));
    if !fits || rows(values) < 0 || dst.shape != values.shape || !dst.is_row_contiguous() {
        bail!(Value, "[searchsorted] Expected matrices without gaps and with equal rows.");
    }
    if sorted.dtype != values.dtype || dst.dtype != Dtype::U32 || sorted.dtype == Dtype::F64 {
        bail!(Value, "[searchsorted] Got {} to search for {}.", sorted.dtype, values.dtype);
    }
    let (n, m, count) = (sorted.shape[1] as u64, values.shape[1] as u64, values.size() as u64);
    if n > u64::from(u32::MAX) {
        bail!(Value, "[searchsorted] A sequence of {n} elements is too long.");
    }
    if count == 0 {
        return Ok(());
    }
    let stride = if sorted.shape[0] == 1 { 0 } else { n };
    let push = Push::default().u64s(&[sorted.ptr, values.ptr, dst.ptr, count, m, stride]).u32s(&[n as u32]);
    let pipeline = enc.device().pipeline(&SearchKey { dtype: sorted.dtype, right })?;
    let groups = grid(enc, count.div_ceil(u64::from(WG)));
    enc.dispatch(&pipeline, &push, groups, &[sorted.range(), values.range()], &[dst.range()])
}
