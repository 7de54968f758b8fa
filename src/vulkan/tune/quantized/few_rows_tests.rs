//! Tests of `few_rows`.

use super::*;
use crate::kernels::quantized::quant::{Format, Mode};
use crate::vulkan::tune::tests::devices;

fn shape(m: i64, n: i64, k: i64) -> Shape {
    let format = Format::new("test", Mode::Affine, 64, 4).unwrap();
    Shape { dtype: Dtype::BF16, format, transpose: true, m, n, k, batch: 1, matrices: 1, runs: false }
}

fn hopper() -> Profile {
    let mut p = devices::h200();
    p.features.ptx = true;
    p
}

#[test]
fn workgroups_have_all_of_k_together_and_all_units() {
    let p = hopper();
    for m in [2, 8, 9, 16, 17, 32, 33, 64] {
        for k in [256, 512, 1024, 2048, 2560, 3072, 4096, 5120, 9728, 12288, 25600, 100_096] {
            let form = possible(&p, &shape(m, 4096, k)).unwrap();
            let pieces = form.warps * form.pieces * form.splits;
            assert!(i64::from(pieces * SPAN) >= k, "{form:?}");
            // No subgroup of the last part is without work, but for what is cut evenly.
            assert!(i64::from((pieces - form.pieces * form.splits) * SPAN) < k, "{form:?}");
            assert!(form.bytes(form.buffers) <= SHARED, "{form:?}");
            assert!(i64::from(8 * form.tiles) >= m.min(MOST), "{form:?}");
            // A thread has at most 128 registers of x, and the multiprocessor registers for all of them.
            let held = form.tiles * form.pieces * GROUPS * 8;
            let room = (1 << 16) / (32 * form.warps * form.together);
            assert!(held <= 128 && held + 64 <= room, "{form:?}");
            for units in [1, 3, 256, 768, 9496] {
                let lists = form.lists(&p, units);
                assert!((1..=units).contains(&lists));
                assert!(units.div_ceil(lists) <= units / lists + 1);
            }
        }
    }
}

#[test]
fn other_shapes_keep_their_kernels() {
    let p = hopper();
    let s = shape(8, 4096, 4096);
    assert!(possible(&p, &s).is_some());
    assert!(layout(&p, &s).is_some());
    let mut tuned = hopper();
    for (won, taken) in [(NUMBERS.to_vec(), true), (vec![6, 1, 1, 1, 1], false)] {
        tuned.winners.set(crate::vulkan::tune::quantized::subject(&s).unwrap(), won);
        assert_eq!(layout(&tuned, &s).is_some(), taken);
    }
    let bits = Format::new("test", Mode::Affine, 64, 8).unwrap();
    let group = Format::new("test", Mode::Affine, 32, 4).unwrap();
    let others = [
        shape(1, 4096, 4096),
        shape(65, 4096, 4096),
        shape(8, 4096, 4096 + 64),
        Shape { dtype: Dtype::F32, ..s },
        Shape { transpose: false, ..s },
        Shape { matrices: 4, ..s },
        Shape { batch: 2, ..s },
        Shape { format: bits, ..s },
        Shape { format: group, ..s },
    ];
    assert!(!others.iter().any(|s| possible(&p, s).is_some()));
    assert!(devices::all().iter().all(|p| possible(p, &s).is_none()));
}

#[test]
fn short_matrices_have_codes_in_registers() {
    let p = hopper();
    for m in [17, 32, 33, 64] {
        for k in (64..=4096).step_by(64) {
            for (units, sides) in [(1, 1), (8, 1), (64, 1), (128, 1), (192, 2), (320, 1), (384, 1)] {
                let Some(form) = held(&p, Dtype::BF16, [m, k], [units, sides]) else { continue };
                assert_eq!(i64::from(form.warps * form.span()), k, "{form:?}");
                assert!(form.held / sides * form.lists(&p, units) >= units, "{form:?}");
                assert!(form.held.is_multiple_of(sides) && form.bytes(form.buffers) <= SHARED, "{form:?}");
                assert!(form.warps * form.parts * form.lists(&p, units) <= 132 * 16, "{form:?}");
                // As many as copy scales and biases, eight bytes each.
                assert!(k / 8 <= i64::from(32 * form.warps), "{form:?}");
            }
        }
    }
    let of = |dtype, m, k, units| held(&p, dtype, [m, k], [units, 1]).is_some();
    let taken = |m, k, units| of(Dtype::BF16, m, k, units);
    assert!(of(Dtype::F16, 32, 2048, 320) && !of(Dtype::F32, 32, 2048, 320));
    assert!(taken(32, 2048, 320) && taken(32, 4096, 128) && taken(32, 2560, 128));
    // Few rows, many units, and lengths that are not dealt evenly.
    assert!(!taken(16, 2048, 320) && !taken(65, 2048, 320) && !taken(32, 4096, 384) && !taken(32, 2560, 256));
    assert!(!taken(32, 64 * 31, 8) && !taken(32, 5120, 8) && !taken(32, 100, 8));
}
