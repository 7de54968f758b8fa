//! Every reduction, dtype and layout against a naive loop in wide arithmetic.

use num_complex::Complex64;

use super::{arg_reduce, reduce};
use crate::core::Dtype::{self, *};
use crate::core::layout::row_major;
use crate::cpu::runtime::testing::{Owned, Rng, layouts};
use crate::kernels::{ArgReduceOp, ReduceOp};

fn kept(shape: &[i64], axes: &[usize]) -> Vec<i64> {
    (0..shape.len()).filter(|a| !axes.contains(a)).map(|a| shape[a]).collect()
}

// Groups of logical elements, one for each result, in logical order.
fn groups(a: &Owned, axes: &[usize]) -> Vec<Vec<Complex64>> {
    let shape = &a.layout.shape;
    let out = kept(shape, axes);
    let (dense, out_dense) = (row_major(shape), row_major(&out));
    let count = out.iter().product::<i64>() as usize;
    let mut groups = vec![Vec::new(); count];
    for (i, x) in a.values().into_iter().enumerate() {
        let (mut k, mut at) = (0, 0);
        for ax in 0..shape.len() {
            if !axes.contains(&ax) {
                at += i as i64 / dense[ax] % shape[ax] * out_dense[k];
                k += 1;
            }
        }
        groups[at as usize].push(x);
    }
    groups
}

fn wide(op: ReduceOp, dtype: Dtype) -> Dtype {
    match op {
        ReduceOp::Sum | ReduceOp::Prod => match dtype {
            Bool | I8 | I16 => I32,
            U8 | U16 => U32,
            d => d,
        },
        ReduceOp::Min | ReduceOp::Max => dtype,
        ReduceOp::All | ReduceOp::Any => Bool,
    }
}

fn naive(op: ReduceOp, xs: &[Complex64], out: Dtype) -> Complex64 {
    let truth = |z: &Complex64| *z != Complex64::new(0.0, 0.0);
    let less = |a: Complex64, b: Complex64| (a.re, a.im) < (b.re, b.im);
    let wrap = |z: Complex64| match out {
        I32 => f64::from(z.re.rem_euclid(4294967296.0) as u64 as u32 as i32).into(),
        U32 => z.re.rem_euclid(4294967296.0).into(),
        // Products here are powers of two, exact in float64 at any size.
        I64 if z.re.abs() >= 9.2e18 => (z.re.rem_euclid(2f64.powi(64)) as u64 as i64 as f64).into(),
        U64 => z.re.rem_euclid(2f64.powi(64)).into(),
        _ => z,
    };
    match op {
        ReduceOp::Sum => wrap(xs.iter().sum()),
        ReduceOp::Prod => wrap(xs.iter().product()),
        ReduceOp::Min => xs.iter().copied().reduce(|a, b| if less(b, a) { b } else { a }).unwrap(),
        ReduceOp::Max => xs.iter().copied().reduce(|a, b| if less(a, b) { b } else { a }).unwrap(),
        ReduceOp::All => f64::from(u8::from(xs.iter().all(truth))).into(),
        ReduceOp::Any => f64::from(u8::from(xs.iter().any(truth))).into(),
    }
}

fn tolerance(dtype: Dtype) -> f64 {
    match dtype {
        F16 => 2e-3,
        BF16 => 1e-2,
        F32 | C64 => 2e-6,
        F64 => 1e-13,
        _ => 0.0,
    }
}

const OPS: [ReduceOp; 6] =
    [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max, ReduceOp::All, ReduceOp::Any];

