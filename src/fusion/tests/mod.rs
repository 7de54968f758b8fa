//! Which steps become one kernel, as lists of cases: functions that are compiled, and evaluations on a GPU. Nothing runs
//! on a device: streams of a GPU are only named, and what pays is asked of made-up devices.

#[cfg(feature = "vulkan")]
mod choices;
#[cfg(feature = "vulkan")]
mod evaluations;

use crate::compile::{fuse, record, simplified};
use crate::core::device::new_stream;
use crate::core::{Array, Device, Dtype, Result, Stream, default_stream};
use crate::eval::testing::{close, floats, numbers, stream, values};
use crate::fusion::Fused;
use crate::graph::tape::Tape;
use crate::ops;

type Arrays = Result<Vec<Array>>;

/// An array without values.
fn blank(shape: &[i64], dtype: Dtype) -> Array {
    Array::placeholder(shape, dtype).unwrap()
}

/// Steps of a tape: names of patterns, and of operations that are in none.
fn kernels(tape: &Tape) -> Vec<String> {
    let name = |p: &dyn crate::core::Primitive| match (p as &dyn std::any::Any).downcast_ref::<Fused>() {
        Some(fused) => format!("{} of {}", fused.pattern, fused.steps().steps.len()),
        None => p.name().to_string(),
    };
    tape.steps.iter().map(|s| name(&*s.primitive)).collect()
}

/// The kernels of a compiled function of arrays of float32.
fn compiled(shapes: &[&[i64]], s: Stream, f: fn(&[Array], Stream) -> Arrays) -> Vec<String> {
    let inputs: Vec<Array> = shapes.iter().map(|s| blank(s, Dtype::F32)).collect();
    kernels(&fuse(&simplified(&record(&mut |a| f(a, s), &inputs, false).unwrap()).unwrap()))
}

fn chain(a: &Array, n: usize, s: Stream) -> Result<Array> {
    (0..n).try_fold(a.clone(), |x, _| ops::add(&x, a, s))
}

fn softmax(a: &Array, s: Stream) -> Result<Array> {
    let e = ops::exp(&ops::subtract(a, &ops::max(a, Some(&[-1]), true, s)?, s)?, s)?;
    ops::divide(&e, &ops::sum(&e, Some(&[-1]), true, s)?, s)
}

/// A product with a bias, activated.
fn layer(a: &[Array], s: Stream) -> Result<Array> {
    ops::exp(&ops::add(&ops::matmul(&a[0], &a[1], s)?, &a[2], s)?, s)
}

/// What is computed, of which shapes, and the kernels on a CPU and on a GPU.
struct Case {
    what: &'static str,
    shapes: &'static [&'static [i64]],
    f: fn(&[Array], Stream) -> Arrays,
    cpu: &'static [&'static str],
    gpu: &'static [&'static str],
}

const SQUARE: &[i64] = &[64, 64];
const ROWS_APART: &[&str] = &["max", "elementwise of 2", "sum", "divide"];

