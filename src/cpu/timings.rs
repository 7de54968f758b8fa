//! Times of the host kernels on arrays of 2^22 elements, by hand:
//! `cargo test --release --no-default-features --lib timings -- --ignored --nocapture`.

use std::time::Instant;

use super::testing::{Owned, Rng};
use super::{elementwise, gather, matmul, random, reduce, scatter, softmax, sort};
use crate::core::layout::broadcast_strides;
use crate::core::{Dtype, Layout};
use crate::kernels::indexed::{Combine, Walk};
use crate::kernels::table::op;
use crate::kernels::{ArgReduceOp, Draw, HostView, Program, ReduceOp};

const N: i64 = 1 << 22;

/// Processor time of all threads in milliseconds; of use where others share the machine.
fn cpu_ms() -> f64 {
    unsafe extern "C" {
        fn clock() -> std::ffi::c_long;
    }
    // SAFETY: part of every C library; takes nothing. Microseconds where POSIX holds.
    unsafe { clock() as f64 / 1e3 }
}

/// Median and least time in milliseconds, and the least processor time.
fn time(name: &str, mut f: impl FnMut()) {
    if std::env::var("ONLY").is_ok_and(|o| !name.contains(&o)) {
        return;
    }
    f();
    let (mut times, mut busy) = (Vec::new(), f64::INFINITY);
    let begin = Instant::now();
    while times.len() < 7 || begin.elapsed().as_millis() < 400 {
        let (t, c) = (Instant::now(), cpu_ms());
        f();
        times.push(t.elapsed().as_secs_f64() * 1e3);
        busy = busy.min(cpu_ms() - c);
    }
    times.sort_by(f64::total_cmp);
    println!("{name:22} {:8.3} ms, at best {:8.3}, processor {busy:8.3}", times[times.len() / 2], times[0]);
}

fn normal(dtype: Dtype, shape: &[i64]) -> Owned {
    let mut rng = Rng(1);
    let count = shape.iter().product::<i64>() as usize;
    Owned::filled(dtype, count, Layout::contiguous(shape), |_| {
        ((-2.0 * (1.0 - rng.unit()).ln()).sqrt() * (std::f64::consts::TAU * rng.unit()).cos()).into()
    })
}

#[test]
#[ignore = "prints times, checks nothing"]
fn timings() {
    let f32_ = Dtype::F32;
    let (a, b, out) = (normal(f32_, &[N]), normal(f32_, &[N]), Owned::zeros(f32_, &[N]));
    let (va, vb, vo) = (a.view(), b.view(), out.view());
    let run = |p: &Program, ins: &[HostView], out: &HostView| {
        elementwise::run(p, ins, std::slice::from_ref(out)).unwrap();
    };
    for name in ["add", "power", "arctan2", "logaddexp", "remainder"] {
        let p = Program::single(op(name), &[f32_, f32_], f32_);
        time(name, || run(&p, &[va.clone(), vb.clone()], &vo));
    }
    for name in [
        "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "arcsin", "arctan", "sinh", "cosh", "tanh",
        "arcsinh", "arccosh", "arctanh", "erf", "erfinv", "sigmoid", "sqrt",
    ] {
        let p = Program::single(op(name), &[f32_], f32_);
        time(name, || run(&p, std::slice::from_ref(&va), &vo));
    }
    let shaped = |v: &HostView, shape: &[i64]| HostView::new(v.ptr, v.dtype, &Layout::contiguous(shape));
    let turned = |v: &HostView, shape: &[i64]| shaped(v, shape).permute(&[1, 0]);
    {
        let shape = [N / 1024, 1024];
        let mut row = shaped(&vb, &[1024]);
        row.strides = broadcast_strides(&[1024], &row.strides, &shape);
        row.shape = shape[..].into();
        let p = Program::single(op("multiply"), &[f32_, f32_], f32_);
        time("multiply by a row", || run(&p, &[shaped(&va, &shape), row.clone()], &shaped(&vo, &shape)));
    }
    for (name, to) in [("to float16", Dtype::F16), ("to bfloat16", Dtype::BF16), ("to int32", Dtype::I32)] {
        let o = Owned::zeros(to, &[N]);
        let p = Program::cast(f32_, to);
        time(name, || run(&p, std::slice::from_ref(&va), &o.view()));
    }
    let copy = Program::cast(f32_, f32_);
    time("copy", || run(&copy, std::slice::from_ref(&va), &vo));
    let square = [2048, 2048];
    time("transposed copy", || run(&copy, &[turned(&va, &square)], &shaped(&vo, &square)));
    let h = normal(Dtype::F16, &square);
    let ho = Owned::zeros(Dtype::F16, &square);
    let half_copy = Program::cast(Dtype::F16, Dtype::F16);
    time("transposed f16 copy", || run(&half_copy, &[turned(&h.view(), &square)], &ho.view()));

    let wide = [1024, 4096];
    let sum = |axes: &[usize], shape: &[i64], out: &[i64]| {
        reduce::reduce(ReduceOp::Sum, &shaped(&va, shape), axes, &shaped(&vo, out)).unwrap();
    };
    time("sum of all", || sum(&[0], &[N], &[]));
    time("sum of rows", || sum(&[1], &wide, &[1024]));
    time("sum of columns", || sum(&[0], &wide, &[4096]));
    time("softmax", || softmax::softmax(&shaped(&va, &wide), &shaped(&vo, &wide)).unwrap());
    let index = Owned::zeros(Dtype::U32, &[16]);
    time("argmax", || {
        reduce::arg_reduce(ArgReduceOp::Max, &shaped(&va, &[16, N / 16]), 1, &index.view()).unwrap();
    });
    let key = Owned::from_f64(Dtype::U32, &[2], &[1.0, 2.0]);
    time("random normal", || random::draw(Draw::Normal, &key.view(), &vo).unwrap());
    let lines = [256, 4096];
    time("sort rows", || sort::sort(&shaped(&va, &lines), 1, &shaped(&vo, &lines)).unwrap());
    let mut rng = Rng(3);
    let places =
        Owned::filled(Dtype::I32, 4096, Layout::contiguous(&[4096]), |_| ((rng.next() % 4096) as f64).into());
    let rows = [4096, 1024];
    let (table, index, out) = (shaped(&va, &rows), places.view(), shaped(&vo, &rows));
    let walk = Walk::outer(
        (&table.shape, &table.strides),
        &out.strides,
        (&index.shape, &index.strides),
        &[&index.strides],
        &[0],
        &[None],
        0,
    );
    let index = [index];
    time("gather rows", || gather::gather(&walk, &table, &index, &out).unwrap());
    time("scatter rows", || scatter::scatter(Combine::Add, false, &walk, &table, &index, &out).unwrap());

    for (name, dtype, n) in [
        ("matmul f32 512", f32_, 512),
        ("matmul f32 1024", f32_, 1024),
        ("matmul f16 1024", Dtype::F16, 1024),
        ("matmul bf16 1024", Dtype::BF16, 1024),
    ] {
        let (x, y, z) = (normal(dtype, &[n, n]), normal(dtype, &[n, n]), Owned::zeros(dtype, &[n, n]));
        time(name, || matmul::matmul(&x.view(), &y.view(), &z.view()).unwrap());
    }
}
