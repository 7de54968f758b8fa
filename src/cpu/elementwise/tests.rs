//! The block runner against naive loops, on layouts that take every path.

use super::*;
use crate::kernels::elementwise::table::op;
use crate::kernels::{Instr, Src};

fn view<T>(data: &mut [T], offset: usize, dtype: Dtype, shape: &[i64], strides: &[i64]) -> HostView {
    HostView { ptr: (&raw mut data[offset]).cast(), dtype, shape: shape.into(), strides: strides.into() }
}

/// Positions of all elements of a layout in row-major order.
fn positions(shape: &[i64], strides: &[i64]) -> Vec<i64> {
    let n = layout::size_of(shape);
    let walk = Walk { ptr: null_mut(), size: 1, shape, strides };
    (0..n).map(|i| walk.offset(i)).collect()
}

#[test]
fn subtraction_on_odd_layouts() {
    let cases: &[(&[i64], &[i64], usize, &[i64], &[i64], usize)] = &[
        (&[0], &[1], 0, &[1], &[1], 0),
        (&[], &[], 3, &[], &[], 0),
        (&[33], &[-1], 40, &[2], &[1], 5),
        (&[300_000], &[1], 0, &[0], &[1], 0),
        (&[70, 1024], &[0, 1], 7, &[1024, 1], &[1024, 1], 0),
        (&[70, 1024], &[1, 0], 0, &[1, 70], &[1024, 1], 0),
        (&[500, 3], &[3, -1], 2, &[1, 500], &[4, 1], 1),
        (&[6, 5, 4, 3, 2], &[1, 6, 30, 120, 360], 0, &[120, 24, 6, 2, 1], &[130, 25, 6, 2, 1], 0),
        (&[5, 200, 131], &[0, 131, 1], 1, &[200, 1, 0], &[26200, 131, 1], 0),
    ];
    let p = Program::single(op("subtract"), &[Dtype::F32, Dtype::F32], Dtype::F32);
    for &(shape, sa, oa, sb, so, oo) in cases {
        let mut a: Vec<f32> = (0..400_000).map(|i| i as f32).collect();
        let mut b: Vec<f32> = (0..400_000).map(|i| (i * 7 % 1013) as f32).collect();
        let mut out = vec![-1.0f32; 400_000];
        let mut want = out.clone();
        let (pa, pb, po) = (positions(shape, sa), positions(shape, sb), positions(shape, so));
        for i in 0..po.len() {
            want[(oo as i64 + po[i]) as usize] = a[(oa as i64 + pa[i]) as usize] - b[pb[i] as usize];
        }
        let ins = [view(&mut a, oa, Dtype::F32, shape, sa), view(&mut b, 0, Dtype::F32, shape, sb)];
        run(&p, &ins, &[view(&mut out, oo, Dtype::F32, shape, so)]).unwrap();
        assert!(out == want, "{shape:?} {sa:?} {sb:?} {so:?}");
    }
}

#[test]
fn copies_and_casts_of_transposed_arrays() {
    for (d, size) in [(Dtype::U8, 1), (Dtype::U16, 2), (Dtype::F32, 4), (Dtype::C64, 8)] {
        for shape in [[33i64, 70], [200, 450], [64, 64]] {
            let n = (shape[0] * shape[1]) as usize;
            let mut a: Vec<u8> = (0..n * size).map(|i| (i * 31 % 251) as u8).collect();
            let mut out = vec![0u8; n * size];
            let st = [1, shape[0]];
            let (src, dst) = (view(&mut a, 0, d, &shape, &st), view(&mut out, 0, d, &shape, &[shape[1], 1]));
            run(&Program::cast(d, d), &[src], &[dst]).unwrap();
            for (i, at) in positions(&shape, &st).into_iter().enumerate() {
                assert_eq!(out[i * size..][..size], a[at as usize * size..][..size], "{d} {shape:?}");
            }
        }
    }
    let mut a: Vec<f32> = (0..200 * 90).map(|i| i as f32 * 0.37).collect();
    let mut out = vec![0u16; 200 * 90];
    let shape = [200i64, 90];
    let (src, dst) =
        (view(&mut a, 0, Dtype::F32, &shape, &[1, 200]), view(&mut out, 0, Dtype::F16, &shape, &[90, 1]));
    run(&Program::cast(Dtype::F32, Dtype::F16), &[src], &[dst]).unwrap();
    for (i, at) in positions(&shape, &[1, 200]).into_iter().enumerate() {
        assert_eq!(out[i], half::f16::from_f32(a[at as usize]).to_bits());
    }
}

