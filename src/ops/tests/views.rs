//! Shapes and values of views and of what is put together from them.

use super::*;
use crate::eval::testing::{doubles, values};

/// 0, 1, 2, ...
fn counted(shape: &[i64]) -> Array {
    let n = shape.iter().product::<i64>();
    doubles(shape, &(0..n).map(|i| i as f64).collect::<Vec<_>>())
}

#[test]
fn axes_are_joined_and_cut_again() {
    let s = stream();
    let a = f32s(&[2, 3, 4, 5]);
    for (start, end, want) in [
        (0, -1, &[120][..]),
        (1, 2, &[2, 12, 5]),
        (-2, -1, &[2, 3, 20]),
        (2, 2, &[2, 3, 4, 5]),
        (0, 9, &[120]),
    ] {
        assert_eq!(flatten(&a, start, end, s).unwrap().shape(), want, "{start} to {end}");
    }
    assert_eq!(flatten(&f32s(&[]), 0, -1, s).unwrap().shape(), [1]);
    assert!(refused(flatten(&a, 2, 1, s)).starts_with("[flatten]"));
    assert_eq!(unflatten(&a, -2, &[2, -1], s).unwrap().shape(), [2, 3, 2, 2, 5]);
    assert!(refused(unflatten(&a, 1, &[2, -1], s)).contains("Cannot split axis of size 3"));
    assert!(refused(unflatten(&a, 1, &[], s)).contains("cannot be empty"));
}

#[test]
fn a_shape_is_inferred_from_one_hole_only() {
    let s = stream();
    assert_eq!(reshape(&f32s(&[0, 3]), &[3, 0, 7], s).unwrap().shape(), [3, 0, 7]);
    assert!(refused(reshape(&f32s(&[2, 3]), &[-1, -1], s)).contains("Can only infer one dimension"));
    assert!(refused(reshape(&f32s(&[0, 3]), &[-1, 0], s)).contains("empty array"));
    assert!(refused(reshape(&f32s(&[2, 3]), &[7], s)).contains("Cannot reshape array of size 6"));
}

#[test]
fn axes_move_and_are_counted_from_either_end() {
    let s = stream();
    let a = f32s(&[2, 3, 4]);
    assert_eq!(moveaxis(&a, 0, -1, s).unwrap().shape(), [3, 4, 2]);
    assert_eq!(moveaxis(&a, -1, 0, s).unwrap().shape(), [4, 2, 3]);
    assert_eq!(swapaxes(&a, -1, 0, s).unwrap().shape(), [4, 3, 2]);
    assert_eq!(expand_dims(&a, &[0, -1], s).unwrap().shape(), [1, 2, 3, 4, 1]);
    for bad in [transpose(&a, Some(&[0, 0, 1]), s), transpose(&a, Some(&[0, 1]), s), swapaxes(&a, 3, 0, s)] {
        assert!(refused(bad).starts_with('['));
    }
    assert!(refused(squeeze(&a, Some(&[1]), s)).starts_with("[squeeze]"));
}

#[test]
fn slices_count_as_pythons_do() {
    for (start, stop, step, want) in
        [(0, 5, 2, 3), (4, -1, -1, 5), (4, 0, -3, 2), (3, 3, 1, 0), (5, 2, 1, 0), (0, 1, 100, 1)]
    {
        assert_eq!(slice_len(start, stop, step), want, "{start}:{stop}:{step}");
    }
    let part = slice(&counted(&[3, 4]), &[0, 3], &[3, 0], &[2, -2], stream()).unwrap();
    assert_eq!((part.shape(), values(&part)), (&[2, 2][..], vec![3.0, 1.0, 11.0, 9.0]));
}

#[test]
fn what_is_broadcast_grows_in_front_and_where_it_has_one_element() {
    let s = stream();
    for (from, to) in [(&[3][..], &[3, 1][..]), (&[2, 3], &[3]), (&[3], &[2, 4])] {
        assert!(broadcast_to(&f32s(from), to, s).is_err(), "{from:?} to {to:?}");
    }
    let both = broadcast_arrays(&[f32s(&[3, 1]), f32s(&[1, 4]), f32s(&[])], s).unwrap();
    assert!(both.iter().all(|a| a.shape() == [3, 4]));
    let grid = meshgrid(&[f32s(&[2]), f32s(&[3])], false, true, s).unwrap();
    assert!(grid.iter().all(|a| a.shape() == [3, 2]));
    let sparse = meshgrid(&[f32s(&[2]), f32s(&[3])], true, false, s).unwrap();
    assert_eq!([sparse[0].shape(), sparse[1].shape()], [&[2, 1], &[1, 3]]);
}

