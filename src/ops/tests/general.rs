//! Shape rules of products, convolutions, indexed reads and what is made from nothing; types of elementwise rows.

use smallvec::smallvec;

use super::*;
use crate::eval::testing::{doubles, values};
use crate::kernels::elementwise::table::{TypeRule, table};

#[test]
fn every_row_takes_or_refuses_every_dtype_and_says_its_name() {
    for row in table() {
        for d in Dtype::ALL {
            let operands = vec![d; row.arity as usize];
            match row.types(&operands) {
                Ok((_, out)) => match row.rule {
                    TypeRule::Bool | TypeRule::Predicate | TypeRule::Logical => assert_eq!(out, Dtype::Bool),
                    TypeRule::Float | TypeRule::FloatNotComplex => assert!(out.is_inexact(), "{}", row.name),
                    TypeRule::Real => assert_ne!(out, Dtype::C64, "{}", row.name),
                    TypeRule::ToFloat8 => assert_eq!(out, Dtype::U8),
                    TypeRule::FromFloat8 => assert_eq!(out, Dtype::F32),
                    TypeRule::Shift if d == Dtype::Bool => assert_eq!(out, Dtype::U8),
                    TypeRule::Same
                    | TypeRule::NotBool
                    | TypeRule::NotComplex
                    | TypeRule::IntOnly
                    | TypeRule::Shift
                    | TypeRule::Select => assert_eq!(out, d, "{}", row.name),
                },
                Err(e) => assert!(e.to_string().starts_with(&format!("[{}]", row.name)), "{e}"),
            }
        }
        assert!(row.types(&[Dtype::F32; 4]).is_err());
    }
}

#[test]
fn operands_of_rows_are_cast_once_and_only_where_they_differ() {
    let s = stream();
    let y = add(&blank(&[2], Dtype::I8), &blank(&[2], Dtype::F16), s).unwrap();
    let node = y.node().unwrap();
    let names: Vec<_> =
        node.inputs.iter().map(|a| a.node().map(|n| n.primitive.name().to_string())).collect();
    assert_eq!(names, [Some("astype".to_string()), None]);
    assert!(node.inputs.iter().all(|a| a.dtype() == Dtype::F16));
}

#[test]
fn products_over_named_axes() {
    let s = stream();
    let (a, b) = (f32s(&[2, 3, 4]), f32s(&[4, 3, 5]));
    assert_eq!(tensordot(&a, &b, &[1, 2], &[1, 0], s).unwrap().shape(), [2, 5]);
    assert_eq!(tensordot_last(&a, &f32s(&[4, 6]), 1, s).unwrap().shape(), [2, 3, 6]);
    assert_eq!(tensordot_last(&f32s(&[2]), &f32s(&[3]), 0, s).unwrap().shape(), [2, 3]);
    assert!(refused(tensordot(&a, &b, &[0], &[0], s)).contains("same shape on the contracted axes"));
    assert_eq!(inner(&a, &f32s(&[7, 4]), s).unwrap().shape(), [2, 3, 7]);
    assert_eq!(outer(&a, &b, s).unwrap().shape(), [24, 60]);
    assert_eq!(kron(&f32s(&[2, 3]), &f32s(&[5]), s).unwrap().shape(), [2, 15]);
    assert_eq!(vecdot(&a, &f32s(&[4]), -1, s).unwrap().shape(), [2, 3]);
    assert!(refused(vecdot(&a, &f32s(&[3]), -1, s)).starts_with("[vecdot]"));
}

#[test]
fn equations_name_the_axes_of_their_operands() {
    let s = stream();
    let (a, b) = (f32s(&[2, 3]), f32s(&[3, 4]));
    for (text, operands, want) in [
        ("ij,jk->ik", vec![a.clone(), b.clone()], &[2, 4][..]),
        ("ij,jk", vec![a.clone(), b.clone()], &[2, 4]),
        ("ij->ji", vec![a.clone()], &[3, 2]),
        ("ij->", vec![a.clone()], &[]),
        ("ii->i", vec![f32s(&[3, 3])], &[3]),
        ("...j,jk->...k", vec![f32s(&[5, 6, 3]), b.clone()], &[5, 6, 4]),
        ("i,j,k->kji", vec![f32s(&[2]), f32s(&[3]), f32s(&[4])], &[4, 3, 2]),
    ] {
        assert_eq!(einsum(text, &operands, s).unwrap().shape(), want, "{text}");
    }
    for text in ["ij,jk->iz", "ij->ij", "ijk,jk->i", "ij,ij->i"] {
        assert!(einsum(text, &[a.clone(), b.clone()], s).is_err(), "{text}");
    }
}

