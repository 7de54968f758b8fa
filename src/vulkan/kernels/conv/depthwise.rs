//! Host side of the kernels for convolutions in which every input channel is a group of its own: bound by
//! memory, so they read whole chunks of channels. Called by `conv`.

use super::{chunked, geometry, operand};
use crate::core::Result;
use crate::core::layout::row_major;
use crate::kernels::View;
use crate::kernels::conv::Block;
use crate::vulkan::CommandEncoder;
use crate::vulkan::kernels::elem::launch;
use crate::vulkan::kernels::elementwise;
use crate::vulkan::kernels::matmul::kernel::{Gather, Kernel, MatmulKey, Push};
use crate::vulkan::kernels::matmul::{Problem, add_parts, ceil, plain, scratch_sums};
use crate::vulkan::tune::conv::{Depthwise, depthwise_gradient};

/// Outputs along x that a thread of conv_depthwise.comp sums, as that is written.
const RUN: i64 = 4;

/// The block as a problem: positions, output channels, kernel elements.
fn problem(b: &Block<u64>) -> Problem {
    let (outputs, k) = (b.w.shape[0], b.w.shape[1..].iter().product::<i64>());
    Problem {
        right_matrices: 1,
        fused: None,
        table: None,
        dtype: b.x.dtype,
        m: b.y.size() as i64 / outputs,
        n: outputs,
        k,
        batch: Default::default(),
        a: operand(&b.x, 0, 1, 0),
        b: operand(&b.w, 0, 1, 0),
        c: None,
        alpha: 1.0,
        beta: 0.0,
        d: b.y.ptr,
        d_rs: 0,
        d_batch: 0,
        d_range: b.y.range(),
    }
}

fn key(kernel: Kernel, b: &Block<u64>, strided: bool) -> MatmulKey {
    let gather = Gather { axes: b.axes.len() as u32, gradient: false, wide: false, strided, fixed: None };
    MatmulKey { gather: Some(gather), ..plain(kernel, b.x.dtype) }
}

/// Channels that a thread loads at once: a chunk where all operands allow it.
fn channels(views: &[&crate::kernels::DeviceView], b: &Block<u64>) -> i64 {
    let outputs = b.w.shape[0];
    let fits = outputs == b.groups && views.iter().all(|v| chunked(v, outputs));
    if fits { 16 / b.x.dtype.size() as i64 } else { 1 }
}

/// Output of a block whose channels are groups; channels of `x` and `y` are neighbours.
pub(in crate::vulkan) fn output(enc: &mut CommandEncoder, b: &Block<u64>) -> Result<()> {
    let order: Vec<usize> = (1..b.w.ndim()).chain([0]).collect();
    let w = elementwise::dense(enc, &b.w.permute(&order))?;
    let mut p = problem(b);
    p.b = operand(&w, 0, 1, 0);
    let rows = b.y.rows();
    p.d_rs = rows.as_ref().map_or(0, |y| y.strides[0]);
    let channels = channels(&[&b.x, &w, &b.y], b);
    let kernel = Kernel::Depthwise { channels: channels as u32 };
    let pipeline = enc.device().pipeline(&key(kernel, b, rows.is_none()))?;
    let numbers = geometry(b)?;
    let push = Push { c: enc.params(&numbers.bytes())?, lda: (p.n / b.groups) as u32, ..p.push() };
    let out_x = b.y.shape[b.y.ndim() - 2];
    let threads = p.m / out_x * ceil(out_x, RUN) * ceil(p.n, channels);
    enc.describe(2.0 * p.m as f64 * p.n as f64 * p.k as f64, &[p.m, p.n, p.k]);
    launch(enc, &pipeline, push, ceil(threads, 256) as u64, 1, 1, &p.reads(), &[p.d_range])
}

/// Gradient of the kernel of such a block.
pub(in crate::vulkan) fn weight(enc: &mut CommandEncoder, b: &Block<u64>) -> Result<()> {
    let y = match b.y.rows() {
        Some(y) => y,
        None => {
            let y = elementwise::dense(enc, &b.y)?;
            // INVARIANT: the copy is contiguous.
            y.rows().expect("contiguous rows")
        }
    };
    let w = match b.w.is_row_contiguous() {
        true => b.w.clone(),
        false => {
            let ptr = enc.temp((b.w.size() * b.w.dtype.size()).next_multiple_of(16))?;
            View { ptr, strides: row_major(&b.w.shape), ..b.w.clone() }
        }
    };
    let p = Problem { b: operand(&y, y.strides[0], 1, 0), ..problem(b) };
    let channels = channels(&[&b.x, &y], b);
    let blocks = ceil(p.n, channels);
    let Depthwise { lanes, taps, parts } = depthwise_gradient(enc.device().profile(), p.m, p.k, blocks);
    let groups = ceil(blocks, lanes);
    let split = ceil(p.m, parts);
    let parts = ceil(p.m, split);
    let kernel =
        Kernel::DepthwiseGradient { channels: channels as u32, lanes: lanes as u32, taps: taps as u32 };
    let pipeline = enc.device().pipeline(&key(kernel, b, false))?;
    let numbers = geometry(b)?;
    // Sums of one part are added too, and the grid has kernel elements in place of a batch: no work for `launch_parts`.
    let sums = scratch_sums(enc, p.n * p.k, parts as u32)?;
    let push = Push {
        c: enc.params(&numbers.bytes())?,
        d: sums.0,
        lda: (p.n / b.groups) as u32,
        ldb: y.strides[0] as u32,
        k_split: split as u32,
        ..p.push()
    };
    enc.describe(2.0 * p.m as f64 * p.n as f64 * p.k as f64, &[p.m, p.n, p.k]);
    launch(enc, &pipeline, push, groups as u64, parts as u32, ceil(p.k, taps), &p.reads(), &[sums])?;
    let total =
        Problem { m: p.n, n: p.k, k: 0, d: w.ptr, d_rs: p.k, d_batch: p.n * p.k, d_range: w.range(), ..p };
    add_parts(enc, &total, total.push(), sums, parts as u32)?;
    if b.w.is_row_contiguous() { Ok(()) } else { elementwise::copy(enc, &w, &b.w) }
}
