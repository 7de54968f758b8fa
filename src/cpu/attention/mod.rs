//! Attention block by block with a running maximum and sum (Dao et al., FlashAttention-2): no matrix of scores is
//! held. The heads that share keys stand together as rows of one product.

pub mod gated_delta;
pub mod rope;

use gemm::Parallelism;

use super::matmul;
use super::matmul::tiny;
use super::norm::Real;
use super::runtime::elem::{Brain, Half};
use super::runtime::pool::{self, SendPtr};
use super::runtime::simd::multiversion;
use crate::bail;
use crate::core::{Dtype, Result};
use crate::kernels::HostView;
use crate::kernels::elementwise::scalar;

/// Rows of queries and keys of a block.
const ROWS: usize = 64;
const KEYS: usize = 256;
/// Products below which a loop stays on one thread.
const GRAIN: usize = 1 << 15;

/// A matrix of float32: address, row stride, column stride.
#[derive(Clone, Copy)]
struct Mat(*mut f32, isize, isize);

/// `dst (m, n) = a (m, k) @ b (k, n)`, added to what is there with `add`.
///
/// # Safety
/// The matrices are valid for their sizes, and `dst` overlaps none of the others.
unsafe fn product([m, n, k]: [usize; 3], a: Mat, b: Mat, dst: Mat, add: bool) {
    let operand = |m: Mat| matmul::Mat { ptr: m.0 as *const f32, rs: m.1, cs: m.2 };
    if tiny::takes([m, n, k]) {
        let put = |i: usize, sums: &[f32]| {
            for (j, &sum) in sums.iter().enumerate() {
                // SAFETY: the caller's contract.
                unsafe {
                    let to = dst.0.offset(i as isize * dst.1 + j as isize * dst.2);
                    *to = if add { *to + sum } else { sum };
                }
            }
        };
        // SAFETY: the caller's contract.
        return unsafe { tiny::product([m, n, k], operand(a), operand(b), put) };
    }
    let to = (dst.0, dst.1, dst.2);
    // SAFETY: the caller's contract.
    unsafe { matmul::multiply([m, n, k], to, add, operand(a), operand(b), [1.0; 2], Parallelism::None) };
}

/// One axis pair of an operand: base of a (batch, head), strides of rows and features.
#[derive(Clone, Copy)]
struct Operand {
    strides: [isize; 4],
}

impl Operand {
    fn new(v: &HostView) -> Self {
        let mut strides = [0; 4];
        v.strides.iter().zip(&mut strides).for_each(|(&s, o)| *o = s as isize);
        Operand { strides }
    }

    fn at(&self, b: usize, h: usize, row: usize) -> isize {
        b as isize * self.strides[0] + h as isize * self.strides[1] + row as isize * self.strides[2]
    }
}

/// `count` rows as float32: in place where they are that already, else copied to `to`.
///
/// # Safety
/// The rows are valid; `to` has room for count * d.
unsafe fn widened<T: Real>(src: *const T, step: [isize; 2], count: usize, d: usize, to: &mut [f32]) -> Mat {
    if std::any::TypeId::of::<T>() == std::any::TypeId::of::<f32>() {
        return Mat(src as *mut f32, step[0], step[1]);
    }
    for i in 0..count {
        // SAFETY: the caller's contract.
        unsafe {
            let row = src.offset(i as isize * step[0]);
            let out = &mut to[i * d..(i + 1) * d];
            if step[1] == 1 {
                out.iter_mut().zip(std::slice::from_raw_parts(row, d)).for_each(|(o, &x)| *o = x.to());
            } else {
                for (j, o) in out.iter_mut().enumerate() {
                    *o = (*row.offset(j as isize * step[1])).to();
                }
            }
        }
    }
    Mat(to.as_mut_ptr(), d as isize, 1)
}

