//! How 17 to 32 rows are multiplied by long dense matrices in PTX (kernels/quantized/wide): a workgroup has 64 rows of weights, so that
//! nothing is left to add up between workgroups. Pure; called by the host of joined products.

use crate::core::Dtype;
use crate::core::env::KernelVariant;
use crate::vulkan::tune::ceil;
use crate::vulkan::tune::profile::{Best, Profile, best};

pub static MATMUL_WIDE: KernelVariant = KernelVariant::new(
    "matmul_wide",
    "matmul_held, for 17 to 32 rows by long matrices of bfloat16 on GPUs that take PTX",
);

/// Columns of its sums: rows of x. H200, us of gate and up of 8B with their unit (24576 x 4096), 8, 16 and 32 rows: 52, 54 and 57;
/// matmul_held, which normalises 8 rows besides, 57 and 87 for 8 and 32.
pub(in crate::vulkan) const COLUMNS: u32 = 32;
const ROWS: std::ops::RangeInclusive<i64> = 17..=32;
/// Rows of weights of a workgroup, and its threads: a warp has sixteen rows.
pub(in crate::vulkan) const UNIT: u32 = 64;
/// See [`UNIT`].
pub(in crate::vulkan) const THREADS: u32 = 128;
/// Workgroups that a multiprocessor has at a time: by registers, and by shared memory.
pub(in crate::vulkan) const TOGETHER: u32 = 3;
/// Elements of K that are multiplied at a time.
pub(in crate::vulkan) const SPAN: u32 = 64;
/// Spans of x in shared memory: those ahead, and the one that is read. More of the loop's body are written out.
pub(in crate::vulkan) const RING: u32 = 4;
/// Spans of weights in registers.
pub(in crate::vulkan) const WINDOW: u32 = 2;
/// Floats of shared memory between two columns of a warp's sums: lanes write four of them apart.
pub(in crate::vulkan) const COLUMN: u32 = 20;
/// Places that the kernel counts in 32 bits.
const REACH: i64 = 1 << 31;
/// Workgroups from which on it is taken: fewer leave the memory idle, and K would have to be cut. H200, 32 rows with K cut, us: 4096 x
/// 12288 39, 6144 x 4096 23, 4096 x 4096 20 (matmul_held 41, 22, 18).
static WORKGROUPS: Best = best("matmul_wide_workgroups", 264);

/// Whether `m` rows of length `k` times matrices that have `n` rows together go there.
pub(in crate::vulkan) fn takes(p: &Profile, dtype: Dtype, [m, k, n]: [i64; 3]) -> bool {
    let fits = k > 0 && k % i64::from(SPAN) == 0 && (1..REACH).contains(&(n * k)) && m * n < REACH;
    let few = p.features.ptx && dtype == Dtype::BF16 && ROWS.contains(&m) && !MATMUL_WIDE.disabled();
    few && fits && ceil(n, UNIT.into()) >= p.count(&WORKGROUPS) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::tune::tests::devices;

    #[test]
    fn long_matrices_fill_the_device() {
        let mut p = devices::h200();
        p.features.ptx = true;
        let taken = |dtype, sizes| takes(&p, dtype, sizes);
        for sizes in [[17, 4096, 24576], [32, 4096, 151_936], [32, 2560, 19456], [24, 64, 16896]] {
            assert!(taken(Dtype::BF16, sizes), "{sizes:?}");
        }
        for sizes in [
            [16, 4096, 24576],
            [33, 4096, 24576],
            [32, 4096, 4096],
            [32, 4104, 24576],
            [32, 1 << 17, 1 << 17],
        ] {
            assert!(!taken(Dtype::BF16, sizes), "{sizes:?}");
        }
        assert!(!taken(Dtype::F16, [32, 4096, 24576]));
        assert!(!devices::all().iter().any(|p| takes(p, Dtype::BF16, [32, 4096, 24576])));
    }
}
