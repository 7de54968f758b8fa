//! Which float32 products go by matrices of float16 parts (shaders/parts/matmul_parts.comp), and by which tiles. Pure;
//! called by `matmul`.

use super::matmul::{
    MATMUL_KHR, Shape, Tile, fixed_subgroup, forced_tile, multiplies, subgroup_grid, tiled_supports, tiles,
};
use super::profile::{H200, Profile};
use crate::core::Dtype;
use crate::core::env::KernelVariant;
use crate::vulkan::Features;

pub static MATMUL_PARTS: KernelVariant =
    KernelVariant::new("matmul_parts", "float32 products by plain arithmetic");

/// Elements of K that one workgroup looks through for the extents of its rows.
pub const STRETCH: u32 = 2048;
/// Fewest floating point operations of the card that pay for five commands in place of one. H100, 1024^3 52 us against 64.
const WORK: f64 = 2e9;
/// Shortest sums: where there are few steps what is added once is not yet rarer than what plain sums add.
const SHORTEST: u64 = 256;
/// Least half of the harmonic mean of the sides that pays for the passes over both operands, on the card.
const SIDES: f64 = 130.0;
/// Least multiplications by matrix units in the time of ten others. Three make one; an H100, which is measured at 180, multiplies
/// 4096^3 twice as fast by parts.
const MATRICES: u32 = 100;

/// Tiles, and the fewest of them on the card. H100, microseconds of n^3 for n of 1024, 1536, 2048 and 4096: 128 x 128 -, 179, 257,
/// 1655; 64 x 64 52, 148, 276, -; 300 x 5000 by 7000 - and 500; plain arithmetic 64, 179, 418, 3306 and 737. Three sets of sums
/// in 128 x 128 x 32 1666, in other tiles 1700 to 2000; steps of 16 1900 to 2100.
const TABLE: &[(u64, Tile)] = &[
    (240, Tile { bm: 128, bn: 128, bk: 32, threads: 256, unroll: 1 }),
    (480, Tile { bm: 128, bn: 64, bk: 32, threads: 128, unroll: 1 }),
    (120, Tile { bm: 64, bn: 64, bk: 32, threads: 128, unroll: 1 }),
];

/// The tile of plain arithmetic for blocks that are left (BLOCK of shaders/parts/parts.glsl). H100, 4096^3, nothing left 1.71 ms; one
/// row left and all: 2.11 and 3.56 ms, with 128 threads 1.98 and 3.78, 256 1.96 and 4.50, in steps of 32 1.93 and 3.98.
pub const LEFT_OVER: Tile = Tile { bm: 64, bn: 64, bk: 16, threads: 64, unroll: 1 };

#[cfg(test)]
thread_local! {
    /// Tile that a test forces on its thread.
    pub static TEST_TILE: std::cell::Cell<Option<Tile>> = const { std::cell::Cell::new(None) };
}

/// Whether a device multiplies by such parts: by matrices that keep all digits of small float16 numbers.
fn supports(f: &Features, t: Tile) -> bool {
    let Some(lanes) = fixed_subgroup(f) else { return false };
    let (sm, sn) = subgroup_grid(t, lanes, [16, 16]);
    let staged = (t.bm + t.bn) * (t.bk / 16 * 4 + 1) * 16;
    let results = sm * sn * 16 * (t.bn / sn / 4 + 2) * 16;
    multiplies(f, Dtype::F16, [16; 3])
        && f.denorm_preserve16
        && sm * sn * lanes == t.threads
        && [16, 32, 64].contains(&(t.bm / sm))
        && t.bm.is_multiple_of(LEFT_OVER.bm)
        && t.bn.is_multiple_of(LEFT_OVER.bn.max(sn * 16))
        && tiled_supports(f, Dtype::F32, LEFT_OVER)
        && staged.max(results) + 8 <= f.shared_memory
        && t.threads <= f.max_workgroup_invocations
}

/// The tile for one product, if it goes that way.
pub fn tile(p: &Profile, s: &Shape) -> Option<Tile> {
    #[cfg(test)]
    if s.dtype == Dtype::F32
        && let Some(t) = TEST_TILE.get()
    {
        return Some(t);
    }
    if s.dtype != Dtype::F32 || MATMUL_PARTS.disabled() || MATMUL_KHR.disabled() {
        return None;
    }
    if let Some(t) = forced_tile().filter(|&t| supports(&p.features, t)) {
        return Some(t);
    }
    let [m, n, k] = [s.m, s.n, s.k].map(|v| v as f64);
    let pays = p.matrices >= MATRICES
        && 2.0 * m * n * k >= p.work(WORK, &H200)
        && m * n / (m + n) >= p.work(SIDES, &H200) * f64::from(H200.bandwidth) / f64::from(p.bandwidth);
    let fits =
        |&&(fewest, t): &&(u64, Tile)| tiles(s, t) >= p.like(fewest, &H200) && supports(&p.features, t);
    (pays && s.k >= SHORTEST).then(|| TABLE.iter().find(fits).map(|row| row.1))?
}

#[cfg(test)]
mod tests {
    use super::super::tests::devices;
    use super::*;

    #[test]
    fn large_products_of_float32_go_by_parts_where_matrix_units_are_fast() {
        let mut p = devices::h200();
        let of = |p: &Profile, m, n, k| {
            let s = Shape { dtype: Dtype::F32, m, n, k, batch: 1, aligned: false };
            tile(p, &s).map(|t| [t.bm, t.bn, t.threads])
        };
        for (m, n, k, found) in [
            (4096, 4096, 4096, Some([128, 128, 256])),
            (2047, 2047, 2047, Some([128, 128, 256])),
            (1536, 1536, 1536, Some([64, 64, 128])),
            (1024, 1024, 1024, Some([64, 64, 128])),
            (300, 5000, 7000, Some([64, 64, 128])),
            (512, 512, 512, None),
            (128, 65536, 4096, None),
            (4096, 4096, 200, None),
        ] {
            assert_eq!(of(&p, m, n, k), found, "{m} x {n} by {k}");
        }
        let s = Shape { dtype: Dtype::BF16, m: 4096, n: 4096, k: 4096, batch: 1, aligned: true };
        assert_eq!(tile(&p, &s), None);
        // A third of the units and less memory: sides of a third.
        (p.units, p.bandwidth) = (44, 1365);
        assert!(of(&p, 1024, 1024, 1024).is_some() && of(&p, 300, 5000, 7000).is_some());
        p.matrices = 80;
        assert_eq!(of(&p, 4096, 4096, 4096), None);
        p.matrices = 180;
        p.features.denorm_preserve16 = false;
        assert_eq!(of(&p, 4096, 4096, 4096), None);
    }

    #[test]
    fn tiles_keep_to_the_memory() {
        let mut f = devices::h200().features;
        assert!(TABLE.iter().all(|row| supports(&f, row.1)));
        f.shared_memory = 32 << 10;
        assert_eq!(TABLE.iter().map(|row| supports(&f, row.1)).collect::<Vec<_>>(), [false, true, true]);
        let odd = |bm, bn, threads| Tile { bm, bn, bk: 32, threads, unroll: 1 };
        assert!(
            !supports(&f, odd(96, 64, 128))
                && !supports(&f, odd(32, 64, 64))
                && !supports(&f, odd(64, 64, 100))
        );
    }
}
