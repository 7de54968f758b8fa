//! Tests of `held`.

use super::*;
use crate::kernels::quantized::quant::{Format, Mode};
use crate::vulkan::tune::tests::devices;

fn shape(m: i64, n: i64, k: i64, group: i64) -> Shape {
    let format = Format::new("test", Mode::Affine, group, 4).unwrap();
    Shape { dtype: Dtype::BF16, format, transpose: true, m, n, k, batch: 1, matrices: 1, runs: false }
}

#[test]
fn workgroups_have_all_of_k_together_and_all_units() {
    let p = devices::h200();
    for group in [64, 128] {
        for k in [2048, 2560, 4096, 5120, 9728, 12288, 25600, 100_096] {
            let h = layout(&p, &shape(8, 4096, k, group), &|_, _| true).unwrap();
            assert!(i64::from(h.subgroups * h.splits * h.turn) * group >= k, "{h:?}");
            assert!(h.subgroups <= 16 && h.bytes(h.buffers, h.of_codes()) <= p.features.shared_memory);
            for units in [1, 3, 256, 768, 9496] {
                let lists = h.lists(&p, units);
                assert!((1..=units).contains(&lists));
                // No list is longer than the average by more than one unit.
                assert!(ceil(units, lists) <= units / lists + 1);
            }
        }
    }
}

#[test]
fn other_devices_and_shapes_keep_their_kernels() {
    let p = devices::h200();
    let taken = |p: &Profile, s: &Shape| layout(p, s, &|_, _| true).is_some();
    let s = shape(8, 4096, 4096, 64);
    assert!(taken(&p, &s));
    let others = [
        shape(1, 4096, 4096, 64),
        shape(2, 4096, 4096, 64),
        shape(9, 4096, 4096, 64),
        shape(8, 4096, 1024, 64),
        shape(8, 4096, 4096, 32),
        Shape { dtype: Dtype::F32, ..s },
        Shape { transpose: false, ..s },
        Shape { matrices: 4, ..s },
    ];
    assert!(!others.iter().any(|s| taken(&p, s)));
    assert!(layout(&p, &s, &|_, _| false).is_none());
    assert_eq!(layout(&p, &s, &|_, cols| cols == 16).map(|h| h.cols), Some(16));
    for p in devices::all().iter().filter(|p| p.features.coop_matrices.is_empty()) {
        assert!(!taken(p, &s), "{}", p.name);
    }
}
