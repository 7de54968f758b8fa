//! How products with matrices that are picked by index are laid out, and where that pays: of one row of x a pick
//! (shaders/quantized/qmm_rows.comp), and the sums of the picks of a token (shaders/quantized/qmm_combine.comp). Pure; called by the
//! hosts and by [`fusion`](crate::vulkan::tune::fusion).

use super::{Ahead, Coop, QMM_COOP, Shape, forced, has_columns, layout_of_rows, plain};
use crate::core::Dtype;
use crate::core::env::KernelVariant;
use crate::vulkan::tune::ceil;
use crate::vulkan::tune::matmul::fixed_subgroup;
use crate::vulkan::tune::profile::Profile;

pub static QMM_COMBINE: KernelVariant =
    KernelVariant::new("qmm_combine", "a product for each pick, and kernels that weigh them and add them up");

pub static QMM_GROUPED: KernelVariant =
    KernelVariant::new("qmm_grouped", "a product for each pick, though several pick the same matrix");

/// Indices that a workgroup which has all picks of a matrix looks at in a turn: they stand in shared memory.
pub const LOOKED_AT: u32 = 1024;
/// Picks from which on those of a matrix are multiplied together, and picks of a matrix, on average, in hundredths: fewer find most
/// of theirs alone. H100, us of gate, up and down of 128 experts (768 x 2048 codes of four bits, bfloat16), each pick by itself and
/// those of a matrix together: 64 picks 84 and 112, 128 149 and 157 (by 16 rows of x), 256 270 and 181. A prompt of 128
/// tokens in 8 such layers, over sorted picks or dequantised weights and together, 24.8 and 6.3 ms, of 512 18.6 and 12.0.
const GROUPED: i64 = 24;
/// See [`GROUPED`].
const GROUPED_EACH: i64 = 125;
/// Lanes of a workgroup that adds up products which stand in memory: few results, so small ones.
pub const SUM_LANES: i64 = 128;
/// Neighbours of a sum that a lane has of elements of so many bytes: 16 bytes of them, or fewer, down to a word, where lanes are few.
pub(in crate::vulkan) fn summed(p: &Profile, n: i64, sums: i64, size: i64) -> i64 {
    let fills = |own: &i64| n % own == 0 && n * sums >= own * SUM_LANES * p.nearly(1) as i64;
    let all = [16, 8, 4].map(|bytes| bytes / size);
    let last = || all.into_iter().rev().find(|own| n % own == 0).unwrap_or(1);
    all.into_iter().find(fills).unwrap_or_else(last)
}

/// Workgroups for the matrices that are picked, in times of what fills the device. H100, us of gate and up of 256 such picks by 4,
/// 12 and 24: 140, 112, 119.
const SHARERS: u64 = 12;
/// Picks of a matrix, on average, up to which they are: of more the codes are decoded once for each 32.
const MOST_EACH: i64 = 40;
/// Picks of a matrix, on average, up to which 8, and 16, rows of x at once are enough. H100, us of gate and up of 256 picks by two
/// subgroups and 4, 8 and 16 rows of x 160, 108, 114, by four and 8 159; of down 125, 64, 70 and 124.
const FEW_EACH: [i64; 2] = [4, 10];

/// Most picks of a sum: their products stand in shared memory.
const MOST_COMBINED: i64 = 64;
/// Lanes of a workgroup of qmm_combine, at most.
const LANES: i64 = 256;

/// A layout of qmm_combine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::vulkan) struct Combine {
    /// Threads that share a pick.
    pub threads: u32,
    /// Rows of codes of a workgroup.
    pub rows: u32,
    /// Picks at a time.
    pub teams: u32,
    /// Codes that a thread reads at once.
    pub unit: u32,
}

/// Whether so many picked products can be added up in the kernel of the products.
pub fn combines(each: i64) -> bool {
    (1..=MOST_COMBINED).contains(&each) && !QMM_COMBINE.disabled()
}

/// Threads that share a row of codes of qmm_rows, and rows of each, for picks: the first that leaves enough workgroups.
/// H200, us of gate and up of 8 picks of 128 experts (768 x 2048 codes of four bits, bfloat16), 16, 32, 64 and 128: 16x4
/// 12.6, 16.5, 27.4, 49.0, 92; 16x2 11.0, 16.8, 28.9, 53, 100; 8x4 14.7, 21.3, 28.6, 50.0, 91; 32x4 10.9, 16.6, 28.5, 52,
/// 98; 64x4 15.6 and 91 of 64. Decoding bounds them from some dozens of picks on, the way to memory before.
const ROWS: [(u32, u32); 2] = [(16, 4), (16, 2)];

