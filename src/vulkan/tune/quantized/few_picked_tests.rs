//! Tests of `few_picked`.

use super::*;
use crate::core::Dtype;
use crate::kernels::quantized::quant::{Format, Mode};
use crate::vulkan::tune::tests::devices;

fn shape(picks: i64, matrices: i64, [n, k]: [i64; 2]) -> Shape {
    let format = Format::new("test", Mode::Affine, 64, 4).unwrap();
    Shape { dtype: Dtype::BF16, format, transpose: true, m: 1, n, k, batch: picks, matrices, runs: false }
}

fn hopper() -> Profile {
    let mut p = devices::h200();
    p.features.ptx = true;
    p
}

/// Gate and up of a model of 128 experts, and down.
const SIDES: [([i64; 2], bool); 2] = [([1536, 2048], true), ([2048, 768], false)];

#[test]
fn workgroups_have_all_of_k_and_fill_the_device() {
    let p = hopper();
    for (sides, pair) in SIDES {
        for rows in [1, 2, 8, 32, 64] {
            let laid = layout(&p, &shape(8 * rows, 128, sides), pair, false).unwrap();
            let Form { warps, pieces, tiles, together, .. } = laid.form;
            assert_eq!(i64::from(warps * pieces * SPAN), sides[1]);
            assert_eq!(8 * tiles, EIGHT);
            assert!(laid.slots.is_multiple_of(2) && 32 * warps * together * 128 <= 1 << 16);
            for units in [1, 40, 384, 10_000] {
                let groups = workgroups(&p, &laid.form, units);
                assert!(groups == units || groups == 132 * together);
            }
        }
        assert!(layout(&p, &shape(32, 128, sides), pair, true).is_none());
        assert!(layout(&p, &shape(64, 128, sides), pair, true).is_some());
    }
    for k in (256..=4096).step_by(256) {
        for matrices in [2, 4, 8, 64, 128, 256] {
            if let Some(laid) = layout(&p, &shape(16, matrices, [256, k]), true, false) {
                let format = Format { mode: Mode::Affine, group: 64, bits: 4 };
                assert!(laid.fits(format, [k as u32, matrices as u32]));
            }
        }
        assert!(layout(&p, &shape(16, 128, [256, k]), false, false).is_some(), "{k}");
    }
}

#[test]
fn other_picks_keep_their_kernels() {
    let p = hopper();
    let s = shape(64, 128, [1536, 2048]);
    assert!(layout(&p, &s, true, false).is_some());
    let bits = Format::new("test", Mode::Affine, 64, 6).unwrap();
    let others = [
        shape(4, 128, [1536, 2048]),
        shape(513, 128, [1536, 2048]),
        shape(64, 4, [1536, 2048]),
        shape(64, 1024, [1536, 2048]),
        shape(64, 128, [1536, 2048 + 32]),
        shape(64, 128, [1536, 1 << 17]),
        shape(64, 128, [1520, 2048]),
        Shape { dtype: Dtype::F32, ..s },
        Shape { transpose: false, ..s },
        Shape { runs: true, ..s },
        Shape { m: 2, ..s },
        Shape { format: bits, ..s },
    ];
    assert!(!others.iter().any(|s| layout(&p, s, true, false).is_some()));
    assert!(devices::all().iter().all(|p| layout(p, &s, true, false).is_none()));
}

/// Of large matrices sums are made of fewer picks.
#[test]
fn what_is_read_decides_where_sums_are_another_kernel() {
    let p = hopper();
    let summed = |picks, matrices, sizes| layout(&p, &shape(picks, matrices, sizes), false, true).is_some();
    assert!(!summed(32, 128, [2048, 768]) && summed(40, 128, [2048, 768]));
    assert!(summed(16, 8, [4096, 14336]) && summed(8, 8, [4096, 14336]));
    // One row of a model whose matrices are large, and of one where they are small.
    assert!(summed(2, 8, [4096, 14336]) && !summed(8, 128, [2048, 768]));
    let pair = |picks, sizes| layout(&p, &shape(picks, 8, sizes), true, false).is_some();
    assert!(pair(2, [28672, 4096]) && pair(1, [28672, 8192]) && !pair(4, [5760, 2048]));
}

#[test]
fn lists_have_room_for_all_items() {
    for matrices in [1, 2, 8, 128, 1023] {
        // One pick of each matrix but the last, which has the others: the most that there can be.
        for alone in 0..matrices.min(PICKS) {
            let most = alone + (PICKS - alone).div_ceil(EIGHT);
            assert!(most <= items(matrices), "{matrices} {alone}");
        }
        assert!(own(matrices) * 32 >= matrices && own(matrices).is_multiple_of(4));
    }
}

/// Sixteen picks of eight large matrices are joined where each of these is read once.
#[test]
fn picks_of_large_matrices_are_joined() {
    use crate::vulkan::tune::fusion::joins_picks;
    let format = Format::new("test", Mode::Affine, 64, 4).unwrap();
    let mut p = hopper();
    let joins = |p: &Profile, k| joins_picks(p, format, Dtype::BF16, [k, 14336, 16, 8], &|_, _| false);
    assert!(joins(&p, 4096) && joins(&p, 6144) && !joins(&p, 6144 + 32));
    p.features.ptx = false;
    assert!(!joins(&p, 4096));
}

/// A workgroup's part of K is whole pieces of its subgroups, none is without a piece, and registers and shared memory have room for all
/// that a multiprocessor has at a time.
#[test]
fn other_formats_and_lengths_have_room() {
    let p = hopper();
    let affine = |bits| [32, 64, 128].map(|group| Format { mode: Mode::Affine, group, bits });
    let small = [(Mode::Mxfp4, 32, 4), (Mode::Mxfp8, 32, 8), (Mode::Nvfp4, 16, 4)]
        .map(|(mode, group, bits)| Format { mode, group, bits });
    for format in affine(4).into_iter().chain(affine(8)).chain(small) {
        for k in [128, 256, 384, 768, 1024, 1152, 2048, 2880, 2944, 4096, 6144, 7168, 14336, 16384] {
            if k % i64::from(format.group) != 0 {
                continue;
            }
            for (pair, matrices) in [(true, 128), (false, 32), (false, 8)] {
                let s = Shape { format, ..shape(64, matrices, [2880 / 32 * 32, k]) };
                let Picked { form, slots } = layout(&p, &s, pair, false).unwrap();
                let piece = Piece::of(format, k as u32);
                let Form { warps, pieces, splits, together, .. } = form;
                let own = i64::from(warps * pieces * piece.span);
                let splits = i64::from(splits);
                assert!(own * splits >= k && own * (splits - 1) < k, "{format:?} {k}: {form:?}");
                let registers = if format.bits == 4 { 32 * pieces } else { 16 * pieces };
                assert!(together * warps * 32 * (registers + 64) <= 1 << 16, "{format:?} {k}: {form:?}");
                assert!(together * warps >= 8 || k < 2048);
                assert!(slots > 0 && workgroups(&p, &form, 10_000).is_multiple_of(form.splits));
            }
        }
    }
}
