//! Products whose K is short: with short rows of results, where a thread makes a row (shaders/matmul/matmul_small.comp), and with large
//! results, which are what takes time (kernels/matmul/low_rank). Pure; called by the hosts of `matmul`.

use super::matmul::{Shape, forced_tile};
use super::profile::Profile;
use crate::core::Dtype;
use crate::core::env::KernelVariant;

pub static MATMUL_SMALL: KernelVariant =
    KernelVariant::new("matmul_small", "tiles and rows, for many products of short rows too");

pub static MATMUL_LOW_RANK: KernelVariant = KernelVariant::new(
    "matmul_low_rank",
    "the other kernels of products, for large results of a short K on GPUs that take PTX",
);

pub static MATMUL_OUTER: KernelVariant =
    KernelVariant::new("matmul_outer", "the kernels of any products, where K is one");

/// What matmul_small.comp is laid out for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Small {
    /// A power of two that holds K, at least four.
    pub k: u32,
    /// The same of N.
    pub n: u32,
}

/// Longest rows of results, and K, that a thread holds.
const SHORT: u64 = 16;
/// Most numbers of a right matrix that each row reads through the cache.
const APART: u64 = 64;
/// Rows for each of the workgroups that fill a device, from which on threads have one each. H200, float32: 3.7 million products of 3 x 3 by tiles
/// and copies 15.9 ms, where they move 0.4 GB; 2.1 million rows of 16 by 16 x 16 0.26 ms.
const MANY: u64 = 64;

/// The layout for many rows of results that are short, as long as K is; `together`: one right matrix for all.
pub fn small(p: &Profile, s: &Shape, together: bool) -> Option<Small> {
    let rows = s.m * s.batch;
    let short = (2..=SHORT).contains(&s.n) && (1..=SHORT).contains(&s.k);
    let many = rows >= MANY * p.fill() && rows < 1 << 31;
    let fits = short && many && (together || s.n * s.k <= APART) && !MATMUL_SMALL.disabled();
    // FITS: at most SHORT.
    let held = |n: u64| n.next_power_of_two().max(4) as u32;
    fits.then(|| Small { k: held(s.k), n: held(s.n) })
}

/// Whether a product is one multiplication for each result, of real numbers, whose products are rounded once either way.
pub fn outer(dtype: Dtype, k: u64) -> bool {
    k == 1 && dtype != Dtype::C64 && !MATMUL_OUTER.disabled()
}

/// Longest K that large results are made of without shared memory, and where both sides have K without gaps. H200, us of 8192 x 8192 by K
/// of 8, 32, 64, 96 and 128, with the right side across K 46, 54, 72, 94 and 116 (by warpgroups 74, 77, 83, 87 and 88), without gaps 46,
/// 49, 62, 79 and 95 (80, 80, 88, 90 and 91); the results alone take 31.
const LONGEST: [u64; 2] = [64, 96];
/// Least results of all products, as fewer are bound by other things, and of a tile, in percent.
const LARGE: u64 = 1 << 20;
/// See [`LARGE`].
const OF_TILE: u64 = 70;
/// The same of small products, whose other kernels have more that is empty. H200, us of 33.5M float16 results in products of 64 x 32 by K of 8 and
/// 64 43 and 78 (by the others 190 and 208), 32 x 32 42 and 89 (187 and 214), 16 x 64 43 and 104 (144 and 181); 64 x 24 was not tried.
const OF_SMALL: u64 = 40;

/// How the eight warps of a workgroup lie, each with 32 rows and 64 columns of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Warps {
    /// Along the rows of one product.
    pub rows: u32,
    /// Along its columns.
    pub columns: u32,
    /// Products of the batch, one after the other.
    pub products: u32,
}

impl Warps {
    /// 128 x 128 of one product.
    pub const ONE: Self = Self { rows: 4, columns: 2, products: 1 };
    /// Four products of at most 64 x 64, of which a tile of [`Self::ONE`] would be three quarters nothing.
    pub const FOUR: Self = Self { rows: 2, columns: 1, products: 4 };
    /// Eight products of at most 32 x 64.
    pub const EIGHT: Self = Self { rows: 1, columns: 1, products: 8 };

