//! Gathers of rows.

use super::*;
use crate::kernels::index::indexed::Walk;
use crate::vulkan::kernels::index::gather;

#[test]
fn gather_copies_rows_of_any_layout() {
    if !have_gpu() {
        return;
    }
    let mut cases = layouts();
    cases.push((50 * 1024, Layout::contiguous(&[50, 1024])));
    for (total, l) in cases {
        for (d, id) in [
            (Dtype::F32, Dtype::I32),
            (Dtype::Bool, Dtype::U8),
            (Dtype::BF16, Dtype::I64),
            (Dtype::C64, Dtype::U32),
            (Dtype::U8, Dtype::I8),
            (Dtype::I64, Dtype::U64),
            (Dtype::F16, Dtype::I16),
            (Dtype::F32, Dtype::U16),
        ] {
            let mut rng = Rng(41);
            let h = Host::new(d, total, l.clone(), |_| sample(ReduceOp::Sum, d, &mut rng));
            for axis in 0..l.ndim() {
                let len = l.shape[axis];
                let signed = id.kind() == crate::core::Kind::Signed;
                let idx = Host::new(id, 12, layout(&[3, 2], &[2, -1], 5), |i| {
                    let v = (i as i64 * 7) % len;
                    ((if signed && i % 3 == 0 { v - len } else { v }).clamp(-128, 127) as f64, 0.0)
                });
                let mut shape = l.shape.to_vec();
                shape.splice(axis..=axis, [3, 2]);
                let got = gpu(d, &shape, |enc, out| {
                    let (s, i) = (h.view(enc)?, idx.view(enc)?);
                    let index = (&i.shape[..], &i.strides[..]);
                    let base = (&s.shape[..], &s.strides[..]);
                    let walk = Walk::outer(base, &out.strides, index, &[index.1], &[axis], &[None], axis);
                    gather::gather(enc, &walk, &s, std::slice::from_ref(&i), out)
                });
                for (o, got) in indices(&shape).iter().zip(got) {
                    let i = idx.at(&o[axis..axis + 2]).0 as i64;
                    let mut full = o.clone();
                    full.splice(axis..axis + 2, [if i < 0 { i + len } else { i }]);
                    assert!(
                        same(got, h.at(&full)),
                        "gather {d} by {id} {l:?} axis {axis} at {o:?}: {got:?}, index {i}"
                    );
                }
            }
        }
    }
}
