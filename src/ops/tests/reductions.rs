//! Shapes and dtypes of reductions, scans, orders and statistics.

use super::*;
use crate::eval::testing::{close, doubles, values};

#[test]
fn axes_are_named_once_and_lie_inside() {
    let s = stream();
    let a = f32s(&[2, 3]);
    for axes in [&[0, 0][..], &[1, -1], &[2], &[-3]] {
        assert!(refused(sum(&a, Some(axes), false, s)).starts_with("[sum]"), "{axes:?}");
    }
    // No axis is none, not all.
    assert_eq!(sum(&a, Some(&[]), false, s).unwrap().shape(), [2, 3]);
}

#[test]
fn sums_are_as_wide_as_they_need_and_extrema_as_they_were() {
    use Dtype::*;
    let s = stream();
    for (of, total, average) in [
        (Bool, I32, F32),
        (U8, U32, F32),
        (I16, I32, F32),
        (I64, I64, F32),
        (U64, U64, F32),
        (F16, F16, F16),
        (BF16, BF16, BF16),
        (C64, C64, C64),
    ] {
        let a = blank(&[3], of);
        assert_eq!(sum(&a, None, false, s).unwrap().dtype(), total, "{of}");
        assert_eq!(prod(&a, None, false, s).unwrap().dtype(), total, "{of}");
        assert_eq!(min(&a, None, false, s).unwrap().dtype(), of);
        assert_eq!(mean(&a, None, false, s).unwrap().dtype(), average, "{of}");
    }
}

#[test]
fn places_are_uint32_and_need_an_element() {
    let s = stream();
    let a = f32s(&[2, 3]);
    for (axis, keepdims, want) in
        [(Some(1), false, &[2][..]), (Some(-2), true, &[1, 3]), (None, false, &[]), (None, true, &[1, 1])]
    {
        let at = argmax(&a, axis, keepdims, s).unwrap();
        assert_eq!((at.shape(), at.dtype()), (want, Dtype::U32), "{axis:?}");
    }
    assert!(refused(argmin(&f32s(&[2, 0]), Some(1), false, s)).contains("zero size array"));
}

#[test]
fn scans_keep_the_shape_or_flatten() {
    let s = stream();
    let form = ScanForm { reverse: true, inclusive: false };
    let a = blank(&[2, 3], Dtype::U8);
    assert_eq!(cumsum(&a, Some(-1), form, None, s).unwrap().shape(), [2, 3]);
    assert_eq!(cummax(&a, None, form, s).unwrap().shape(), [6]);
    assert!(cumsum(&a, Some(2), form, None, s).is_err());
    let x = doubles(&[3], &[1.0, 2.0, 4.0]);
    assert_eq!(values(&cumsum(&x, Some(0), form, None, s).unwrap()), [6.0, 4.0, 0.0]);
    assert_eq!(diff(&f32s(&[2, 5]), 2, -1, s).unwrap().shape(), [2, 3]);
}

#[test]
fn orders_have_a_place_inside_the_axis() {
    let s = stream();
    let a = f32s(&[2, 5]);
    assert_eq!(argsort(&a, Some(0), s).unwrap().dtype(), Dtype::U32);
    assert_eq!(sort(&a, None, s).unwrap().shape(), [10]);
    assert_eq!(topk(&a, 2, Some(-1), s).unwrap().shape(), [2, 2]);
    assert_eq!(topk(&a, 0, Some(0), s).unwrap().shape(), [0, 5]);
    assert!(refused(topk(&a, 6, Some(-1), s)).contains("invalid k=6"));
    for kth in [5, -6] {
        assert!(refused(partition(&a, kth, Some(1), s)).starts_with("[partition]"));
    }
}

#[test]
fn statistics_agree_with_their_definitions() {
    let s = stream();
    let x = doubles(&[2, 3], &[1.0, 2.0, 6.0, -1.0, 0.0, 4.0]);
    close(&values(&mean(&x, Some(&[1]), false, s).unwrap()), &[3.0, 1.0], 1e-15);
    close(&values(&var(&x, Some(&[1]), true, 1, s).unwrap()), &[7.0, 7.0], 1e-15);
    close(&values(&std(&x, None, false, 0, s).unwrap()), &[(17.0f64 / 3.0).sqrt()], 1e-15);
    close(&values(&median(&x, Some(&[1]), false, s).unwrap()), &[2.0, 0.0], 0.0);
    close(&values(&median(&x, None, false, s).unwrap()), &[1.5], 0.0);
    assert!(refused(median(&f32s(&[0]), None, false, s)).starts_with("[median]"));
}

#[test]
fn what_was_broadcast_is_summed_back() {
    let s = stream();
    let x = doubles(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for (shape, want) in
        [(&[3][..], &[5.0, 7.0, 9.0][..]), (&[2, 1], &[6.0, 15.0]), (&[1, 1], &[21.0]), (&[], &[21.0])]
    {
        let back = sum_to(&x, shape, s).unwrap();
        assert_eq!((back.shape(), &values(&back)[..]), (shape, want));
    }
}
