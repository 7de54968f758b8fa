//! Order of evaluation and reuse of memory, without a GPU.

use super::testing::{floats, numbers, stream, values};
use super::*;
use crate::core::Dtype;
use crate::graph::levels;
use crate::ops::{add, astype, exp, multiply, scalar_f64};

fn one() -> Array {
    scalar_f64(1.0, Dtype::F32).unwrap()
}

#[test]
fn each_node_comes_once_and_after_what_it_reads() {
    let s = stream();
    let x = floats(&[4], &numbers(4));
    let left = exp(&x, s).unwrap();
    let right = add(&left, &x, s).unwrap();
    let both = multiply(&left, &right, s).unwrap();
    let steps = levels::steps(&[both.clone(), right.clone()]);
    let at = |a: &Array| steps.iter().position(|step| step.array.same(a)).unwrap();
    assert_eq!(steps.len(), 3);
    assert!(at(&left) < at(&right) && at(&right) < at(&both));
}

#[test]
fn weights_that_depend_on_nothing_make_no_graph_wide() {
    let s = stream();
    // A layer of two branches, each times a weight with one added.
    let first = |n: usize, elements: i64| {
        let x = floats(&[elements], &numbers(elements as usize));
        let layer = |x: Array, _| {
            let [a, b] = [0, 1].map(|_| {
                exp(&multiply(&x, &add(&x_of(elements), &one(), s).unwrap(), s).unwrap(), s).unwrap()
            });
            add(&a, &b, s).unwrap()
        };
        let steps = levels::steps(&[(0..n).fold(exp(&x, s).unwrap(), layer)]);
        let name =
            |step: &crate::graph::levels::Step| step.node.as_ref().unwrap().primitive.name().to_string();
        steps.iter().map(name).filter(|n| n == "exp" || n == "multiply").take(5).collect::<Vec<_>>()
    };
    let by_level = ["exp", "multiply", "multiply", "exp", "exp"];
    assert_eq!(first(3, 2048), by_level);
    assert_eq!(first(100, 2048), by_level);
    // Of more memory than that.
    assert_eq!(first(100, 40_000), ["exp", "multiply", "exp", "multiply", "exp"]);
}

/// An array of so many elements that is there.
fn x_of(elements: i64) -> Array {
    floats(&[elements], &numbers(elements as usize))
}

#[test]
fn what_is_computed_needs_nothing_any_more() {
    let s = stream();
    let x = exp(&floats(&[4], &numbers(4)), s).unwrap();
    eval(std::slice::from_ref(&x)).unwrap();
    assert!(x.node().is_none());
    assert!(levels::steps(std::slice::from_ref(&x)).is_empty());
    let y = add(&x, &one(), s).unwrap();
    assert_eq!(levels::steps(&[y]).len(), 1);
}

#[test]
fn a_result_takes_the_place_of_an_input_that_nobody_else_holds() {
    let s = stream();
    let n = 1 << 16;
    let x = floats(&[n], &numbers(n as usize));
    let place = x.host_ptr().unwrap();
    let want: Vec<f64> = values(&x).iter().map(|v| f64::from(*v as f32 + 1.0)).collect();
    let y = add(&x, &one(), s).unwrap();
    drop(x);
    eval(std::slice::from_ref(&y)).unwrap();
    assert_eq!(y.host_ptr().unwrap(), place);
    assert_eq!(values(&y), want);
}

#[test]
fn an_input_that_somebody_holds_keeps_its_values() {
    let s = stream();
    let n = 1 << 16;
    let x = floats(&[n], &numbers(n as usize));
    let before = values(&x);
    let y = add(&x, &one(), s).unwrap();
    eval(std::slice::from_ref(&y)).unwrap();
    assert_ne!(y.host_ptr().unwrap(), x.host_ptr().unwrap());
    assert_eq!(values(&x), before);
}

#[test]
fn an_array_without_values_is_an_error_and_what_reads_it_can_be_tried_again() {
    let s = stream();
    let hole = Array::placeholder(&[2][..], Dtype::F32).unwrap();
    let y = add(&hole, &one(), s).unwrap();
    for _ in 0..2 {
        let e = eval(std::slice::from_ref(&y)).unwrap_err().to_string();
        assert!(e.contains("[eval] Attempting to eval an array without a primitive"), "{e}");
        assert!(y.node().is_some());
    }
}

#[test]
fn a_long_chain_is_evaluated_and_dropped_without_deep_recursion() {
    let s = stream();
    let mut x = floats(&[1], &[0.0]);
    for _ in 0..200_000 {
        x = add(&x, &one(), s).unwrap();
    }
    drop(astype(&x, Dtype::F64, s).unwrap());
    assert_eq!(values(&x), [200_000.0]);
}
