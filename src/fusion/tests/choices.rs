//! Choices of experts, and the ends of rows: which steps run as one.

use super::evaluations::{given, on_devices, runs};
use super::*;
use crate::kernels::elementwise::table::op;
use crate::ops::{add, multiply};

/// Places of the largest four, and their shares of the softmax.
fn routed(x: &Array, keep: &mut Vec<Array>, s: Stream) -> [Array; 2] {
    let gates = ops::softmax(x, Some(&[-1]), true, s).unwrap();
    let n = gates.dim(-1);
    let order = ops::argpartition(&gates, -4, Some(-1), s).unwrap();
    let places = ops::slice(&order, &[0, n - 4], &[2, n], &[1, 1], s).unwrap();
    let scores = ops::take_along_axis(&gates, &places, Some(-1), s).unwrap();
    keep.push(gates);
    let total = ops::sum(&scores, Some(&[-1]), true, s).unwrap();
    let shares = ops::divide(&scores, &total, s).unwrap();
    [places, shares]
}

#[test]
fn choices_of_experts() {
    on_devices(|_, s| {
        let whole = "softmax+argpartition+SLICE+take_along_axis+sum+DIVIDE";
        let mut kept = Vec::new();
        let roots = routed(&given(&[2, 64]), &mut kept, s);
        kept.clear();
        assert_eq!(runs(&roots), [whole]);
        let roots = routed(&given(&[2, 64]), &mut kept, s);
        let rest = "argpartition+SLICE+take_along_axis+sum+DIVIDE";
        assert_eq!(runs(&roots), ["softmax", rest], "somebody holds all scores");
        let long = routed(&given(&[2, 2048]), &mut Vec::new(), s);
        assert_eq!(runs(&long).len(), 5, "of long rows only the places are found together");
    });
}

/// Places of the best four by a sigmoid and a correction, and the scaled shares of their sigmoids.
fn routed_by_sigmoid(x: &Array, keep: &mut Vec<Array>, s: Stream) -> [Array; 2] {
    let n = x.dim(-1);
    let wide = ops::astype(x, Dtype::F32, s).unwrap();
    let gates = ops::apply(op("sigmoid"), &[&wide], s).unwrap();
    let ranked = ops::negative(&add(&gates, &given(&[n]), s).unwrap(), s).unwrap();
    let order = ops::argpartition(&ranked, 3, Some(-1), s).unwrap();
    let places = ops::slice(&order, &[0, 0], &[2, 4], &[1, 1], s).unwrap();
    let scores = ops::take_along_axis(&gates, &places, Some(-1), s).unwrap();
    let total = ops::sum(&scores, Some(&[-1]), true, s).unwrap();
    let shares = ops::divide(&scores, &add(&total, &given(&[]), s).unwrap(), s).unwrap();
    keep.extend([gates, total]);
    [places, multiply(&shares, &given(&[]), s).unwrap()]
}

#[test]
fn choices_of_experts_by_sigmoids() {
    on_devices(|_, s| {
        let x = ops::astype(&given(&[2, 64]), Dtype::BF16, stream()).unwrap();
        crate::eval::eval(std::slice::from_ref(&x)).unwrap();
        let mut kept = Vec::new();
        let roots = routed_by_sigmoid(&x, &mut kept, s);
        kept.clear();
        let behind = "argpartition+SLICE+take_along_axis+sum+add+divide+MULTIPLY";
        assert_eq!(runs(&roots), [format!("astype+sigmoid+add+negative+{behind}")]);
        let roots = routed_by_sigmoid(&x, &mut kept, s);
        kept.pop();
        let rest = format!("add+negative+{behind}");
        assert_eq!(runs(&roots), ["astype", "sigmoid", &rest], "somebody holds all gates");
        let roots = routed_by_sigmoid(&x, &mut kept, s);
        kept.remove(1);
        let ran = runs(&roots);
        assert_eq!(ran[0], "astype+sigmoid+add+negative+argpartition+SLICE+TAKE_ALONG_AXIS");
        assert_eq!(ran[1..], ["sum", "add", "divide", "multiply"], "somebody holds the sum");
    });
}

#[test]
fn ends_of_long_rows() {
    on_devices(|_, s| {
        let x = given(&[2, 4096]);
        let part = |a: Array, from, to| ops::slice(&a, &[0, from], &[2, to], &[1, 1], s).unwrap();
        assert_eq!(runs(&[ops::topk(&x, 9, Some(1), s).unwrap()]), ["partition+SLICE"]);
        let order = || ops::argsort(&x, Some(1), s).unwrap();
        assert_eq!(runs(&[part(order(), 0, 9)]), ["argsort+SLICE"]);
        assert_eq!(runs(&[part(order(), 1, 9)]), ["argsort", "slice"], "neither end");
        assert_eq!(runs(&[part(order(), 0, 2000)]), ["argsort", "slice"], "many");
        let held = order();
        assert_eq!(runs(&[part(held.clone(), 0, 9)]), ["argsort", "slice"], "somebody holds the order");
    });
}