multiversion! {
    // Turns a row of scores into weights under the new maximum; returns it with the factor for what was summed
    // before, and the sum of the weights.
    unsafe fn weigh<T: Real>(row: &mut [f32], before: f32) -> (f32, f32, f32) {
        let mut lanes = [before; 16];
        let chunks = row.chunks_exact(16);
        let rest = chunks.remainder();
        for c in chunks {
            for j in 0..16 {
                lanes[j] = if c[j] > lanes[j] { c[j] } else { lanes[j] };
            }
        }
        let top = lanes.iter().chain(rest).fold(before, |m, &x| if x > m { x } else { m });
        // A row of -inf so far has no weights; they must not become NaN before the end.
        let base = if top == f32::NEG_INFINITY { 0.0 } else { top };
        let mut sums = [0f32; 16];
        let mut chunks = row.chunks_exact_mut(16);
        for c in chunks.by_ref() {
            for j in 0..16 {
                c[j] = scalar::exp(c[j] - base);
                sums[j] += c[j];
            }
        }
        let mut sum = 0.0;
        for x in chunks.into_remainder() {
            *x = scalar::exp(*x - base);
            sum += *x;
        }
        (top, scalar::exp(before - base), sums.iter().fold(sum, |t, &x| t + x))
    }
}

/// Rows of queries that meet keys and values one by one: too few for a product of matrices.
const FEW: usize = 4;
/// Features of values that are summed together.
const WIDE: usize = 32;

multiversion! {
    // Scores of `rows` queries (float32, contiguous) for `keys` rows of keys that lie `step` apart; lines of `out`
    // are KEYS long.
    unsafe fn scores<T: Real>(q: *const f32, rows: usize, k: *const T, step: isize, keys: usize, d: usize, out: *mut f32) {
        for j in 0..keys {
            // SAFETY: the caller guarantees `keys` rows of d elements, `rows` queries and as many lines.
            unsafe {
                let key = k.offset(j as isize * step);
                for r in 0..rows {
                    let q = q.add(r * d);
                    let mut lanes = [0f32; 16];
                    for i in 0..d / 16 {
                        for l in 0..16 {
                            let x: f32 = (*key.add(i * 16 + l)).to();
                            lanes[l] += *q.add(i * 16 + l) * x;
                        }
                    }
                    for i in d / 16 * 16..d {
                        let x: f32 = (*key.add(i)).to();
                        lanes[i % 16] += *q.add(i) * x;
                    }
                    for half in [8, 4, 2, 1] {
                        for l in 0..half {
                            lanes[l] += lanes[l + half];
                        }
                    }
                    *out.add(r * KEYS + j) = lanes[0];
                }
            }
        }
    }
}

multiversion! {
    // Adds the values of `keys` rows, `step` apart, times the weights of each of `rows` lines to `out`.
    unsafe fn weighted<T: Real>(p: *const f32, rows: usize, v: *const T, step: isize, keys: usize, dv: usize, out: *mut f32) {
        // SAFETY: the caller guarantees `keys` rows of dv elements, lines of weights and `rows` rows of results.
        unsafe {
            for r in 0..rows {
                let (p, out) = (p.add(r * KEYS), out.add(r * dv));
                for from in (0..dv / WIDE * WIDE).step_by(WIDE) {
                    let mut acc = [0f32; WIDE];
                    for j in 0..keys {
                        let (w, v) = (*p.add(j), v.offset(j as isize * step).add(from));
                        for l in 0..WIDE {
                            let x: f32 = (*v.add(l)).to();
                            acc[l] += w * x;
                        }
                    }
                    for l in 0..WIDE {
                        *out.add(from + l) += acc[l];
                    }
                }
                for i in dv / WIDE * WIDE..dv {
                    for j in 0..keys {
                        let x: f32 = (*v.offset(j as isize * step).add(i)).to();
                        *out.add(i) += *p.add(j) * x;
                    }
                }
            }
        }
    }
}

/// The problem, apart from its element type.
struct Job<'a> {
    q: Operand,
    k: Operand,
    v: Operand,
    mask: Option<(&'a HostView, Operand)>,
    sinks: Option<&'a HostView>,
    scale: f32,
    causal: bool,
    /// Batch, heads, key heads, queries, keys, features of keys and of values.
    b: usize,
    h: usize,
    kv: usize,
    l: usize,
    n: usize,
    d: usize,
    dv: usize,
}

