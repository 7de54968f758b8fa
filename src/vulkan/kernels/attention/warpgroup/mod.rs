//! Attention of many queries on the warpgroups of NVIDIA's sm_90a, in PTX: heads of up to 128 features, all keys or those up to a
//! query's place, or those that a dense mask leaves. Keys and values are brought into images first. sdpa_coop.comp is the twin: MLX_VK_DISABLE=sdpa_warpgroup.

pub mod gradient;
mod keys;
mod mask;
mod program;
mod queries;
mod rows;
#[cfg(test)]
mod tests;

use smallvec::SmallVec;

use self::mask::{Mask, MaskArgs};
use self::program::{Args, KEYS, Program, ROWS, THREADS};
use self::rows::Sizes;
use super::{STATS, steps, tell};
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::vulkan::kernels::matmul::Operand;
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::kernels::matmul::warpgroup::{Order, STEP, Side};
use crate::vulkan::shader::pipeline::{KernelKey, Module, Source};
use crate::vulkan::tune::attention as table;
use crate::vulkan::{CommandEncoder, Features};

/// In names of kernels.
fn seen(causal: bool) -> &'static str {
    if causal { "_causal" } else { "" }
}

fn ptx(text: String, threads: u32) -> Module {
    Module { source: Source::Ptx { text, threads }, ..Default::default() }
}

impl KernelKey for Program {
    fn name(&self) -> String {
        let mask = self.mask.map_or("", Mask::name);
        format!("sdpa_warpgroup_{}_{}{}{mask}", self.dtype, self.features, seen(self.causal))
    }

    fn module(&self, _: &Features) -> Module {
        ptx(self.text(), THREADS)
    }
}

/// The kernel for arrays (batch, heads, length, features) whose rows can be read by vectors of 16 bytes, if there is one. With a
/// mask extents of rows are those of the twin, whose gradient reads them.
pub fn kernel(
    enc: &CommandEncoder,
    [q, k, v]: [&DeviceView; 3],
    mask: Option<&DeviceView>,
    extents: bool,
    (scale, causal): (f32, bool),
) -> Option<Program> {
    let [batch, heads, l, d] = [0, 1, 2, 3].map(|i| q.shape[i] as u64);
    let (kv, n, dv) = (k.shape[1] as u64, k.shape[2] as u64, v.shape[3] as u64);
    let device = enc.device();
    let held = mask.map(|m| Mask::of(m, q.dtype).filter(|_| !extents));
    if held == Some(None) {
        return None;
    }
    let features = table::warpgroup(device.profile(), q.dtype, [batch, heads, kv, l, n], [d, dv], causal)?;
    (takes([q, k, v], (scale, causal)) && device.warpgroups()).then_some(Program {
        dtype: q.dtype,
        features,
        causal,
        mask: held.flatten(),
    })
}

/// Whether kernels read arrays that lie so.
fn takes([q, k, v]: [&DeviceView; 3], (scale, causal): (f32, bool)) -> bool {
    // Images have a matrix for each head of each batch; powers of two grow with scores.
    let apart = [k, v].iter().all(|x| [0, 1].into_iter().all(|i| x.shape[i] == 1 || x.strides[i] > 0));
    let positive = [q, k, v].iter().all(|x| x.strides.iter().all(|&s| (0..1 << 32).contains(&s)));
    let causal_fits = !causal || k.shape[2] >= q.shape[2];
    apart && positive && scale > 0.0 && scale.is_finite() && causal_fits
}

/// Rows of an image.
fn side<'a>(x: &DeviceView, batch: &'a [i64; 2]) -> Side<'a> {
    let (s, [rows, cols]) = (steps(x), [x.shape[2], x.shape[3]]);
    let o =
        Operand { ptr: x.ptr, rs: s[2], cs: 1, batch: [s[0], s[1]].into_iter().collect(), range: x.range() };
    Side { o, rows, k: cols, batch, dtype: x.dtype }
}

/// Attention to the first range of memory; extents of rows go to the second, if there is one.
pub fn run(
    enc: &mut CommandEncoder,
    program: Program,
    [q, k, v]: [&DeviceView; 3],
    (mask, sinks): (Option<&DeviceView>, Option<&DeviceView>),
    scale: f32,
    [dst, extents]: [(u64, u64); 2],
) -> Result<()> {
    let [batch, heads, l, d] = [0, 1, 2, 3].map(|i| q.shape[i] as u64);
    let (n, dv) = (k.shape[2] as u64, v.shape[3] as u64);
    let matrices = [k.shape[0], k.shape[1]];
    let features = program.features;
    let [keys, values] = [k, v].map(|x| side(x, &matrices).image(enc, KEYS, features / STEP, Order::Dealt));
    let (keys, values) = (keys?, values?);
    let s = steps(q);
    let sizes = Sizes::of([q, k, v], scale);
    let args = Args {
        q: q.ptr,
        keys: keys.ptr,
        values: values.ptr,
        out: dst.0,
        extents: extents.0,
        sinks: sinks.map_or(0, |s| s.ptr),
        key_matrix: keys.matrix,
        value_matrix: values.matrix,
        q_batch: s[0] as u64,
        q_head: s[1] as u64,
        q_row: s[2] as u64,
        sizes,
        unscale: 1.0 / scale,
        unused: 0,
    };
    tell(enc, [batch, heads, l, n, d, dv], program.causal);
    STATS.attention(2, l, n, 1);
    let pipeline = enc.device().pipeline(&program)?;
    let mut reads = vec![q.range(), keys.range, values.range];
    reads.extend([mask, sinks].into_iter().flatten().map(DeviceView::range));
    let grid = [sizes.heads, sizes.l.div_ceil(ROWS), batch as u32];
    let written = [dst, extents];
    let mut told: SmallVec<[u8; 256]> = SmallVec::from_slice(args.bytes());
    if let Some(mask) = mask {
        told.extend_from_slice(MaskArgs::of(mask).bytes());
    }
    enc.dispatch(&pipeline, &told, grid, &reads, &written[..1 + usize::from(extents.0 != 0)])
}

/// Whether sinks lie as the kernel reads them.
pub fn takes_sinks(sinks: Option<&DeviceView>, dtype: Dtype) -> bool {
    sinks.is_none_or(|s| {
        s.dtype == dtype && (s.shape.iter().product::<i64>() == 1 || s.strides.last() == Some(&1))
    })
}
