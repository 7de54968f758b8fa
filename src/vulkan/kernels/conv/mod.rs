//! Convolutions as products of matrices whose one operand is gathered from the input while it is multiplied
//! (shaders/conv/conv.glsl): rows are output positions, K runs over kernel elements and channels; for the
//! gradient of the kernel K runs over output positions. Tiles, tiers and split K are those of `matmul`.
//! A kernel of one element that moves nothing is a plain product; channels that are groups of their own go to
//! `conv_depthwise`, large float32 blocks with 3 x 3 kernels to `conv_winograd`, 16-bit ones to `matmul::warpgroup::conv` where there
//! are warpgroups. Called by `ops`.

pub(in crate::vulkan) mod depthwise;
#[cfg(test)]
mod shader_tests;
pub(in crate::vulkan) mod winograd;

use smallvec::SmallVec;

use super::elementwise;
use super::matmul::kernel::{Gather, Kernel, MatmulKey, Push, pipeline_for};
use super::matmul::warpgroup::{self, Side};
use super::matmul::{Operand, Problem, REACH, launch_parts, plain, reach};
use crate::bail;
use crate::core::env::KernelVariant;
use crate::core::layout::{collapse, row_major, show};
use crate::core::{Dtype, Error, Result};
use crate::kernels::conv::{Block, Conv, blocks};
use crate::kernels::{DeviceView, View};
use crate::vulkan::CommandEncoder;
use crate::vulkan::tune::matmul::{self as table, Shape as Product, Tier};

pub static CONV_DEPTHWISE: KernelVariant =
    KernelVariant::new("conv_depthwise", "the gathered product, one channel to a group");

pub static CONV_POINTWISE: KernelVariant =
    KernelVariant::new("conv_pointwise", "the gathered product, for kernels of one element too");

/// `y` = input `x` convolved with kernel `w`; layouts as in `kernels::conv`, any strides for `x` and `w`,
/// contiguous `y`. dtypes float16, bfloat16, float32.
pub fn output(
    enc: &mut CommandEncoder,
    x: &DeviceView,
    w: &DeviceView,
    y: &DeviceView,
    conv: &Conv,
) -> Result<()> {
    run(enc, x, w, y, conv, false)
}

/// `dw` = gradient of the kernel: the sum over outputs of `dy` times the input element that met the kernel
/// element there. Any strides for `x` and `dy`, contiguous `dw`.
pub fn weight(
    enc: &mut CommandEncoder,
    x: &DeviceView,
    dy: &DeviceView,
    dw: &DeviceView,
    conv: &Conv,
) -> Result<()> {
    run(enc, x, dw, dy, conv, true)
}

fn run(
    enc: &mut CommandEncoder,
    x: &DeviceView,
    w: &DeviceView,
    y: &DeviceView,
    conv: &Conv,
    gradient: bool,
) -> Result<()> {
    let dst = if gradient { w } else { y };
    conv.check([x, w, y], dst, matches!(dst.dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32))?;
    if !gradient && x.shape[0] > 1 && (is_far(x) || is_far(y)) {
        let half = x.shape[0] / 2;
        for (from, count) in [(0, half), (half, x.shape[0] - half)] {
            run(enc, &images(x, from, count), w, &images(y, from, count), conv, false)?;
        }
        return Ok(());
    }
    let parts = blocks(conv, x, w, y);
    if if gradient { parts.kernel_gaps } else { parts.output_gaps } {
        enc.fill(dst.range(), 0)?;
    }
    for b in parts.list {
        let x = near(enc, &b.x)?;
        let y = if gradient { near(enc, &b.y)? } else { b.y.clone() };
        let b = Block { x, y, ..b };
        let own_groups = b.groups > 1 && b.w.shape.last() == Some(&1);
        if own_groups && !CONV_DEPTHWISE.disabled() {
            if gradient { depthwise::weight(enc, &b)? } else { depthwise::output(enc, &b)? }
        } else if !gradient && winograd::suits(enc.device().profile(), &b) {
            winograd::output(enc, &b)?;
        } else if !(b.groups == 1
            && b.is_pointwise()
            && !CONV_POINTWISE.disabled()
            && pointwise(enc, &b, gradient)?)
        {
            if gradient { gather_weight(enc, &b)? } else { gather_output(enc, &b)? }
        }
    }
    Ok(())
}

/// Whether kernels do not reach all of a view.
fn is_far(v: &DeviceView) -> bool {
    v.layout().span().is_some_and(|(_, end)| end >= reach(v.dtype.size()))
}