#[test]
fn an_output_may_be_an_input() {
    let p = Program::single(op("add"), &[Dtype::F32, Dtype::F32], Dtype::F32);
    let mut a: Vec<f32> = (0..100_000).map(|i| i as f32).collect();
    let shape = [100_000i64];
    let v = view(&mut a, 0, Dtype::F32, &shape, &[1]);
    run(&p, &[v.clone(), v.clone()], &[v]).unwrap();
    assert!(a.iter().enumerate().all(|(i, &x)| x == 2.0 * i as f32));
    // A run that reads it at its end once more.
    let step = |name, args: [Src; 2]| Instr {
        op: Inst::Op(op(name)),
        args: args.as_slice().into(),
        dtype: Dtype::F32,
    };
    let p = Program {
        inputs: [Dtype::F32].as_slice().into(),
        instrs: [
            step("multiply", [Src::Input(0), Src::Input(0)]),
            step("subtract", [Src::Reg(0), Src::Input(0)]),
        ]
        .as_slice()
        .into(),
        outputs: [1].as_slice().into(),
    };
    let mut a: Vec<f32> = (0..100_000).map(|i| (i % 1000) as f32).collect();
    let v = view(&mut a, 0, Dtype::F32, &shape, &[1]);
    run(&p, std::slice::from_ref(&v), std::slice::from_ref(&v)).unwrap();
    assert!(a.iter().enumerate().all(|(i, &x)| x == ((i % 1000) * (i % 1000)) as f32 - (i % 1000) as f32));
}

#[test]
fn expressions_round_half_precision_between_steps() {
    // (a * b) - a in float16, and the product itself.
    let h = Dtype::F16;
    let step =
        |name, args: [Src; 2]| Instr { op: Inst::Op(op(name)), args: args.as_slice().into(), dtype: h };
    let p = Program {
        inputs: [h, h].as_slice().into(),
        instrs: [
            step("multiply", [Src::Input(0), Src::Input(1)]),
            step("subtract", [Src::Reg(0), Src::Input(0)]),
        ]
        .into_iter()
        .collect(),
        outputs: [1u8, 0].as_slice().into(),
    };
    let f = |x: f32| half::f16::from_f32(x);
    let mut a: Vec<half::f16> = (0..5000).map(|i| f(i as f32 * 0.013)).collect();
    let mut b: Vec<half::f16> = (0..5000).map(|i| f(3.1 - i as f32 * 0.001)).collect();
    let (mut x, mut y) = (vec![f(0.0); 5000], vec![f(0.0); 5000]);
    let s = [5000i64];
    let ins = [view(&mut a, 0, h, &s, &[1]), view(&mut b, 0, h, &s, &[1])];
    run(&p, &ins, &[view(&mut x, 0, h, &s, &[1]), view(&mut y, 0, h, &s, &[1])]).unwrap();
    for i in 0..5000 {
        let product = f(a[i].to_f32() * b[i].to_f32());
        assert_eq!(y[i], product);
        assert_eq!(x[i], f(product.to_f32() - a[i].to_f32()));
    }
}

#[test]
fn every_row_has_a_host_kernel_for_its_dtypes() {
    for row in crate::kernels::elementwise::table::table() {
        for d in Dtype::ALL {
            if let Ok((t, _)) = row.types(&vec![d; row.arity as usize]) {
                assert!(row.cpu.kern(t).is_some(), "{} {t}", row.name);
                assert!(t == Dtype::F64 || row.glsl(t).is_some(), "{} {t}", row.name);
            }
        }
        assert!(row.partials.is_empty() || row.partials.len() == row.arity as usize, "{}", row.name);
    }
}

#[test]
fn types_follow_mlx() {
    let t = |name: &str, i: &[Dtype]| op(name).row().types(i);
    assert_eq!(t("sin", &[Dtype::I32]).unwrap(), (Dtype::F32, Dtype::F32));
    assert_eq!(t("abs", &[Dtype::C64]).unwrap(), (Dtype::C64, Dtype::F32));
    assert_eq!(t("add", &[Dtype::F16, Dtype::BF16]).unwrap().0, Dtype::F32);
    assert_eq!(t("less", &[Dtype::I8, Dtype::U8]).unwrap(), (Dtype::I16, Dtype::Bool));
    assert_eq!(t("left_shift", &[Dtype::Bool, Dtype::Bool]).unwrap().1, Dtype::U8);
    assert_eq!(t("select", &[Dtype::Bool, Dtype::F16, Dtype::F32]).unwrap().1, Dtype::F32);
    let e = t("negative", &[Dtype::Bool]).unwrap_err().to_string();
    assert_eq!(e, "[negative] Not supported for bool, use logical_not instead.");
    let e = t("bitwise_and", &[Dtype::F16, Dtype::F16]).unwrap_err().to_string();
    assert_eq!(
        e,
        "[bitwise_and] Only allowed on integer or boolean types but got types float16 and float16."
    );
}