const CASES: &[Case] = &[
    Case {
        what: "a run of one shape, whatever is broadcast into it",
        shapes: &[SQUARE, &[64], &[]],
        f: |a, s| Ok(vec![ops::exp(&ops::multiply(&ops::add(&a[0], &a[1], s)?, &a[2], s)?, s)?]),
        cpu: &["elementwise of 3"],
        gpu: &["elementwise of 3"],
    },
    Case {
        what: "what is needed besides is a further output",
        shapes: &[SQUARE],
        f: |a, s| {
            let t = ops::exp(&a[0], s)?;
            Ok(vec![t.clone(), ops::sin(&t, s)?])
        },
        cpu: &["elementwise of 2"],
        gpu: &["elementwise of 2"],
    },
    Case {
        what: "shapes that differ stay apart",
        shapes: &[&[64], SQUARE],
        f: |a, s| Ok(vec![ops::add(&ops::exp(&a[0], s)?, &a[1], s)?]),
        cpu: &["exp", "add"],
        gpu: &["exp", "add"],
    },
    Case {
        what: "what goes round through another step stays apart",
        shapes: &[SQUARE],
        f: |a, s| {
            let t = ops::exp(&a[0], s)?;
            Ok(vec![ops::add(&t, &ops::cumsum(&t, Some(0), SUMS, None, s)?, s)?])
        },
        cpu: &["exp", "contiguous", "cumsum", "add"],
        gpu: &["exp", "contiguous", "cumsum", "add"],
    },
    Case {
        what: "a kernel has at most 96 instructions",
        shapes: &[SQUARE],
        f: |a, s| Ok(vec![chain(&a[0], 100, s)?]),
        cpu: &["elementwise of 96", "elementwise of 4"],
        gpu: &["elementwise of 96", "elementwise of 4"],
    },
    Case {
        what: "a kernel takes at most eleven arrays",
        shapes: &[SQUARE; 12],
        f: |a, s| Ok(vec![a[1..].iter().try_fold(a[0].clone(), |x, y| ops::add(&x, y, s))?]),
        cpu: &["elementwise of 9", "elementwise of 2"],
        gpu: &["elementwise of 9", "elementwise of 2"],
    },
    Case {
        what: "folds of the last axis and what surrounds them",
        shapes: &[SQUARE],
        f: |a, s| Ok(vec![softmax(&a[0], s)?]),
        cpu: &["rows of 5"],
        gpu: &["rows of 5"],
    },
    Case {
        what: "very short rows do not pay on a CPU",
        shapes: &[&[64, 8]],
        f: |a, s| Ok(vec![softmax(&a[0], s)?]),
        cpu: ROWS_APART,
        gpu: &["rows of 5"],
    },
    Case {
        what: "few long rows are folded by several workgroups or threads each",
        shapes: &[&[4, 40_000]],
        f: |a, s| Ok(vec![softmax(&a[0], s)?]),
        cpu: ROWS_APART,
        gpu: ROWS_APART,
    },
    Case {
        what: "of many long rows each is folded by one",
        shapes: &[&[512, 40_000]],
        f: |a, s| Ok(vec![softmax(&a[0], s)?]),
        cpu: &["rows of 5"],
        gpu: &["rows of 5"],
    },
    Case {
        what: "folds of another axis stay apart",
        shapes: &[SQUARE],
        f: |a, s| Ok(vec![ops::exp(&ops::sum(&ops::sin(&a[0], s)?, Some(&[0]), true, s)?, s)?]),
        cpu: &["sin", "sum", "exp"],
        gpu: &["sin", "sum", "exp"],
    },
    Case {
        what: "folds of integers stay apart",
        shapes: &[SQUARE],
        f: |a, s| {
            let whole = ops::floor(&ops::astype(&a[0], Dtype::I32, s)?, s)?;
            Ok(vec![ops::sum(&ops::negative(&whole, s)?, Some(&[-1]), false, s)?])
        },
        cpu: &["elementwise of 3", "sum"],
        gpu: &["elementwise of 3", "sum"],
    },
    Case {
        what: "a product takes in what alone reads it",
        shapes: &[SQUARE, SQUARE, &[64]],
        f: |a, s| Ok(vec![layer(a, s)?]),
        cpu: &["matmul", "elementwise of 2"],
        gpu: &["epilogue of 3"],
    },
    Case {
        what: "with a reshape in between",
        shapes: &[&[4, 16, 64], SQUARE, &[64]],
        f: |a, s| {
            let flat = ops::reshape(&a[0], &[64, 64], s)?;
            let product = ops::reshape(&ops::matmul(&flat, &a[1], s)?, &[4, 16, 64], s)?;
            Ok(vec![ops::add(&product, &a[2], s)?])
        },
        cpu: &["reshape", "matmul", "reshape", "add"],
        gpu: &["reshape", "epilogue of 3"],
    },
    Case {
        what: "a product that is needed besides stays apart",
        shapes: &[SQUARE, SQUARE, &[64]],
        f: |a, s| {
            let product = ops::matmul(&a[0], &a[1], s)?;
            Ok(vec![ops::exp(&ops::add(&product, &a[2], s)?, s)?, product])
        },
        cpu: &["matmul", "elementwise of 2"],
        gpu: &["matmul", "elementwise of 2"],
    },
    Case {
        what: "what has two results stays apart",
        shapes: &[SQUARE, SQUARE, &[64]],
        f: |a, s| {
            let sum = ops::add(&ops::matmul(&a[0], &a[1], s)?, &a[2], s)?;
            Ok(vec![ops::exp(&sum, s)?, sum])
        },
        cpu: &["matmul", "elementwise of 2"],
        gpu: &["matmul", "elementwise of 2"],
    },
    Case {
        what: "many results wait for no long function",
        shapes: &[&[2048, 64], &[64, 1024], &[1024]],
        f: |a, s| Ok(vec![layer(a, s)?]),
        cpu: &["matmul", "elementwise of 2"],
        gpu: &["matmul", "elementwise of 2"],
    },
    Case {
        what: "but take a bias and a bound with them",
        shapes: &[&[2048, 64], &[64, 1024], &[1024]],
        f: |a, s| {
            let sum = ops::add(&ops::matmul(&a[0], &a[1], s)?, &a[2], s)?;
            Ok(vec![ops::maximum(&sum, &ops::scalar_f64(0.0, Dtype::F32)?, s)?])
        },
        cpu: &["matmul", "elementwise of 2"],
        gpu: &["epilogue of 3"],
    },
    Case {
        what: "a view in between stays between two kernels",
        shapes: &[SQUARE],
        f: |a, s| Ok(vec![ops::sin(&ops::transpose(&ops::exp(&a[0], s)?, None, s)?, s)?]),
        cpu: &["exp", "transpose", "sin"],
        gpu: &["exp", "transpose", "sin"],
    },
    Case {
        what: "what nobody needs is not computed",
        shapes: &[SQUARE],
        f: |a, s| {
            let t = ops::exp(&a[0], s)?;
            drop(ops::cos(&t, s)?);
            Ok(vec![ops::sin(&t, s)?])
        },
        cpu: &["elementwise of 2"],
        gpu: &["elementwise of 2"],
    },
    Case {
        what: "steps that share an argument but no result stay apart",
        shapes: &[SQUARE],
        f: |a, s| Ok(vec![ops::exp(&a[0], s)?, ops::sin(&a[0], s)?]),
        cpu: &["exp", "sin"],
        gpu: &["exp", "sin"],
    },
    Case {
        what: "numbers are no step",
        shapes: &[SQUARE],
        f: |a, s| {
            let two = ops::scalar_f64(2.0, Dtype::F32)?;
            Ok(vec![ops::add(&ops::multiply(&a[0], &two, s)?, &ops::exp(&two, s)?, s)?])
        },
        cpu: &["elementwise of 2"],
        gpu: &["elementwise of 2"],
    },
    Case {
        what: "a fold of a fold's rows is one kernel over rows",
        shapes: &[SQUARE],
        f: |a, s| {
            let mean = ops::mean(&a[0], Some(&[-1]), true, s)?;
            let centred = ops::subtract(&a[0], &mean, s)?;
            Ok(vec![ops::sum(&ops::square(&centred, s)?, Some(&[-1]), false, s)?])
        },
        cpu: &["rows of 5"],
        gpu: &["rows of 5"],
    },
    Case {
        what: "a product of products is no epilogue",
        shapes: &[SQUARE, SQUARE, SQUARE],
        f: |a, s| Ok(vec![ops::matmul(&ops::matmul(&a[0], &a[1], s)?, &a[2], s)?]),
        cpu: &["matmul", "matmul"],
        gpu: &["matmul", "matmul"],
    },
    Case {
        what: "two products meet in the epilogue of one",
        shapes: &[SQUARE, SQUARE, SQUARE],
        f: |a, s| {
            let (x, y) = (ops::matmul(&a[0], &a[1], s)?, ops::matmul(&a[0], &a[2], s)?);
            Ok(vec![ops::add(&x, &y, s)?])
        },
        cpu: &["matmul", "matmul", "add"],
        gpu: &["matmul", "epilogue of 2"],
    },
    Case {
        what: "and no whole array",
        shapes: &[&[2048, 64], &[64, 1024], &[2048, 1024]],
        f: |a, s| Ok(vec![ops::add(&ops::matmul(&a[0], &a[1], s)?, &a[2], s)?]),
        cpu: &["matmul", "add"],
        gpu: &["matmul", "add"],
    },
];