impl Job<'_> {
    fn group(&self) -> usize {
        self.h / self.kv
    }

    /// Whether queries meet keys and values where these lie. Only single queries do, so that a prompt read in
    /// pieces is summed as one that is read at once.
    fn few(&self) -> bool {
        self.l == 1 && self.group() <= FEW && self.k.strides[3] == 1 && self.v.strides[3] == 1
    }

    /// Takes out or shifts the scores of one row for keys from `first` on.
    ///
    /// # Safety
    /// The mask is valid for (b, h, q) and these keys.
    unsafe fn masked<T: Real>(&self, row: &mut [f32], b: usize, h: usize, q: usize, first: usize) {
        if self.causal {
            // Keys that are seen: those up to q + n - l.
            let seen = (q + self.n + 1).saturating_sub(self.l).saturating_sub(first).min(row.len());
            row[seen..].fill(f32::MIN);
        }
        let Some((m, o)) = &self.mask else { return };
        let from = o.at(b, h, q) + first as isize * o.strides[3];
        for (i, x) in row.iter_mut().enumerate() {
            let at = from + i as isize * o.strides[3];
            // SAFETY: the caller's contract.
            unsafe {
                if m.dtype == Dtype::Bool {
                    if *m.as_ptr::<u8>().offset(at) == 0 {
                        *x = f32::MIN;
                    }
                } else {
                    *x += (*m.as_ptr::<T>().offset(at)).to();
                }
            }
        }
    }
}

/// Memory of one thread.
struct Scratch {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    scores: Vec<f32>,
    out: Vec<f32>,
}

/// Rows `first..last` of the heads that share key head `kv` of batch `b`; a row is (head of the group, query).
///
/// # Safety
/// The pointers belong to the job's views.
#[allow(clippy::too_many_arguments)]
unsafe fn block<T: Real>(
    job: &Job<'_>,
    b: usize,
    kv: usize,
    first: usize,
    last: usize,
    src: [*const T; 3],
    dst: *mut T,
    mem: &mut Scratch,
) {
    let (rows, d, dv) = (last - first, job.d, job.dv);
    let place = |r: usize| (kv * job.group() + (first + r) / job.l, (first + r) % job.l);
    let (mut top, mut total) = (vec![f32::NEG_INFINITY; rows], vec![0f32; rows]);
    for r in 0..rows {
        let (h, q) = place(r);
        let row = &mut mem.q[r * d..(r + 1) * d];
        for (j, x) in row.iter_mut().enumerate() {
            // SAFETY: inside the view.
            let v: f32 = unsafe { *src[0].offset(job.q.at(b, h, q) + j as isize * job.q.strides[3]) }.to();
            *x = v * job.scale;
        }
        if let Some(s) = job.sinks {
            // SAFETY: one sink a head.
            top[r] = unsafe { *s.as_ptr::<T>().offset(h as isize * s.strides[0] as isize) }.to();
            total[r] = 1.0;
        }
    }
    mem.out[..rows * dv].fill(0.0);
    // Under a causal mask no row sees more keys than the last query; a row that sees none takes all.
    let lowest = (0..rows).map(|r| place(r).1).min().unwrap_or(0);
    let highest = (0..rows).map(|r| place(r).1).max().unwrap_or(0);
    let end = if job.causal && lowest + job.n >= job.l { highest + 1 + job.n - job.l } else { job.n };
    for from in (0..end).step_by(KEYS) {
        let keys = KEYS.min(end - from);
        // SAFETY: blocks lie inside the views and the scratch.
        unsafe {
            let step = |o: &Operand| [o.strides[2], o.strides[3]];
            let (k, v) = (src[1].offset(job.k.at(b, kv, from)), src[2].offset(job.v.at(b, kv, from)));
            let s = Mat(mem.scores.as_mut_ptr(), KEYS as isize, 1);
            if job.few() {
                scores(mem.q.as_ptr(), rows, k, job.k.strides[2], keys, d, s.0);
            } else {
                let k = widened(k, step(&job.k), keys, d, &mut mem.k);
                let q = Mat(mem.q.as_mut_ptr(), d as isize, 1);
                product([rows, keys, d], q, Mat(k.0, k.2, k.1), s, false);
            }
            for r in 0..rows {
                let (h, i) = place(r);
                let row = &mut mem.scores[r * KEYS..r * KEYS + keys];
                job.masked::<T>(row, b, h, i, from);
                let (max, keep, sum) = weigh::<T>(row, top[r]);
                top[r] = max;
                if total[r] != 0.0 {
                    total[r] *= keep;
                    mem.out[r * dv..(r + 1) * dv].iter_mut().for_each(|x| *x *= keep);
                }
                total[r] += sum;
            }
            if job.few() {
                weighted(s.0, rows, v, job.v.strides[2], keys, dv, mem.out.as_mut_ptr());
            } else {
                let v = widened(v, step(&job.v), keys, dv, &mut mem.v);
                product([rows, dv, keys], s, v, Mat(mem.out.as_mut_ptr(), dv as isize, 1), true);
            }
        }
    }
    for r in 0..rows {
        let (h, q) = place(r);
        let scale = 1.0 / total[r];
        for (j, &x) in mem.out[r * dv..(r + 1) * dv].iter().enumerate() {
            // SAFETY: `dst` is contiguous; rows are disjoint.
            unsafe { *dst.add(((b * job.h + h) * job.l + q) * dv + j) = T::of(x * scale) };
        }
    }
}

