//! Tests of `stream`.

use super::*;
use crate::kernels::quantized::quant::{Format, Mode};
use crate::vulkan::tune::tests::devices;

fn shape(n: i64, k: i64) -> Shape {
    let format = Format::new("test", Mode::Affine, 64, 4).unwrap();
    Shape { dtype: Dtype::BF16, format, transpose: true, m: 1, n, k, batch: 1, matrices: 1, runs: false }
}

#[test]
fn long_rows_have_eight_on_their_way_where_there_are_many() {
    let p = devices::h200();
    let laid = |n, k, pair| {
        let l = possible(&p, &shape(n, k), n, pair)?;
        let units = ceil(if pair { n / 2 } else { n }, l.span(pair));
        Some((l.threads, l.teams, l.rows, l.workgroups(&p, units)))
    };
    assert_eq!(laid(24576, 4096, true), Some((128, 1, 8, 384)));
    assert_eq!(laid(4096, 4096, false), Some((128, 1, 8, 256)));
    assert_eq!(laid(4096, 12288, false), Some((384, 1, 4, 256)));
    assert_eq!(laid(151_936, 1024, false), Some((32, 4, 8, 396)));
    assert_eq!(laid(6144, 1024, true), Some((32, 4, 4, 384)));
    assert_eq!(laid(1024, 2048, false), Some((64, 2, 4, 128)));
    assert_eq!(laid(1024, 3072, false), Some((96, 2, 4, 128)));
    assert_eq!(laid(5120, 2048, false), Some((64, 2, 4, 320)));
    assert_eq!([laid(4096, 960, false), laid(4096, 1 << 16, false)], [None, None]);
}

#[test]
fn workgroups_take_all_rows_within_their_turns() {
    for p in devices::all() {
        for (n, k) in [(1, 1024), (3, 4096), (151_936, 1024), (1 << 20, 4096), (4096, 12288), (70_000, 1536)]
        {
            for pair in [false, true] {
                let least = if pair { ceil(n, 2) } else { n };
                let Some(l) = possible(&p, &shape(n, k), least, pair) else { continue };
                let units = ceil(least, l.span(pair)) + 2;
                let groups = l.workgroups(&p, units);
                assert!(groups * i64::from(l.teams * l.turns) >= units, "{} {n}x{k} {l:?}", p.name);
                assert!(l.span(pair) <= least && l.rows <= l.subgroup && l.threads % l.subgroup == 0);
                assert!(l.threads * l.teams <= p.features.max_workgroup_invocations);
                let sums = 4 * l.turns * l.teams * l.rows * l.threads / l.subgroup;
                assert!(sums <= SUMS.max(4 * l.teams * l.rows * l.threads));
            }
        }
    }
}

#[test]
fn in_ptx_it_is_taken_unasked_where_it_was_the_fastest() {
    let mut p = devices::h200();
    let taken =
        |p: &Profile, n, k, pair| layout(p, &shape(n, k), if pair { n / 2 } else { n }, pair).is_some();
    assert!(!taken(&p, 4096, 4096, false));
    p.features.ptx = true;
    for (n, k) in [(4096, 4096), (6144, 4096), (4096, 12288), (151_936, 1024), (151_936, 2048)] {
        assert!(taken(&p, n, k, false), "{n}x{k}");
    }
    for (n, k, pair) in
        [(24_576, 4096, true), (1024, 2048, false), (151_936, 4096, false), (4096, 960, false)]
    {
        assert!(!taken(&p, n, k, pair), "{n}x{k}");
    }
    for (other, neighbours) in [(NUMBERS, false), (NEIGHBOURS, true)] {
        let s = shape(24_576, 4096);
        p.winners.set(crate::vulkan::tune::quantized::subject(&s).unwrap(), other.to_vec());
        assert_eq!(layout(&p, &s, s.n, false).map(|l| l.neighbours), Some(neighbours));
    }
}

#[test]
fn registers_are_kept_for_as_many_workgroups_as_are_together() {
    let mut p = devices::h200();
    p.features.ptx = true;
    let laid = |n, k| possible(&p, &shape(n, k), n, false).map(|l| (l.threads, l.teams, l.rows, l.together));
    assert_eq!(laid(24_576, 4096), Some((128, 1, 8, 4)));
    assert_eq!(laid(4096, 12288), Some((384, 1, 4, 2)));
    assert_eq!(laid(4096, 32_768), Some((1024, 1, 2, 1)));
    assert_eq!(laid(151_936, 1024), Some((32, 4, 8, 4)));
}
