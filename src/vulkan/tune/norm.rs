//! How a row that is normalised is shared by lanes. Pure; called by the hosts of `norm`, `softmax` and `rope_rows`.

use super::profile::Profile;
use crate::core::Dtype;
use crate::core::env::KernelVariant;

/// Elements of a row that a lane holds in registers, at most: eight vectors of float32.
const HELD: u64 = 32;
/// Vectors of a lane that are enough to hide the time of a load of an H200.
pub const ENOUGH: u64 = 4;
/// A row of one subgroup needs no barriers.
const SUBGROUP: u64 = 32;

/// Lanes that share a row of so many vectors of so many elements, in workgroups of `group`, and vectors that each holds
/// in registers: 0 where those would be too many and the row is read again.
pub fn registers(steps: u64, vector: u64, group: u32) -> (u32, u32) {
    let most = HELD / vector;
    let lanes = (steps / ENOUGH).max(steps.div_ceil(most)).max(1).next_power_of_two().min(u64::from(group));
    let lanes = if steps <= SUBGROUP * most { lanes.min(SUBGROUP) } else { lanes };
    let held = steps.div_ceil(lanes);
    (lanes as u32, if held <= most { held.next_power_of_two() as u32 } else { 0 })
}

pub static NORM_ADDED: KernelVariant =
    KernelVariant::new("norm_added", "a kernel of its own for what normalised rows are added to");

pub static NORM_FEW: KernelVariant = KernelVariant::new(
    "norm_few",
    "the shader, for RMS normalisation of few rows of 16 bits on GPUs that take PTX",
);

/// Threads of a row of those, rows that there are at most, and the most pieces of 16 bytes of a thread.
pub const FEW_THREADS: u32 = 256;
/// See [`FEW_THREADS`].
const FEW_ROWS: u64 = 64;
/// See [`FEW_THREADS`].
const FEW_PIECES: u64 = 4;
/// Rows of heads, which are shorter, have the bits of kernels that normalise and turn them.
const FEW_FROM: u64 = 512;

/// Pieces of a thread where so many rows of length `n`, so many bytes apart, have such a kernel.
pub fn few(p: &Profile, dtype: Dtype, [rows, n, step]: [u64; 3]) -> Option<u32> {
    let pieces = n.div_ceil(8 * u64::from(FEW_THREADS));
    let fits = n % 8 == 0 && n > FEW_FROM && (1..=FEW_PIECES).contains(&pieces) && step <= u32::MAX.into();
    let taken = p.features.ptx
        && matches!(dtype, Dtype::F16 | Dtype::BF16)
        && rows <= FEW_ROWS
        && !NORM_FEW.disabled();
    // FITS: at most four.
    (fits && taken).then_some(pieces as u32)
}

/// Vectors of 16 bytes that a lane of a large workgroup holds as they are.
const HELD_WHOLE: u64 = 8;

/// Lanes of the least workgroup between `least` and `most` that holds a row of so many vectors of 16 bytes, and vectors of each.
pub fn whole(steps: u64, least: u32, most: u32) -> Option<(u32, u32)> {
    let fits = |lanes: &u32| steps.div_ceil((*lanes).into()) <= HELD_WHOLE;
    let lanes = [1, 2, 4].map(|n| n * least).into_iter().filter(|&l| l <= most).find(fits)?;
    // FITS: at most eight.
    Some((lanes, steps.div_ceil(lanes.into()) as u32))
}

/// Lanes of a workgroup that walks a row which registers do not hold, from `least` to `most`: few rows get the largest
/// one, of many several are at work on a unit.
pub fn looping(p: &Profile, rows: u64, least: u32, most: u32) -> u32 {
    if rows >= 2 * p.fill() { least } else { most }
}

pub static SOFTMAX_PARTS: KernelVariant =
    KernelVariant::new("softmax_parts", "one workgroup for each of a few long rows");

