//! How reductions and scans are cut over workgroups, and how much of a row the generated kernels over rows hold. Pure;
//! called by the hosts of `reduce`, `scan` and `rows`.

use super::profile::{Best, Profile, best};
use crate::core::env::KernelVariant;

pub static REDUCE_SPLIT: KernelVariant =
    KernelVariant::new("reduce_split", "one workgroup for each result, where it can");

pub static SCAN_SPLIT: KernelVariant = KernelVariant::new("scan_split", "one pass along each axis");

/// Workgroups that a split reduction should have: few for columns, whose second pass reads as many results again.
pub static ROWS: Best = best("reduce_rows", 2048);
/// See [`ROWS`].
pub static COLUMNS: Best = best("reduce_columns", 528);
/// Workgroups below which a long axis of a scan is cut, and how many it is cut into.
pub static SCAN_FEW: Best = best("scan_few", 264);
/// See [`SCAN_FEW`].
pub static SCAN_PARTS: Best = best("scan_parts", 1056);

/// Lanes of a workgroup that reduces.
const GROUP: u64 = 256;

/// Least elements of a part of one long row, and steps of a part of any other layout (H200).
pub const LEAST_ROW: u64 = 16384;
/// See [`LEAST_ROW`].
pub const LEAST_GENERAL: u64 = 4096;

/// Elements of a result up to which one lane has all of them, and such lanes from which that keeps a device busy (H100).
const FEW: u64 = 32;
/// See [`FEW`].
pub static FEW_LANES: Best = best("reduce_few_lanes", 1 << 16);

/// Elements of a lane where elements lie apart, and where results are few.
const EACH: [u64; 2] = [16, 4];

/// Lanes that share a result of `n` elements which lie anywhere, of so many results: at most `most`.
pub fn general(p: &Profile, n: u64, results: u64, most: u32) -> u32 {
    let lanes = |each: u64| (n / each).max(1).next_power_of_two().min(u64::from(most));
    let [many, few] = EACH.map(lanes);
    let fills = results.div_ceil(u64::from(most) / many) >= 4 * p.fill();
    // FITS: at most `most`.
    (if fills { many } else { few }) as u32
}

/// Whether results of `n` elements each, so many vectors of them, are a lane's each.
pub fn few(p: &Profile, n: u64, vectors: u64) -> bool {
    n <= FEW && vectors >= p.count(&FEW_LANES)
}

/// Bytes of an array from which on rows are taken together, since that takes a pass over the parts besides (an estimate).
const FOLDED: u64 = 4 << 20;
/// Rows of those made of several from which on what a workgroup and a second pass cost is little. H200, us of 33.5M float32, without and with:
/// 77 columns 63 and 43, 1023 57 and 41, 4099 54 and 42, 50021 (of 168 such rows) 55 and 75.
const MANY_ROWS: u64 = 512;
/// Bytes that have to be loaded one by one otherwise: of bool with 1000 columns eight are, any of them 31 us and 53.
const NARROW: u64 = 4;

/// Rows of `cols` elements that are taken for one, so that it has whole vectors of 16 bytes, of an array of `rows` without gaps;
/// one where they have such already, or nothing is gained.
pub fn fold(rows: u64, cols: u64, size: u64, ptr: u64) -> u64 {
    let vector = 16 / size;
    let fold = (vector >> cols.trailing_zeros().min(63)).max(1);
    let narrow = 16 / fold <= NARROW;
    let far = cols * fold > u64::from(u32::MAX);
    let pays = narrow && rows * cols * size >= FOLDED && rows >= MANY_ROWS * fold;
    if pays && !far && ptr.is_multiple_of(16) { fold } else { 1 }
}

/// Lanes side by side over so many vectors of a row: as many as there are, or those that leave the fewest idle.
pub fn lanes_across(vectors: u64) -> u32 {
    let idle = |l: &u64| vectors.next_multiple_of(*l) - vectors;
    // INVARIANT: the list has elements.
    let best = [32, 16, 8].into_iter().min_by_key(idle).unwrap_or(32);
    // FITS: at most 32.
    vectors.next_power_of_two().min(best) as u32
}

