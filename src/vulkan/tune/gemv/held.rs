//! How few rows are multiplied by dense matrices of 16 bits on cooperative matrices while they stay in registers
//! (shaders/matmul/matmul_held.comp), together with others and what follows. Pure; called by the host of joined products.

use crate::core::Dtype;
use crate::core::env::KernelVariant;
use crate::vulkan::tune::matmul as table;
use crate::vulkan::tune::profile::Profile;
use crate::vulkan::tune::quantized::held::{Held, WIDTH};
use crate::vulkan::tune::{ceil, quantized};

pub static MATMUL_HELD: KernelVariant = KernelVariant::new(
    "matmul_held",
    "a kernel for each product of 2 to 32 rows with a dense matrix, and for what comes after it",
);

/// Rows of x that it takes: one has a kernel of its own, more go by tiles.
const ROWS: std::ops::RangeInclusive<i64> = 2..=32;
/// Elements of K of a piece: what four lanes load of a row at once.
const PIECE: i64 = 32;
/// Pieces of a subgroup for eight rows of x, and for more: x and what is ahead of a matrix each take four registers of a lane
/// for a piece, x so many for each eight rows.
const PIECES: [u32; 2] = [8, 4];
/// Shortest rows that take it.
const LONG: i64 = 1024;
/// Places that the kernel counts in 32 bits.
const REACH: i64 = 1 << 31;

/// The layout for `m` rows of length `k` times matrices of `n` rows together. How K is cut depends on its length and on `m`
/// alone. `known`: whether elements of matrices with so many columns lie where the kernel expects them.
pub(in crate::vulkan) fn layout(
    p: &Profile,
    dtype: Dtype,
    [m, k, n]: [i64; 3],
    known: &dyn Fn(Dtype, u32) -> bool,
) -> Option<Held> {
    let (f, plain) = (&p.features, quantized::plain());
    let half = matches!(dtype, Dtype::F16 | Dtype::BF16);
    let fits = k % 8 == 0 && (1..REACH).contains(&(n * k)) && m * n < REACH;
    if !half || !ROWS.contains(&m) || !fits || MATMUL_HELD.disabled() {
        return None;
    }
    if !plain && (k < LONG || table::fixed_subgroup(f) != Some(32)) {
        return None;
    }
    let has = |n: &u32| plain || table::multiplies(f, dtype, [16, *n, 16]) && known(dtype, *n);
    let cols = [8, 16].into_iter().find(has)?;
    let width = (m as u32).next_multiple_of(WIDTH);
    let turn = PIECES[usize::from(width > WIDTH)];
    let h = Held { subgroups: 1, cols, width, turn, splits: 1, buffers: 1, plain };
    h.cut(f, ceil(k, PIECE * i64::from(turn)), |_| 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::tune::tests::devices;

    #[test]
    fn workgroups_have_all_of_k_together() {
        let p = devices::h200();
        for m in [2, 8, 9, 16, 24, 32] {
            for k in [1024, 1032, 2048, 4096, 9728, 12288, 28672] {
                let h = layout(&p, Dtype::BF16, [m, k, 4096], &|_, _| true).unwrap();
                assert!(i64::from(h.subgroups * h.splits * h.turn) * PIECE >= k, "{h:?}");
                assert!(i64::from(h.width) >= m && h.subgroups <= 16 && h.turn * h.width <= 128);
            }
        }
    }

    #[test]
    fn other_devices_and_shapes_keep_their_kernels() {
        let p = devices::h200();
        let taken = |p: &Profile, dtype, sizes| layout(p, dtype, sizes, &|_, _| true).is_some();
        assert!(taken(&p, Dtype::F16, [8, 4096, 4096]));
        for sizes in [[1, 4096, 4096], [33, 4096, 4096], [8, 4100, 64], [8, 512, 4096], [8, 4096, 1 << 20]] {
            assert!(!taken(&p, Dtype::BF16, sizes), "{sizes:?}");
        }
        assert!(!taken(&p, Dtype::F32, [8, 4096, 4096]));
        assert!(layout(&p, Dtype::BF16, [8, 4096, 4096], &|_, _| false).is_none());
        for p in devices::all().iter().filter(|p| p.features.coop_matrices.is_empty()) {
            assert!(!taken(p, Dtype::BF16, [8, 4096, 4096]), "{}", p.name);
        }
    }
}
