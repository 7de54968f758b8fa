//! What of a function is recorded.

use super::*;
use crate::eval::testing::{close, floats, numbers, stream, values};
use crate::ops;

#[test]
fn what_is_computed_twice_or_not_needed_is_not_recorded() {
    let s = stream();
    let x = floats(&[4, 4], &numbers(16));
    let tape = record(
        &mut |a| {
            drop(ops::cos(&a[0], s)?);
            Ok(vec![ops::add(&ops::exp(&a[0], s)?, &ops::exp(&a[0], s)?, s)?])
        },
        &[x],
        false,
    );
    let tape = simplified(&tape.unwrap()).unwrap();
    let names: Vec<&str> = tape.steps.iter().map(|s| s.primitive.name()).collect();
    assert_eq!(names, ["exp", "add"]);
}

type Made = crate::core::Result<Vec<Array>>;

/// Names of the steps that are left of a function of one array.
fn steps(shapeless: bool, f: impl Fn(&Array) -> Made) -> Vec<String> {
    let x = floats(&[4, 4], &numbers(16));
    let tape = record(&mut |a| f(&a[0]), &[x], shapeless).unwrap();
    simplified(&tape).unwrap().steps.iter().map(|s| s.primitive.name().to_string()).collect()
}

#[test]
fn steps_that_differ_in_anything_are_both_kept() {
    let s = stream();
    let sums = |axis: i64| {
        move |a: &Array| -> Made {
            let (x, y) = (ops::sum(a, Some(&[0]), false, s)?, ops::sum(a, Some(&[axis]), false, s)?);
            Ok(vec![ops::add(&x, &y, s)?])
        }
    };
    assert_eq!(steps(false, sums(0)), ["sum", "add"]);
    assert_eq!(steps(false, sums(1)), ["sum", "sum", "add"]);
}

#[test]
fn equal_numbers_are_one_and_make_equal_steps() {
    let s = stream();
    let plus = |a: &Array, n: f64| ops::add(a, &ops::scalar_f64(n, a.dtype())?, s);
    assert_eq!(
        steps(false, |a| Ok(vec![ops::multiply(&plus(a, 1.0)?, &plus(a, 1.0)?, s)?])),
        ["add", "multiply"]
    );
    assert_eq!(steps(false, |a| Ok(vec![ops::multiply(&plus(a, 1.0)?, &plus(a, 2.0)?, s)?])).len(), 3);
    // Zeros of different signs are not equal.
    assert_eq!(steps(false, |a| Ok(vec![ops::multiply(&plus(a, 0.0)?, &plus(a, -0.0)?, s)?])).len(), 3);
}

#[test]
fn what_is_returned_may_be_an_argument_or_not_depend_on_one() {
    let s = stream();
    let x = floats(&[2], &[1.0, 2.0]);
    let tape = record(
        &mut |a| Ok(vec![a[0].clone(), ops::scalar_f64(7.0, a[0].dtype())?, ops::exp(&a[0], s)?]),
        std::slice::from_ref(&x),
        false,
    );
    let tape = fuse(&simplified(&tape.unwrap()).unwrap());
    let y = floats(&[2], &[0.0, 3.0]);
    let got = tape.play(&[y], false).unwrap();
    assert_eq!(values(&got[0]), [0.0, 3.0]);
    assert_eq!(values(&got[1]), [7.0]);
    close(&values(&got[2]), &[1.0, 3f64.exp()], 1e-6);
}

#[test]
fn a_recorded_function_computes_for_other_arguments_what_it_would() {
    let s = stream();
    let f = |a: &[Array]| -> Made {
        let y = ops::softmax(&ops::multiply(&a[0], &a[1], s)?, Some(&[-1]), true, s)?;
        Ok(vec![ops::sum(&y, Some(&[0]), false, s)?, ops::transpose(&y, None, s)?])
    };
    let of = |k: usize| {
        [floats(&[3, 4], &numbers(12 * k)[12 * (k - 1)..]), floats(&[4], &numbers(4 * k)[4 * (k - 1)..])]
    };
    let tape = fuse(&simplified(&record(&mut |a| f(a), &of(1), false).unwrap()).unwrap());
    for k in 1..4 {
        let (got, want) = (tape.play(&of(k), false).unwrap(), f(&of(k)).unwrap());
        for (got, want) in got.iter().zip(&want) {
            assert_eq!(got.shape(), want.shape());
            close(&values(got), &values(want), 1e-6);
        }
    }
}

#[test]
fn a_function_of_any_lengths_follows_those_of_its_arguments() {
    let s = stream();
    let f = |a: &[Array]| -> Made {
        let centred = ops::subtract(&a[0], &ops::mean(&a[0], Some(&[1]), true, s)?, s)?;
        Ok(vec![ops::flatten(&ops::concatenate(&[centred.clone(), centred], 0, s)?, 0, -1, s)?])
    };
    let tape = record(&mut |a| f(a), &[floats(&[2, 3], &numbers(6))], true).unwrap();
    for shape in [[2, 3], [4, 5], [1, 7]] {
        let x = floats(&shape, &numbers((shape[0] * shape[1]) as usize));
        let tape = fixed(&tape, std::slice::from_ref(&x)).unwrap();
        let got = fuse(&tape).play(std::slice::from_ref(&x), false).unwrap();
        let want = f(&[x]).unwrap();
        assert_eq!(got[0].shape(), [2 * shape[0] * shape[1]]);
        close(&values(&got[0]), &values(&want[0]), 1e-6);
    }
}
