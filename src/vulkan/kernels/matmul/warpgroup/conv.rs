//! Convolutions of 16-bit elements on warpgroups: outputs are rows of the input, read where taps meet them, by the kernel's image; the
//! gradient of the kernel is the output's, turned so that positions lie along K, by the input. Called by `conv`, whose gathered
//! products are the twin (MLX_VK_DISABLE=conv_warpgroup).

use super::after::After;
use super::image::{Order, Side};
use super::input::Input;
use super::program::{Args, Left, PRODUCT, Program, ROWS, Right, Store};
use super::taps::Geometry;
use super::text::Told;
use super::{TOGETHER, strides, table};
use crate::core::{Dtype, Result};
use crate::kernels::conv::Block;
use crate::vulkan::CommandEncoder;
use crate::vulkan::kernels::conv::{chunked, geometry};
use crate::vulkan::kernels::matmul::{Problem, REACH, add_parts, ceil, scratch_sums};
use crate::vulkan::tune::warpgroup::Plan;

/// A block on its way there.
pub struct Route {
    plan: Plan,
    axes: u32,
    geometry: Geometry,
    table: Vec<[i32; 4]>,
}

impl Route {
    /// What the kernel is told of the block; the table is uploaded.
    fn input(&self, enc: &mut CommandEncoder) -> Result<Input> {
        let bytes: Vec<u8> = self.table.as_flattened().iter().flat_map(|v| v.to_ne_bytes()).collect();
        Ok(self.geometry.arguments(enc.params(&bytes)?))
    }
}

/// The sizes of a block. What is of length one moves nothing.
fn sizes(b: &Block<u64>) -> Geometry {
    let n = b.axes.len();
    let three = |of: &dyn Fn(usize) -> i64, fill| [0, 1, 2].map(|i| if i < n { of(n - 1 - i) } else { fill });
    let steps = |shape: &[i64], strides: &[i64]| {
        [0, 1, 2, 3].map(|i| {
            let at = if i == 3 { 0 } else { n.saturating_sub(i) };
            if (i < n || i == 3) && shape[at] > 1 { strides[at] } else { 0 }
        })
    };
    Geometry {
        kernel: three(&|a| b.w.shape[a + 1], 1),
        dilation: three(&|a| b.axes[a].dilation, 1),
        low: three(&|a| b.axes[a].low, 0),
        out: three(&|a| b.y.shape[a + 1], 1),
        stride: three(&|a| b.axes[a].stride, 1),
        size: three(&|a| b.x.shape[a + 1], 1),
        channels: b.w.shape[n + 1],
        input: steps(&b.x.shape, &b.x.strides),
        result: steps(&b.y.shape, &b.y.strides),
    }
}

/// How a block goes to warpgroups, if it does: chunks of the input, and of the output where that is written, are aligned.
pub fn plan(enc: &CommandEncoder, p: &Problem, b: &Block<u64>, gradient: bool) -> Option<Route> {
    let device = enc.device();
    let half = matches!(p.dtype, Dtype::F16 | Dtype::BF16);
    let channels = b.w.shape[b.axes.len() + 1];
    let lies = chunked(&b.x, channels) && (gradient || chunked(&b.y, p.n));
    if !half || !lies || p.batches() > 65_535 || (if gradient { p.n } else { p.k }) > table::KERNEL {
        return None;
    }
    let whole = gradient || p.d_rs != 0;
    let plan = table::conv(device.profile(), &p.product(true), gradient, whole)?;
    let geometry = geometry(b).ok().map(|_| sizes(b)).filter(|_| device.warpgroups())?;
    let near = geometry.input.iter().zip(geometry.stride).all(|(step, stride)| step * stride < REACH);
    let table = geometry.table().filter(|_| near)?;
    Some(Route { plan, axes: b.axes.len() as u32, geometry, table })
}

/// What follows from the plan alone.
fn arguments(p: &Problem, plan: Plan, sums: bool) -> Args {
    // FITS: `geometry` saw that sizes have 32 bits.
    Args {
        rows: p.m as u32,
        columns: p.n as u32,
        k: p.k as u32,
        ldd: (if sums { p.n } else { p.d_rs }) as u32,
        steps: plan.steps,
        all_steps: plan.all_steps,
        tiles: [ceil(p.m, ROWS.into()), ceil(p.n, plan.columns.into())].map(|n| n as u32),
        together: TOGETHER,
        nb0: p.batches() as u32,
        out_batch: (if sums { p.m * p.n } else { p.d_batch }) as u32,
        ..Args::default()
    }
}