/// Parts of a reduction of `work` steps when `groups` workgroups run anyway; a part takes at least `least` steps.
pub fn splits(p: &Profile, columns: bool, groups: u64, work: u64, least: u64) -> u64 {
    if REDUCE_SPLIT.disabled() {
        return 1;
    }
    let target = p.count(if columns { &COLUMNS } else { &ROWS });
    (target / groups.max(1)).min(work / least.max(1)).max(1)
}

/// Loads of a lane of a part of a long row, where such parts do not fill a device yet. H200, us of 151936 bfloat16, by parts of
/// 16384 elements and such ones: argmax 6.9 and 5.8, maximum 6.4 and 5.2, sum 5.8 and 5.0.
const LOADS: u64 = 1;

/// Parts of each of a few long rows of `n` elements, `vector` of them a load: short ones, as long as all of them are at work at
/// once, since what they take is the time of a load.
pub fn long_row(p: &Profile, rows: u64, n: u64, vector: u64) -> u64 {
    if REDUCE_SPLIT.disabled() || n < LEAST_ROW {
        return 1;
    }
    (p.fill() / rows.max(1)).min(n / (LOADS * vector * GROUP)).max(1)
}

/// Steps of a part of a scan of `steps` when `groups` workgroups walk an axis each, `tile` steps at a time; all of them
/// where the axis is not cut.
pub fn chunk(p: &Profile, groups: u64, steps: u64, tile: u64) -> u64 {
    if groups >= p.count(&SCAN_FEW) || steps <= 2 * tile || SCAN_SPLIT.disabled() {
        return steps;
    }
    steps.div_ceil(p.count(&SCAN_PARTS).div_ceil(groups)).next_multiple_of(tile)
}

/// Registers of a lane for elements of a row, and library functions that it may have in its code (see
/// `Row::code_size`), of a generated kernel over rows: 32 values a lane, as what spills on an H200 begins above.
pub const ROW_REGISTERS: u64 = 32;
/// See [`ROW_REGISTERS`].
pub const ROW_CODE: u64 = 160;

#[cfg(test)]
mod tests {
    use super::super::tests::devices;
    use super::*;

    #[test]
    fn odd_rows_are_taken_together_where_that_makes_whole_vectors() {
        let many = 1 << 20;
        assert_eq!([77, 78, 80].map(|cols| fold(many, cols, 4, 0)), [4, 1, 1]);
        assert_eq!([77, 78, 80, 84].map(|cols| fold(many, cols, 2, 32)), [8, 4, 1, 1]);
        assert_eq!([fold(many, 77, 4, 8), fold(1000, 77, 4, 0), fold(671, 50_021, 4, 0)], [1; 3]);
        assert_eq!([77, 256, 3, 40, 1].map(lanes_across), [16, 32, 4, 8, 1]);
    }

    #[test]
    fn a_few_long_rows_have_short_parts() {
        let p = devices::h200();
        assert_eq!([1, 2, 32, 265].map(|rows| long_row(&p, rows, 151_936, 8)), [74, 74, 8, 1]);
        assert_eq!([16_383, 16_384, 1 << 20, 1 << 30].map(|n| long_row(&p, 1, n, 4)), [1, 16, 264, 264]);
    }

    #[test]
    fn lanes_of_elements_that_lie_apart_have_many_where_results_fill_the_device() {
        let mut p = devices::h200();
        assert_eq!([1000, 33_554].map(|outs| general(&p, 1000, outs, 256)), [256, 64]);
        assert_eq!([1, 7, 100_000].map(|n| general(&p, n, 1 << 20, 256)), [1, 1, 256]);
        p.units = 2;
        assert_eq!([2, 1000].map(|outs| general(&p, 1000, outs, 256)), [256, 64]);
    }
}
