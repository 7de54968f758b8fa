//! Host side of attention's gradient on cooperative matrices (on warpgroups see warpgroup/gradient.rs): sdpa_grad_q.comp, which also writes what each row's weights
//! follow from, then sdpa_grad_kv.comp. Neither holds a matrix of scores.

use super::{Blocks, Kernel, Key, Mask, arguments, blocks, keys_of_row, steps, warpgroup, widened};
use crate::bail;
use crate::core::layout::row_major;
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::vulkan::CommandEncoder;
use crate::vulkan::hal::device::Device;
use crate::vulkan::kernels::elem::{Push, grid};
use crate::vulkan::kernels::elementwise::dense;
use crate::vulkan::kernels::matmul::fragment_probe;
use crate::vulkan::tune::attention::{self as table, Gradient};

/// The kernels for q (batch, heads, length, features) and keys and values of such shapes, if the device has some.
fn chosen(device: &'static Device, dtype: Dtype, q: &[i64], k: &[i64], v: &[i64]) -> Option<Gradient> {
    let [q, k, v] = [q, k, v].map(|s| [0, 1, 2, 3].map(|i| s[i] as u64));
    let rows = q[1] / k[1] * q[2];
    let tiles = q[0] * k[1] * (rows.div_ceil(16) + k[2].div_ceil(16));
    if rows > i32::MAX as u64 || k[2] > i32::MAX as u64 / 2 || tiles > u64::from(u32::MAX) {
        return None;
    }
    table::gradient(device.features(), dtype, rows, [q[3], v[3]], || fragment_probe::known(device, dtype, 16))
}

/// Whether the gradient has kernels for q, k and v of these shapes; and, where that is asked, whether the kernel of
/// attention itself keeps the extents of rows for it.
pub fn takes(enc: &CommandEncoder, dtype: Dtype, [q, k, v]: [&[i64]; 3], keeps: bool) -> bool {
    let few = keeps && table::vector(q[2] as u64, v[3] as u64);
    !few && !super::SDPA.disabled() && chosen(enc.device(), dtype, q, k, v).is_some()
}

/// What the gradient of attention follows from: see [`super::attention`]; its result, and the cotangent of that.
pub struct Given<'a> {
    pub q: &'a DeviceView,
    pub k: &'a DeviceView,
    pub v: &'a DeviceView,
    pub mask: Option<&'a DeviceView>,
    pub out: &'a DeviceView,
    pub cot: &'a DeviceView,
    /// Extents of rows, where attention kept them.
    pub extents: Option<&'a DeviceView>,
    pub scale: f32,
    pub causal: bool,
}

/// Writes the gradients of q, k and v, which are contiguous.
///
/// # Errors
/// Runtime error where [`takes`] is false.
pub fn gradient(enc: &mut CommandEncoder, g: &Given, [dq, dk, dv]: [&DeviceView; 3]) -> Result<()> {
    let device = enc.device();
    let Some(kernels) = chosen(device, g.q.dtype, &g.q.shape, &g.k.shape, &g.v.shape) else {
        bail!(Runtime, "[scaled_dot_product_attention] The device has no kernel for this gradient.");
    };
    let mut wide = widened(enc, &[g.q, g.k, g.v, g.cot])?;
    let whole = g.out.strides == row_major(&g.out.shape) && g.out.ptr.is_multiple_of(16);
    wide.push(if whole { g.out.clone() } else { dense(enc, g.out)? });
    let [q, k, v, cot, out] = [0, 1, 2, 3, 4].map(|i| &wide[i]);

    let [batch, heads, l, d] = [0, 1, 2, 3].map(|i| q.shape[i] as u64);
    let (kv, n, dv_) = (k.shape[1] as u64, k.shape[2] as u64, v.shape[3] as u64);
    let (group, lines) = (heads / kv, batch * heads * l);
    let rows = group * l;
    let given = Given { q, k, v, cot, out, ..*g };
    if let (Some(kernels), Some(extents)) = (warpgroup::gradient::kernels(enc, &given), g.extents) {
        enc.add_work(lines * n * (3 * d + 2 * dv_) / if g.causal { 16 } else { 8 });
        let to = [dq, dk, dv].map(DeviceView::range);
        return warpgroup::gradient::run(enc, kernels, &given, extents.range(), to);
    }
    let seen = g.mask.map_or(Ok(Blocks::default()), |m| blocks::look(enc, m))?;
    let bytes = 4 * lines;
    let shares = enc.temp(bytes as usize)?;
    let kept = g.extents.is_some();
    let extents = g.extents.map_or_else(|| enc.temp(bytes as usize), |x| Ok(x.ptr))?;
    let counts = [batch, kv, group, l, n, d, dv_, rows, 1, n].map(|x| x as u32);
    let arrays = [Some(q), Some(k), Some(v), g.mask];
    let push = arguments(enc, arrays, None, [out.ptr, 0, 0], &counts, g.scale, seen)?;
    let more =
        Push::default().u64s(&[cot.ptr, dq.ptr, dk.ptr, dv.ptr, extents, shares]).i64s(&steps(cot)[..3]);
    let push = [push, more.u32s(&[])].concat();
    let pairs = g.mask.is_some_and(blocks::in_pairs);
    let key = |kernel| Key {
        dtype: q.dtype,
        mask: Mask::of(g.mask, g.causal),
        sinks: false,
        wide: true,
        pairs,
        kept: kept && matches!(kernel, Kernel::Queries(..)),
        newest: None,
        kernel,
    };
    let mut reads: Vec<_> = [q, k, v, cot].into_iter().chain(g.mask).map(DeviceView::range).collect();
    reads.extend(seen.range());
    let rest = [(shares, bytes), (extents, bytes)];
    reads.extend(kept.then_some(rest[1]));
    let product = 2.0 * (lines * keys_of_row(l, n, g.causal)) as f64;
    let dims = [batch, heads, l, n, d].map(|x| x as i64);

    let Gradient { coop, teams, keys, queries } = kernels;
    let pipeline = enc.device().pipeline(&key(Kernel::Queries(coop, keys)))?;
    let groups = grid(enc, batch * kv * rows.div_ceil(16 * u64::from(coop.teams)));
    enc.add_work(lines * n * (2 * d + dv_) / if g.causal { 16 } else { 8 });
    enc.describe(product * (2 * d + dv_) as f64, &dims);
    let first: Vec<_> = reads.iter().copied().chain([out.range()]).collect();
    let written = [dq.range(), rest[0], rest[1]];
    enc.dispatch(&pipeline, &push, groups, &first, if kept { &written[..2] } else { &written })?;

    let coop = table::Coop { teams, ..coop };
    let pipeline = enc.device().pipeline(&key(Kernel::Keys(coop, queries)))?;
    let groups = grid(enc, batch * kv * n.div_ceil(16 * u64::from(teams)));
    enc.add_work(lines * n * (d + dv_) / if g.causal { 8 } else { 4 });
    enc.describe(product * (d + dv_) as f64, &dims);
    reads.extend(rest);
    enc.dispatch(&pipeline, &push, groups, &reads, &[dk.range(), dv.range()])
}
