//! Host side of convolutions by Winograd's algorithm (shaders/conv/winograd.glsl): 3 x 3 kernels over two axes without
//! stride, in float32. The input becomes 36 matrices of tiles by channels, the kernel 36 of channels by channels; their
//! products, which are `matmul`'s, become the output. All of it takes scratch memory, so that many tiles are cut
//! into parts. The largest error is some 1.5e-6 of the largest output (64 channels of normal numbers; summed
//! directly 0.6e-6). Called by `conv`.

use super::{chunked, is_far};
use crate::core::env::KernelVariant;
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::kernels::conv::Block;
use crate::vulkan::kernels::elem::{Defines, Push, define, grid};
use crate::vulkan::kernels::elementwise;
use crate::vulkan::kernels::matmul::{Operand, Problem, REACH, ceil, reach, round_up, tiled};
use crate::vulkan::tune::conv::{CONV_SCRATCH, WINOGRAD_LANES, WINOGRAD_PART};
use crate::vulkan::tune::{self, Profile};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

pub static CONV_WINOGRAD: KernelVariant =
    KernelVariant::new("conv_winograd", "the gathered product, for large 3 x 3 kernels in float32 too");

/// Outputs of a tile along an axis.
const TILE: i64 = 4;
/// Values of a tile.
const PLACES: i64 = 36;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::vulkan) enum WinogradKey {
    /// conv_winograd_input.comp: channels of a thread.
    Input { width: u32 },
    /// conv_winograd_output.comp: channels of a thread.
    Output { width: u32 },
    /// conv_winograd_kernel.comp.
    Kernel,
}

impl KernelKey for WinogradKey {
    fn name(&self) -> String {
        match self {
            WinogradKey::Input { width } => format!("conv_winograd_input_v{width}"),
            WinogradKey::Output { width } => format!("conv_winograd_output_v{width}"),
            WinogradKey::Kernel => "conv_winograd_kernel".into(),
        }
    }

    fn module(&self, _: &Features) -> Module {
        let mut defines = Defines::new();
        let file = match self {
            WinogradKey::Input { .. } => "conv_winograd_input.comp",
            WinogradKey::Output { .. } => "conv_winograd_output.comp",
            WinogradKey::Kernel => "conv_winograd_kernel.comp",
        };
        if let WinogradKey::Input { width } | WinogradKey::Output { width } = self {
            define(&mut defines, "WIDTH", width);
            define(&mut defines, "LANES", WINOGRAD_LANES);
        }
        Module { source: Source::File(file), defines, ..Module::default() }
    }
}

/// Tiles along y and x of an image, and of all images.
fn tiles(b: &Block<u64>) -> (i64, i64, i64) {
    let (y, x) = (ceil(b.y.shape[1], TILE), ceil(b.y.shape[2], TILE));
    (y, x, b.y.shape[0] * y * x)
}

/// Zeros before the input along y and x, where no axis is mirrored: with one that is, the last kernel element comes
/// first.
fn lows(b: &Block<u64>) -> [i64; 2] {
    [0, 1].map(|i| if b.axes[i].dilation < 0 { b.axes[i].low + 2 } else { b.axes[i].low })
}

/// Whether a block goes this way: one that its kernels compute, with tiles that are mostly used, for which it pays.
pub(in crate::vulkan) fn suits(profile: &Profile, b: &Block<u64>) -> bool {
    let (x, w, y) = (&b.x, &b.w, &b.y);
    let form = y.dtype == Dtype::F32
        && b.groups == 1
        && b.axes.len() == 2
        && w.shape[1] == 3
        && w.shape[2] == 3
        && b.axes.iter().all(|a| a.stride == 1 && a.dilation.abs() == 1);
    if !form || CONV_WINOGRAD.disabled() {
        return false;
    }
    let (inputs, outputs, (.., count)) = (w.shape[3], w.shape[0], tiles(b));
    let positions = y.size() as i64 / outputs;
    // An output that meets no input is exactly zero, which only sums of its own inputs give.
    let meets = |(i, low): (usize, i64)| {
        let after = y.shape[i + 1] + 2 - low - x.shape[i + 1];
        -REACH / 4 < low && low <= 2 && after <= 2
    };
    let near = |v: &DeviceView| !is_far(v);
    tune::conv::winograd(profile, inputs.min(outputs), count, 18 * positions * inputs * outputs)
        && 2 * TILE * TILE * count <= 3 * positions
        && 2 * PLACES * inputs.max(outputs) * inputs.max(WINOGRAD_PART) < reach(4)
        && lows(b).into_iter().enumerate().all(meets)
        && x.shape[1..3].iter().chain(&y.shape[1..3]).all(|&n| n < REACH / 4)
        && [x, w, y].into_iter().all(near)
}

/// What the kernels of input and output have in common.
struct Side<'a> {
    view: &'a DeviceView,
    /// Channels of a thread.
    width: i64,
    /// Elements from one tile to the next in the transformed data.
    ld: i64,
    /// The transformed data of the tiles in work.
    place: u64,
}