const SUMS: crate::kernels::ScanForm = crate::kernels::ScanForm { reverse: false, inclusive: true };

#[test]
fn patterns_of_compiled_functions() {
    let gpu = default_stream(Device::GPU);
    for case in CASES {
        assert_eq!(compiled(case.shapes, stream(), case.f), case.cpu, "{}, on a CPU", case.what);
        assert_eq!(compiled(case.shapes, gpu, case.f), case.gpu, "{}, on a GPU", case.what);
    }
}

#[test]
fn steps_of_different_streams_stay_apart() {
    let (s, other) = (stream(), new_stream(Device::CPU));
    let x = blank(&[4], Dtype::F32);
    let tape = record(&mut |a| Ok(vec![ops::exp(&ops::sin(&a[0], s)?, other)?]), &[x], false).unwrap();
    assert_eq!(kernels(&fuse(&tape)), ["sin", "exp"]);
}

#[test]
fn kernels_compute_what_their_steps_do() {
    let s = stream();
    for case in CASES.iter().filter(|c| c.shapes.iter().all(|s| s.iter().product::<i64>() <= 4096)) {
        let input = |shape: &&[i64]| floats(shape, &numbers(shape.iter().product::<i64>() as usize));
        let inputs: Vec<Array> = case.shapes.iter().map(input).collect();
        let tape = simplified(&record(&mut |a| (case.f)(a, s), &inputs, false).unwrap()).unwrap();
        let (one, other) = (tape.play(&inputs, false).unwrap(), fuse(&tape).play(&inputs, false).unwrap());
        for (one, other) in one.iter().zip(&other) {
            close(&values(other), &values(one), 1e-5);
        }
    }
}