fn run<T: Real>(job: &Job<'_>, src: [&HostView; 3], dst: &HostView) {
    let rows = job.group() * job.l;
    let blocks = rows.div_ceil(ROWS);
    let from = src.map(|v| SendPtr::new(v.as_ptr::<T>()));
    let to = SendPtr::new(dst.as_ptr::<T>());
    let grain = GRAIN / (rows.min(ROWS) * job.n * (job.d + job.dv)).max(1);
    pool::parallel_chunks(job.b * job.kv * blocks, grain.max(1), |r| {
        let n = rows.min(ROWS);
        let inplace = std::any::TypeId::of::<T>() == std::any::TypeId::of::<f32>() || job.few();
        let wide = if inplace { 0 } else { KEYS };
        let mut mem = Scratch {
            q: vec![0.0; n * job.d],
            k: vec![0.0; wide * job.d],
            v: vec![0.0; wide * job.dv],
            scores: vec![0.0; n * KEYS],
            out: vec![0.0; n * job.dv],
        };
        for i in r {
            let (head, first) = (i / blocks, i % blocks * ROWS);
            let (b, kv, last) = (head / job.kv, head % job.kv, rows.min(first + ROWS));
            // SAFETY: blocks are disjoint; the pointers belong to the views.
            unsafe {
                block::<T>(job, b, kv, first, last, from.map(|p| p.get() as *const T), to.get(), &mut mem)
            };
        }
    });
}

/// Attention of q, k, v (batch, heads, length, features; one dtype of float16, bfloat16, float32) with a mask of
/// the full shape of scores (bool, or the dtype, which is added) and a sink for each head. `dst` is contiguous.
///
/// # Errors
/// Value error for other dtypes.
pub fn attention(
    [q, k, v]: [&HostView; 3],
    mask: Option<&HostView>,
    sinks: Option<&HostView>,
    scale: f32,
    causal: bool,
    dst: &HostView,
) -> Result<()> {
    let size = |v: &HostView, i: usize| v.shape[i] as usize;
    let job = Job {
        q: Operand::new(q),
        k: Operand::new(k),
        v: Operand::new(v),
        mask: mask.map(|m| (m, Operand::new(m))),
        sinks,
        scale,
        causal,
        b: size(q, 0),
        h: size(q, 1),
        kv: size(k, 1),
        l: size(q, 2),
        n: size(k, 2),
        d: size(q, 3),
        dv: size(v, 3),
    };
    match q.dtype {
        Dtype::F16 => run::<Half>(&job, [q, k, v], dst),
        Dtype::BF16 => run::<Brain>(&job, [q, k, v], dst),
        Dtype::F32 => run::<f32>(&job, [q, k, v], dst),
        d => bail!(Value, "[scaled_dot_product_attention] Expected a 16- or 32-bit float, got {d}."),
    }
    Ok(())
}