/// The layout of qmm_rows for picks of one row of x; `units` of codes a row.
pub(in crate::vulkan) fn rows(p: &Profile, s: &Shape, units: i64) -> (u32, u32) {
    let fills = |&(threads, rows): &(u32, u32)| {
        ceil(s.n, LANES / i64::from(threads) * i64::from(rows)) * s.batch >= p.nearly(1) as i64
            && units >= i64::from(threads)
    };
    let listed = forced().is_none() && !p.features.software;
    let found = if listed { ROWS.into_iter().find(fills) } else { None };
    found.unwrap_or_else(|| layout_of_rows(p, s, units, 1))
}

/// The layout for sums of `each` products, so many sums. Teams fill whole subgroups, and are as small as that leaves enough
/// lanes. H200, us of 8 picks of 2048 x 768 such codes by layout, for 1, 2, 4, 8 and 16 tokens: 8x2 8.0, 11.7, 18.8, 32, 59;
/// 8x4 8.4, 11.2, 18.2, 30, 53; 16x4 9.1, 13.8, 21.9, 38, 68; 32x4 9.0, 13.3, 21.3, 38, 70.
pub(in crate::vulkan) fn combine(p: &Profile, s: &Shape, each: i64, sums: i64) -> Combine {
    let unit = if s.k % 32 == 0 { 32 } else { 16 };
    let subgroup = i64::from(fixed_subgroup(&p.features).unwrap_or(32));
    let enough = |threads: &i64| {
        threads * each % subgroup == 0 && threads * each * ceil(s.n, 2) * sums >= LANES * p.nearly(1) as i64
    };
    let (threads, rows) = match forced() {
        Some(&[threads, rows]) => (i64::from(threads), rows),
        _ if p.features.software => (8, 1),
        _ => {
            let rows = if ceil(s.n, 4) * sums >= p.nearly(4) as i64 { 4 } else { 2 };
            ([8, 16].into_iter().find(enough).unwrap_or(32), rows)
        }
    };
    // As many picks in each turn.
    let turns = ceil(each, (LANES / threads).max(1));
    let teams = ceil(each, turns);
    Combine { threads: threads as u32, rows, teams: teams as u32, unit }
}

/// The layout of qmm_coop for picks of one row of x each, of which those of the same matrix go together; `pair`: of two
/// matrices at once. `known` as for [`choose`](super::choose).
pub(in crate::vulkan) fn grouped(
    p: &Profile,
    s: &Shape,
    pair: bool,
    known: &dyn Fn(Dtype, u32) -> bool,
) -> Option<Coop> {
    let (f, plain) = (&p.features, plain());
    let half = matches!(s.dtype, Dtype::F16 | Dtype::BF16);
    let many = s.batch >= GROUPED && 100 * s.batch >= GROUPED_EACH * s.matrices;
    let picks = s.transpose && s.m == 1 && many && s.format.group >= 32;
    // Positions in x and in results are counted by 32 bits.
    let far = s.batch.saturating_mul(s.k.max(s.n)) >= 1 << 31 || s.batch > MOST_EACH * s.matrices;
    if !half || !picks || far || QMM_GROUPED.disabled() || QMM_COOP.disabled() {
        return None;
    }
    let has = |n| has_columns(f, s.dtype, n, known);
    let each = ceil(s.batch, s.matrices.min(s.batch));
    let [eight, sixteen] = FEW_EACH.map(|most| each <= most);
    let cols = if eight && has(8) { 8 } else { 16 };
    if !has(cols) {
        return None;
    }
    let (sides, vectors) = match (eight, sixteen) {
        (true, _) => (1, 8),
        (_, true) => (1, 16),
        _ => (2, 32),
    };
    let (subgroups, ahead) = if sides == 1 { (2, Ahead::All) } else { (4, Ahead::Codes) };
    // Whole turns of groups whose factors are read two at a time.
    let turns = s.k / i64::from(s.format.group);
    let two = sides == 1 && vectors == cols && turns % i64::from(2 * subgroups) == 0;
    let stretch = if two { 2 } else { 1 };
    let c = Coop { subgroups, tiles: 2, stretch, cols, sides, vectors, ahead, plain };
    let c = match forced() {
        Some(&[subgroups, tiles, stretch]) if !pair || tiles % 2 == 0 => {
            Coop { subgroups, tiles, stretch, ..c }
        }
        _ => c,
    };
    let fits = c.shared_bytes() + 4 * LOOKED_AT + 64 <= f.shared_memory
        && 32 * c.subgroups <= f.max_workgroup_invocations;
    fits.then_some(c)
}