/// So many images of a batch, from one on.
fn images(v: &DeviceView, from: i64, count: i64) -> DeviceView {
    let mut part = v.clone();
    part.ptr = v.ptr.wrapping_add_signed(from * v.strides[0] * v.dtype.size() as i64);
    part.shape[0] = count;
    part
}

/// The view with neighbouring channels and no negative stride; copied if it has not.
fn near(enc: &mut CommandEncoder, v: &DeviceView) -> Result<DeviceView> {
    let last = v.ndim() - 1;
    let fits = (v.strides[last] == 1 || v.shape[last] == 1) && v.strides.iter().all(|&s| s >= 0);
    if fits { Ok(v.clone()) } else { elementwise::dense(enc, v) }
}

/// A kernel of one element as a plain product; false where rows of the input or output are not evenly spaced.
fn pointwise(enc: &mut CommandEncoder, b: &Block<u64>, gradient: bool) -> Result<bool> {
    let (Some(x), Some(y), Some(w)) = (b.x.rows(), b.y.rows(), b.w.rows()) else {
        return Ok(false);
    };
    let dst = if gradient { &w } else { &y };
    if !dst.is_row_contiguous() {
        return Ok(false);
    }
    if gradient {
        super::matmul::matmul(enc, &y.permute(&[1, 0]), &x, &w)?;
    } else {
        super::matmul::matmul(enc, &x, &w.permute(&[1, 0]), &y)?;
    }
    Ok(true)
}

/// Values of three axes in the order z, y, x; missing ones in front.
fn three(list: impl DoubleEndedIterator<Item = i64>, fill: i64) -> [i64; 3] {
    let mut out = [fill; 3];
    for (o, v) in out.iter_mut().rev().zip(list.rev()) {
        *o = v;
    }
    out
}

/// Multiplier and shift by which shaders divide numbers below 2^31 (Granlund and Montgomery 1994, section 4).
fn divisor(d: i64) -> [i64; 2] {
    let d = d.max(1) as u64;
    let shift = d.next_power_of_two().ilog2();
    [((1u64 << (31 + shift)).div_ceil(d)) as i64, i64::from(shift)]
}

/// Numbers of the geometry that decide a specialised kernel.
pub(in crate::vulkan) const FIXED: usize = 27;
/// Largest coordinate that shaders reckon with.
const FAR: i64 = 1 << 29;

/// The geometry of a block, in the order of shaders/conv/conv.glsl.
pub(in crate::vulkan) struct Geometry([u32; 39]);

impl Geometry {
    /// As kernels read them.
    pub(in crate::vulkan) fn bytes(&self) -> SmallVec<[u8; 156]> {
        self.0.iter().flat_map(|v| v.to_ne_bytes()).collect()
    }

    /// The numbers that are specialisation constants.
    fn fixed(&self) -> [u32; FIXED] {
        std::array::from_fn(|i| self.0[i])
    }
}

/// Checks that shaders can reckon with the block's sizes.
pub(in crate::vulkan) fn geometry(b: &Block<u64>) -> Result<Geometry> {
    let last = b.x.ndim() - 1;
    let axes = || b.axes.iter();
    let kernel = three(b.w.shape[1..last].iter().copied(), 1);
    let out = three(b.y.shape[1..last].iter().copied(), 1);
    let (stride, low) = (three(axes().map(|a| a.stride), 1), three(axes().map(|a| a.low), 0));
    let dilation = three(axes().map(|a| a.dilation), 1);
    let size = three(b.x.shape[1..last].iter().copied(), 1);
    let channels = b.w.shape[last];
    let lists = [
        size,
        three(b.x.strides[1..last].iter().copied(), 0),
        stride,
        low,
        dilation,
        kernel,
        out,
        [channels, b.x.strides[0], b.y.strides[0]],
        three(b.y.strides[1..last].iter().copied(), 0),
    ];
    let mut all: SmallVec<[i64; 39]> = lists.iter().flatten().copied().collect();
    for d in [channels, kernel[2], kernel[1], out[2], out[1], out[0]] {
        all.extend(divisor(d));
    }
    let farthest = |i: usize| {
        (out[i] * stride[i]).abs() + low[i].abs() + (kernel[i] * dilation[i]).abs() + size[i].abs()
    };
    if is_far(&b.x)
        || is_far(&b.y)
        || (0..3).any(|i| farthest(i) >= FAR)
        || all[..FIXED].iter().any(|v| v.abs() >= REACH)
    {
        bail!(Value, "[conv] An input of shape {} is too large for the GPU.", show(&b.x.shape));
    }
    Ok(Geometry(std::array::from_fn(|i| all[i] as u32)))
}

