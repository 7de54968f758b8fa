//! Tests of `taps`.

use super::*;

/// Kernels of one to three axes: strides, dilation, mirrored and cropped ones.
fn geometries() -> Vec<Geometry> {
    let dense = |size: [i64; 3], channels: i64| {
        let [x, y, z] = size;
        [channels, x * channels, x * y * channels, x * y * z * channels]
    };
    let of = |kernel, dilation, low, out, stride, size, channels| Geometry {
        kernel,
        dilation,
        low,
        out,
        stride,
        size,
        channels,
        input: dense(size, channels),
        result: dense(out, 24),
    };
    vec![
        of([3, 1, 1], [1; 3], [1, 0, 0], [29, 1, 1], [1; 3], [29, 1, 1], 8),
        of([3, 3, 1], [1; 3], [1, 1, 0], [7, 5, 1], [1; 3], [7, 5, 1], 24),
        of([3, 2, 1], [2, 3, 1], [2, 1, 0], [3, 2, 1], [2, 3, 1], [9, 8, 1], 16),
        of([3, 3, 3], [-1, -1, -1], [-2, -1, -3], [3, 5, 2], [1; 3], [5, 6, 4], 8),
        of([2, 3, 1], [1; 3], [-1, 0, 0], [40, 1, 1], [1, 2, 1], [42, 3, 1], 8),
    ]
}

/// The input element of an output position and an element of the kernel, if there is one.
fn element(g: &Geometry, position: i64, k: i64) -> Option<i64> {
    let (mut rest, mut tap) = (position, k / g.channels);
    let mut at = k % g.channels;
    for i in 0..3 {
        let place = rest % g.out[i] * g.stride[i] - g.low[i] + tap % g.kernel[i] * g.dilation[i];
        if !(0..g.size[i]).contains(&place) {
            return None;
        }
        at += place * g.input[i];
        rest /= g.out[i];
        tap /= g.kernel[i];
    }
    Some(at + rest * g.input[3])
}

/// A position as kernels see it: its place, and the elements before it.
fn position(g: &Geometry, args: &Input, position: i64) -> ([u32; 3], u32) {
    let mut rest = position;
    let mut base = 0i64;
    let place = std::array::from_fn(|i| {
        let at = rest % g.out[i];
        rest /= g.out[i];
        base += at * i64::from(args.step[i]);
        (at * g.stride[i]) as u32
    });
    (place, (base + rest * i64::from(args.step[3])) as u32)
}

#[test]
fn chunks_and_positions_meet_where_the_convolution_says() {
    for g in geometries() {
        let (table, args) = (g.table().unwrap(), g.arguments(0));
        let k = g.kernel.iter().product::<i64>() * g.channels;
        let chunks = (k / 8) as usize;
        assert!(
            table.len() >= chunks.next_multiple_of(32) && table.len() >= chunks.next_multiple_of(16) + 16
        );
        for p in 0..3 * g.out.iter().product::<i64>() {
            let (place, base) = position(&g, &args, p);
            for (c, chunk) in table.iter().enumerate() {
                let inside = (0..3).all(|i| place[i].wrapping_add(chunk[i] as u32) < args.size[i]);
                let found = inside.then(|| i64::from(base.wrapping_add(chunk[3] as u32)));
                let wanted = if c < chunks { element(&g, p, 8 * c as i64) } else { None };
                assert_eq!(found, wanted, "position {p}, chunk {c} of {g:?}");
            }
        }
    }
}

#[test]
fn jumps_lead_from_position_to_position() {
    for g in geometries() {
        let args = g.arguments(0);
        let axes = (0..3).rev().find(|&i| g.out[i] > 1).map_or(1, |i| i + 1);
        for first in 0..20 {
            let (mut p, (mut place, mut base)) = (first, position(&g, &args, first));
            for (by, jump) in [4, 28].into_iter().zip(args.jump).cycle().take(12) {
                p += by;
                base = base.wrapping_add(jump[3]);
                (0..3).for_each(|i| place[i] = place[i].wrapping_add(jump[i]));
                for i in 0..axes {
                    let end = args.out[i] * args.stride[i];
                    let next = if i + 1 == axes { 3 } else { i + 1 };
                    if place[i] >= end {
                        place[i] -= end;
                        let back = args.step[next].wrapping_sub(args.out[i].wrapping_mul(args.step[i]));
                        base = base.wrapping_add(back);
                        if next < 3 {
                            place[next] += args.stride[next];
                        }
                    }
                }
                let (there, elements) = position(&g, &args, p);
                assert_eq!((&place[..axes], base), (&there[..axes], elements), "position {p} of {g:?}");
            }
        }
    }
}

#[test]
fn far_offsets_are_left_to_others() {
    let mut g = geometries().remove(1);
    g.input[1] = 1 << 31;
    assert_eq!(g.table(), None);
}
