//! How products with matrices that are picked by index are laid out, and where that pays: of one row of x a pick
//! (shaders/quantized/qmm_rows.comp), and the sums of the picks of a token (shaders/quantized/qmm_combine.comp). Pure; called by the
//! hosts and by [`fusion`](crate::vulkan::tune::fusion).

use super::{Shape, forced, layout_of_rows};
use crate::core::env::KernelVariant;
use crate::vulkan::tune::ceil;
use crate::vulkan::tune::matmul::fixed_subgroup;
use crate::vulkan::tune::profile::Profile;

pub static QMM_COMBINE: KernelVariant =
    KernelVariant::new("qmm_combine", "a product for each pick, and kernels that weigh them and add them up");

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Dtype;
    use crate::kernels::quantized::quant::{Format, Mode};
    use crate::vulkan::tune::tests::devices;

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