#[test]
fn an_addend_is_broadcast_to_the_product() {
    let s = stream();
    let (a, b) = (f32s(&[2, 3]), f32s(&[3, 4]));
    for c in [&[4][..], &[2, 1], &[]] {
        assert_eq!(addmm(&f32s(c), &a, &b, 1.0, 1.0, s).unwrap().shape(), [2, 4], "{c:?}");
    }
    assert!(refused(addmm(&f32s(&[3]), &a, &b, 1.0, 1.0, s)).starts_with("[addmm]"));
}

#[test]
fn convolutions_know_how_often_a_kernel_fits() {
    let s = stream();
    let sizes = |o: ConvOptions| {
        conv_general(&f32s(&[2, 9, 8, 3]), &f32s(&[5, 3, 2, 3]), &o, s).map(|y| y.shape().to_vec())
    };
    let plain = || ConvOptions { groups: 1, ..ConvOptions::default() };
    assert_eq!(sizes(plain()).unwrap(), [2, 7, 7, 5]);
    assert_eq!(sizes(ConvOptions { stride: smallvec![2, 3], ..plain() }).unwrap(), [2, 4, 3, 5]);
    let padded = ConvOptions { padding_low: smallvec![1], padding_high: smallvec![1], ..plain() };
    assert_eq!(sizes(padded).unwrap(), [2, 9, 9, 5]);
    assert_eq!(sizes(ConvOptions { kernel_dilation: smallvec![4], ..plain() }).unwrap(), [2, 1, 4, 5]);
    assert_eq!(sizes(ConvOptions { input_dilation: smallvec![2], ..plain() }).unwrap(), [2, 15, 14, 5]);
    assert!(refused(sizes(ConvOptions { kernel_dilation: smallvec![5], ..plain() })).contains("smaller"));
    assert!(refused(sizes(ConvOptions { stride: smallvec![0], ..plain() })).contains("positive"));
}

#[test]
fn indices_stand_in_the_place_of_their_axis() {
    let s = stream();
    let (a, i) = (f32s(&[2, 3, 4]), blank(&[5, 6], Dtype::I32));
    assert_eq!(take(&a, &i, Some(1), s).unwrap().shape(), [2, 5, 6, 4]);
    assert_eq!(take(&a, &blank(&[], Dtype::U8), Some(-1), s).unwrap().shape(), [2, 3]);
    assert_eq!(take(&a, &i, None, s).unwrap().shape(), [5, 6]);
    assert!(refused(take(&f32s(&[2, 0]), &i, Some(1), s)).contains("empty axis"));
    assert_eq!(take_along_axis(&a, &blank(&[2, 7, 4], Dtype::I32), Some(1), s).unwrap().shape(), [2, 7, 4]);
    let windowed = gather(&a, &[i], &[0], &[Some(2)], 0, s).unwrap();
    assert_eq!(windowed.shape(), [5, 6, 2, 3, 4]);
}

#[test]
fn parts_at_computed_places_are_held_inside() {
    let s = stream();
    let x = doubles(&[4], &[0.0, 1.0, 2.0, 3.0]);
    for (start, want) in [(1, [1.0, 2.0]), (3, [2.0, 3.0]), (9, [2.0, 3.0])] {
        let at = reshape(&scalar_i64(start, Dtype::I32).unwrap(), &[1], s).unwrap();
        assert_eq!(values(&slice_at(&x, &at, &[0], &[2], s).unwrap()), want, "from {start}");
    }
}

#[test]
fn ranges_count_their_steps() {
    let s = stream();
    for (start, stop, step, n) in
        [(0.0, 5.0, 1.0, 5), (0.0, 1.0, 0.3, 4), (5.0, 0.0, -2.0, 3), (1.0, 0.0, 1.0, 0)]
    {
        assert_eq!(arange(start, stop, step, Dtype::F32, s).unwrap().shape(), [n], "{start} {stop} {step}");
    }
    for (stop, step, what) in [(1.0, 0.0, "zero"), (f64::NAN, 1.0, "NaN"), (f64::INFINITY, 1.0, "infinite")] {
        assert!(refused(arange(0.0, stop, step, Dtype::F32, s)).contains(what));
    }
    assert_eq!(linspace(0.0, 1.0, 0, true, Dtype::F32, s).unwrap().shape(), [0]);
    assert_eq!(values(&linspace(1.0, 3.0, 3, true, Dtype::F64, s).unwrap()), [1.0, 2.0, 3.0]);
}

#[test]
fn triangles_and_identities_have_their_diagonals() {
    let s = stream();
    assert_eq!(values(&eye(2, 3, 1, Dtype::F64, s).unwrap()), [0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    assert_eq!(values(&tri(2, 3, 0, Dtype::F64, s).unwrap()), [1.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
    let a = doubles(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(values(&tril(&a, -1, s).unwrap()), [0.0, 0.0, 3.0, 0.0]);
    assert_eq!(values(&triu(&a, 0, s).unwrap()), [1.0, 2.0, 0.0, 4.0]);
}
