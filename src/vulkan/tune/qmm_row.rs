//! How one row is multiplied by matrices of four-bit codes on cooperative matrices (shaders/quantized/qmm_row.comp), and
//! where that pays. Pure; called by [`choose`](super::quantized::choose) and by the host of joined products.

use super::matmul as table;
use super::profile::Profile;
use super::quantized::{Shape, forced, plain, winner};
use super::round_up;
use crate::core::Dtype;
use crate::core::env::KernelVariant;

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
    let sums = 4 * i64::from(r.parts * 16 * r.beside) * 4;
    let plain = if r.plain { width + threads * 4 + threads / 32 * (256 + 128) * 4 } else { threads / 8 };
    staged + sums + plain
}

/// The layout for a product, or for several whose rows of codes are `s.n` together; `pair`: of two at once. How a row is cut
/// depends on its length alone, so that results do not depend on what is joined. `known` as for
/// [`choose`](super::quantized::choose).
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
    // Two turns a part: 4096 codes in 4 parts beside 2, with what comes before and after, 12288 twice 74 us and in 8 parts 85,
    // q, k and v 22.8 and 25.8, 151936 253 and 273, 4096 8.6 and 7.9; 12288 codes in 8 parts 20, in 4 22 (low clocks).
    let parts = [8, 4, 2, 1].into_iter().find(|&n| n * 2 <= turns.max(2) && n <= most)?;
    let wide = s.n / 16 >= p.nearly(1) as i64 || pair;
    let width = round_up(s.k, STEP) as u32;
    let fits = |r: &Row| {
        bytes(r, group) <= i64::from(f.shared_memory)
            && 32 * r.parts * r.beside <= f.max_workgroup_invocations
    };
    // Results of a pair meet in one workgroup.
    let beside: &[u32] = if pair {
        &[2]
    } else if wide {
        &[2, 1]
    } else {
        &[1]
    };
    beside.iter().map(|&beside| Row { parts: parts as u32, beside, width, plain }).find(fits)
}

#[cfg(test)]
mod tests {
    use super::super::tests::devices;
    use super::*;
    use crate::kernels::quantized::quant::{Format, Mode};

    #[test]
    fn a_row_that_two_beside_each_other_are_too_large_for_takes_one() {
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
        assert_eq!([laid(&p, false), laid(&p, true)], [Some([8, 2]); 2]);
        p.features.max_workgroup_invocations = 256;
        assert_eq!([laid(&p, false), laid(&p, true)], [Some([8, 1]), None]);
        p.features.max_workgroup_invocations = 128;
        assert_eq!(laid(&p, false), None);
    }
}
