//! Scans (running sums, products, extrema) along the middle axis of contiguous (outer, n, inner) memory.
//! Halves accumulate in float32, integers wrap in their own type, and NaN stays once it has come. A long scan
//! with little beside it is cut into blocks; where the cuts lie follows from the shape alone, so results do
//! not depend on the number of threads.

use std::marker::PhantomData;
use std::ops::Range;

use num_complex::Complex32;

use super::elem::{self, Brain, Half, To};
use super::pool::{self, SendPtr};
use super::simd::multiversion;
use crate::bail;
use crate::core::{Dtype, Result};
use crate::kernels::scalar_wide::{clogaddexp, cmax, cmin};
use crate::kernels::{HostView, ScanForm, ScanOp};

// Elements that a row scan holds at once in the accumulator's type.
const CHUNK: usize = 128;
// Columns that one task scans side by side.
pub(super) const COLUMNS: usize = 256;
// Elements of a block of a scan that is cut, and elements from which on it is.
const BLOCK: usize = 1 << 15;
const LONG: usize = 1 << 17;
// Elements that are worth a task.
pub(super) const GRAIN: usize = 1 << 14;

/// The shape of a scan: `n` steps of `inner` elements, `outer` times.
#[derive(Clone, Copy)]
pub(super) struct Shape3 {
    pub outer: usize,
    pub n: usize,
    pub inner: usize,
}

impl Shape3 {
    /// Splits a shape at the scanned axis.
    pub(super) fn new(shape: &[i64], axis: usize) -> Shape3 {
        let product = |s: &[i64]| s.iter().product::<i64>() as usize;
        Shape3 { outer: product(&shape[..axis]), n: shape[axis] as usize, inner: product(&shape[axis + 1..]) }
    }

    /// Groups of columns that are scanned side by side.
    pub(super) fn groups(&self) -> usize {
        self.inner.div_ceil(COLUMNS)
    }

    /// First element and number of columns of a group of one of the outer parts.
    pub(super) fn group(&self, task: usize) -> (usize, usize) {
        let (o, c) = (task / self.groups(), task % self.groups() * COLUMNS);
        (o * self.n * self.inner + c, COLUMNS.min(self.inner - c))
    }
}

/// What is accumulated, and how elements get in and out.
trait Scan: 'static {
    type E: Copy;
    type A: Copy + Send + Sync;
    const IDENTITY: Self::A;
    /// Whether neighbours may be combined before the running result joins them.
    const GROUPED: bool;
    fn load(x: Self::E) -> Self::A;
    fn store(x: Self::A) -> Self::E;
    fn op(a: Self::A, b: Self::A) -> Self::A;
}

/// An operation on accumulators.
trait Combine<A>: 'static {
    const IDENTITY: A;
    const GROUPED: bool = true;
    fn op(a: A, b: A) -> A;
}

struct Of<E, A, O>(PhantomData<(E, A, O)>);

impl<E, A, O> Scan for Of<E, A, O>
where
    E: Copy + To<A> + 'static,
    A: Copy + To<E> + Send + Sync + 'static,
    O: Combine<A>,
{
    type E = E;
    type A = A;
    const IDENTITY: A = O::IDENTITY;
    const GROUPED: bool = O::GROUPED;
    #[inline(always)]
    fn load(x: E) -> A {
        x.to()
    }
    #[inline(always)]
    fn store(x: A) -> E {
        x.to()
    }
    #[inline(always)]
    fn op(a: A, b: A) -> A {
        O::op(a, b)
    }
}

struct Sum;
struct Prod;
struct Min;
struct Max;
struct LogAdd;

