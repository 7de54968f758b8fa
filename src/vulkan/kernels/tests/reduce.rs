//! Reductions and positions of extremes.

use super::*;
use crate::kernels::ArgReduceOp;
use crate::vulkan::kernels::reduce;

fn subsets(ndim: usize) -> Vec<Vec<usize>> {
    (1u32..1 << ndim).map(|m| (0..ndim).filter(|a| m >> a & 1 == 1).collect()).collect()
}

fn better(op: ArgReduceOp, a: C, b: C) -> bool {
    let nan = |c: C| c.0.is_nan() || c.1.is_nan();
    if nan(b) {
        return false;
    }
    nan(a) || if op == ArgReduceOp::Min { a < b } else { a > b }
}

fn fold(op: ReduceOp, dst: Dtype, v: impl Iterator<Item = C>) -> C {
    let nz = |c: C| (c.0 != 0.0 || c.1 != 0.0) as u8 as f64;
    let pick = |op| move |a: Option<C>, b: C| Some(a.filter(|&a| !better(op, b, a)).unwrap_or(b));
    match op {
        ReduceOp::Sum => round(dst, v.fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1))),
        ReduceOp::Prod => {
            v.fold((1.0, 0.0), |a, b| round_wide(dst, (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)))
        }
        ReduceOp::Min => v.fold(None, pick(ArgReduceOp::Min)).unwrap_or_default(),
        ReduceOp::Max => v.fold(None, pick(ArgReduceOp::Max)).unwrap_or_default(),
        ReduceOp::All => (v.map(nz).fold(1.0, f64::min), 0.0),
        ReduceOp::Any => (v.map(nz).fold(0.0, f64::max), 0.0),
    }
}

fn round_wide(d: Dtype, v: C) -> C {
    if d.is_inexact() { v } else { round(d, v) }
}

fn check_reduce(op: ReduceOp, h: &Host, axes: &[usize], dst: Dtype, note: &str) {
    let shape = &h.layout.shape;
    let kept: Vec<usize> = (0..shape.len()).filter(|a| !axes.contains(a)).collect();
    let out_shape: Vec<i64> = kept.iter().map(|&a| shape[a]).collect();
    let got = gpu(dst, &out_shape, |enc, out| {
        let src = h.view(enc)?;
        reduce::reduce(enc, op, &src, axes, out)
    });
    let red_shape: Vec<i64> = axes.iter().map(|&a| shape[a]).collect();
    let red = indices(&red_shape);
    for (o, got) in indices(&out_shape).iter().zip(got) {
        let mut full = vec![0; shape.len()];
        kept.iter().zip(o).for_each(|(&a, &i)| full[a] = i);
        let want = fold(
            op,
            dst,
            red.iter().map(|r| {
                axes.iter().zip(r).for_each(|(&a, &i)| full[a] = i);
                h.at(&full)
            }),
        );
        let want = round(dst, want);
        assert!(
            same(got, want),
            "{op:?} {} {:?} axes {axes:?} {note} at {o:?}: {got:?}, not {want:?}",
            h.dtype,
            h.layout
        );
    }
}

const OPS: [ReduceOp; 6] =
    [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max, ReduceOp::All, ReduceOp::Any];

fn output(op: ReduceOp, d: Dtype) -> Dtype {
    match op {
        ReduceOp::All | ReduceOp::Any => Dtype::Bool,
        ReduceOp::Sum | ReduceOp::Prod if d.size() < 4 && !d.is_inexact() => Dtype::I32,
        _ => d,
    }
}

#[test]
fn reductions_of_every_layout() {
    if !have_gpu() {
        return;
    }
    for (n, l) in layouts() {
        for op in [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Any] {
            for d in [Dtype::F32, Dtype::I8] {
                let mut rng = Rng(7);
                let h = Host::new(d, n, l.clone(), |_| sample(op, d, &mut rng));
                for axes in subsets(l.ndim()) {
                    check_reduce(op, &h, &axes, output(op, d), "");
                }
            }
        }
    }
}

#[test]
fn reductions_of_every_dtype() {
    if !have_gpu() {
        return;
    }
    for d in REAL.into_iter().chain([Dtype::C64]) {
        for op in OPS {
            let mut rng = Rng(11);
            let h = Host::new(d, 6 * 5 * 64, Layout::contiguous(&[6, 5, 64]), |_| sample(op, d, &mut rng));
            for axes in [&[2][..], &[0], &[0, 1, 2], &[0, 2]] {
                check_reduce(op, &h, axes, output(op, d), "dtypes");
            }
        }
    }
}

#[test]
fn sums_widen_with_the_sign() {
    if !have_gpu() {
        return;
    }
    for d in [Dtype::I8, Dtype::I16, Dtype::I32, Dtype::U8, Dtype::U32, Dtype::Bool] {
        let mut rng = Rng(19);
        let h = Host::new(d, 3 * 33, Layout::contiguous(&[3, 33]), |i| {
            let v = sample(ReduceOp::Sum, d, &mut rng);
            if i == 5 && d.size() == 4 { (2f64.powi(30), 0.0) } else { v }
        });
        for dst in [Dtype::I64, Dtype::U64] {
            if dst == Dtype::U64 && d.kind() == crate::core::Kind::Signed {
                continue;
            }
            for axes in [&[0][..], &[1], &[0, 1]] {
                check_reduce(ReduceOp::Sum, &h, axes, dst, "wide");
            }
        }
    }
}