    /// Whether results of m x n fill their tiles.
    fn full(self, m: u64, n: u64) -> bool {
        let tiles =
            m.next_multiple_of(32 * u64::from(self.rows)) * n.next_multiple_of(64 * u64::from(self.columns));
        100 * m * n >= if self == Self::ONE { OF_TILE } else { OF_SMALL } * tiles
    }
}

/// The layout of the kernel of results that are large beside their operands, where a product goes there; `along`: K lies without gaps.
pub fn low_rank(p: &Profile, s: &Shape, along: [bool; 2]) -> Option<Warps> {
    let half = matches!(s.dtype, Dtype::F16 | Dtype::BF16);
    // Hosts cut products whose results have more than 2^31 elements.
    let large = (s.m * s.n).saturating_mul(s.batch) >= LARGE;
    let open = p.features.ptx && forced_tile().is_none() && !MATMUL_LOW_RANK.disabled();
    let taken = half && open && large && (1..=LONGEST[usize::from(along == [true; 2])]).contains(&s.k);
    let warps = match (s.m, s.n) {
        (..=32, ..=64) => Warps::EIGHT,
        (..=64, ..=64) => Warps::FOUR,
        _ => Warps::ONE,
    };
    (taken && warps.full(s.m, s.n)).then_some(warps)
}

#[cfg(test)]
mod tests {
    use super::super::tests::devices;
    use super::*;

    #[test]
    fn large_results_of_a_short_k_fill_their_tiles() {
        let mut p = devices::h200();
        let laid = |p: &Profile, m, n, k, batch, along| {
            low_rank(p, &Shape { dtype: Dtype::BF16, m, n, k, batch, aligned: true }, along).is_some()
        };
        assert!(!laid(&p, 8192, 8192, 64, 1, [true; 2]));
        p.features.ptx = true;
        assert!(laid(&p, 8192, 8192, 64, 1, [true, false]) && laid(&p, 8192, 8192, 96, 1, [true; 2]));
        assert!(!laid(&p, 8192, 8192, 96, 1, [true, false]) && !laid(&p, 8192, 8192, 128, 1, [true; 2]));
        // Few results, results that leave a tile empty, an odd number that hardly does, small ones by fours.
        assert!(!laid(&p, 1000, 1000, 64, 1, [true; 2]) && !laid(&p, 64, 24, 64, 8192, [true; 2]));
        let small = Shape { dtype: Dtype::F16, m: 64, n: 64, k: 64, batch: 8192, aligned: true };
        assert_eq!(low_rank(&p, &small, [true, false]), Some(Warps::FOUR));
        assert_eq!(low_rank(&p, &Shape { m: 32, n: 32, ..small }, [true, false]), Some(Warps::EIGHT));
        assert_eq!(low_rank(&p, &Shape { n: 128, m: 128, ..small }, [true, false]), Some(Warps::ONE));
        assert!(laid(&p, 300, 512, 16, 10, [true; 2]) && !laid(&p, 64, 32768, 16, 1, [true; 2]));
    }

    #[test]
    fn many_rows_of_short_products_have_a_thread_each() {
        let (mut p, laid) = (devices::h200(), |p: &Profile, m, n, k, batch, together| {
            let s = Shape { dtype: Dtype::F32, m, n, k, batch, aligned: true };
            small(p, &s, together).map(|s| [s.k, s.n])
        });
        assert_eq!(laid(&p, 3, 3, 3, 1 << 20, false), Some([4, 4]));
        assert_eq!(laid(&p, 1 << 20, 16, 9, 1, true), Some([16, 16]));
        // A vector, long rows, few rows, a matrix of its own for each that is too large, more rows than 31 bits count.
        assert_eq!(laid(&p, 1 << 20, 1, 3, 1, true), None);
        assert_eq!(laid(&p, 1 << 20, 17, 3, 1, true), None);
        assert_eq!(laid(&p, 64 * 264 - 1, 3, 3, 1, true), None);
        assert_eq!(laid(&p, 64, 16, 16, 1 << 20, false), None);
        assert_eq!(laid(&p, 1 << 31, 3, 3, 1, true), None);
        p.units = 2;
        assert_eq!(laid(&p, 256, 3, 3, 1, true), Some([4, 4]));
        assert_eq!(laid(&p, 255, 3, 3, 1, true), None);
    }
}