macro_rules! combine {
    ($($o:ty, $t:ty: $id:expr, |$a:ident, $b:ident| $e:expr;)*) => { $(
        impl Combine<$t> for $o {
            const IDENTITY: $t = $id;
            #[inline(always)]
            fn op($a: $t, $b: $t) -> $t { $e }
        }
    )* };
}
macro_rules! integers {
    ($($t:ty),*) => { $(combine! {
        Sum, $t: 0, |a, b| a.wrapping_add(b);
        Prod, $t: 1, |a, b| a.wrapping_mul(b);
        Min, $t: <$t>::MAX, |a, b| a.min(b);
        Max, $t: <$t>::MIN, |a, b| a.max(b);
    })* };
}
// The first of equal elements stays, and the first NaN.
macro_rules! floats {
    ($($t:ty),*) => { $(combine! {
        Sum, $t: 0.0, |a, b| a + b;
        Prod, $t: 1.0, |a, b| a * b;
        Min, $t: <$t>::INFINITY, |a, b| if !(a <= b) & (a == a) { b } else { a };
        Max, $t: <$t>::NEG_INFINITY, |a, b| if !(a >= b) & (a == a) { b } else { a };
    })* };
}
integers!(u8, u16, u32, u64, i8, i16, i32, i64);
floats!(f32, f64);
const INF: f32 = f32::INFINITY;
combine! {
    Sum, Complex32: Complex32::new(0.0, 0.0), |a, b| a + b;
    Prod, Complex32: Complex32::new(1.0, 0.0), |a, b| a * b;
    Min, Complex32: Complex32::new(INF, INF), |a, b| cmin(a, b);
    Max, Complex32: Complex32::new(-INF, -INF), |a, b| cmax(a, b);
}
impl Combine<Complex32> for LogAdd {
    const IDENTITY: Complex32 = Complex32::new(-INF, 0.0);
    const GROUPED: bool = false;
    #[inline(always)]
    fn op(a: Complex32, b: Complex32) -> Complex32 {
        clogaddexp(a, b)
    }
}

/// Part of a scan: steps of one group of columns, in the order of the scan.
struct Part {
    /// First element of the group.
    base: usize,
    width: usize,
    steps: Range<usize>,
}

struct Job<S: Scan> {
    shape: Shape3,
    form: ScanForm,
    src: SendPtr<S::E>,
    dst: SendPtr<S::E>,
}

/// Running results of eight neighbours among themselves.
#[inline(always)]
fn group_of_eight<S: Scan>(x: &mut [S::A; 8]) {
    for shift in [1, 2, 4] {
        let y = *x;
        for i in shift..8 {
            x[i] = S::op(y[i - shift], y[i]);
        }
    }
}

multiversion! {
    /// Scans `n` neighbouring elements on from `run`; a null destination only moves `run`.
    ///
    /// # Safety
    /// `src` has `n` elements, and so has `dst` unless it is null; they do not overlap.
    unsafe fn row<S: Scan>(src: *const S::E, dst: *mut S::E, n: usize, form: ScanForm, run: &mut S::A) {
        let mut buf = [S::IDENTITY; CHUNK];
        let mut at = 0;
        while at < n {
            let m = CHUNK.min(n - at);
            // SAFETY: at + m <= n throughout.
            let from = unsafe { src.add(if form.reverse { n - at - m } else { at }) };
            for i in 0..m {
                // SAFETY: as above.
                buf[i] = S::load(unsafe { *from.add(if form.reverse { m - 1 - i } else { i }) });
            }
            let before = *run;
            if S::GROUPED {
                buf[m..m.next_multiple_of(8)].fill(S::IDENTITY);
                for eight in buf[..m.next_multiple_of(8)].chunks_exact_mut(8) {
                    let x: &mut [S::A; 8] = eight.try_into().expect("chunks of eight");
                    group_of_eight::<S>(x);
                    let total = x[7];
                    for v in x.iter_mut() {
                        *v = S::op(*run, *v);
                    }
                    *run = S::op(*run, total);
                }
            } else {
                for x in &mut buf[..m] {
                    *x = S::op(*run, *x);
                    *run = *x;
                }
            }
            if !dst.is_null() {
                // SAFETY: as above.
                let to = unsafe { dst.add(if form.reverse { n - at - m } else { at }) };
                let place = |i: usize| if form.reverse { m - 1 - i } else { i };
                if form.inclusive {
                    for i in 0..m {
                        // SAFETY: as above.
                        unsafe { *to.add(place(i)) = S::store(buf[i]) };
                    }
                } else {
                    // SAFETY: as above.
                    unsafe { *to.add(place(0)) = S::store(before) };
                    for i in 1..m {
                        // SAFETY: as above.
                        unsafe { *to.add(place(i)) = S::store(buf[i - 1]) };
                    }
                }
            }
            at += m;
        }
    }
}