/// Runs a program, and adds its parts.
fn launch(
    enc: &mut CommandEncoder,
    p: &Problem,
    program: Program,
    (args, input, parts): (Args, Input, u32),
    reads: &[(u64, u64)],
) -> Result<()> {
    let sums = program.store == Store::SumRows;
    let pipeline = enc.device().pipeline(&program)?;
    let out = if sums { scratch_sums(enc, p.m * p.n * p.batches(), parts)? } else { p.d_range };
    let args = Args { out: if sums { out.0 } else { p.d }, ..args };
    enc.describe(2.0 * (p.m * p.n * p.k * p.batches()) as f64, &[p.batches(), p.m, p.n, p.k]);
    let grid = [args.tiles[0] * args.tiles[1], parts, p.batches() as u32];
    enc.dispatch(&pipeline, &[&args.bytes()[..PRODUCT], input.bytes()].concat(), grid, reads, &[out])?;
    if sums { add_parts(enc, p, p.push(), out, parts) } else { Ok(()) }
}

/// The output of a block; rows of `right` are the kernel's output channels.
pub fn output(enc: &mut CommandEncoder, p: &Problem, right: &Side<'_>, route: &Route) -> Result<()> {
    let Plan { columns, all_steps, parts, .. } = route.plan;
    let input = route.input(enc)?;
    let image = right.image(enc, columns, all_steps, Order::Dealt)?;
    let store = if parts > 1 { Store::SumRows } else { Store::Rows };
    let left = Left::Input(route.axes);
    let program =
        Program { dtype: p.dtype, columns, left, right: Right::Image, store, after: After::default() };
    let args = Args {
        left: p.a.ptr,
        right: image.ptr,
        image: image.matrix,
        left_batch: strides(&p.a),
        right_batch: right.steps(1),
        ..arguments(p, route.plan, parts > 1)
    };
    launch(enc, p, program, (args, input, parts), &[p.a.range, image.range])
}

/// The gradient of a block's kernel; rows of `p.a` are output channels, of which positions are K.
pub fn weight(enc: &mut CommandEncoder, p: &Problem, route: &Route) -> Result<()> {
    let Plan { columns, parts, .. } = route.plan;
    let input = route.input(enc)?;
    let left = Side { o: p.a.clone(), rows: p.m, k: p.k, batch: &p.batch, dtype: p.dtype };
    let rows = left.rows_of_k(enc)?;
    let sums = parts > 1 || !p.even(8);
    let store = if sums { Store::SumRows } else { Store::Rows };
    let right = Right::Input(route.axes);
    let program =
        Program { dtype: p.dtype, columns, left: Left::Values, right, store, after: After::default() };
    let args = Args {
        left: rows.ptr,
        right: p.b.ptr,
        // Steps from group to group are elements.
        image: 2,
        // INVARIANT: rows of K have a form.
        lda: rows.form(p.m, p.k).unwrap_or((false, 0)).1 as u32,
        left_batch: strides(&rows),
        right_batch: strides(&p.b),
        ..arguments(p, route.plan, sums)
    };
    launch(enc, p, program, (args, input, parts), &[rows.range, p.b.range])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::View;
    use crate::kernels::conv::DenseAxis;

    #[test]
    fn axes_come_from_the_inside_out() {
        let view = |shape: &[i64], strides: &[i64]| View {
            ptr: 0u64,
            dtype: Dtype::F16,
            shape: shape.into(),
            strides: strides.into(),
        };
        let axis = |stride, low, dilation| DenseAxis { stride, low, dilation };
        let b = Block {
            x: view(&[2, 9, 1, 8], &[80, 8, 3, 1]),
            w: view(&[16, 3, 5, 8], &[120, 40, 8, 1]),
            y: view(&[2, 4, 1, 16], &[64, 16, 16, 1]),
            axes: [axis(2, 1, -1), axis(1, 2, 3)].into_iter().collect(),
            groups: 1,
        };
        let g = sizes(&b);
        assert_eq!((g.kernel, g.dilation, g.low), ([5, 3, 1], [3, -1, 1], [2, 1, 0]));
        assert_eq!((g.out, g.stride, g.size), ([1, 4, 1], [1, 2, 1], [1, 9, 1]));
        assert_eq!((g.channels, g.input, g.result), (8, [0, 8, 0, 80], [0, 16, 0, 64]));
    }
}
