//! How one row is multiplied by matrices of four-bit codes on cooperative matrices (shaders/quantized/qmm_row.comp), and
//! where that pays. Pure; called by [`choose`](super::choose) and by the host of joined products.

use super::{Shape, forced, plain, winner};
use crate::core::Dtype;
use crate::core::env::KernelVariant;
use crate::vulkan::tune::matmul as table;
use crate::vulkan::tune::profile::{Best, Profile, best};
use crate::vulkan::tune::{ceil, round_up};

pub static QMM_ROW: KernelVariant =
    KernelVariant::new("qmm_row", "the kernels of few rows and on cooperative matrices, for one row too");

/// A layout of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::vulkan) struct Row {
    /// Subgroups that share a row of codes.
    pub parts: u32,
    /// Subgroups beside each other, 16 rows of codes each.
    pub beside: u32,
    /// Columns that are staged.
    pub width: u32,
    /// Ordinary arithmetic in place of matrix instructions.
    pub plain: bool,
}

/// Its number in the cache: how it is laid out follows from the product.
pub(super) const NUMBERS: [u32; 1] = [1];

/// Groups of a turn.
const TURN: i64 = 8;
/// Steps of the staged columns: few modules, and whole turns of the longest groups.
const STEP: i64 = 2048;
/// Shortest rows that take it: H200, us with all that a command costs, qmm_rows or qmm_coop and this one: 4096 x 4096
/// 9.8 and 8.1, 12288 x 4096 15.7 and 13.0, 24576 x 4096 27.1 and 21.6, 4096 x 12288 22.5 and 16.1. Shorter ones were not
/// found faster.
const LONG: i64 = 4096;

/// Bytes of shared memory.
fn bytes(r: &Row, group: i64) -> i64 {
    let (width, threads) = (i64::from(r.width), i64::from(32 * r.parts * r.beside));
    let staged = (width / 8 + width / 32 + 4) * 16 + width / group * 8;
    let sums = 2 * 4 * i64::from(r.parts * 16 * r.beside) * 4;
    let plain = if r.plain { width + threads * 4 + threads / 32 * (256 + 128) * 4 } else { threads / 8 };
    staged + sums + plain
}

/// Subgroups that walk over the rows of codes side by side. H200, us of gate and up of 8B (4 parts beside 2) and of
/// 151936 x 4096: 264 workgroups 22.5 and 103, 396 21.8 and 93, as many as there are 23.0 and 108.
static WALKING: Best = best("qmm_row_subgroups", 132 * 24);

impl Row {
    /// Workgroups for so many units of rows: each has nearly as many.
    pub fn workgroups(&self, p: &Profile, units: i64) -> i64 {
        let most = (p.count(&WALKING) as i64 / i64::from(self.parts * self.beside)).max(1);
        ceil(units, ceil(units, most))
    }
}

/// The layout for a product, or for several whose rows of codes are `s.n` together; `pair`: of two at once. How a row is cut
/// depends on its length alone, so that results do not depend on what is joined. `known` as for
/// [`choose`](super::choose).
pub(in crate::vulkan) fn layout(
    p: &Profile,
    s: &Shape,
    pair: bool,
    known: &dyn Fn(Dtype, u32) -> bool,
) -> Option<Row> {
    let (f, plain) = (&p.features, plain());
    let half = matches!(s.dtype, Dtype::F16 | Dtype::BF16);
    let one = s.m == 1 && s.batch == 1 && s.matrices == 1 && s.transpose && !s.runs;
    let codes = s.format.affine() && s.format.bits == 4 && [32, 64, 128].contains(&s.format.group);
    let other = forced().is_some() || winner(p, s).is_some_and(|won| won != NUMBERS);
    if !half || !one || !codes || other || QMM_ROW.disabled() {
        return None;
    }
    let lanes = table::fixed_subgroup(f) == Some(32) && f.subgroup_clustered;
    if !plain
        && (s.k < LONG || !lanes || !table::multiplies(f, Dtype::F16, [16, 8, 16]) || !known(Dtype::F16, 8))
    {
        return None;
    }
    let group = i64::from(s.format.group);
    let turns = (s.k / (TURN * group)).max(1);
    let most = if plain { 2 } else { 8 };
    // Two turns a part where results of a pair meet in one workgroup: 4096 codes in 4 parts beside 2 21 us, in 8 28 to 34.
    // Alone a turn a part: 4096 codes in 8 parts 8.3, in 4 beside 2 9.3, 12288 in 8 14.5, in 8 beside 2 16.6, in 4 23.
    let (least, beside) = if pair { (2, 2) } else { (1, 1) };
    let parts = [8, 4, 2, 1].into_iter().find(|&n| n * least <= turns.max(least) && n <= most)?;
    let width = round_up(s.k, STEP) as u32;
    let r = Row { parts: parts as u32, beside, width, plain };
    let fits = bytes(&r, group) <= i64::from(f.shared_memory)
        && 32 * r.parts * r.beside <= f.max_workgroup_invocations;
    fits.then_some(r)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::quantized::quant::{Format, Mode};
    use crate::vulkan::tune::tests::devices;

    #[test]
    fn a_device_for_which_the_layout_is_too_large_keeps_its_kernels() {
        let mut p = devices::h200();
        let format = Format::new("test", Mode::Affine, 64, 4).unwrap();
        let s = Shape {
            dtype: Dtype::BF16,
            format,
            transpose: true,
            m: 1,
            n: 1 << 17,
            k: 12288,
            batch: 1,
            matrices: 1,
            runs: false,
        };
        let laid = |p: &Profile, pair| layout(p, &s, pair, &|_, _| true).map(|r| [r.parts, r.beside]);
        assert_eq!([laid(&p, false), laid(&p, true)], [Some([8, 1]), Some([8, 2])]);
        p.features.max_workgroup_invocations = 256;
        assert_eq!([laid(&p, false), laid(&p, true)], [Some([8, 1]), None]);
        p.features.max_workgroup_invocations = 128;
        assert_eq!(laid(&p, false), None);
    }
}