multiversion! {
    /// Scans columns side by side: `n` steps of `stride` elements on from `run`, one for each column. A null
    /// destination only moves `run`.
    ///
    /// # Safety
    /// `src` has the elements of `run.len()` columns, and so has `dst` unless it is null; no overlap.
    unsafe fn columns<S: Scan>(
        src: *const S::E, dst: *mut S::E, n: usize, stride: usize, form: ScanForm, run: &mut [S::A],
    ) {
        for i in 0..n {
            let at = if form.reverse { n - 1 - i } else { i } * stride;
            // SAFETY: the step lies inside the columns.
            let from = unsafe { std::slice::from_raw_parts(src.add(at), run.len()) };
            if dst.is_null() {
                for (r, &x) in run.iter_mut().zip(from) {
                    *r = S::op(*r, S::load(x));
                }
                continue;
            }
            // SAFETY: as above.
            let to = unsafe { std::slice::from_raw_parts_mut(dst.add(at), run.len()) };
            if form.inclusive {
                for ((r, &x), y) in run.iter_mut().zip(from).zip(to) {
                    *r = S::op(*r, S::load(x));
                    *y = S::store(*r);
                }
            } else {
                for ((r, &x), y) in run.iter_mut().zip(from).zip(to) {
                    let before = *r;
                    *r = S::op(before, S::load(x));
                    *y = S::store(before);
                }
            }
        }
    }
}

/// Scans a part on from `run`, or only moves `run` over it.
fn scan_part<S: Scan>(job: &Job<S>, part: &Part, write: bool, run: &mut [S::A]) {
    let (n, stride) = (part.steps.len(), job.shape.inner);
    let first = if job.form.reverse { job.shape.n - part.steps.end } else { part.steps.start };
    let at = part.base + first * stride;
    // SAFETY: parts lie inside both arrays, which are distinct; parts written at once are disjoint.
    unsafe {
        let src = job.src.get().add(at);
        let dst = if write { job.dst.get().add(at) } else { std::ptr::null_mut() };
        if stride == 1 {
            row::<S>(src, dst, n, job.form, &mut run[0]);
        } else {
            columns::<S>(src, dst, n, stride, job.form, run);
        }
    }
}

fn run<S: Scan>(shape: Shape3, form: ScanForm, src: &HostView, dst: &HostView) {
    let job: Job<S> = Job { shape, form, src: SendPtr::new(src.as_ptr()), dst: SendPtr::new(dst.as_ptr()) };
    let tasks = shape.outer * shape.groups();
    let width = shape.inner.min(COLUMNS);
    let fresh = || [S::IDENTITY; COLUMNS];
    if tasks >= 32 || shape.n * width < LONG {
        return pool::parallel_chunks(tasks, GRAIN.div_ceil(shape.n * width), |range| {
            for task in range {
                let (base, width) = shape.group(task);
                let part = Part { base, width, steps: 0..shape.n };
                scan_part(&job, &part, true, &mut fresh()[..width]);
            }
        });
    }
    let step = BLOCK / width;
    let blocks = shape.n.div_ceil(step);
    let part = |i: usize| {
        let ((base, width), b) = (shape.group(i / blocks), i % blocks);
        Part { base, width, steps: b * step..shape.n.min((b + 1) * step) }
    };
    let mut starts = vec![S::IDENTITY; tasks * blocks * width];
    let totals = SendPtr::new(starts.as_mut_ptr());
    // SAFETY: each part has `width` accumulators of its own.
    let slot = |i: usize| unsafe { std::slice::from_raw_parts_mut(totals.get().add(i * width), width) };
    pool::parallel_chunks(tasks * blocks, 1, |range| {
        range.for_each(|i| {
            let part = part(i);
            scan_part(&job, &part, false, &mut slot(i)[..part.width]);
        });
    });
    for all in starts.chunks_exact_mut(blocks * width) {
        let mut run = fresh();
        for totals in all.chunks_exact_mut(width) {
            for (r, t) in run.iter_mut().zip(totals) {
                *r = S::op(*r, std::mem::replace(t, *r));
            }
        }
    }
    pool::parallel_chunks(tasks * blocks, 1, |range| {
        range.for_each(|i| {
            let part = part(i);
            scan_part(&job, &part, true, &mut slot(i)[..part.width]);
        });
    });
}

