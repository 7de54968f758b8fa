//! What of a function is recorded.

use super::*;
use crate::eval::testing::{floats, numbers, stream};
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
