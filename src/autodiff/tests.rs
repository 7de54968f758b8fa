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

/// Functions of a vector, composed of several operations.
const COMPOSED: &[(&str, Scalar)] = &[
    ("norm", |a, s| ops::sqrt(&total(&ops::square(a, s)?, s)?, s)),
    ("variance", |a, s| ops::var(a, None, false, 1, s)),
    ("sorted", |a, s| {
        let sorted = ops::sort(a, Some(0), s)?;
        total(&ops::multiply(&sorted, &ops::arange(0.0, a.size() as f64, 1.0, a.dtype(), s)?, s)?, s)
    }),
    ("stacked", |a, s| {
        let both = ops::stack(&[ops::exp(a, s)?, ops::negative(a, s)?], 1, s)?;
        total(&ops::prod(&both, Some(&[1]), false, s)?, s)
    }),
    ("padded", |a, s| {
        let wide = ops::pad(a, &[(2, 1)], ops::PadMode::Reflect, &ops::scalar_f64(0.0, a.dtype())?, s)?;
        total(&ops::multiply(&wide, &wide, s)?, s)
    }),
    ("picked", |a, s| {
        let at = ops::reshape(&ops::scalar_i64(1, crate::core::Dtype::I32)?, &[1], s)?;
        total(&ops::square(&ops::take(a, &at, Some(0), s)?, s)?, s)
    }),
    ("chosen", |a, s| {
        let zero = ops::scalar_f64(0.0, a.dtype())?;
        let positive = ops::greater(a, &zero, s)?;
        total(&ops::select(&positive, &ops::square(a, s)?, &ops::sin(a, s)?, s)?, s)
    }),
    ("outer", |a, s| total(&ops::exp(&ops::outer(a, a, s)?, s)?, s)),
    ("convolved", |a, s| {
        let y = ops::convolve(a, a, ops::ConvolveMode::Full, s)?;
        total(&ops::multiply(&y, &y, s)?, s)
    }),
];

#[test]
fn rules_compose() {
    let (s, x) = (stream(), numbers(4));
    for (name, f) in COMPOSED {
        let at = |x: &[f64]| values(&f(&doubles(&[4], x), s).unwrap())[0];
        let h = 1e-6;
        let moved = |i: usize, by: f64| at(&[&x[..i], &[x[i] + by], &x[i + 1..]].concat());
        let want: Vec<f64> = (0..4).map(|i| (moved(i, h) - moved(i, -h)) / (2.0 * h)).collect();
        eprintln!("{name}");
        close(&gradient(*f, &doubles(&[4], &x)), &want, 1e-7);
    }
}

#[test]
fn a_gradient_under_vmap_is_that_of_each_row() {
    let s = stream();
    let rows = doubles(&[3, 4], &numbers(12));
    for (name, f) in COMPOSED {
        let mut row = |a: &[Array]| -> Result<(Vec<Array>, Vec<Option<i64>>)> {
            let (_, g) = value_and_grad(&mut |a| Ok(vec![f(&a[0], s)?]), a, &[0])?;
            Ok((g, vec![Some(0)]))
        };
        let got = vmap(&mut row, std::slice::from_ref(&rows), &[Some(0)]).unwrap();
        let want: Vec<f64> = values(&rows).chunks(4).flat_map(|x| gradient(*f, &doubles(&[4], x))).collect();
        eprintln!("{name}");
        close(&values(&got[0]), &want, 1e-9);
    }
}

#[test]
fn what_is_used_twice_gets_the_sum_of_its_cotangents() {
    let s = stream();
    let x = doubles(&[2], &[3.0, -2.0]);
    let twice: Scalar = |a, s| {
        let y = ops::square(a, s)?;
        total(&ops::add(&ops::multiply(&y, a, s)?, &y, s)?, s)
    };
    // x^3 + x^2
    assert_eq!(gradient(twice, &x), [33.0, 8.0]);
    let unused: Scalar = |a, s| {
        drop(ops::exp(a, s)?);
        ops::scalar_f64(1.0, a.dtype())
    };
    assert_eq!(gradient(unused, &x), [0.0, 0.0]);
    let _ = s;
}

#[test]
fn gradients_are_asked_of_some_arguments_only() {
    let s = stream();
    let (a, b) = (doubles(&[2], &[1.0, 2.0]), doubles(&[2], &[5.0, 7.0]));
    let mut product = |x: &[Array]| Ok(vec![total(&ops::multiply(&x[0], &x[1], s)?, s)?]);
    let (value, grads) = value_and_grad(&mut product, &[a, b], &[1]).unwrap();
    assert_eq!((values(&value[0]), grads.len()), (vec![19.0], 1));
    assert_eq!(values(&grads[0]), [1.0, 2.0]);
}