#[test]
fn parts_are_as_long_as_the_cuts_say() {
    let s = stream();
    let lengths = |how, axis| -> Vec<i64> {
        split(&f32s(&[6, 4]), how, axis, s).unwrap().iter().map(|a| a.dim(axis)).collect()
    };
    assert_eq!(lengths(Split::Sections(3), 0), [2, 2, 2]);
    assert_eq!(lengths(Split::Indices(&[1, -2]), 0), [1, 3, 2]);
    assert_eq!(lengths(Split::Indices(&[3, 1, 9]), -1), [3, 0, 3, 0]);
    assert!(refused(split(&f32s(&[6]), Split::Sections(4), 0, s)).contains("equal size"));
    assert_eq!(unstack(&f32s(&[2, 3, 4]), 1, s).unwrap().iter().filter(|a| a.shape() == [2, 4]).count(), 3);
}

#[test]
fn arrays_are_put_together_along_an_axis_or_a_new_one() {
    let s = stream();
    let (a, b) = (blank(&[2, 3], Dtype::F16), blank(&[2, 3], Dtype::I32));
    let both = concatenate(&[a.clone(), b.clone()], -1, s).unwrap();
    assert_eq!((both.shape(), both.dtype()), (&[2, 6][..], Dtype::F16));
    assert_eq!(stack(&[a.clone(), b], -1, s).unwrap().shape(), [2, 3, 2]);
    assert!(refused(concatenate(&[a.clone(), f32s(&[3, 3])], 1, s)).starts_with("[concatenate]"));
    assert!(refused(stack(&[a, f32s(&[3, 2])], 0, s)).starts_with("[stack]"));
}

#[test]
fn padding_goes_on_as_its_mode_says() {
    let s = stream();
    let zero = scalar_f64(0.0, Dtype::F64).unwrap();
    let padded = |width: (i64, i64), mode| values(&pad(&counted(&[3]), &[width], mode, &zero, s).unwrap());
    assert_eq!(padded((1, 2), PadMode::Constant), [0.0, 0.0, 1.0, 2.0, 0.0, 0.0]);
    assert_eq!(padded((2, 1), PadMode::Edge), [0.0, 0.0, 0.0, 1.0, 2.0, 2.0]);
    assert_eq!(padded((2, 1), PadMode::Reflect), [2.0, 1.0, 0.0, 1.0, 2.0, 1.0]);
    // Longer than the array: forth and back as often as it takes.
    assert_eq!(padded((5, 0), PadMode::Reflect), [1.0, 0.0, 1.0, 2.0, 1.0, 0.0, 1.0, 2.0]);
    assert!(refused(pad(&f32s(&[3]), &[(-1, 0)], PadMode::Edge, &zero, s)).contains("non-negative"));
    assert!(refused(pad(&f32s(&[3]), &[], PadMode::Edge, &zero, s)).contains("pairs"));
}

#[test]
fn repetitions_and_rolls() {
    let s = stream();
    let a = counted(&[2, 2]);
    assert_eq!(values(&repeat(&a, 2, Some(1), s).unwrap()), [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
    assert_eq!(repeat(&a, 3, None, s).unwrap().shape(), [12]);
    let tiled = tile(&a, &[2, 1, 2], s).unwrap();
    assert_eq!(tiled.shape(), [2, 2, 4]);
    assert_eq!(values(&tiled)[..4], [0.0, 1.0, 0.0, 1.0]);
    assert_eq!(values(&roll(&a, &[1], None, s).unwrap()), [3.0, 0.0, 1.0, 2.0]);
    assert_eq!(values(&roll(&a, &[-1], Some(&[0]), s).unwrap()), [2.0, 3.0, 0.0, 1.0]);
    assert_eq!(values(&flip(&a, Some(&[-1]), s).unwrap()), [1.0, 0.0, 3.0, 2.0]);
}

#[test]
fn diagonals_lie_along_two_axes() {
    let s = stream();
    let a = counted(&[2, 3]);
    assert_eq!(values(&diagonal(&a, 1, 0, 1, s).unwrap()), [1.0, 5.0]);
    assert_eq!(values(&diagonal(&a, -1, 0, 1, s).unwrap()), [3.0]);
    assert_eq!(diagonal(&f32s(&[2, 3, 4]), 0, 0, 2, s).unwrap().shape(), [3, 2]);
    assert_eq!(diagonal(&a, 5, 0, 1, s).unwrap().shape(), [0]);
    assert_eq!(diag(&f32s(&[3]), -2, s).unwrap().shape(), [5, 5]);
    assert!(refused(diagonal(&a, 0, 1, -1, s)).contains("cannot be the same axis"));
}

#[test]
fn bytes_are_seen_as_another_dtype_along_the_last_axis() {
    let s = stream();
    let seen = |dtype| view(&blank(&[3, 4], Dtype::U16), dtype, s);
    assert_eq!(seen(Dtype::U8).unwrap().shape(), [3, 8]);
    assert_eq!(seen(Dtype::F32).unwrap().shape(), [3, 2]);
    assert!(refused(view(&blank(&[3], Dtype::U16), Dtype::F32, s)).starts_with("[view]"));
}