#[test]
fn long_reductions_are_split_and_finished() {
    if !have_gpu() {
        return;
    }
    let shapes: [(&[i64], &[usize]); 5] = [
        (&[200_003], &[0]),
        (&[3, 70_000], &[1]),
        (&[70_000, 3], &[0]),
        (&[9000, 64], &[0]),
        (&[40, 64, 128], &[0, 2]),
    ];
    for (shape, axes) in shapes {
        for (op, d) in [
            (ReduceOp::Sum, Dtype::I32),
            (ReduceOp::Max, Dtype::F32),
            (ReduceOp::Sum, Dtype::BF16),
            (ReduceOp::Min, Dtype::I64),
        ] {
            let mut rng = Rng(3);
            let h = Host::new(d, size_of(shape), Layout::contiguous(shape), |i| {
                let v = sample(op, d, &mut rng);
                if op == ReduceOp::Sum && d == Dtype::BF16 { ((i % 1000 == 0) as u8 as f64, 0.0) } else { v }
            });
            check_reduce(op, &h, axes, d, "long");
        }
    }
    // A transposed matrix whose reduction is split over its strided axis, and a general one.
    let mut rng = Rng(5);
    let h = Host::new(Dtype::F32, 64 * 9001 * 2, layout(&[9001, 64], &[2, 18002], 0), |_| {
        sample(ReduceOp::Sum, Dtype::F32, &mut rng)
    });
    for axes in [&[0][..], &[1], &[0, 1]] {
        check_reduce(ReduceOp::Sum, &h, axes, Dtype::F32, "long strided");
    }
}

#[test]
fn empty_reductions_give_the_identity() {
    if !have_gpu() {
        return;
    }
    for d in [Dtype::F32, Dtype::I64, Dtype::C64, Dtype::Bool] {
        let h = Host::new(d, 0, Layout::contiguous(&[3, 0, 2]), |_| (0.0, 0.0));
        for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::All, ReduceOp::Any] {
            check_reduce(op, &h, &[1], output(op, d), "empty");
            check_reduce(op, &h, &[0], output(op, d), "no result");
        }
    }
}

#[test]
fn nan_propagates_through_min_and_max() {
    if !have_gpu() {
        return;
    }
    for d in [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::C64] {
        for l in [Layout::contiguous(&[5, 64]), layout(&[5, 64], &[1, 5], 0)] {
            let mut rng = Rng(9);
            let h = Host::new(d, 320, l, |i| {
                let v = sample(ReduceOp::Max, d, &mut rng);
                match i {
                    17 | 0 => (f64::NAN, 0.0),
                    200 => (-f64::NAN, 0.0),
                    100 => (f64::NEG_INFINITY, 0.0),
                    _ => v,
                }
            });
            for op in [ReduceOp::Max, ReduceOp::Min] {
                for axes in [&[0][..], &[1], &[0, 1]] {
                    check_reduce(op, &h, axes, d, "nan");
                }
            }
        }
    }
}

fn check_arg(op: ArgReduceOp, h: &Host, axis: usize) {
    let shape = &h.layout.shape;
    let mut out_shape = shape.to_vec();
    let n = out_shape.remove(axis);
    let got = gpu(Dtype::U32, &out_shape, |enc, out| {
        let src = h.view(enc)?;
        reduce::arg_reduce(enc, op, &src, axis, out)
    });
    for (o, got) in indices(&out_shape).iter().zip(got) {
        let mut full = o.clone();
        full.insert(axis, 0);
        let mut best = (0, h.at(&full));
        for i in 1..n {
            full[axis] = i;
            let v = h.at(&full);
            if better(op, v, best.1) {
                best = (i, v);
            }
        }
        assert_eq!(got.0, best.0 as f64, "{op:?} {} {:?} axis {axis} at {o:?}", h.dtype, h.layout);
    }
}

#[test]
fn arg_reductions_find_the_first_index() {
    if !have_gpu() {
        return;
    }
    for (n, l) in layouts()
        .into_iter()
        .chain([(180_000, Layout::contiguous(&[2, 90_000])), (180_000, Layout::contiguous(&[60_000, 3]))])
    {
        for op in [ArgReduceOp::Min, ArgReduceOp::Max] {
            let mut rng = Rng(13);
            let h = Host::new(Dtype::F32, n, l.clone(), |i| {
                let v = sample(ReduceOp::Max, Dtype::F32, &mut rng);
                if i % 50 == 49 {
                    (f64::NAN, 0.0)
                } else if v.0 == 0.0 && i % 2 == 0 {
                    (-0.0, 0.0)
                } else {
                    v
                }
            });
            for axis in 0..l.ndim() {
                check_arg(op, &h, axis);
            }
        }
    }
    for d in REAL {
        let mut rng = Rng(17);
        let h = Host::new(d, 7 * 64, Layout::contiguous(&[7, 64]), |_| sample(ReduceOp::Max, d, &mut rng));
        check_arg(ArgReduceOp::Max, &h, 1);
        check_arg(ArgReduceOp::Min, &h, 0);
    }
}