fn check(shape: &[i64], axes: &[usize], dtypes: &[Dtype]) {
    let mut rng = Rng(42);
    for &dtype in dtypes {
        for (name, layout, count) in layouts(shape) {
            for op in OPS {
                let small = op == ReduceOp::Prod;
                let a = Owned::filled(dtype, count, layout.clone(), |_| {
                    let x = rng.unit();
                    let im = if dtype == C64 { rng.unit() - 0.5 } else { 0.0 };
                    match (small, dtype.is_inexact()) {
                        (true, true) => Complex64::new(1.0 + (x - 0.5) / 64.0, im / 64.0),
                        (true, false) => (if x < 0.1 { 2.0 } else { 1.0 }).into(),
                        (false, true) => Complex64::new(x * 2.0 - 1.0, im),
                        (false, false) if dtype == U64 => (x * 200.0).floor().into(),
                        (false, false) => (x * 200.0 - 100.0).floor().into(),
                    }
                });
                let dst = Owned::zeros(wide(op, dtype), &kept(shape, axes));
                reduce(op, &a.view(), axes, &dst.view()).unwrap();
                for (k, (got, xs)) in dst.values().iter().zip(groups(&a, axes)).enumerate() {
                    let want = naive(op, &xs, dst.dtype);
                    let scale = match op {
                        ReduceOp::Sum => xs.iter().map(|z| z.norm()).sum::<f64>(),
                        // A product rounds at each factor, equal ones in one direction.
                        _ => want.norm() * (1.0 + xs.len() as f64 / 30.0),
                    };
                    let bound = tolerance(dst.dtype) * scale.max(1e-30);
                    let what = format!("{op:?} {dtype} {name} {shape:?} {axes:?} [{k}]");
                    if dst.dtype.is_inexact() && dst.dtype != F64 && want.norm() > 3.4e38 {
                        assert!(!got.is_finite(), "{what}: {got} != {want}");
                        continue;
                    }
                    assert!((got - want).norm() <= bound, "{what}: {got} != {want}");
                }
            }
        }
    }
}

#[test]
fn every_dtype_and_layout() {
    for axes in [&[1usize][..], &[0], &[0, 1], &[]] {
        check(&[5, 33], axes, &Dtype::ALL);
    }
    check(&[33], &[0], &Dtype::ALL);
    check(&[1], &[0], &Dtype::ALL);
    check(&[], &[], &Dtype::ALL);
}

#[test]
fn three_axes_of_rank_four() {
    for axes in [[0usize, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]] {
        check(&[3, 4, 5, 9], &axes, &[I32, F32, F16, U8]);
    }
    for axes in [[0usize, 2], [1, 3], [0, 3], [1, 2]] {
        check(&[3, 4, 5, 9], &axes, &[I64, F32]);
    }
}

#[test]
fn sizes_that_are_cut_into_pieces_and_bands() {
    check(&[2, 70_001], &[1], &[F32]);
    check(&[3001, 17], &[0], &[F32, I8]);
    check(&[300, 1500], &[0], &[F32]);
    check(&[2, 1300, 70], &[1], &[F32]);
    check(&[200_000], &[0], &[F32, BF16]);
    check(&[5, 40, 700], &[0, 2], &[F32]);
    check(&[3000, 3], &[1], &[F32]);
    check(&[3, 3000], &[0], &[F64, U16]);
}

#[test]
fn large_float_sums_stay_accurate() {
    let n = 1 << 22;
    let a = Owned::filled(F32, n, crate::core::Layout::contiguous(&[n as i64]), |_| f64::from(0.1f32).into());
    let dst = Owned::zeros(F32, &[]);
    reduce(ReduceOp::Sum, &a.view(), &[0], &dst.view()).unwrap();
    let want = f64::from(0.1f32) * n as f64;
    assert!((dst.reals()[0] - want).abs() / want < 1e-6);
    let a =
        Owned::filled(F32, n, crate::core::Layout::contiguous(&[1 << 18, 16]), |_| f64::from(0.1f32).into());
    let dst = Owned::zeros(F32, &[16]);
    reduce(ReduceOp::Sum, &a.view(), &[0], &dst.view()).unwrap();
    assert!(dst.reals().iter().all(|x| (x / want * 16.0 - 1.0).abs() < 5e-6));
}

#[test]
fn nan_propagates_wherever_it_is() {
    for dtype in [F16, BF16, F32, F64, C64] {
        for n in [1usize, 7, 33, 64, 5000] {
            for at in [0, n / 2, n - 1] {
                let mut v = vec![1.0; n];
                v[at] = f64::NAN;
                let rows = Owned::from_f64(dtype, &[1, n as i64], &v);
                let mut wide = Vec::new();
                v.iter().for_each(|&x| wide.extend([x; 9]));
                let cols = Owned::from_f64(dtype, &[n as i64, 9], &wide);
                for op in [ReduceOp::Min, ReduceOp::Max, ReduceOp::Sum] {
                    let dst = Owned::zeros(dtype, &[1]);
                    reduce(op, &rows.view(), &[1], &dst.view()).unwrap();
                    assert!(dst.reals()[0].is_nan(), "{op:?} {dtype} {n} {at}");
                    let dst = Owned::zeros(dtype, &[9]);
                    reduce(op, &cols.view(), &[0], &dst.view()).unwrap();
                    assert!(dst.reals().iter().all(|x| x.is_nan()), "{op:?} {dtype} {n} {at}");
                }
                for op in [ArgReduceOp::Min, ArgReduceOp::Max] {
                    let dst = Owned::zeros(U32, &[1]);
                    arg_reduce(op, &rows.view(), 1, &dst.view()).unwrap();
                    assert_eq!(dst.reals(), [at as f64], "{op:?} {dtype} {n}");
                    let dst = Owned::zeros(U32, &[9]);
                    arg_reduce(op, &cols.view(), 0, &dst.view()).unwrap();
                    assert_eq!(dst.reals(), [at as f64; 9], "{op:?} {dtype} {n}");
                }
            }
        }
    }
}