/// Whether 16-byte loads reach every start of `chunk` neighbours of a view.
pub(in crate::vulkan) fn chunked(v: &DeviceView, channels: i64) -> bool {
    let vector = 16 / v.dtype.size() as i64;
    let outer = &v.strides[..v.ndim() - 1];
    let walked = outer.iter().zip(&v.shape).filter(|(_, d)| **d > 1);
    v.ptr.is_multiple_of(16) && channels % vector == 0 && walked.into_iter().all(|(s, _)| s % vector == 0)
}

/// Runs a product with a gathered operand.
fn multiply(
    enc: &mut CommandEncoder,
    p: &Problem,
    b: &Block<u64>,
    (ta, tb, ld): (bool, bool, i64),
    wide: bool,
    gradient: bool,
    strided: bool,
) -> Result<()> {
    let device = enc.device();
    let product = Product {
        dtype: p.dtype,
        m: p.m as u64,
        n: p.n as u64,
        k: p.k as u64,
        batch: p.batches() as u64,
        aligned: false,
    };
    let choose = if gradient { table::choose_long } else { table::choose_gathered };
    let mut choice = choose(device.profile(), &product);
    if strided {
        (choice.splits, choice.k_split) = (1, p.k as u32);
    }
    let partial = choice.splits > 1;
    let numbers = geometry(b)?;
    let gather = Gather {
        axes: b.axes.len() as u32,
        gradient,
        wide: chunked(&b.x, b.w.shape[b.w.ndim() - 1]),
        strided,
        fixed: None,
    };
    let kernel = match choice.tier {
        Tier::Khr => Kernel::Khr { tile: choice.tile },
        // The first asks for aligned operands, which a gathered one never is.
        Tier::Nv2 | Tier::Tiled => Kernel::Tiled { tile: choice.tile },
    };
    let general = MatmulKey { gather: Some(gather), wide, partial, ta, tb, ..plain(kernel, p.dtype) };
    let work = 2.0 * p.m as f64 * p.n as f64 * p.k as f64 * p.batches() as f64;
    let pipeline = if table::specialises(device.profile(), work) {
        let fixed = Some(numbers.fixed());
        pipeline_for(device, &general, MatmulKey { gather: Some(Gather { fixed, ..gather }), ..general })?
    } else {
        device.pipeline(&general)?
    };
    let even = p.d.is_multiple_of(16)
        && match strided {
            true => chunked_rows(&b.y),
            false => p.d_rs % 4 == 0,
        }
        && (p.batches() == 1 || p.d_batch % 4 == 0);
    let push = Push {
        lda: ld as u32,
        ldb: ld as u32,
        k_split: choice.k_split,
        flags: u32::from(even),
        c: enc.params(&numbers.bytes())?,
        ..p.push()
    };
    let groups = table::tiles(&product, choice.tile);
    // Bound by arithmetic: what the GPU would have copied meanwhile.
    enc.add_work((work / 16.0) as u64);
    enc.describe(work, &[p.batches(), p.m, p.n, p.k]);
    launch_parts(enc, p, &pipeline, [push, p.push()], groups, choice.splits)
}

/// Whether rows of four elements can be written at once.
fn chunked_rows(y: &DeviceView) -> bool {
    y.strides[..y.ndim() - 1].iter().all(|s| s % 4 == 0)
}

pub(in crate::vulkan) fn operand(v: &DeviceView, rs: i64, cs: i64, group: i64) -> Operand {
    Operand { ptr: v.ptr, rs, cs, batch: [group].into_iter().collect(), range: v.range() }
}

/// Channels of a group in the input, channels of a group in the output, kernel elements times the former.
fn sizes(b: &Block<u64>) -> (i64, i64, i64) {
    let last = b.w.ndim() - 1;
    (b.w.shape[last], b.w.shape[0] / b.groups, b.w.shape[1..].iter().product())
}