#[test]
fn a_cotangent_is_given_to_each_result() {
    let s = stream();
    let x = doubles(&[2], &[0.5, 2.0]);
    let mut both = |a: &[Array]| Ok(vec![ops::square(&a[0], s)?, ops::sin(&a[0], s)?]);
    let cotangents = [doubles(&[2], &[1.0, 10.0]), doubles(&[2], &[100.0, 0.0])];
    let (_, got) = vjp(&mut both, std::slice::from_ref(&x), &cotangents).unwrap();
    close(&values(&got[0]), &[1.0 + 100.0 * 0.5f64.cos(), 40.0], 1e-14);
    assert!(vjp(&mut both, &[x], &cotangents[..1]).is_err(), "two results, one cotangent");
}

#[test]
fn tangents_have_the_shape_of_what_they_belong_to() {
    let s = stream();
    let x = doubles(&[2], &[1.0, 2.0]);
    let mut f = |a: &[Array]| Ok(vec![ops::square(&a[0], s)?]);
    let e = jvp(&mut f, &[x], &[doubles(&[1], &[1.0])]).unwrap_err().to_string();
    assert!(e.contains("[jvp]") && e.contains("(2)") && e.contains("(1)"), "{e}");
}

#[test]
fn nothing_flows_past_a_stop() {
    let stopped: Scalar = |a, s| total(&ops::multiply(&ops::stop_gradient(&ops::square(a, s)?), a, s)?, s);
    close(&gradient(stopped, &doubles(&[2], &[3.0, -2.0])), &[9.0, 4.0], 0.0);
}

#[test]
fn gradients_of_what_was_broadcast_are_summed() {
    let s = stream();
    let (column, row) = (doubles(&[2, 1], &[1.0, 2.0]), doubles(&[3], &[10.0, 20.0, 30.0]));
    let mut f = |a: &[Array]| Ok(vec![total(&ops::multiply(&a[0], &a[1], s)?, s)?]);
    let (_, grads) = value_and_grad(&mut f, &[column, row], &[0, 1]).unwrap();
    assert_eq!((grads[0].shape(), values(&grads[0])), (&[2, 1][..], vec![60.0, 60.0]));
    assert_eq!((grads[1].shape(), values(&grads[1])), (&[3][..], vec![3.0, 3.0, 3.0]));
}

#[test]
fn vmap_puts_axes_where_they_are_asked_for() {
    let s = stream();
    let x = doubles(&[2, 3, 4], &numbers(24));
    for (axis, to) in [(0, 0), (1, 0), (2, 1), (-1, -1), (0, 2)] {
        let mut f = |a: &[Array]| Ok((vec![ops::exp(&a[0], s)?], vec![Some(to)]));
        let got = vmap(&mut f, std::slice::from_ref(&x), &[Some(axis)]).unwrap();
        let want = ops::moveaxis(&ops::exp(&x, s).unwrap(), axis, to, s).unwrap();
        assert_eq!(got[0].shape(), want.shape(), "{axis} to {to}");
        assert_eq!(values(&got[0]), values(&want));
    }
}

#[test]
fn vmap_refuses_lengths_that_differ_and_axes_that_are_not_there() {
    let s = stream();
    let (a, b) = (doubles(&[2, 3], &numbers(6)), doubles(&[4], &numbers(4)));
    let mut f = |x: &[Array]| Ok((vec![ops::add(&x[0], &x[1], s)?], vec![Some(0)]));
    let e = vmap(&mut f, &[a.clone(), b.clone()], &[Some(0), Some(0)]).unwrap_err().to_string();
    assert!(e.contains("[vmap]"), "{e}");
    assert!(vmap(&mut f, &[a, b], &[Some(2), None]).is_err());
}

#[test]
fn vmaps_nest() {
    let s = stream();
    let (a, b) = (doubles(&[2, 4], &numbers(8)), doubles(&[3, 4], &numbers(12)));
    // All products of a row with a row.
    let mut rows = |x: &[Array]| {
        let left = x[0].clone();
        let mut one = |y: &[Array]| Ok((vec![total(&ops::multiply(&left, &y[0], s)?, s)?], vec![Some(0)]));
        Ok((vmap(&mut one, &x[1..], &[Some(0)])?, vec![Some(0)]))
    };
    let got = vmap(&mut rows, &[a.clone(), b.clone()], &[Some(0), None]).unwrap();
    let want = ops::matmul(&a, &ops::transpose(&b, None, s).unwrap(), s).unwrap();
    assert_eq!(got[0].shape(), [2, 3]);
    close(&values(&got[0]), &values(&want), 1e-14);
}
