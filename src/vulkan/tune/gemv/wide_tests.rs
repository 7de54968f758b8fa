//! Tests of layouts: those that were the fastest on a card, and whether all of them fit.

use super::*;
use crate::vulkan::tune::tests::devices;

fn card() -> Profile {
    let mut p = devices::h200();
    p.features.ptx = true;
    p
}

/// Blocks, teams and splits.
fn cut(m: i64, n: i64, k: i64) -> [u32; 3] {
    let f = layout(&card(), Dtype::BF16, [m, k, n]).unwrap();
    [f.blocks, f.teams, f.splits]
}

#[test]
fn layouts_are_those_that_were_the_fastest() {
    // Output, queries with keys and values, down, gate and up, head: of Qwen3-8B on an H200.
    let sizes = [(4096, 4096), (6144, 4096), (4096, 12288), (24576, 4096), (151_936, 4096)];
    let cuts = |m| sizes.map(|(n, k)| cut(m, n, k));
    assert_eq!(cuts(8), [[2, 8, 1], [3, 5, 1], [2, 8, 1], [4, 1, 1], [4, 1, 1]]);
    assert_eq!(cuts(16), [[2, 8, 1], [3, 5, 1], [2, 8, 1], [4, 1, 1], [4, 1, 1]]);
    assert_eq!(cuts(32), [[2, 4, 1], [3, 4, 1], [4, 4, 2], [4, 1, 1], [4, 1, 1]]);
}

#[test]
fn every_layout_fits() {
    for units in [1, 40, 114, 132, 200] {
        let p = Profile { units, ..card() };
        for (m, k, n) in (2..=32).flat_map(|m| {
            [(1024, 1024), (64, 16384), (2560, 2560), (12288, 4096), (4096, 151_936)].map(|(k, n)| (m, k, n))
        }) {
            let f = layout(&p, Dtype::BF16, [m, k, n]).unwrap();
            let [ring, sums] = [2 * SPAN * f.teams * f.ring, 4 * COLUMN * f.blocks * f.teams];
            assert!(f.columns * ring.max(sums) <= SHARED && f.threads() <= 512, "{f:?}");
            assert!(i64::from(f.columns) >= m && f.ring >= 3 && f.body().is_multiple_of(f.window), "{f:?}");
            assert!(i64::from(f.teams * f.splits) <= k / 64, "{f:?}");
        }
    }
}

#[test]
fn other_devices_and_shapes_keep_their_kernels() {
    let taken = |dtype, sizes| takes(&card(), dtype, sizes);
    assert!(taken(Dtype::BF16, [32, 4096, 4096]));
    for sizes in [[1, 4096, 24576], [33, 4096, 24576], [32, 4104, 24576], [32, 1 << 17, 1 << 17], [8, 64, 64]]
    {
        assert!(!taken(Dtype::BF16, sizes), "{sizes:?}");
    }
    assert!(taken(Dtype::F16, [32, 4096, 24576]) && !taken(Dtype::F32, [32, 4096, 24576]));
    assert_eq!([4, 5, 32, 33].map(takes_alone), [false, true, true, false]);
    assert!(!devices::all().iter().any(|p| takes(p, Dtype::BF16, [32, 4096, 24576])));
}
