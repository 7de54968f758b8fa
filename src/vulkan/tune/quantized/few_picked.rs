//! How rows of x that pick their matrices of four-bit codes are multiplied in PTX (kernels/quantized/few_picked): which of them, and how
//! subgroups and shared memory are shared. Pure; called by the host of those products.

use super::few_rows::{Form, GROUP, GROUPS, PIECE, RESIDENT, SHARED, SPAN, UNIT};
use super::{Shape, forced, plain};
use crate::core::Dtype;
use crate::core::env::KernelVariant;
use crate::vulkan::tune::profile::Profile;

pub static QMM_FEW_PICKED: KernelVariant = KernelVariant::new(
    "qmm_few_picked",
    "the shaders of each pick or of the picks of a matrix, for codes of four bits on GPUs that take PTX",
);

/// A layout of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::vulkan) struct Picked {
    /// That of the rows of a matrix.
    pub form: Form,
    /// Sides of units that shared memory has room for: all but one are on their way, and pieces of what takes the last one's place.
    pub slots: u32,
}

/// Picks of a matrix that are multiplied at once.
pub(in crate::vulkan) const EIGHT: u32 = 8;
/// Matrices to choose from, less than so many, and picks, at most: an item of a list has 16 bits, those of its matrix and above them
/// those of which eight picks it is.
pub(in crate::vulkan) const MATRICES: u32 = 1024;
/// See [`MATRICES`].
pub(in crate::vulkan) const PICKS: u32 = 512;
/// Picks that a lane looks at in a turn, and a subgroup.
pub(in crate::vulkan) const TAKEN: u32 = 8;
/// See [`TAKEN`].
pub(in crate::vulkan) const SEEN: u32 = 32 * TAKEN;
/// What the beginning of a matrix counts like, in units, as its rows of x are awaited: H200, 8 rows of 30B-A3B, gate and up and down
/// 26.9 and 16.4 us, without 27.2 and 16.8, two of them 27.6 and 16.3.
pub(in crate::vulkan) const BEGINNING: u32 = 1;
/// Its place among the kernels of `stats`.
pub(in crate::vulkan) const PLACE: usize = 9;

/// Picks from which on products go here, and those that are summed up, as sums are another kernel. 30B-A3B (128 matrices, 8 picks a row) in
/// steps of the library on an H200, us: gate and up of 1, 8 and 32 rows 10.9, 30.3 and 55.7 (qmm_joined_picked 11.3 and 50.7,
/// qmm_coop_grouped 103); down and sums of 8 and 32 rows 19.2 + 5.5 and 34.5 + 5.7 (qmm_combine 31.4, qmm_coop_grouped and sums 61.4 +
/// 9). By a host of its own, without the 3 that each command took more in those steps, down of 1, 2, 4, 8, 16 and 32 rows 6.8,
/// 8.2, 11.2, 16.1, 24.3 and 30.9 (qmm_combine 8.4, 11.2, 18.2, 30 and 53 of 1 to 16).
const LEAST: i64 = 8;
/// See [`LEAST`].
const LEAST_SUMMED: i64 = 40;
/// Picks of a matrix, on average, up to which they do: of more the codes are read again for every eight.
const MOST_EACH: i64 = 8;
/// Subgroups of a workgroup, at most, as shared memory has room for what they wait for; and of a multiprocessor, as registers have room
/// for their rows of x. H200, us of down of 8 rows by 3 subgroups, together 4, 5 and 6: 16.4, 16.1, 17.0; with room for two more
/// units each 17.3; gate and up of 8 rows by 8 subgroups, together 2 and 3: 26.9, 35.1, by 4 that have two pieces each 27.7.
const WARPS: i64 = 8;
/// See [`WARPS`].
const TOGETHER: i64 = 16;
/// The same where rows are longer, of which shared memory has room for one side of a unit (hidden sizes up to 4,096).
const LONG_WARPS: i64 = 16;
/// See [`Picked::slots`]: both sides of two matrices.
const SLOTS: u32 = 2;

/// Matrices of a lane that sums up how often they are picked, whole fours.
pub(in crate::vulkan) fn own(matrices: u32) -> u32 {
    matrices.div_ceil(32).next_multiple_of(4)
}

/// Items there may be: of eight picks of a matrix each, or of what is left of them.
pub(in crate::vulkan) fn items(matrices: u32) -> u32 {
    PICKS.min(matrices + PICKS / EIGHT)
}

/// Workgroups, of which all are at work at once, for so many units at most.
pub(in crate::vulkan) fn workgroups(p: &Profile, form: &Form, units: u32) -> u32 {
    (p.count(&RESIDENT) as u32 * form.together).min(units).max(1)
}

/// The layout for picked products, of two matrices at once with `pair`, or such as are `summed` up.
pub(in crate::vulkan) fn layout(p: &Profile, s: &Shape, pair: bool, summed: bool) -> Option<Picked> {
    let (picks, matrices) = (s.batch, s.matrices);
    let few = (if summed { LEAST_SUMMED } else { LEAST }..=i64::from(PICKS)).contains(&picks)
        && picks <= MOST_EACH * matrices
        && (1..i64::from(MATRICES)).contains(&matrices);
    let codes = s.format.affine() && s.format.bits == 4 && s.format.group == GROUP;
    let warps = s.k / i64::from(SPAN);
    let whole = s.k % i64::from(SPAN) == 0 && (1..=LONG_WARPS).contains(&warps);
    let other = forced().is_some() || plain();
    // Rows of codes of a unit; those of all picks are counted by 32 bits.
    let unit = i64::from(UNIT) * if pair { 2 } else { 1 };
    let near = s.n > 0 && s.n % unit == 0 && s.n * s.k < 1 << 31 && picks * (s.n / unit + 1) < 1 << 31;
    if !p.features.ptx
        || !matches!(s.dtype, Dtype::F16 | Dtype::BF16)
        || s.m != 1
        || !s.transpose
        || s.runs
        || !few
        || !codes
        || !whole
        || !near
        || other
        || QMM_FEW_PICKED.disabled()
    {
        return None;
    }
    let long = warps > WARPS;
    let warps = warps as u32;
    let together = (TOGETHER as u32 / warps).max(1);
    let form = Form {
        tiles: 1,
        pieces: 1,
        warps,
        splits: 1,
        together,
        buffers: if long { 1 } else { 2 },
        ahead: 0,
        groups: GROUPS,
        parts: 1,
        held: 0,
    };
    let laid = Picked { form, slots: if long { 1 } else { SLOTS } };
    (laid.fits(matrices as u32)).then_some(laid)
}

impl Picked {
    /// Whether shared memory has room for all of it, and that of the sums of a workgroup for the counts of so many matrices.
    fn fits(&self, matrices: u32) -> bool {
        let Form { warps, pieces, buffers, .. } = self.form;
        let sums = buffers * self.form.sums();
        let lists = 2 * items(matrices).next_multiple_of(8) + 2 * PICKS + 4 * EIGHT + 8;
        self.slots * warps * pieces * PIECE + sums + lists <= SHARED && 4 * 32 * own(matrices) <= sums
    }
}

#[cfg(test)]
#[path = "few_picked_tests.rs"]
mod tests;
