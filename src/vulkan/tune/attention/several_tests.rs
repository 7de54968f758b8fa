//! How attention of several sequences is cut, over made-up devices.

use super::*;
use crate::vulkan::tune::tests::devices::{all, h200};

#[test]
fn parts_cover_the_keys_and_fill_the_device() {
    let mut p = h200();
    p.features.ptx = true;
    let cut = |lines, group, keys| {
        super::cut(&p, lines, group, keys, 128).map(|s| [s.rows, s.tiles, s.parts, s.span]).unwrap()
    };
    assert_eq!(cut(256, 4, 300), [4, 1, 1, 304]);
    // Few keys have one workgroup a multiprocessor, many have two.
    assert_eq!(cut(64, 4, 256), [4, 1, 2, 128]);
    assert_eq!(cut(64, 4, 300), [4, 1, 4, 80]);
    assert_eq!(cut(32, 8, 512), [8, 1, 4, 128]);
    assert_eq!(cut(64, 4, 4000), [4, 1, 4, 1008]);
    assert_eq!(cut(128, 8, 512), [8, 1, 1, 512]);
    assert_eq!(cut(128, 8, 513), [8, 1, 2, 272]);
    assert_eq!(cut(16, 16, 4000), [8, 2, 8, 512]);
    assert_eq!(cut(8, 1, 20), [1, 1, 1, 32]);
    for (lines, group, keys) in [(1, 1, 1), (1, 9, 63), (3, 5, 777), (64, 1, 100_000), (1000, 9, 777)] {
        let [rows, tiles, parts, span] = cut(lines, group, keys).map(u64::from);
        assert!(rows * tiles >= group && parts * span >= keys && parts.is_power_of_two());
    }
}

#[test]
fn fronts_have_one_workgroup_a_multiprocessor() {
    let mut p = h200();
    (p.features.ptx, p.features.units) = (true, 132);
    let cut = |kv, group, keys| front(&p, kv, group, keys, 128).map(|s| [s.rows, s.tiles, s.parts, s.span]);
    assert_eq!(cut(8, 4, 572), Some([4, 1, 16, 48]));
    assert_eq!(cut(4, 8, 572), Some([4, 2, 16, 48]));
    // As many parts however few the keys are.
    for keys in [1, 16, 17, 40, 256] {
        assert_eq!(cut(8, 2, keys), Some([2, 1, 16, 16]));
    }
    assert_eq!(cut(40, 1, 3000), Some([1, 1, 2, 1504]));
    assert_eq!(cut(200, 1, 3000), None);
    // Longer than a row of a chain.
    assert_eq!(cut(16, 8, 300), None);
}

#[test]
fn one_sequence_of_few_keys_stays() {
    let mut p = h200();
    p.features.ptx = true;
    let taken = |batch, keys| several(&p, [batch, 8], 4, keys, 128).is_some();
    assert!(!taken(1, 1024) && taken(1, 1025) && taken(2, 1));
}

#[test]
fn only_devices_that_take_ptx_have_it() {
    assert!(!all().iter().any(|p| several(p, [8, 8], 4, 300, 128).is_some()));
    let mut p = h200();
    p.features.ptx = true;
    assert!(several(&p, [8, 8], 1, 300, 96).is_none() && several(&p, [8, 8], 1, 300, 128).is_some());
    assert!(several(&p, [8, 8], 4, 300, 96).is_some() && several(&p, [8, 8], 4, 300, 80).is_none());
}