impl<'a> Side<'a> {
    fn new(enc: &mut CommandEncoder, view: &'a DeviceView, tiles: i64) -> Result<Side<'a>> {
        let channels = view.shape[3];
        let ld = round_up(channels, 4);
        let place = enc.temp((PLACES * tiles * ld * 4) as usize)?;
        Ok(Side { view, width: if chunked(view, channels) { 4 } else { 1 }, ld, place })
    }

    fn bytes(&self, tiles: i64) -> (u64, u64) {
        (self.place, (PLACES * tiles * self.ld * 4) as u64)
    }

    fn channels(&self) -> i64 {
        self.view.shape[3]
    }

    /// Records a kernel over `count` tiles; `low` belongs to the input alone.
    fn run(
        &self,
        enc: &mut CommandEncoder,
        key: WinogradKey,
        b: &Block<u64>,
        (first, count): (i64, i64),
        low: Option<[i64; 2]>,
    ) -> Result<()> {
        let (v, (rows, columns, _)) = (self.view, tiles(b));
        let memory = match key {
            WinogradKey::Output { .. } => [self.place, v.ptr],
            _ => [v.ptr, self.place],
        };
        let mut numbers = vec![count, first, rows, columns, v.shape[1], v.shape[2]];
        numbers.extend(low.into_iter().flatten());
        numbers.extend([v.strides[0], v.strides[1], v.strides[2], self.channels(), self.ld]);
        let numbers: Vec<u32> = numbers.into_iter().map(|n| n as u32).collect();
        let push = Push::default().u64s(&memory).u32s(&numbers);
        let pipeline = enc.device().pipeline(&key)?;
        let threads = (count * self.channels() / self.width) as u64;
        let groups = grid(enc, threads.div_ceil(WINOGRAD_LANES));
        let (whole, part) = (v.range(), self.bytes(count));
        let (from, to) = if low.is_some() { (whole, part) } else { (part, whole) };
        enc.dispatch(&pipeline, &push, groups, &[from], &[to])
    }
}

/// The kernel's values, input channels by output channels for each place.
fn kernel_values(enc: &mut CommandEncoder, b: &Block<u64>) -> Result<Operand> {
    let w = match b.w.strides.iter().any(|&s| s < 0) {
        true => elementwise::dense(enc, &b.w)?,
        false => b.w.clone(),
    };
    let (inputs, outputs) = (w.shape[3], w.shape[0]);
    let ld = round_up(outputs, 4);
    let bytes = (PLACES * inputs * ld * 4) as u64;
    let ptr = enc.temp(bytes as usize)?;
    let flip = u32::from(b.axes[1].dilation < 0) | u32::from(b.axes[0].dilation < 0) << 1;
    let strides = [0, 1, 2, 3].map(|i| w.strides[i] as u32);
    let mut numbers = vec![inputs as u32, outputs as u32];
    numbers.extend(strides);
    numbers.extend([ld as u32, flip]);
    let push = Push::default().u64s(&[w.ptr, ptr]).u32s(&numbers);
    let pipeline = enc.device().pipeline(&WinogradKey::Kernel)?;
    let groups = [ceil(outputs, 32) as u32, ceil(inputs, 8) as u32, 1];
    enc.dispatch(&pipeline, &push, groups, &[w.range()], &[(ptr, bytes)])?;
    Ok(Operand { ptr, rs: ld, cs: 1, batch: [inputs * ld].into_iter().collect(), range: (ptr, bytes) })
}

/// Output of a block that [`suits`]; channels of `x` and `y` are neighbours.
pub(in crate::vulkan) fn output(enc: &mut CommandEncoder, b: &Block<u64>) -> Result<()> {
    let (inputs, outputs) = (b.w.shape[3], b.w.shape[0]);
    let (.., total) = tiles(b);
    // As few parts as scratch allows, of even size.
    let scratch = (CONV_SCRATCH.count() << 20) as i64;
    let most = (scratch / (PLACES * 4 * (inputs + outputs))).max(1);
    let part = round_up(ceil(total, ceil(total, most)), WINOGRAD_PART).min(total);
    let kernel = kernel_values(enc, b)?;
    let values = Side::new(enc, &b.x, part)?;
    let sums = Side::new(enc, &b.y, part)?;
    let low = lows(b);
    let into = WinogradKey::Input { width: values.width as u32 };
    let out_of = WinogradKey::Output { width: sums.width as u32 };
    let piece = |first: i64| (first, part.min(total - first));
    values.run(enc, into, b, piece(0), Some(low))?;
    for first in (0..total).step_by(part as usize) {
        let (_, count) = piece(first);
        let product = Problem {
            right_matrices: 1,
            table: None,
            dtype: Dtype::F32,
            m: count,
            n: outputs,
            k: inputs,
            batch: [PLACES].into_iter().collect(),
            a: Operand {
                ptr: values.place,
                rs: values.ld,
                cs: 1,
                batch: [count * values.ld].into_iter().collect(),
                range: values.bytes(count),
            },
            b: kernel.clone(),
            c: None,
            alpha: 1.0,
            beta: 0.0,
            d: sums.place,
            d_rs: sums.ld,
            d_batch: count * sums.ld,
            d_range: sums.bytes(count),
            fused: None,
        };
        tiled(enc, &product)?;
        // Beside the output of this part, the input of the next.
        if first + part < total {
            values.run(enc, into, b, piece(first + part), Some(low))?;
        }
        sums.run(enc, out_of, b, (first, count), None)?;
    }
    Ok(())
}