#[test]
fn empty_reductions_give_the_identity_or_an_error() {
    let a = Owned::zeros(F32, &[3, 0]);
    for (op, dtype, want) in [
        (ReduceOp::Sum, F32, 0.0),
        (ReduceOp::Prod, F32, 1.0),
        (ReduceOp::All, Bool, 1.0),
        (ReduceOp::Any, Bool, 0.0),
    ] {
        let dst = Owned::from_f64(dtype, &[3], &[9.0; 3]);
        reduce(op, &a.view(), &[1], &dst.view()).unwrap();
        assert_eq!(dst.reals(), [want; 3]);
    }
    let dst = Owned::zeros(F32, &[3]);
    assert!(reduce(ReduceOp::Max, &a.view(), &[1], &dst.view()).is_err());
    assert!(arg_reduce(ArgReduceOp::Max, &a.view(), 1, &Owned::zeros(U32, &[3]).view()).is_err());
    let none = Owned::zeros(F32, &[0]);
    reduce(ReduceOp::Max, &a.view(), &[0], &none.view()).unwrap();
}

#[test]
fn integers_wrap_and_widen() {
    let a = Owned::from_f64(I8, &[40], &[-100.0; 40]);
    let dst = Owned::zeros(I32, &[]);
    reduce(ReduceOp::Sum, &a.view(), &[0], &dst.view()).unwrap();
    assert_eq!(dst.reals(), [-4000.0]);
    let b = Owned::from_f64(I32, &[3], &[2147483647.0; 3]);
    reduce(ReduceOp::Sum, &b.view(), &[0], &dst.view()).unwrap();
    assert_eq!(dst.reals(), [2147483645.0]);
    let dst = Owned::zeros(I64, &[]);
    reduce(ReduceOp::Sum, &b.view(), &[0], &dst.view()).unwrap();
    assert_eq!(dst.reals(), [6442450941.0]);
    let dst = Owned::zeros(F32, &[]);
    assert!(reduce(ReduceOp::Sum, &a.view(), &[0], &dst.view()).is_err());
}

#[test]
fn the_first_of_equal_elements_is_found_in_every_layout() {
    let mut rng = Rng(7);
    for (shape, axis) in [
        (vec![33], 0),
        (vec![5, 33], 1),
        (vec![33, 12], 0),
        (vec![4, 9, 10], 1),
        (vec![2, 3000], 1),
        (vec![150_000], 0),
        (vec![3, 1100], 0),
    ] {
        for dtype in Dtype::ALL {
            for (name, layout, count) in layouts(&shape) {
                let a =
                    Owned::filled(dtype, count, layout, |_| Complex64::new((rng.next() % 50) as f64, 0.0));
                for op in [ArgReduceOp::Min, ArgReduceOp::Max] {
                    let dst = Owned::zeros(U32, &kept(&shape, &[axis]));
                    arg_reduce(op, &a.view(), axis, &dst.view()).unwrap();
                    for (got, xs) in dst.reals().iter().zip(groups(&a, &[axis])) {
                        let keys: Vec<f64> = xs.iter().map(|z| z.re).collect();
                        let best = match op {
                            ArgReduceOp::Min => keys.iter().copied().fold(f64::INFINITY, f64::min),
                            ArgReduceOp::Max => keys.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                        };
                        let want = keys.iter().position(|&x| x == best).unwrap();
                        assert_eq!(*got, want as f64, "{op:?} {dtype} {name} {shape:?} axis {axis}");
                    }
                }
            }
        }
    }
}

#[test]
fn results_do_not_depend_on_where_the_work_runs() {
    let mut rng = Rng(3);
    let n = 300_000;
    let a = Owned::filled(F32, n, crate::core::Layout::contiguous(&[n as i64]), |_| rng.unit().into());
    let run = || {
        let dst = Owned::zeros(F32, &[]);
        reduce(ReduceOp::Sum, &a.view(), &[0], &dst.view()).unwrap();
        dst.bits()
    };
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(run);
    assert_eq!(run(), one);
}
