//! Tests of `plan`.

use super::*;

#[test]
fn plans_cover_every_smooth_length() {
    for n in (2..5000).filter(|&n| is_smooth(n)) {
        let p = LinePlan::new(n, 256);
        assert_eq!(p.stages.iter().map(|s| s.radix).product::<usize>(), n);
        assert!(p.lanes <= 256 && p.registers <= 32, "{p:?}");
        for s in &p.stages {
            assert!(s.each * p.lanes >= n / s.radix && s.each * s.radix <= p.registers, "{p:?}");
        }
    }
    for (n, radices) in
        [(1000, vec![10, 10, 10]), (4096, vec![16; 3]), (504, vec![8, 9, 7]), (49, vec![7; 2])]
    {
        assert_eq!(LinePlan::new(n, 256).stages.iter().map(|s| s.radix).collect::<Vec<_>>(), radices);
    }
    let p = LinePlan::new(1024, 256);
    assert_eq!((p.lanes, p.registers), (64, 16));
    assert_eq!(p.stages.iter().map(|s| s.radix).collect::<Vec<_>>(), [8, 16, 8]);
}

#[test]
fn long_lengths_split_into_smooth_factors() {
    for n in [4097 * 3, 1 << 13, 1 << 20, 1 << 25, 3 << 20, 13 * 13 * 13 * 13 * 13, 1_000_000_000] {
        if !is_smooth(n) {
            continue;
        }
        let parts = split(n, 1024);
        assert_eq!(parts.iter().product::<usize>(), n);
        assert!(parts.iter().all(|&p| p <= 1024 && is_smooth(p)), "{n} {parts:?}");
    }
    assert_eq!(split(1 << 20, 1024), [1024, 1024]);
}

#[test]
fn mirrored_plans_have_two_columns_a_lane() {
    for n in (4..5000).filter(|&n| is_smooth(n)) {
        for first in [false, true] {
            let Some(p) = LinePlan::mirrored(n, first, (8, 256)) else { continue };
            let s = if first { p.stages[0] } else { p.stages[p.stages.len() - 1] };
            assert_eq!((s.each, 2 * p.lanes * s.radix), (2, n), "{p:?}");
            assert_eq!(p.stages.iter().map(|s| s.radix).product::<usize>(), n);
            assert!((8..=256).contains(&p.lanes) && p.registers <= 32, "{p:?}");
        }
    }
    let chosen = |n, first, least| {
        LinePlan::mirrored(n, first, (least, 256))
            .map(|p| p.stages.iter().map(|s| s.radix).collect::<Vec<_>>())
    };
    assert_eq!(chosen(512, false, 32), Some(vec![8; 3]));
    assert_eq!(chosen(500, false, 32), Some(vec![10, 10, 5]));
    assert_eq!(chosen(500, true, 8), Some(vec![5, 10, 10]));
    assert_eq!(chosen(256, false, 32), Some(vec![8, 8, 4]));
    assert_eq!((chosen(125, false, 8), chosen(128, false, 32)), (None, None));
}