/// Scans `src` along `axis` into `dst`; both row-major without gaps, of one shape and dtype, and distinct.
pub fn scan(op: ScanOp, form: ScanForm, src: &HostView, axis: usize, dst: &HostView) -> Result<()> {
    use Dtype::*;
    if dst.shape != src.shape || dst.dtype != src.dtype || axis >= src.ndim() {
        bail!(Value, "[scan] Expected an output of the input's shape and dtype, got {}.", dst.dtype);
    }
    if !src.is_row_contiguous() || !dst.is_row_contiguous() {
        bail!(Value, "[scan] Expected arrays without gaps.");
    }
    if src.size() == 0 {
        return Ok(());
    }
    let shape = Shape3::new(&src.shape, axis);
    macro_rules! all {
        ($o:ty, $($d:pat => $e:ty, $a:ty;)*) => {
            match src.dtype {
                $($d => run::<Of<$e, $a, $o>>(shape, form, src, dst),)*
                #[allow(unreachable_patterns)]
                d => bail!(Value, "[scan] {op:?} of {d} is not supported."),
            }
        };
    }
    // Sums and products of signed integers have the bits of those of unsigned ones.
    macro_rules! arithmetic {
        ($o:ty) => {
            all! { $o, U8 | I8 => u8, u8; U16 | I16 => u16, u16; U32 | I32 => u32, u32; U64 | I64 => u64, u64;
            F16 => Half, f32; BF16 => Brain, f32; F32 => f32, f32; F64 => f64, f64;
            C64 => Complex32, Complex32; }
        };
    }
    macro_rules! ordered {
        ($o:ty) => {
            all! { $o, U8 => u8, u8; U16 => u16, u16; U32 => u32, u32; U64 => u64, u64;
            I8 => i8, i8; I16 => i16, i16; I32 => i32, i32; I64 => i64, i64;
            F16 => Half, f32; BF16 => Brain, f32; F32 => f32, f32; F64 => f64, f64;
            C64 => Complex32, Complex32; }
        };
    }
    match (op, src.dtype) {
        // The product of bools is their minimum; both have true as the identity.
        (ScanOp::Prod | ScanOp::Min, Bool) => run::<Of<elem::Bool, u8, Prod>>(shape, form, src, dst),
        (ScanOp::Max, Bool) => run::<Of<elem::Bool, u8, Max>>(shape, form, src, dst),
        (ScanOp::Sum, _) => arithmetic!(Sum),
        (ScanOp::Prod, _) => arithmetic!(Prod),
        (ScanOp::Min, _) => ordered!(Min),
        (ScanOp::Max, _) => ordered!(Max),
        (ScanOp::LogAddExp, C64) => run::<Of<Complex32, Complex32, LogAdd>>(shape, form, src, dst),
        (ScanOp::LogAddExp, _) => super::scan_log::logcumsumexp(shape, form, src, dst)?,
    }
    Ok(())
}
