//! Values of the hand-written kernels against plain host loops, over dtypes and layouts, on whichever
//! adapter exists. Elements are compared as complex float64; inputs are chosen so that sums are exact.

use std::sync::Arc;

use half::{bf16, f16};

use super::index::gather;
use super::norm::softmax;
use super::{random, reduce, sort};
use crate::core::layout::{row_major, size_of};
use crate::core::{Device, Dtype, Layout, Result, Storage, device};
use crate::kernels::index::indexed::Walk;
use crate::kernels::{ArgReduceOp, DeviceView, ReduceOp};
use crate::vulkan::{CommandEncoder, with_encoder};

type C = (f64, f64);

const REAL: [Dtype; 12] = {
    use Dtype::*;
    [Bool, U8, U16, U32, U64, I8, I16, I32, I64, F16, BF16, F32]
};

struct Rng(u64);
impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }
}

/// An array on the host with a layout into its bytes.
struct Host {
    dtype: Dtype,
    layout: Layout,
    values: Vec<C>,
    storage: Arc<Storage>,
}

fn encode(d: Dtype, (re, im): C, out: &mut Vec<u8>) {
    let i = re as i128;
    match d {
        Dtype::Bool => out.push((re != 0.0) as u8),
        Dtype::U8 | Dtype::I8 => out.push(i as u8),
        Dtype::U16 | Dtype::I16 => out.extend((i as u16).to_ne_bytes()),
        Dtype::U32 | Dtype::I32 => out.extend((i as u32).to_ne_bytes()),
        Dtype::U64 | Dtype::I64 => out.extend((i as u64).to_ne_bytes()),
        Dtype::F16 => out.extend(f16::from_f64(re).to_ne_bytes()),
        Dtype::BF16 => out.extend(bf16::from_f64(re).to_ne_bytes()),
        Dtype::F32 => out.extend((re as f32).to_ne_bytes()),
        Dtype::F64 => out.extend(re.to_ne_bytes()),
        Dtype::C64 => [re, im].iter().for_each(|x| out.extend((*x as f32).to_ne_bytes())),
    }
}

fn decode(d: Dtype, b: &[u8]) -> C {
    // INVARIANT: every chunk has the dtype's size.
    macro_rules! get {
        ($t:ty, $at:expr) => {
            <$t>::from_ne_bytes(b[$at..$at + size_of::<$t>()].try_into().expect("size"))
        };
    }
    use std::mem::size_of;
    let re = match d {
        Dtype::Bool | Dtype::U8 => b[0] as f64,
        Dtype::I8 => b[0] as i8 as f64,
        Dtype::U16 => get!(u16, 0) as f64,
        Dtype::I16 => get!(i16, 0) as f64,
        Dtype::U32 => get!(u32, 0) as f64,
        Dtype::I32 => get!(i32, 0) as f64,
        Dtype::U64 => get!(u64, 0) as f64,
        Dtype::I64 => get!(i64, 0) as f64,
        Dtype::F16 => get!(f16, 0).to_f64(),
        Dtype::BF16 => get!(bf16, 0).to_f64(),
        Dtype::F32 => get!(f32, 0) as f64,
        Dtype::F64 => get!(f64, 0),
        Dtype::C64 => return (get!(f32, 0) as f64, get!(f32, 4) as f64),
    };
    (re, 0.0)
}

fn round(d: Dtype, v: C) -> C {
    let mut b = Vec::new();
    encode(d, v, &mut b);
    decode(d, &b)
}

