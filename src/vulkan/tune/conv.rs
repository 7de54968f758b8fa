//! How convolutions are computed: when Winograd's algorithm pays, and how the gradient of a kernel whose channels are
//! groups is dealt out. Pure; called by the hosts of `conv_winograd` and `conv_depthwise`.

use super::ceil;
use super::profile::{H200, Profile};
use crate::core::env::{Values, Variable};

pub static CONV_SCRATCH: Variable = Variable::new(
    "MLX_VK_CONV_SCRATCH",
    "256",
    Values::Number(1, 4096),
    "Mebibytes of scratch memory that a convolution by Winograd's algorithm takes at a time",
);

/// Fewest channels, on either side, for which products outweigh the memory traffic of the values (36 / 16 of the input
/// and the output, twice each) on an H200.
const WINOGRAD_CHANNELS: i64 = 48;
/// Fewest tiles of 4 x 4 outputs: a row of a tile of the products.
const WINOGRAD_TILES: i64 = 32;
/// Multiplications of an H200 that take as long as three dependent kernels in place of one.
const WINOGRAD_WORK: f64 = 5e8;

/// Threads of a workgroup of its transforms: few, for each takes some 170 registers of an H200.
pub const WINOGRAD_LANES: u64 = 64;
/// Parts of the tiles are multiples of so many: the rows of a tile of the products.
pub const WINOGRAD_PART: i64 = 128;

/// Whether Winograd's algorithm pays for so many channels, tiles, and multiplications of the plain sum.
pub fn winograd(p: &Profile, channels: i64, tiles: i64, work: i64) -> bool {
    channels >= WINOGRAD_CHANNELS && tiles >= WINOGRAD_TILES && work as f64 >= p.work(WINOGRAD_WORK, &H200)
}

/// conv_depthwise_grad.comp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depthwise {
    /// Threads along the channels.
    pub lanes: i64,
    /// Kernel elements of a thread.
    pub taps: i64,
    /// Parts that the positions are cut into, at most.
    pub parts: i64,
}

/// For so many positions, kernel elements and blocks of channels.
pub fn depthwise_gradient(p: &Profile, positions: i64, elements: i64, blocks: i64) -> Depthwise {
    let lanes = (blocks as u64).next_power_of_two().clamp(8, 32) as i64;
    // As many kernel elements a thread as leave the fewest over.
    let waste = |t: i64| (ceil(elements, t) * t - elements, -t);
    let taps = if elements == 1 { 1 } else { [3, 4, 5].into_iter().min_by_key(|&t| waste(t)).unwrap_or(3) };
    let others = ceil(blocks, lanes) * ceil(elements, taps);
    let parts = (4 * p.fill() as i64 / others).min(positions / (16 * (256 / lanes))).clamp(1, 1024);
    Depthwise { lanes, taps, parts }
}
