//! Sorts: order, stability and NaN.

use super::*;
use crate::vulkan::kernels::sort;

#[test]
fn sort_and_argsort_are_stable_with_nan_last() {
    if !have_gpu() {
        return;
    }
    let mut cases = layouts();
    for n in [2i64, 31, 256, 257, 2048, 2049, 4096, 5000, 20_000] {
        cases.push(((2 * n) as usize, Layout::contiguous(&[2, n])));
    }
    cases.push((5000 * 3, Layout::contiguous(&[5000, 3])));
    for (total, l) in cases {
        for d in [Dtype::F32, Dtype::I64] {
            check_sort(d, total, &l);
        }
    }
    for d in REAL.into_iter().chain([Dtype::C64]) {
        check_sort(d, 3 * 700, &Layout::contiguous(&[3, 700]));
        check_sort(d, 2 * 5000, &Layout::contiguous(&[2, 5000]));
    }
}

fn check_sort(d: Dtype, total: usize, l: &Layout) {
    let mut rng = Rng(31);
    let h = Host::new(d, total, l.clone(), |i| {
        let v = sample(ReduceOp::Max, d, &mut rng);
        let r = rng.next();
        if d.is_inexact() && i % 37 == 5 {
            (f64::NAN, 0.0)
        } else if d.size() >= 4 && r.is_multiple_of(2) {
            (v.0 * (r % 100_000) as f64 * if d == Dtype::I64 { 1e9 } else { 1.0 }, v.1)
        } else {
            v
        }
    });
    for axis in 0..l.ndim() {
        let sorted = gpu(d, &l.shape, |enc, out| {
            let src = h.view(enc)?;
            sort::sort(enc, &src, axis, out)
        });
        let order = gpu(Dtype::U32, &l.shape, |enc, out| {
            let src = h.view(enc)?;
            sort::argsort(enc, &src, axis, out)
        });
        let mut lead = l.shape.to_vec();
        let n = lead.remove(axis);
        let step = row_major(&l.shape);
        for o in indices(&lead) {
            let mut full = o.clone();
            full.insert(axis, 0);
            let base: i64 = full.iter().zip(&step).map(|(i, s)| i * s).sum();
            let row: Vec<C> = (0..n)
                .map(|i| {
                    full[axis] = i;
                    h.at(&full)
                })
                .collect();
            let mut want: Vec<usize> = (0..n as usize).collect();
            let nan = |c: C| c.0.is_nan() || c.1.is_nan();
            // INVARIANT: NaN is handled before the comparison.
            want.sort_by(|&a, &b| {
                nan(row[a]).cmp(&nan(row[b])).then_with(|| {
                    if nan(row[a]) {
                        std::cmp::Ordering::Equal
                    } else {
                        row[a].partial_cmp(&row[b]).expect("ordered")
                    }
                })
            });
            for i in 0..n as usize {
                let at = (base + i as i64 * step[axis]) as usize;
                assert_eq!(order[at].0, want[i] as f64, "argsort {d} {l:?} axis {axis} row {o:?} at {i}");
                assert!(same(sorted[at], row[want[i]]), "sort {d} {l:?} axis {axis} row {o:?} at {i}");
            }
        }
    }
}
