//! Derivatives against differences and against each other, and vmap against loops; in float64, without a GPU.

use super::*;
use crate::core::{Array, Result, Stream};
use crate::eval::testing::{close, doubles, numbers, stream, values};
use crate::kernels::ScanForm;
use crate::ops;

type Scalar = fn(&Array, Stream) -> Result<Array>;

fn total(a: &Array, s: Stream) -> Result<Array> {
    ops::sum(a, None, false, s)
}

/// Functions of a matrix to one number.
const SCALARS: &[(&str, Scalar)] = &[
    ("sum", total),
    ("prod", |a, s| ops::prod(&ops::add(a, a, s)?, None, false, s)),
    ("max", |a, s| total(&ops::max(a, Some(&[1]), false, s)?, s)),
    ("min", |a, s| total(&ops::min(a, Some(&[0]), true, s)?, s)),
    ("logsumexp", |a, s| total(&ops::logsumexp(a, Some(&[1]), false, s)?, s)),
    ("softmax", |a, s| {
        let y = ops::softmax(a, Some(&[1]), true, s)?;
        total(&ops::multiply(&y, a, s)?, s)
    }),
    ("sin_exp", |a, s| total(&ops::multiply(&ops::sin(a, s)?, &ops::exp(a, s)?, s)?, s)),
    ("transpose", |a, s| {
        let t = ops::transpose(a, None, s)?;
        total(&ops::multiply(&t, &ops::reshape(a, t.shape(), s)?, s)?, s)
    }),
    ("matmul", |a, s| total(&ops::matmul(a, &ops::exp(&ops::transpose(a, None, s)?, s)?, s)?, s)),
    ("cumsum", |a, s| {
        let y = ops::cumsum(a, Some(1), ScanForm { reverse: false, inclusive: true }, None, s)?;
        total(&ops::multiply(&y, &y, s)?, s)
    }),
    ("slice", |a, s| {
        let part = ops::slice(a, &[0, 1], &[2, 3], &[1, 1], s)?;
        total(&ops::multiply(&part, &part, s)?, s)
    }),
];

fn matrix() -> Array {
    doubles(&[2, 3], &numbers(6))
}

fn gradient(f: Scalar, x: &Array) -> Vec<f64> {
    let s = stream();
    let (_, grads) = value_and_grad(&mut |a| Ok(vec![f(&a[0], s)?]), std::slice::from_ref(x), &[0]).unwrap();
    values(&grads[0])
}

#[test]
fn gradients_are_limits_of_differences() {
    let (s, x) = (stream(), values(&matrix()));
    for (name, f) in SCALARS {
        let at = |x: &[f64]| values(&f(&doubles(&[2, 3], x), s).unwrap())[0];
        let h = 1e-6;
        let difference = |i: usize| {
            let moved = |by: f64| {
                let mut x = x.clone();
                x[i] += by;
                at(&x)
            };
            (moved(h) - moved(-h)) / (2.0 * h)
        };
        let want: Vec<f64> = (0..x.len()).map(difference).collect();
        eprintln!("{name}");
        close(&gradient(*f, &matrix()), &want, 1e-7);
    }
}

#[test]
fn tangents_are_transposed_gradients() {
    let s = stream();
    let along = doubles(&[2, 3], &[0.3, -1.0, 0.5, 2.0, 0.25, -0.75]);
    for (name, f) in SCALARS {
        let x = [matrix()];
        let (_, tangents) = jvp(&mut |a| Ok(vec![f(&a[0], s)?]), &x, std::slice::from_ref(&along)).unwrap();
        let want: f64 = gradient(*f, &x[0]).iter().zip(values(&along)).map(|(g, t)| g * t).sum();
        eprintln!("{name}");
        close(&values(&tangents[0]), &[want], 1e-9);
    }
}

#[test]
fn gradients_nest() {
    let s = stream();
    // The derivatives of x^4 are 4 x^3, 12 x^2 and 24 x.
    let fourth: Scalar = |a, s| {
        let square = ops::multiply(a, a, s)?;
        total(&ops::multiply(&square, &square, s)?, s)
    };
    let mut first = |a: &[Array]| -> Result<Vec<Array>> {
        let (_, g) = value_and_grad(&mut |a| Ok(vec![fourth(&a[0], s)?]), a, &[0])?;
        Ok(vec![total(&g[0], s)?])
    };
    let mut second = |a: &[Array]| -> Result<Vec<Array>> {
        let (_, g) = value_and_grad(&mut first, a, &[0])?;
        Ok(vec![total(&g[0], s)?])
    };
    let x = doubles(&[3], &[0.5, -1.5, 2.0]);
    let (_, third) = value_and_grad(&mut second, &[x], &[0]).unwrap();
    close(&values(&third[0]), &[12.0, -36.0, 48.0], 1e-12);
}

#[test]
fn equal_extrema_share_their_gradient() {
    let x = doubles(&[1, 4], &[2.0, 5.0, 5.0, 1.0]);
    let largest: Scalar = |a, s| ops::max(a, None, false, s);
    assert_eq!(gradient(largest, &x), [0.0, 0.5, 0.5, 0.0]);
}

#[test]
fn nothing_flows_through_what_is_no_number() {
    let x = doubles(&[2, 2], &numbers(4));
    let truth: Scalar = |a, s| total(&ops::astype(&ops::any(a, Some(&[0]), false, s)?, a.dtype(), s)?, s);
    assert_eq!(gradient(truth, &x), [0.0; 4]);
}

#[test]
fn vmap_computes_what_a_loop_does() {
    let s = stream();
    let (x, w) = (doubles(&[4, 2, 3], &numbers(24)), doubles(&[3, 2], &numbers(6)));
    let apply = |x: &Array, w: &Array| -> Result<Array> {
        let y = ops::matmul(x, w, s)?;
        ops::max(&ops::exp(&y, s)?, Some(&[0]), false, s)
    };
    let mut f = |a: &[Array]| Ok((vec![apply(&a[0], &a[1])?], vec![Some(0)]));
    let got = vmap(&mut f, &[x.clone(), w.clone()], &[Some(0), None]).unwrap();
    assert_eq!(got[0].shape(), [4, 2]);
    let mut want = Vec::new();
    for i in 0..4 {
        let one = ops::slice(&x, &[i, 0, 0], &[i + 1, 2, 3], &[1, 1, 1], s).unwrap();
        let one = ops::reshape(&one, &[2, 3], s).unwrap();
        want.extend(values(&apply(&one, &w).unwrap()));
    }
    close(&values(&got[0]), &want, 1e-12);
}
