//! How few rows are multiplied by matrices of four-bit codes on cooperative matrices while they stay in registers
//! (shaders/quantized/qmm_held.comp), and where that pays. Pure; called by [`choose`](super::choose) and by the host of
//! joined products.

use super::{Shape, forced, plain, winner};
use crate::core::Dtype;
use crate::core::env::KernelVariant;
use crate::vulkan::Features;
use crate::vulkan::tune::ceil;
use crate::vulkan::tune::matmul as table;
use crate::vulkan::tune::profile::{Best, Profile, best};

pub static QMM_HELD: KernelVariant =
    KernelVariant::new("qmm_held", "the kernel on cooperative matrices that reads x for all rows of codes");

/// A layout of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::vulkan) struct Held {
    /// Subgroups of a workgroup, each with a part of K.
    pub subgroups: u32,
    /// Columns of a matrix.
    pub cols: u32,
    /// Rows of x that there is room for, whole eights.
    pub width: u32,
    /// Groups of K of a subgroup; of dense matrices pieces of 32 elements.
    pub turn: u32,
    /// Workgroups that share K.
    pub splits: u32,
    /// Buffers of sums: with two, a barrier less for each unit.
    pub buffers: u32,
    /// Ordinary arithmetic in place of matrix instructions.
    pub plain: bool,
}

/// Its number in the cache: how it is laid out follows from the product.
pub(super) const NUMBERS: [u32; 1] = [2];

/// Rows of x that it takes. H200, 24576 x 4096 with their unit, 4096 x 12288, 6144 x 4096 and 4096 x 4096, us: 8 rows 28.6, 20.3,
/// 11.1 and 9.7 (qmm_coop 40.1, 22.6, 13.8 and 10.8), 3 rows 28.0, 19.7, 10.7 and 9.2 (32.0, 18.6, 13.8 and 9.5). Two rows, and
/// 16 in twice the registers, were not found faster, by runs whose clocks differed.
const ROWS: std::ops::RangeInclusive<i64> = 3..=8;
/// Columns of sums: as many as rows of x, whatever the matrix has.
pub(in crate::vulkan::tune) const WIDTH: u32 = 8;
/// Codes of a subgroup: as many elements of eight rows of x as 32 registers of a lane hold. H200: with 512 a lane needs more
/// than 128 registers (docs/performance.md has figures).
const CODES: i64 = 256;
/// Most subgroups of a workgroup.
const SUBGROUPS: i64 = 16;
/// Shortest rows that take it: H200, 0.6B, 1024 codes 7.2 us where qmm_coop takes 5.6, 2048 6.7 and 7.4.
const LONG: i64 = 2048;
/// Subgroups that a device has at once, at the kernel's registers.
static RESIDENT: Best = best("qmm_held_subgroups", 132 * 16);
/// Bytes of shared memory up to which there are two buffers.
const TWO_BUFFERS: u32 = 32 << 10;

impl Held {
    /// Floats of shared memory between two columns of sums.
    const COLUMN: u32 = 20;

    /// Bytes of shared memory with so many buffers, where a kernel needs so many floats besides.
    fn bytes(&self, buffers: u32, besides: u32) -> u32 {
        let sums = buffers * self.subgroups * self.width * Held::COLUMN;
        let plain = if self.plain { self.subgroups * (32 + 256 + 16 * self.cols) } else { 0 };
        4 * (sums + besides + plain) + 16
    }

    /// Floats for sums of x and factors of codes.
    fn of_codes(&self) -> u32 {
        let of_x = self.subgroups * self.width * self.turn;
        of_x + 4 * 16 * ((self.subgroups * self.turn).div_ceil(2) + 1)
    }

    /// With K cut into `parts`, each for a subgroup, and as many buffers as shared memory has room for. None where a device
    /// has no room, or does not see what workgroups leave for the last one of them.
    pub fn cut(self, f: &Features, parts: i64, besides: impl Fn(&Held) -> u32) -> Option<Held> {
        // Fewer of ordinary arithmetic, so that tests of short rows meet several workgroups.
        let most =
            if self.plain { 2 } else { SUBGROUPS.min(i64::from(f.max_workgroup_invocations / 32)).max(1) };
        let splits = ceil(parts, most);
        let h = Held { subgroups: ceil(parts, splits) as u32, splits: splits as u32, buffers: 1, ..self };
        if splits > 1 && !self.plain && !f.memory_model_device_scope {
            return None;
        }
        let besides = besides(&h);
        let buffers = if h.bytes(2, besides) <= TWO_BUFFERS.min(f.shared_memory) { 2 } else { 1 };
        (h.bytes(buffers, besides) <= f.shared_memory).then_some(Held { buffers, ..h })
    }

    /// Rows of results that one unit has: of each matrix where there are two at once.
    pub const UNIT: i64 = 16;

    /// Lists that so many units are dealt to, of nearly the same length; each is for `splits` workgroups.
    pub fn lists(&self, p: &Profile, units: i64) -> i64 {
        let most = (p.count(&RESIDENT) as i64 / i64::from(self.subgroups * self.splits)).max(1);
        ceil(units, ceil(units, most))
    }

    /// Floats that workgroups which share K leave, where `matrices` are multiplied at once.
    pub fn left(&self, units: i64, matrices: i64) -> usize {
        (units * matrices * Held::UNIT * i64::from(self.splits * self.width)) as usize
    }
}

/// The layout for a product, or for several whose rows of codes are `s.n` together. How K is cut depends on its length alone, so
/// that results do not depend on what is joined. `known` as for [`choose`](super::choose).
pub(in crate::vulkan) fn layout(p: &Profile, s: &Shape, known: &dyn Fn(Dtype, u32) -> bool) -> Option<Held> {
    let (f, plain) = (&p.features, plain());
    let half = matches!(s.dtype, Dtype::F16 | Dtype::BF16);
    let few = ROWS.contains(&s.m) && s.batch == 1 && s.matrices == 1 && s.transpose && !s.runs;
    let codes = s.format.affine() && s.format.bits == 4 && [64, 128].contains(&s.format.group);
    let other = forced().is_some() || winner(p, s).is_some_and(|won| won != NUMBERS);
    if !half || !few || !codes || other || QMM_HELD.disabled() {
        return None;
    }
    let lanes = table::fixed_subgroup(f) == Some(32) && f.subgroup_shuffle;
    if !plain && (s.k < LONG || !lanes) {
        return None;
    }
    let has = |n: &u32| plain || table::multiplies(f, s.dtype, [16, *n, 16]) && known(s.dtype, *n);
    let cols = [8, 16].into_iter().find(has)?;
    let turn = CODES / i64::from(s.format.group);
    let parts = ceil(s.k / i64::from(s.format.group), turn);
    let h = Held { subgroups: 1, cols, width: WIDTH, turn: turn as u32, splits: 1, buffers: 1, plain };
    h.cut(f, parts, Held::of_codes)
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
