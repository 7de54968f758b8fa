//! How rows of x that pick their matrices of codes are multiplied in PTX (kernels/quantized/few_picked): which of them, and how
//! subgroups and shared memory are shared. Pure; called by the host of those products.

use super::few_rows::{Form, GROUP, GROUPS, RESIDENT, SHARED, SPAN, UNIT};
use super::pieces::{Piece, decodes};
use super::{Shape, ceil, forced, plain};
use crate::core::env::KernelVariant;
use crate::kernels::quantized::quant::Format;
use crate::vulkan::tune::profile::Profile;

pub static QMM_FEW_PICKED: KernelVariant = KernelVariant::new(
    "qmm_few_picked",
    "the shaders of each pick or of the picks of a matrix, for codes of four and eight bits on GPUs that take PTX",
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
/// Bytes of codes, at most one matrix for each pick, from which on the latter do from as many picks as the former: twice those of as many as
/// that there. H200, us of a layer of Mixtral 8x7B (8 matrices, 2 picks a row), of 8 and 32 rows 249 and 379, without this kernel 629 to 822 and
/// 434 to 504; gpt-oss-20b (32, 4) 115 and 194, without 445 to 489 and 592 to 648.
const LARGE: i64 = 64 << 20;
/// The same from which on any number of picks do.
const LARGEST: i64 = 48 << 20;
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
/// Elements that rows are whole numbers of: a chunk of four-bit codes.
const CHUNK: i64 = 32;
/// Pieces of a workgroup, at most, of other formats, of rows that are no whole pieces, and of longer ones; from how many on a subgroup has
/// two of them, and how many workgroups share K, at most. Not measured on a card yet: as few subgroups as that leaves have the
/// registers that two pieces need (`ptxas`), and a workgroup more of a multiprocessor is there while others wait for their codes.
const PIECES: i64 = 16;
/// See [`PIECES`].
const ONE_PIECE: i64 = 8;
/// See [`PIECES`].
const SPLITS: i64 = 8;
/// Bytes of what workgroups that share K leave, at most.
const LEFT: usize = 256 << 20;

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
    (p.count(&RESIDENT) as u32 * form.together / form.splits).min(units).max(1) * form.splits
}

/// The layout for picked products, of two matrices at once with `pair`, or such as are `summed` up.
pub(in crate::vulkan) fn layout(p: &Profile, s: &Shape, pair: bool, summed: bool) -> Option<Picked> {
    let (picks, matrices) = (s.batch, s.matrices);
    let bytes = picks.min(matrices).saturating_mul(s.n.saturating_mul(s.k)) / 8 * i64::from(s.format.bits);
    let least = match summed {
        _ if picks < LEAST && bytes >= LARGEST => 1,
        true if bytes < LARGE => LEAST_SUMMED,
        _ => LEAST,
    };
    let few = (least..=i64::from(PICKS)).contains(&picks)
        && picks <= MOST_EACH * matrices
        && (1..i64::from(MATRICES)).contains(&matrices);
    let codes = decodes(s.format, s.dtype);
    let whole = s.k > 0 && s.k % CHUNK == 0 && s.k % i64::from(s.format.group) == 0;
    let other = forced().is_some() || plain();
    // Rows of codes of a unit; those of all picks are counted by 32 bits.
    let unit = i64::from(UNIT) * if pair { 2 } else { 1 };
    let near = s.n > 0 && s.n % unit == 0 && s.n * s.k < 1 << 31 && picks * (s.n / unit + 1) < 1 << 31;
    if !p.features.ptx
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
    let usual = s.format.affine() && s.format.bits == 4 && s.format.group == GROUP;
    let laid = if usual && s.k % i64::from(SPAN) == 0 && s.k <= LONG_WARPS * i64::from(SPAN) {
        usual_layout(s)
    } else {
        other_layout(s)?
    };
    // FITS: as many as lists have room for.
    let most = items(matrices as u32).min(picks as u32) as usize * (s.n / i64::from(UNIT)) as usize;
    let left = 4 * most * laid.form.left(1) <= LEFT || laid.form.splits == 1;
    (left && laid.fits(s.format, [s.k as u32, matrices as u32])).then_some(laid)
}

/// Of four bits in groups of 64: a subgroup has one piece.
fn usual_layout(s: &Shape) -> Picked {
    let warps = s.k / i64::from(SPAN);
    let long = warps > WARPS;
    let together = (TOGETHER / warps).max(1);
    let sizes = [1, warps, 1, together].map(|n| n as u32);
    let buffers = if long { 1 } else { 2 };
    Picked { form: form(sizes, buffers), slots: if long { 1 } else { SLOTS } }
}

/// Of others, and of longer rows: as few workgroups share K as have room for their parts.
fn other_layout(s: &Shape) -> Option<Picked> {
    let (k, matrices) = (s.k as u32, s.matrices as u32);
    let all = ceil(s.k, Piece::of(s.format, k).span.into());
    for splits in ceil(all, PIECES)..=SPLITS {
        let own = ceil(all, splits);
        let pieces = if own > ONE_PIECE { 2 } else { 1 };
        let warps = ceil(own, pieces);
        // Every workgroup that shares K has some.
        if (splits - 1) * warps * pieces >= all {
            continue;
        }
        let sizes = [pieces, warps, splits, TOGETHER / warps].map(|n| n as u32);
        let slots = if pieces == 1 { vec![SLOTS, 1] } else { vec![1] };
        let ways = slots.into_iter().flat_map(|slots| [2, 1].map(|buffers| (slots, buffers)));
        let laid = ways.map(|(slots, buffers)| Picked { form: form(sizes, buffers), slots });
        if let Some(laid) = laid.into_iter().find(|l| l.fits(s.format, [k, matrices])) {
            return Some(laid);
        }
    }
    None
}

fn form([pieces, warps, splits, together]: [u32; 4], buffers: u32) -> Form {
    Form { tiles: 1, pieces, warps, splits, together, buffers, ahead: 0, groups: GROUPS, parts: 1, held: 0 }
}

impl Picked {
    /// Whether shared memory has room for all of it, and that of the sums of a workgroup for the counts of so many matrices.
    fn fits(&self, format: Format, [k, matrices]: [u32; 2]) -> bool {
        let Form { warps, pieces, buffers, .. } = self.form;
        let sums = buffers * self.form.sums();
        let lists = 2 * items(matrices).next_multiple_of(8) + 2 * PICKS + 4 * EIGHT + 12 + 8;
        self.slots * warps * pieces * Piece::of(format, k).bytes() + sums + lists <= SHARED
            && 4 * 32 * own(matrices) <= sums
    }
}

#[cfg(test)]
#[path = "few_picked_tests.rs"]
mod tests;