/// Vectors of a row from which on several workgroups share it. H200, us of the log-sum-exp of a row of so many bfloat16, shared and by one:
/// 16384 5.6 and 8.3, 32768 6.0 and 7.9, 151936 5.5 and 17.
const LONG: u64 = 2048;
/// The same where elements are written, which takes a second command, and one workgroup could hold the row. H200, softmax of a row:
/// bfloat16 16384 7.9 and 6.5, 32768 8.2 and 8.2, 50257 8.6 and 12.2; float32 16384 8.1 and 7.3, 32768 8.1 and 11.3.
pub const SHARED: u64 = 5120;
/// Vectors of a lane at a time where a workgroup walks a row, or a long part of one.
pub const ROUND: u32 = 4;
/// Workgroups that a row gets at least where it is shared. H200, softmax of 32 rows of 151936 bfloat16 20 and 33 us, of 64 rows 31
/// and 34.
const FEWEST: u64 = 4;

/// How the workgroups that share a row cut it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Workgroups of a row.
    pub count: u32,
    /// Vectors of a part: whole rounds of all lanes.
    pub chunk: u32,
    /// Vectors of a lane in a round.
    pub round: u32,
}

/// Parts of each of so many rows of so many vectors for workgroups of `group` lanes, where one for each row would leave most
/// of a device idle: a round each, as long as all of them are at work at once.
pub fn parts(p: &Profile, rows: u64, steps: u64, group: u32) -> Option<Parts> {
    let most = p.fill() / rows.max(1);
    if steps < LONG || most < FEWEST.min(p.fill()) || SOFTMAX_PARTS.disabled() {
        return None;
    }
    let group = u64::from(group);
    let round =
        [1, 2].into_iter().find(|round| steps.div_ceil(round * group) <= most).unwrap_or(ROUND.into());
    let chunk = steps.div_ceil(most).next_multiple_of(round * group);
    let count = steps.div_ceil(chunk);
    // FITS: a row has less than 2^31 elements.
    (count > 1).then_some(Parts { count: count as u32, chunk: chunk as u32, round: round as u32 })
}

#[cfg(test)]
mod tests {
    use super::super::tests::devices;
    use super::*;

    #[test]
    fn few_long_rows_are_shared() {
        let p = devices::h200();
        let of = |rows, steps| parts(&p, rows, steps, 256).map(|c| (c.count, c.chunk, c.round));
        assert_eq!(of(1, 18_992), Some((75, 256, 1)));
        assert_eq!(of(1, 100_000), Some((196, 512, 2)));
        assert_eq!(of(1, 1 << 20), Some((256, 4096, 4)));
        assert_eq!(of(32, 18_992), Some((7, 3072, 4)));
        assert_eq!([of(1, 2047), of(67, 18_992)], [None; 2]);
        for p in devices::all() {
            for (rows, steps) in [(1, 2048), (3, 5000), (30, 40_000), (1, 1 << 29)] {
                let Some(c) = parts(&p, rows, steps, 256) else { continue };
                let (count, chunk) = (u64::from(c.count), u64::from(c.chunk));
                assert!(count * chunk >= steps && (count - 1) * chunk < steps, "{} {c:?}", p.name);
                assert!(count * rows <= p.fill() && c.chunk % (256 * c.round) == 0, "{} {c:?}", p.name);
            }
        }
    }

    #[test]
    fn large_workgroups_hold_long_rows() {
        let all = |most| [2048, 2049, 4096, 6283, 8192, 8193].map(|steps| whole(steps, 256, most));
        let (two, four) = (Some((512, 5)), Some((1024, 7)));
        assert_eq!(all(1024), [Some((256, 8)), two, Some((512, 8)), four, Some((1024, 8)), None]);
        assert_eq!(all(512), [Some((256, 8)), two, Some((512, 8)), None, None, None]);
    }

    #[test]
    fn lanes_hold_a_row_between_them_or_read_it_again() {
        for vector in [1, 4, 8] {
            for steps in 1..12_000 {
                let (lanes, vectors) = registers(steps, vector, 256);
                assert!(lanes.is_power_of_two() && lanes <= 256, "{steps} vectors of {vector}");
                let most = 32 / vector * 256;
                assert_eq!(vectors == 0, steps > most, "{steps} vectors of {vector}");
                let held = u64::from(lanes * vectors);
                assert!(vectors == 0 || held >= steps, "{steps} vectors of {vector}");
                assert!(u64::from(vectors) * vector <= 32, "{steps} vectors of {vector}");
            }
        }
    }
}
