//! Host products against float64 loops.

use num_complex::Complex64;

use super::*;
use crate::core::Layout;
use crate::cpu::runtime::testing::{Owned, Rng, layouts, values};

fn random(dtype: Dtype, count: usize, layout: Layout, seed: u64) -> Owned {
    let mut rng = Rng(seed);
    Owned::filled(dtype, count, layout, |_| Complex64::new(rng.unit() * 2.0 - 1.0, rng.unit() * 2.0 - 1.0))
}

fn check(a: &Owned, b: &Owned, addend: Option<(&Owned, f32, f32)>, label: &str) {
    let dtype = a.dtype;
    let nd = a.layout.ndim();
    let (m, k, n) = (a.layout.shape[nd - 2], a.layout.shape[nd - 1], b.layout.shape[nd - 1]);
    let mut shape = a.layout.shape.clone();
    shape[nd - 1] = n;
    let out = Owned::filled(dtype, crate::core::layout::size_of(&shape), Layout::contiguous(&shape), |_| {
        7.0.into()
    });
    match addend {
        None => matmul(&a.view(), &b.view(), &out.view()).unwrap(),
        Some((c, x, y)) => addmm(&c.view(), &a.view(), &b.view(), &out.view(), x, y).unwrap(),
    }
    let (va, vb, got) = (values(&a.view()), values(&b.view()), values(&out.view()));
    let vc = addend.map(|c| values(&c.0.view()));
    let (m, n, k) = (m as usize, n as usize, k as usize);
    let eps = match dtype {
        Dtype::F16 => 1.0 / 2048.0,
        Dtype::BF16 => 1.0 / 256.0,
        Dtype::F64 => 1e-14,
        _ => 1e-6,
    };
    for (i, z) in got.iter().enumerate() {
        let (batch, row, col) = (i / (m * n), i / n % m, i % n);
        let mut sum = Complex64::ZERO;
        let mut scale = 0.0;
        for q in 0..k {
            let (x, y) = (va[(batch * m + row) * k + q], vb[(batch * k + q) * n + col]);
            sum += x * y;
            scale += x.norm() * y.norm();
        }
        if let (Some((_, alpha, beta)), Some(vc)) = (addend, &vc) {
            sum = sum * f64::from(alpha) + vc[i] * f64::from(beta);
            scale = scale * f64::from(alpha.abs()) + vc[i].norm() * f64::from(beta.abs());
        }
        let sum_eps = if dtype == Dtype::F64 { 1e-15 } else { 1e-6 } * (1.0 + k as f64 / 10.0);
        assert!(
            (z - sum).norm() <= eps * sum.norm() + sum_eps * scale,
            "{label} {dtype} at {i}: {z} expected {sum}"
        );
    }
}

const DTYPES: [Dtype; 5] = [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64, Dtype::C64];

#[test]
fn sizes_and_layouts_agree_with_loops() {
    for dtype in DTYPES {
        for (m, n, k) in
            [(1, 1, 1), (2, 3, 7), (33, 1, 64), (1, 100, 33), (64, 33, 129), (5, 1, 2000), (1, 300, 1500)]
        {
            for (la, a, ca) in layouts(&[m, k]) {
                for (lb, b, cb) in layouts(&[k, n]) {
                    let x = random(dtype, ca + 8, a.clone(), 1);
                    let y = random(dtype, cb + 8, b, 2);
                    check(&x, &y, None, &format!("{la} {m}x{k} by {lb} {k}x{n}"));
                }
            }
        }
    }
}

#[test]
fn batches_broadcast_through_zero_strides() {
    for dtype in DTYPES {
        for (la, a, ca) in layouts(&[3, 4, 9, 8]) {
            for (lb, b, cb) in layouts(&[3, 4, 8, 5]) {
                check(
                    &random(dtype, ca + 8, a.clone(), 3),
                    &random(dtype, cb + 8, b, 4),
                    None,
                    &format!("{la} {lb}"),
                );
            }
        }
        // One matrix for the whole batch: the batch becomes rows.
        let a = random(dtype, 6 * 40, Layout::contiguous(&[6, 5, 8]), 5);
        let mut l = Layout::contiguous(&[6, 8, 7]);
        l.strides[0] = 0;
        check(&a, &random(dtype, 56, l, 6), None, "shared b");
    }
}

#[test]
fn addends_scale_and_broadcast() {
    for dtype in DTYPES {
        for (m, n, k) in [(20, 30, 17), (1, 40, 64), (40, 1, 64), (6, 7, 0)] {
            let a = random(dtype, (m * k + 1) as usize, Layout::contiguous(&[m, k]), 7);
            let b = random(dtype, (k * n + 1) as usize, Layout::contiguous(&[k, n]), 8);
            for (lc, c, cc) in layouts(&[m, n]) {
                for (alpha, beta) in [(1.0, 1.0), (0.5, -2.0), (2.0, 0.0)] {
                    check(&a, &b, Some((&random(dtype, cc + 8, c.clone(), 9), alpha, beta)), lc);
                }
            }
        }
    }
}

#[test]
fn right_sides_that_lie_column_by_column() {
    for dtype in DTYPES {
        for (m, n, k) in [
            (2, 16, 16),
            (3, 200, 150),
            (9, 17, 40),
            (64, 333, 65),
            (65, 130, 90),
            (130, 70, 201),
            (66, 300, 64),
        ] {
            let a = random(dtype, m * k, Layout::contiguous(&[m as i64, k as i64]), 1);
            // As rows too: few rows go by columns all the same.
            for gap in [None, Some(0), Some(3)] {
                let mut l = Layout::contiguous(&[k as i64, n as i64]);
                if let Some(gap) = gap {
                    (l.strides[0], l.strides[1], l.offset) = (1, (k + gap) as i64, gap as i64);
                }
                let gapped = gap.unwrap_or_default();
                let b = random(dtype, (k + gapped) * n + gapped, l, 2);
                let label = format!("{m}x{k} by {k}x{n} and {gap:?}");
                check(&a, &b, None, &label);
                let c = random(dtype, m * n, Layout::contiguous(&[m as i64, n as i64]), 3);
                check(&a, &b, Some((&c, 0.5, -2.0)), &label);
            }
        }
    }
}

#[test]
fn products_over_nothing_are_zero_and_large_ones_are_cut() {
    for dtype in DTYPES {
        let a = random(dtype, 1, Layout::contiguous(&[5, 0]), 1);
        check(&a, &random(dtype, 1, Layout::contiguous(&[0, 6]), 1), None, "empty");
        let a = random(dtype, 150 * 140, Layout::contiguous(&[150, 140]), 1);
        check(&a, &random(dtype, 140 * 160, Layout::contiguous(&[140, 160]), 1), None, "large");
    }
}