impl Host {
    /// `total` elements of storage filled by `f`, seen through `layout`.
    fn new(dtype: Dtype, total: usize, layout: Layout, mut f: impl FnMut(usize) -> C) -> Host {
        let mut bytes = Vec::new();
        let values: Vec<C> = (0..total)
            .map(|i| {
                let v = round(dtype, f(i));
                encode(dtype, v, &mut bytes);
                v
            })
            .collect();
        let storage = crate::memory::host_storage(bytes.len().max(1)).unwrap();
        // SAFETY: the storage is fresh and holds as many bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), storage.host_ptr_mut().unwrap(), bytes.len())
        };
        Host { dtype, layout, values, storage }
    }

    fn view(&self, enc: &mut CommandEncoder) -> Result<DeviceView> {
        let base = enc.resident(&self.storage)?;
        let ptr = base.wrapping_add_signed(self.layout.offset * self.dtype.size() as i64);
        Ok(DeviceView::new(ptr, self.dtype, &self.layout))
    }

    /// Elements in row-major order.
    fn elements(&self) -> Vec<C> {
        indices(&self.layout.shape).iter().map(|i| self.at(i)).collect()
    }

    fn at(&self, index: &[i64]) -> C {
        let off: i64 = index.iter().zip(&self.layout.strides).map(|(i, s)| i * s).sum();
        self.values[(self.layout.offset + off) as usize]
    }
}

fn indices(shape: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    for &d in shape {
        all = all.iter().flat_map(|p| (0..d).map(move |i| [&p[..], &[i]].concat())).collect();
    }
    all
}

/// Runs `f` on a GPU stream and returns the elements that it wrote into a contiguous array.
fn gpu(
    dtype: Dtype,
    shape: &[i64],
    f: impl FnOnce(&mut CommandEncoder, &DeviceView) -> Result<()>,
) -> Vec<C> {
    let n = size_of(shape) * dtype.size();
    let stream = device::default_stream(Device::GPU);
    let storage = with_encoder(stream, |enc| {
        let (storage, address) = enc.output(n.max(1))?;
        f(enc, &DeviceView::new(address, dtype, &Layout::contiguous(shape)))?;
        Ok(storage)
    })
    .unwrap();
    let p = storage.host_ptr().unwrap();
    // SAFETY: the storage holds n bytes.
    let bytes = unsafe { std::slice::from_raw_parts(p, n) };
    bytes.chunks(dtype.size()).map(|b| decode(dtype, b)).collect()
}

fn have_gpu() -> bool {
    !crate::vulkan::adapters().is_empty()
}

fn layout(shape: &[i64], strides: &[i64], offset: i64) -> Layout {
    Layout { shape: shape.into(), strides: strides.into(), offset }
}

/// (storage elements, layout) pairs: contiguous, permuted, negative, strided, broadcast, offset, tiny.
fn layouts() -> Vec<(usize, Layout)> {
    let perm = |shape: &[i64], axes: &[usize]| {
        let s = row_major(shape);
        let l = layout(
            &axes.iter().map(|&a| shape[a]).collect::<Vec<_>>(),
            &axes.iter().map(|&a| s[a]).collect::<Vec<_>>(),
            0,
        );
        (size_of(shape), l)
    };
    vec![
        (33, Layout::contiguous(&[33])),
        (1, Layout::contiguous(&[1])),
        (3 * 40 * 64, Layout::contiguous(&[3, 40, 64])),
        (3 * 4 * 5 * 6, Layout::contiguous(&[3, 4, 5, 6])),
        perm(&[3, 4, 5, 6], &[2, 0, 3, 1]),
        perm(&[6, 5, 4], &[2, 1, 0]),
        (7 * 33, layout(&[7, 33], &[33, -1], 32)),
        (7 * 33, layout(&[7, 33], &[-33, 1], 6 * 33)),
        (8 * 40, layout(&[4, 20], &[80, 2], 1)),
        (33, layout(&[5, 33], &[0, 1], 0)),
        (9, layout(&[9, 6], &[1, 0], 0)),
        (1 + 6 * 35, layout(&[6, 35], &[35, 1], 1)),
    ]
}

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

fn same(a: C, b: C) -> bool {
    let nan = |c: C| c.0.is_nan() || c.1.is_nan();
    a == b || (nan(a) && nan(b))
}

