//! Shapes and dtypes of results, as they are known before anything is computed.

mod general;
mod reductions;
mod views;

use super::*;
use crate::core::{Array, Device, Dtype, Stream, default_stream};
use crate::kernels::ScanForm;

fn stream() -> Stream {
    default_stream(Device::CPU)
}

fn blank(shape: &[i64], dtype: Dtype) -> Array {
    Array::placeholder(shape, dtype).unwrap()
}

/// The message of what fails.
fn refused<T>(r: crate::core::Result<T>) -> String {
    match r {
        Ok(_) => panic!("accepted"),
        Err(e) => e.to_string(),
    }
}

/// An array of float32 without values.
fn f32s(shape: &[i64]) -> Array {
    blank(shape, Dtype::F32)
}

#[test]
fn operands_are_broadcast_against_each_other() {
    let s = stream();
    for (a, b, want) in [
        (&[3, 1][..], &[4][..], &[3, 4][..]),
        (&[], &[2, 2], &[2, 2]),
        (&[1, 5], &[7, 1, 1], &[7, 1, 5]),
        (&[0, 3], &[1], &[0, 3]),
    ] {
        assert_eq!(add(&f32s(a), &f32s(b), s).unwrap().shape(), want, "{a:?} {b:?}");
    }
    for (a, b) in [(&[3][..], &[4][..]), (&[2, 3], &[3, 2]), (&[0], &[2])] {
        assert!(add(&f32s(a), &f32s(b), s).is_err(), "{a:?} {b:?}");
    }
}

#[test]
fn operands_are_promoted_to_a_common_dtype() {
    use Dtype::*;
    let s = stream();
    for (a, b, want) in [
        (Bool, U8, U8),
        (U8, I8, I16),
        (U16, I16, I32),
        (U32, I32, I64),
        (U64, I64, F32),
        (I64, F16, F16),
        (F16, BF16, F32),
        (F16, F32, F32),
        (F32, F64, F64),
        (I32, C64, C64),
    ] {
        for (x, y) in [(a, b), (b, a)] {
            let got = add(&blank(&[2], x), &blank(&[2], y), s).unwrap().dtype();
            assert_eq!(got, want, "{x} + {y}");
        }
        assert_eq!(less(&blank(&[2], a), &blank(&[2], b), s).unwrap().dtype(), Bool);
    }
    assert_eq!(divide(&blank(&[2], I32), &blank(&[2], I32), s).unwrap().dtype(), F32);
}

#[test]
fn reductions_drop_their_axes_and_widen_narrow_sums() {
    let s = stream();
    let a = blank(&[2, 3, 4], Dtype::I8);
    for (axes, keepdims, want) in [
        (Some(&[0, -1][..]), false, &[3][..]),
        (Some(&[1]), true, &[2, 1, 4]),
        (None, false, &[]),
        (None, true, &[1, 1, 1]),
    ] {
        let total = sum(&a, axes, keepdims, s).unwrap();
        assert_eq!((total.shape(), total.dtype()), (want, Dtype::I32), "{axes:?}");
        assert_eq!(max(&a, axes, keepdims, s).unwrap().dtype(), Dtype::I8);
        assert_eq!(any(&a, axes, keepdims, s).unwrap().dtype(), Dtype::Bool);
    }
    let e = max(&f32s(&[2, 0]), Some(&[1]), false, s).unwrap_err().to_string();
    assert!(e.contains("[max]"), "{e}");
    assert_eq!(sum(&f32s(&[2, 0]), Some(&[1]), false, s).unwrap().shape(), [2]);
}

#[test]
fn products_follow_the_rules_of_matmul() {
    let s = stream();
    for (a, b, want) in [
        (&[2, 3][..], &[3, 4][..], &[2, 4][..]),
        (&[3], &[3], &[]),
        (&[3], &[3, 4], &[4]),
        (&[2, 3], &[3], &[2]),
        (&[5, 1, 2, 3], &[7, 3, 4], &[5, 7, 2, 4]),
    ] {
        assert_eq!(matmul(&f32s(a), &f32s(b), s).unwrap().shape(), want, "{a:?} {b:?}");
    }
    for (a, b) in [(&[2, 3][..], &[4, 3][..]), (&[], &[3]), (&[2, 2, 3], &[3, 3, 4])] {
        let e = matmul(&f32s(a), &f32s(b), s).unwrap_err().to_string();
        assert!(e.starts_with("[matmul]"), "{e}");
    }
}

#[test]
fn views_know_their_shapes() {
    let s = stream();
    let a = f32s(&[2, 3, 4]);
    assert_eq!(reshape(&a, &[4, -1], s).unwrap().shape(), [4, 6]);
    assert!(reshape(&a, &[5, -1], s).unwrap_err().to_string().starts_with("[reshape]"));
    assert_eq!(transpose(&a, None, s).unwrap().shape(), [4, 3, 2]);
    assert_eq!(transpose(&a, Some(&[1, 0, -1]), s).unwrap().shape(), [3, 2, 4]);
    assert_eq!(slice(&a, &[0, 2, 3], &[2, 0, 0], &[1, -1, -2], s).unwrap().shape(), [2, 2, 2]);
    assert_eq!(broadcast_to(&f32s(&[3, 1]), &[2, 3, 4], s).unwrap().shape(), [2, 3, 4]);
    assert_eq!(concatenate(&[a.clone(), f32s(&[2, 1, 4])], 1, s).unwrap().shape(), [2, 4, 4]);
    assert_eq!(squeeze(&f32s(&[1, 3, 1]), None, s).unwrap().shape(), [3]);
}

/// What a shapeless function asks primitives for is what they said when they were made.
#[test]
fn primitives_tell_the_shapes_that_they_were_made_for() {
    let s = stream();
    let a = f32s(&[2, 3, 4]);
    let made = [
        exp(&a, s),
        add(&a, &f32s(&[4]), s),
        sum(&a, Some(&[1]), true, s),
        softmax(&a, Some(&[-1]), true, s),
        matmul(&a, &f32s(&[2, 4, 5]), s),
        transpose(&a, Some(&[2, 0, 1]), s),
        concatenate(&[a.clone(), a.clone()], 0, s),
        sort(&a, Some(-1), s),
        cumsum(&a, Some(1), ScanForm { reverse: false, inclusive: true }, None, s),
    ];
    for made in made {
        let made = made.unwrap();
        let node = made.node().unwrap();
        let shapes = node.primitive.output_shapes(&node.inputs).unwrap();
        assert_eq!(shapes[0].as_slice(), made.shape(), "{}", node.primitive.name());
    }
}
