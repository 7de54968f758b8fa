//! Softmax and logsumexp.

use super::*;
use crate::vulkan::kernels::norm::softmax;

fn close(got: f64, want: f64, d: Dtype) -> bool {
    let eps = match d {
        Dtype::F16 => 2e-3,
        Dtype::BF16 => 1e-2,
        _ => 4e-6,
    };
    (got.is_nan() && want.is_nan()) || got == want || (got - want).abs() <= eps * want.abs() + 1e-7
}

#[test]
fn softmax_and_logsumexp_of_short_and_long_rows() {
    if !have_gpu() {
        return;
    }
    let mut cases: Vec<(usize, Layout)> = layouts();
    for n in [1, 3, 8, 64, 100, 1024, 1025, 4096, 8192, 8200, 20_001, 40_003, 70_000] {
        cases.push(((3 * n) as usize, Layout::contiguous(&[3, n])));
    }
    for (total, l) in cases {
        for d in [Dtype::F32, Dtype::F16, Dtype::BF16] {
            let mut rng = Rng(23);
            let n = *l.shape.last().unwrap() as usize;
            let h = Host::new(d, total, l.clone(), |i| match i {
                _ if total == 3 * n && i >= 2 * n => (f64::NEG_INFINITY, 0.0),
                _ => (rng.next() as f64 / (1u64 << 31) as f64 * 20.0 - 15.0, 0.0),
            });
            let lead = &l.shape[..l.ndim() - 1];
            let soft = gpu(d, &l.shape, |enc, out| {
                let src = h.view(enc)?;
                softmax::softmax(enc, &src, out)
            });
            let lse = gpu(d, lead, |enc, out| {
                let src = h.view(enc)?;
                softmax::logsumexp(enc, &src, false, out)
            });
            for (r, row) in h.elements().chunks(n).enumerate() {
                let m = row.iter().fold(f64::NEG_INFINITY, |m, v| m.max(v.0));
                let s: f64 = row.iter().map(|v| (v.0 - m).exp()).sum();
                let want = if m.is_infinite() { m } else { m + s.ln() };
                assert!(close(lse[r].0, want, d), "logsumexp {d} {l:?} row {r}: {}, not {want}", lse[r].0);
                for (i, v) in row.iter().enumerate() {
                    let (got, want) = (soft[r * n + i].0, (v.0 - m).exp() / s);
                    assert!(close(got, want, d), "softmax {d} {l:?} row {r} at {i}: {got}, not {want}");
                }
            }
        }
    }
}
