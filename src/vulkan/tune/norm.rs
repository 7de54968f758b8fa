//! How a row that is normalised is shared by lanes. Pure; called by the hosts of `norm`, `softmax` and `rope_rows`.

use super::profile::Profile;

/// Elements of a row that a lane holds in registers, at most: eight vectors of float32.
const HELD: u64 = 32;
/// Vectors of a lane that are enough to hide the time of a load of an H200.
const ENOUGH: u64 = 4;
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

#[cfg(test)]
mod tests {
    use super::*;

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
