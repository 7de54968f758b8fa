//! What is fused with what, and that fused steps compute what the single ones do; without a GPU.

use super::fuse::fuse;
use super::*;
use crate::core::Device;
use crate::core::device::new_stream;
use crate::eval::testing::{close, floats, numbers, stream, values};
use crate::ops;

type Build<'a> = &'a dyn Fn(&[Array]) -> Result<Vec<Array>>;

/// Names of the steps of a function before and after fusion; both must compute the same.
fn steps(inputs: &[Array], f: Build) -> (Vec<String>, Vec<String>) {
    let tape = simplified(&record(&mut |a| f(a), inputs, false).unwrap()).unwrap();
    let fused = fuse(&tape);
    let names = |t: &Tape| t.steps.iter().map(|s| s.primitive.name().to_string()).collect();
    for (one, other) in tape.play(inputs, false).unwrap().iter().zip(fused.play(inputs, false).unwrap()) {
        close(&values(&other), &values(one), 1e-5);
    }
    (names(&tape), names(&fused))
}

fn square(n: i64) -> Array {
    floats(&[n, n], &numbers((n * n) as usize))
}

#[test]
fn elementwise_steps_become_one_kernel() {
    let s = stream();
    let (before, after) = steps(&[square(4), square(4)], &|a| {
        let t = ops::add(&ops::multiply(&a[0], &a[1], s)?, &a[0], s)?;
        Ok(vec![ops::sin(&ops::exp(&t, s)?, s)?])
    });
    assert_eq!((before.len(), after.len()), (4, 1), "{before:?} {after:?}");
}

#[test]
fn what_the_caller_needs_besides_is_a_further_output_of_the_kernel() {
    let s = stream();
    let (_, after) = steps(&[square(4)], &|a| {
        let t = ops::exp(&a[0], s)?;
        Ok(vec![t.clone(), ops::add(&t, &a[0], s)?])
    });
    assert_eq!(after.len(), 1, "{after:?}");
}

#[test]
fn steps_of_different_streams_stay_apart() {
    let (s, other) = (stream(), new_stream(Device::CPU));
    let (_, after) = steps(&[square(4)], &|a| Ok(vec![ops::exp(&ops::sin(&a[0], s)?, other)?]));
    assert_eq!(after.len(), 2, "{after:?}");
}

#[test]
fn what_is_computed_twice_or_not_needed_is_not_recorded() {
    let s = stream();
    let tape = record(
        &mut |a| {
            drop(ops::cos(&a[0], s)?);
            Ok(vec![ops::add(&ops::exp(&a[0], s)?, &ops::exp(&a[0], s)?, s)?])
        },
        &[square(4)],
        false,
    );
    let tape = simplified(&tape.unwrap()).unwrap();
    let names: Vec<&str> = tape.steps.iter().map(|s| s.primitive.name()).collect();
    assert_eq!(names, ["exp", "add"]);
}