fn gather_output(enc: &mut CommandEncoder, b: &Block<u64>) -> Result<()> {
    let (inputs, outputs, k) = sizes(b);
    let last = b.y.ndim() - 1;
    let m = b.y.size() as i64 / b.w.shape[0];
    // The kernel with K contiguous as it usually lies, else brought into rows of output channels.
    let (shape, strides) = collapse(&b.w.shape[1..], &[&b.w.strides[1..]]);
    let flat = shape.is_empty() || shape.len() == 1 && strides[0][0] == 1;
    let (w, tb) = match flat && b.w.strides[0] >= 0 {
        true => (b.w.clone(), true),
        false => {
            let order: SmallVec<[usize; 6]> = (1..=last).chain([0]).collect();
            (elementwise::dense(enc, &b.w.permute(&order))?, false)
        }
    };
    let (ld, group) = if tb { (w.strides[0], outputs * w.strides[0]) } else { (b.w.shape[0], outputs) };
    let vector = 16 / w.dtype.size() as i64;
    let wide = w.ptr.is_multiple_of(16) && ld % vector == 0 && (tb || outputs % vector == 0);
    let rows = b.y.rows();
    let p = Problem {
        right_matrices: 1,
        fused: None,
        table: None,
        dtype: b.y.dtype,
        m,
        n: outputs,
        k,
        batch: [b.groups].into_iter().collect(),
        a: operand(&b.x, 0, 1, inputs),
        b: operand(&w, ld, 1, group),
        c: None,
        alpha: 1.0,
        beta: 0.0,
        d: b.y.ptr,
        d_rs: rows.as_ref().map_or(0, |y| y.strides[0]),
        d_batch: outputs,
        d_range: b.y.range(),
    };
    if let Some(route) = warpgroup::conv::plan(enc, &p, b, false) {
        let o = if tb { p.b.clone() } else { p.b.transposed() };
        let side = Side { o, rows: p.n, k: p.k, batch: &p.batch, dtype: p.dtype };
        match warpgroup::conv::output(enc, &p, &side, &route) {
            Err(Error::OutOfMemory { .. }) => {}
            done => return done,
        }
    }
    multiply(enc, &p, b, (false, tb, ld), wide, false, rows.is_none())
}

fn gather_weight(enc: &mut CommandEncoder, b: &Block<u64>) -> Result<()> {
    let (inputs, outputs, k) = sizes(b);
    let y = match b.y.rows() {
        Some(y) => y,
        None => {
            let y = elementwise::dense(enc, &b.y)?;
            // INVARIANT: the copy is contiguous.
            y.rows().expect("contiguous rows")
        }
    };
    let vector = 16 / y.dtype.size() as i64;
    let ld = y.strides[0];
    let wide = y.ptr.is_multiple_of(16) && ld % vector == 0 && outputs % vector == 0;
    let w = match b.w.is_row_contiguous() {
        true => b.w.clone(),
        false => {
            let ptr = enc.temp((b.w.size() * b.w.dtype.size()).next_multiple_of(16))?;
            View { ptr, strides: row_major(&b.w.shape), ..b.w.clone() }
        }
    };
    let p = Problem {
        right_matrices: 1,
        fused: None,
        table: None,
        dtype: y.dtype,
        m: outputs,
        n: k,
        k: y.shape[0],
        batch: [b.groups].into_iter().collect(),
        a: operand(&y, 1, ld, outputs),
        b: operand(&b.x, 0, 1, inputs),
        c: None,
        alpha: 1.0,
        beta: 0.0,
        d: w.ptr,
        d_rs: k,
        d_batch: outputs * k,
        d_range: w.range(),
    };
    let route = warpgroup::conv::plan(enc, &p, b, true);
    match route.map(|route| warpgroup::conv::weight(enc, &p, &route)) {
        None | Some(Err(Error::OutOfMemory { .. })) => {
            multiply(enc, &p, b, (true, false, ld), wide, true, false)?;
        }
        Some(done) => done?,
    }
    if b.w.is_row_contiguous() { Ok(()) } else { elementwise::copy(enc, &w, &b.w) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_divide() {
        for d in (1..200).chain([1000, 4096, 65537, (1 << 30) + 1, i32::MAX.into()]) {
            let [multiplier, shift] = divisor(d);
            assert!(multiplier < 1 << 32);
            for n in (0..5000i64).chain((0..1000).map(|i| i32::MAX as i64 - i * 977)) {
                // As shaders do: the upper word of an unsigned product, which may use all 64 bits.
                let product = (2 * n) as u64 * multiplier as u64;
                assert_eq!((product >> (32 + shift)) as i64, n / d, "{n} / {d}");
            }
        }
    }
}
