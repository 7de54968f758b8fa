//! How 2 to 32 rows are multiplied by dense matrices in PTX (kernels/quantized/wide): how many rows of weights a workgroup has, and how
//! many warps and workgroups share K. Pure; called by the host of joined products.

use crate::core::Dtype;
use crate::core::env::KernelVariant;
use crate::vulkan::tune::ceil;
use crate::vulkan::tune::profile::Profile;

pub static MATMUL_WIDE: KernelVariant = KernelVariant::new(
    "matmul_wide",
    "matmul_held, for 2 to 32 rows by matrices of 16-bit elements on GPUs that take PTX",
);

/// Rows of x; the kernel has the sums of 8, 16 or 32.
const ROWS: std::ops::RangeInclusive<i64> = 2..=32;
/// Those of products by themselves: fewer go to `gemv_rows`. H200, two rows by 2560 x 9728 by the clock 48 and 56 us, by 4096 x 4096 38 and 43.
const ALONE: std::ops::RangeInclusive<i64> = 5..=32;
/// Rows of weights of a warp: the left side of a product of matrix units.
pub(in crate::vulkan) const BLOCK: u32 = 16;
/// Elements of K that are multiplied at a time.
pub(in crate::vulkan) const SPAN: u32 = 64;
/// Floats of shared memory between two columns of a warp's sums: lanes write four of them apart.
pub(in crate::vulkan) const COLUMN: u32 = 20;
/// Places that the kernel counts in 32 bits.
const REACH: i64 = 1 << 31;
/// Warps of a workgroup, at most, and barriers by name.
const WARPS: u32 = 16;
/// See [`WARPS`].
const TEAMS: u32 = 8;
/// Bytes of shared memory.
const SHARED: u32 = 48 << 10;

/// How it goes over rows of weights and K.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Form {
    /// Blocks of rows of weights of a workgroup.
    pub blocks: u32,
    /// Warps of a workgroup that share K, and workgroups that do.
    pub teams: u32,
    /// See `teams`.
    pub splits: u32,
    /// Rows of x.
    pub columns: u32,
    /// Spans of x in shared memory: those ahead, and the one that is read.
    pub ring: u32,
    /// Spans of weights in registers.
    pub window: u32,
    /// Workgroups of a multiprocessor.
    pub together: u32,
}

/// How much faster a multiprocessor reads the second-level cache than memory. H200: 6 and 4.3 TB/s.
const CACHED: f64 = 1.4;
/// Commands that wait for each other in the time that workgroups which share K take to add up their sums. H200: 5 us, a command 2.
const JOIN: f64 = 2.5;

/// Elements of matrices that are worth it.
const LEAST: i64 = 1 << 20;
/// Workgroups that share K, at most.
const SPLITS: u32 = 2;
/// Blocks of a workgroup whose teams share K, at most.
const MOST: i64 = 8;
/// Spans that are on their way of weights, for so many rows of x; of these registers leave room for less.
const WINDOWS: [(u32, u32); 3] = [(8, 4), (16, 2), (32, 2)];

impl Form {
    pub fn threads(&self) -> u32 {
        32 * self.blocks * self.teams
    }

    /// Spans of the loop's body, after which rings and windows begin anew.
    pub fn body(&self) -> u32 {
        if self.ring.is_multiple_of(self.window) { self.ring } else { self.ring * self.window }
    }

    /// One with room for what is on its way.
    fn with([blocks, teams, splits]: [u32; 3], (columns, window): (u32, u32), together: u32) -> Form {
        let ring = (SHARED / (2 * SPAN * columns * teams)).min(4);
        let window = if ring.is_multiple_of(2) { window } else { ring };
        Form { blocks, teams, splits, columns, ring, window, together }
    }

    /// Nanoseconds for `n` rows of length `k`, as far as layouts differ: what the multiprocessor with the most of it reads of weights and
    /// of x, the one beside the other where it has several workgroups.
    fn cost(&self, p: &Profile, [k, n]: [i64; 2]) -> f64 {
        let all = ceil(n, i64::from(BLOCK * self.blocks)) * i64::from(self.splits);
        let together = f64::from(self.together);
        let waves = ceil(all, i64::from(p.units * self.together)) as f64 * together;
        let memory = f64::from(p.bandwidth) / f64::from(p.units);
        let of_k =
            f64::from(BLOCK * self.blocks) / memory + f64::from(self.columns) / (CACHED * memory * together);
        let join = if self.splits > 1 { JOIN * f64::from(p.dependent_ns) } else { 0.0 };
        2.0 * waves * k as f64 / f64::from(self.splits) * of_k + join
    }
}

/// The layout for `m` rows of length `k` times matrices that have `n` rows together.
pub(in crate::vulkan) fn layout(p: &Profile, dtype: Dtype, [m, k, n]: [i64; 3]) -> Option<Form> {
    let fits = k % i64::from(SPAN) == 0 && (LEAST..REACH).contains(&(n * k)) && m * n < REACH;
    let few = p.features.ptx
        && matches!(dtype, Dtype::F16 | Dtype::BF16)
        && ROWS.contains(&m)
        && !MATMUL_WIDE.disabled();
    if !few || !fits {
        return None;
    }
    let rows = WINDOWS.into_iter().find(|w| i64::from(w.0) >= m)?;
    let spans = (k / i64::from(SPAN)) as u32;
    // Long matrices: several workgroups a multiprocessor, whose warps do not wait for each other.
    let long = Form::with([4, 1, 1], rows, 3);
    let shared = |blocks: u32, splits: u32| {
        let most = SHARED / (2 * SPAN * rows.0 * 3);
        let teams = (WARPS / blocks).min(TEAMS).min(most).min(spans.div_ceil(splits));
        Form::with([blocks, teams, splits], rows, 1)
    };
    // As many blocks as leave no multiprocessor a second workgroup.
    let blocks =
        |splits: u32| ceil(ceil(n, BLOCK.into()) * i64::from(splits), p.units.into()).min(MOST) as u32;
    let others = (1..=SPLITS).map(|s| shared(blocks(s), s));
    [long].into_iter().chain(others).min_by(|a, b| a.cost(p, [k, n]).total_cmp(&b.cost(p, [k, n])))
}

/// Whether there is one.
pub(in crate::vulkan) fn takes(p: &Profile, dtype: Dtype, sizes: [i64; 3]) -> bool {
    layout(p, dtype, sizes).is_some()
}

/// Whether so many rows go there in a product that nothing is joined with, where there is one.
pub(in crate::vulkan) fn takes_alone(m: i64) -> bool {
    ALONE.contains(&m)
}

#[cfg(test)]
#[path = "wide_tests.rs"]
mod tests;