/// Workgroups that share the rows of codes of a matrix, `units` times those of one, so that those of matrices that are picked fill the
/// device.
pub(in crate::vulkan) fn sharers(p: &Profile, s: &Shape, units: i64) -> i64 {
    let wanted = p.nearly(SHARERS) as i64;
    ceil(wanted, s.batch.min(s.matrices).max(1)).clamp(1, units.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::quantized::quant::{Format, Mode};
    use crate::vulkan::tune::tests::devices;

    #[test]
    fn picks_go_together_where_matrices_have_several() {
        let p = devices::h200();
        let shape = |format, picks, matrices| Shape {
            dtype: Dtype::BF16,
            format,
            transpose: true,
            m: 1,
            n: 1536,
            k: 2048,
            batch: picks,
            matrices,
            runs: false,
        };
        let four = Format::new("test", Mode::Affine, 64, 4).unwrap();
        let laid = |picks, matrices| grouped(&p, &shape(four, picks, matrices), true, &|_, _| true);
        let rows = |picks, matrices| laid(picks, matrices).map(|c| c.vectors);
        assert_eq!([rows(8, 8), rows(64, 128), rows(128, 128)], [None; 3]);
        assert_eq!([rows(24, 8), rows(256, 128), rows(1024, 128)], [Some(8), Some(8), Some(16)]);
        assert_eq!([rows(4096, 128), rows(8192, 128)], [Some(32), None]);
        let c = laid(256, 128).unwrap();
        assert!(c.tiles % 2 == 0 && c.shared_bytes() + 4 * LOOKED_AT <= p.features.shared_memory);
        // Without matrices of a kind that is known, of short groups and in float32 each pick has its kernel.
        assert!(grouped(&p, &shape(four, 256, 128), true, &|_, _| false).is_none());
        let short = Format::new("test", Mode::Nvfp4, 16, 4).unwrap();
        assert!(grouped(&p, &shape(short, 256, 128), true, &|_, _| true).is_none());
        let single = Shape { dtype: Dtype::F32, ..shape(four, 256, 128) };
        assert!(grouped(&p, &single, true, &|_, _| true).is_none());
        let mut small = devices::h200();
        small.features.shared_memory = 4 << 10;
        assert!(grouped(&small, &shape(four, 256, 128), true, &|_, _| true).is_none());
        for (picks, matrices, units) in [(256, 128, 48), (24, 8, 900), (5000, 128, 1)] {
            let n = sharers(&p, &shape(four, picks, matrices), units);
            assert!((1..=units).contains(&n) && (n == units || n * matrices.min(picks) >= p.fill() as i64));
        }
    }

    #[test]
    fn teams_fill_subgroups_and_workgroups_the_device() {
        let p = devices::h200();
        let format = Format::new("test", Mode::Affine, 64, 4).unwrap();
        let shape = |n, k, picks| Shape {
            dtype: Dtype::BF16,
            format,
            transpose: true,
            m: 1,
            n,
            k,
            batch: picks,
            matrices: 128,
            runs: false,
        };
        let sums = |each, sums| {
            let c = combine(&p, &shape(2048, 768, each * sums), each, sums);
            (c.threads, c.rows, c.teams)
        };
        assert_eq!([sums(8, 1), sums(8, 2), sums(8, 16)], [(8, 2, 8), (8, 4, 8), (8, 4, 8)]);
        assert_eq!([sums(6, 1), sums(2, 1), sums(3, 8)], [(16, 2, 6), (32, 2, 2), (32, 4, 3)]);
        assert_eq!([sums(10, 4), sums(64, 4)], [(16, 4, 10), (8, 4, 32)]);
        let units = |picks| rows(&p, &shape(1536, 2048, picks), 64);
        assert_eq!([units(8), units(16), units(64)], [(16, 2), (16, 4), (16, 4)]);
        for each in 1..=MOST_COMBINED {
            for tokens in [1, 7] {
                let c = combine(&p, &shape(64, 64, each * tokens), each, tokens);
                assert!(c.threads * c.teams <= 256 && i64::from(c.threads * c.teams) >= each, "{each}");
                assert!(i64::from(c.teams) * ceil(each, c.teams.into()) >= each, "{each}");
            }
        }
    }
}
