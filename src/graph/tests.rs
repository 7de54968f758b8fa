//! Orders of nodes and recorded tapes, without computing anything.

use super::levels;
use super::order::{needed, postorder};
use super::tape::{Tape, Value};
use crate::core::primitive::Rule;
use crate::core::{Array, Device, Dtype, Stream, default_stream};
use crate::ops;

fn stream() -> Stream {
    default_stream(Device::CPU)
}

fn blank() -> Array {
    Array::placeholder(&[4][..], Dtype::F32).unwrap()
}

fn names(arrays: &[Array]) -> Vec<String> {
    let name = |a: &Array| a.node().map_or("-".to_string(), |n| n.primitive.name().to_string());
    arrays.iter().map(name).collect()
}

#[test]
fn inputs_come_first_and_once() {
    let s = stream();
    let x = blank();
    let left = ops::exp(&x, s).unwrap();
    let right = ops::sin(&left, s).unwrap();
    let both = ops::add(&right, &left, s).unwrap();
    let order = postorder(&[both.clone(), left.clone(), both], |_| false);
    assert_eq!(names(&order), ["-", "exp", "sin", "add"]);
    let stopped = postorder(&[right], |a| a.same(&left));
    assert_eq!(names(&stopped), ["sin"], "nothing behind what the walk stops at");
}

#[test]
fn a_chain_of_a_hundred_thousand_nodes_is_walked_by_a_loop() {
    let s = stream();
    let x = blank();
    let end = (0..100_000).fold(x.clone(), |a, _| ops::negative(&a, s).unwrap());
    assert_eq!(postorder(&[end], |_| false).len(), 100_001);
}

#[test]
fn one_output_stands_for_all_of_its_node() {
    let s = stream();
    let square = Array::placeholder(&[2, 2][..], Dtype::F32).unwrap();
    let (q, r) = ops::linalg::qr(&square, s).unwrap();
    let both = ops::matmul(&q, &r, s).unwrap();
    let order = postorder(&[both], |_| false);
    assert_eq!(names(&order).iter().filter(|n| *n == "qr").count(), 1, "{:?}", names(&order));
}

#[test]
fn narrow_graphs_go_level_by_level_and_wide_ones_in_depth() {
    let s = stream();
    let branches = |n: usize, elements: i64| {
        let x = ops::zeros(&[elements], Dtype::F32, s).unwrap();
        let branch = |_| {
            let first = ops::exp(&x, s).unwrap();
            ops::sin(&first, s).unwrap()
        };
        (0..n).map(branch).collect::<Vec<Array>>()
    };
    let order = |n: usize, elements: i64| -> Vec<String> {
        let steps = levels::steps(&branches(n, elements));
        let arrays: Vec<Array> = steps.iter().map(|s| s.array.clone()).collect();
        names(&arrays).into_iter().filter(|n| n == "exp" || n == "sin").collect()
    };
    assert_eq!(order(3, 1024), ["exp", "exp", "exp", "sin", "sin", "sin"]);
    assert_eq!(order(30, 1024)[..4], ["exp", "sin", "exp", "sin"]);
    // Arrays that take next to no memory may be many: offsets of a model's layers.
    assert_eq!(order(80, 4)[..4], ["exp"; 4]);
    assert_eq!(order(400, 4)[..4], ["exp", "sin", "exp", "sin"]);
    // So may views: the rows of a batch.
    let x = ops::zeros(&[60, 1024], Dtype::F32, s).unwrap();
    let all: Vec<Array> = (0..2).map(|_| ops::sin(&ops::exp(&x, s).unwrap(), s).unwrap()).collect();
    let row = |i: i64| ops::slice(&all[0], &[i, 0], &[i + 1, 1024], &[1, 1], s).unwrap();
    let mut roots: Vec<Array> = (0..60).map(|i| ops::reshape(&row(i), &[1024], s).unwrap()).collect();
    roots.push(all[1].clone());
    let arrays: Vec<Array> = levels::steps(&roots).iter().map(|s| s.array.clone()).collect();
    let kept: Vec<String> = names(&arrays).into_iter().filter(|n| n == "exp" || n == "sin").collect();
    assert_eq!(kept, ["exp", "exp", "sin", "sin"]);
}

#[test]
fn a_transform_needs_what_leads_to_its_outputs() {
    let s = stream();
    let x = blank();
    let shared = ops::exp(&x, s).unwrap();
    let (out, other) = (ops::sin(&shared, s).unwrap(), ops::cos(&shared, s).unwrap());
    let order = postorder(&[out.clone(), other.clone()], |_| false);
    let nodes: Vec<_> = order.iter().filter_map(|a| a.node().map(|n| (a.clone(), n))).collect();
    let ids = needed(nodes.iter().map(|(a, n)| (a, n)), std::slice::from_ref(&out), Rule::Jvp);
    for (a, want) in [(&out, true), (&shared, true), (&x, true), (&other, false)] {
        assert_eq!(ids.contains(&a.id()), want, "{:?}", names(std::slice::from_ref(a)));
    }
}

#[test]
fn a_tape_numbers_values_and_keeps_what_was_there_before() {
    let s = stream();
    let (x, outer) = (blank(), blank());
    let born = outer.id() + 1;
    let a = ops::add(&x, &outer, s).unwrap();
    let b = ops::multiply(&a, &a, s).unwrap();
    let tape = Tape::record(std::slice::from_ref(&x), &[b, a, outer.clone()], born, 0);
    assert_eq!((tape.inputs.len(), tape.steps.len(), tape.temps), (1, 2, 2));
    assert!(matches!(tape.steps[0].args[..], [Value::Input(0), Value::Const(_)]));
    assert!(matches!(tape.steps[1].args[..], [Value::Temp(0), Value::Temp(0)]));
    assert!(matches!(&tape.outputs[..], [Value::Temp(1), Value::Temp(0), Value::Const(c)] if c.same(&outer)));
    assert_eq!(tape.makers(), [Some((0, 0)), Some((1, 0))]);
}