fn sample(op: ReduceOp, d: Dtype, rng: &mut Rng) -> C {
    let r = rng.next();
    match op {
        ReduceOp::Prod if !r.is_multiple_of(16) => {
            ([1.0, if d.is_inexact() { -1.0 } else { 1.0 }][(r >> 8) as usize & 1], 0.0)
        }
        ReduceOp::Prod => (1.0 + (r >> 8 & 1) as f64, 0.0),
        ReduceOp::All => (!r.is_multiple_of(40) as u8 as f64, 0.0),
        ReduceOp::Any => (r.is_multiple_of(40) as u8 as f64, 0.0),
        _ => (
            (r % 9) as f64 - if d.is_inexact() || d.kind() == crate::core::Kind::Signed { 4.0 } else { 0.0 },
            { if d == Dtype::C64 { (r >> 8 & 3) as f64 } else { 0.0 } },
        ),
    }
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
    for n in [1, 3, 8, 64, 100, 1024, 1025, 4096, 8192, 8200, 20_001] {
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

/// Threefry-2x32, 20 rounds.
fn threefry(key: [u32; 2], count: [u32; 2]) -> [u32; 2] {
    let ks = [key[0], key[1], key[0] ^ key[1] ^ 0x1BD1_1BDA];
    let (mut a, mut b) = (count[0].wrapping_add(ks[0]), count[1].wrapping_add(ks[1]));
    for i in 0..5u32 {
        for r in [[13, 15, 26, 6], [17, 29, 16, 24]][i as usize % 2] {
            a = a.wrapping_add(b);
            b = b.rotate_left(r) ^ a;
        }
        a = a.wrapping_add(ks[(i as usize + 1) % 3]);
        b = b.wrapping_add(ks[(i as usize + 2) % 3]).wrapping_add(i + 1);
    }
    [a, b]
}

fn expected_bits(key: [u32; 2], bytes: usize) -> Vec<u8> {
    let words = bytes.div_ceil(4);
    let (half, odd) = (words / 2, words % 2);
    let mut w = vec![0u32; words];
    for c in 0..half + odd {
        let last = c == half;
        let r = threefry(key, [c as u32, if last { 0 } else { (c + half + odd) as u32 }]);
        w[c] = r[0];
        if !last {
            w[c + half + odd] = r[1];
        }
    }
    w.iter().flat_map(|w| w.to_le_bytes()).take(bytes).collect()
}

#[test]
fn random_bits_are_those_of_mlx() {
    if !have_gpu() {
        return;
    }
    // mx.random.split(mx.random.key(7), 3) of MLX 0.32.
    let known = [0x107b9334u32, 0x33609431, 0x71979c42, 0x61dcd604, 0xace8297e, 0x539bb5ac];
    let key = Host::new(Dtype::U32, 2, Layout::contiguous(&[2]), |i| ([0.0, 7.0][i], 0.0));
    let got = gpu(Dtype::U32, &[3, 2], |enc, out| {
        let k = key.view(enc)?;
        random::bits(enc, &k, out)
    });
    assert_eq!(got.iter().map(|v| v.0 as u32).collect::<Vec<_>>(), known);
    for num in [1i64, 3] {
        let keys = Host::new(Dtype::U32, 2 * num as usize + 1, layout(&[num, 2], &[1, num], 1), |i| {
            ((i * 2654435761 % 4294967296) as f64, 0.0)
        });
        for d in [Dtype::U8, Dtype::U16, Dtype::U32] {
            for n in [1i64, 2, 3, 4, 5, 7, 16, 31, 33, 64, 1000, 4096, 4099] {
                let got = gpu(d, &[num, n], |enc, out| {
                    let k = keys.view(enc)?;
                    random::bits(enc, &k, out)
                });
                let mut want = Vec::new();
                for k in 0..num {
                    let key = [keys.at(&[k, 0]).0 as u32, keys.at(&[k, 1]).0 as u32];
                    let bytes = expected_bits(key, n as usize * d.size());
                    want.extend(bytes.chunks(d.size()).map(|b| decode(d, b)));
                }
                assert_eq!(got, want, "{num} keys, {n} x {d}");
            }
        }
    }
}

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
