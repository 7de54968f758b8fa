//! Host side of shaders/attention/gated_delta.comp: all steps of the gated delta rule in one dispatch, states in registers.

use crate::bail;
use crate::core::Result;
use crate::core::layout::show;
use crate::kernels::DeviceView;
use crate::vulkan::kernels::elem::{Defines, Push, WG, define, grid, required_subgroup, shuffles};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    lanes: u32,
    each: u32,
    wide: bool,
    mask: bool,
}

impl KernelKey for Key {
    fn name(&self) -> String {
        "gated_delta".into()
    }

    fn module(&self, f: &Features) -> Module {
        let mut d = Defines::new();
        define(&mut d, "E", format!("{}u", self.each));
        let flags = [(self.wide, "WIDE"), (self.mask, "MASK"), (shuffles(f), "SG")];
        flags.iter().filter(|x| x.0).for_each(|x| define(&mut d, x.1, 1));
        Module {
            source: Source::File("gated_delta.comp"),
            defines: d,
            spec: vec![WG, self.lanes],
            subgroup_size: required_subgroup(f),
            spirv16: false,
        }
    }
}

/// Runs all steps over q, k (batch, steps, key heads, dk), v (batch, steps, value heads, dv), gate (batch, steps,
/// value heads, maybe dk), beta and the state (batch, value heads, dv, dk), all contiguous float32; `mask` (batch,
/// steps) holds bools. Writes outputs like `v` and the last state.
pub fn gated_delta(
    enc: &mut CommandEncoder,
    [q, k, v, gate, beta, state]: [&DeviceView; 6],
    mask: Option<&DeviceView>,
    dst: &DeviceView,
    after: &DeviceView,
) -> Result<()> {
    let [steps, hk, dk] = [1, 2, 3].map(|i| q.shape[i] as u64);
    let (hv, dv) = (v.shape[2] as u64, v.shape[3] as u64);
    let rows = q.shape[0] as u64 * hv * dv;
    let lanes = dk.div_ceil(4).next_power_of_two().clamp(8, WG.into());
    let each = dk.div_ceil(lanes);
    if rows > u32::MAX.into() || steps > u32::MAX.into() || each > 32 {
        bail!(Value, "[gated_delta_update] Shape {} is too large.", show(&v.shape));
    }
    let key = Key { lanes: lanes as u32, each: each as u32, wide: gate.ndim() == 4, mask: mask.is_some() };
    let pipeline = enc.device().pipeline(&key)?;
    let push = Push::default()
        .u64s(&[q.ptr, k.ptr, v.ptr, gate.ptr, beta.ptr, state.ptr])
        .u64s(&[mask.map_or(0, |m| m.ptr), dst.ptr, after.ptr])
        .u32s(&[rows, steps, hk, hv, dk, dv].map(|x| x as u32));
    let groups = grid(enc, rows.div_ceil(u64::from(WG) / lanes));
    let mut reads: Vec<_> = [q, k, v, gate, beta, state].into_iter().map(DeviceView::range).collect();
    reads.extend(mask.map(DeviceView::range));
    enc.dispatch(&pipeline, &push, groups, &reads, &[dst.range(), after.range()])
}
