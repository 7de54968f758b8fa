//! Scans (running sums, products, extrema) along the middle axis of contiguous (outer, n, inner) memory.
//! Halves accumulate in float32, integers wrap in their own type, and NaN stays once it has come. A long scan
//! with little beside it is cut into blocks; where the cuts lie follows from the shape alone, so results do
//! not depend on the number of threads.

use std::marker::PhantomData;
use std::ops::Range;

use num_complex::Complex32;
use smallvec::SmallVec;

use crate::bail;
use crate::core::{Dtype, Result};
use crate::cpu::runtime::elem::{self, Brain, Half, To};
use crate::cpu::runtime::pool::{self, SendPtr};
use crate::cpu::runtime::simd::multiversion;
use crate::kernels::elementwise::scalar_c64::{clogaddexp, cmax, cmin};
use crate::kernels::{HostView, ScanForm, ScanOp};

// Rows that are scanned at once: each waits for its own last result only.
const ROWS: usize = 4;
// Columns that one task scans side by side.
pub(in crate::cpu) const COLUMNS: usize = 256;
// Elements of a block of a scan that is cut, and elements from which on it is.
const BLOCK: usize = 1 << 14;
const LONG: usize = 1 << 17;
// Elements that are worth a task.
pub(in crate::cpu) const GRAIN: usize = 1 << 14;

/// The shape of a scan: `n` steps of `inner` elements, `outer` times.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Shape3 {
    pub outer: usize,
    pub n: usize,
    pub inner: usize,
}

impl Shape3 {
    /// Splits a shape at the scanned axis.
    pub(in crate::cpu) fn new(shape: &[i64], axis: usize) -> Shape3 {
        let product = |s: &[i64]| s.iter().product::<i64>() as usize;
        Shape3 { outer: product(&shape[..axis]), n: shape[axis] as usize, inner: product(&shape[axis + 1..]) }
    }

    /// Groups of columns that are scanned side by side.
    pub(in crate::cpu) fn groups(&self) -> usize {
        self.inner.div_ceil(COLUMNS)
    }

    /// First element and number of columns of a group of one of the outer parts.
    pub(in crate::cpu) fn group(&self, task: usize) -> (usize, usize) {
        let (o, c) = (task / self.groups(), task % self.groups() * COLUMNS);
        (o * self.n * self.inner + c, COLUMNS.min(self.inner - c))
    }
}

/// What is accumulated, and how elements get in and out.
trait Scan: 'static {
    type E: Copy;
    type A: Copy + Send + Sync;
    const IDENTITY: Self::A;
    fn load(x: Self::E) -> Self::A;
    fn store(x: Self::A) -> Self::E;
    fn op(a: Self::A, b: Self::A) -> Self::A;
}

/// An operation on accumulators.
trait Combine<A>: 'static {
    const IDENTITY: A;
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
        Min, $t: <$t>::INFINITY, |a, b| if ((a > b) | (b != b)) & (a == a) { b } else { a };
        Max, $t: <$t>::NEG_INFINITY, |a, b| if ((a < b) | (b != b)) & (a == a) { b } else { a };
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

/// First element of a row in the order of its scan, and its place in the destination.
type Row<S> = (*const <S as Scan>::E, *mut <S as Scan>::E);

/// Scans `R` rows of `n` elements at once.
#[inline(always)]
unsafe fn some_rows<S: Scan, const R: usize>(
    rows: [Row<S>; R],
    n: usize,
    form: ScanForm,
    write: bool,
    run: [S::A; R],
) -> [S::A; R] {
    let step = if form.reverse { -1 } else { 1 };
    let mut run = run;
    for i in 0..n as isize {
        let before = run;
        for r in 0..R {
            // SAFETY: the caller's rows have n elements.
            run[r] = S::op(run[r], S::load(unsafe { *rows[r].0.offset(i * step) }));
        }
        if write {
            for r in 0..R {
                // SAFETY: as above.
                unsafe {
                    *rows[r].1.offset(i * step) = S::store(if form.inclusive { run[r] } else { before[r] })
                };
            }
        }
    }
    run
}

multiversion! {
    /// Scans rows of `n` neighbouring elements on from `run`, one for each row; without `write` only `run` moves.
    ///
    /// # Safety
    /// Sources and, under `write`, destinations have `n` elements in the direction of the scan and do not overlap.
    unsafe fn rows_from<S: Scan>(rows: &[Row<S>], n: usize, form: ScanForm, write: bool, run: &mut [S::A]) {
        // SAFETY: passed on to the caller.
        unsafe {
            match <[Row<S>; ROWS]>::try_from(rows) {
                Ok(rows) => {
                    let start = std::array::from_fn(|r| run[r]);
                    run.copy_from_slice(&some_rows::<S, ROWS>(rows, n, form, write, start));
                }
                Err(_) => {
                    for (row, run) in rows.iter().zip(run) {
                        *run = some_rows::<S, 1>([*row], n, form, write, [*run])[0];
                    }
                }
            }
        }
    }
}

multiversion! {
    /// Scans columns side by side: `n` steps of `stride` elements on from `run`, one for each column; without
    /// `write` only `run` moves.
    ///
    /// # Safety
    /// Source and, under `write`, destination have the elements of `run.len()` columns and do not overlap.
    unsafe fn columns<S: Scan>(
        src: *const S::E, dst: *mut S::E, n: usize, stride: usize, form: ScanForm, write: bool, run: &mut [S::A],
    ) {
        for i in 0..n {
            let at = if form.reverse { n - 1 - i } else { i } * stride;
            // SAFETY: the step lies inside the columns.
            let from = unsafe { std::slice::from_raw_parts(src.add(at), run.len()) };
            if !write {
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

impl<S: Scan> Job<S> {
    /// First element of a part.
    fn start(&self, part: &Part) -> usize {
        let n = self.shape.n;
        part.base + if self.form.reverse { n - part.steps.end } else { part.steps.start } * self.shape.inner
    }

    /// Scans parts of equal length on from their accumulators, or only moves those over them; all but the last of
    /// the parts have COLUMNS (at most the inner length) accumulators.
    fn scan(&self, parts: &[Part], write: bool, run: &mut [S::A]) {
        // SAFETY: parts lie inside both arrays, which are distinct; parts that are written at once are disjoint.
        unsafe {
            if self.shape.inner > 1 {
                let mut rest = run;
                for part in parts {
                    let at = self.start(part);
                    let (run, more) = rest.split_at_mut(part.width);
                    rest = more;
                    let (src, dst) = (self.src.get().add(at), self.dst.get().add(at));
                    columns::<S>(src, dst, part.steps.len(), self.shape.inner, self.form, write, run);
                }
            } else {
                let row = |part: &Part| {
                    let at = self.start(part) + if self.form.reverse { part.steps.len() - 1 } else { 0 };
                    (self.src.get().add(at).cast_const(), self.dst.get().add(at))
                };
                let rows: SmallVec<[Row<S>; ROWS]> = parts.iter().map(row).collect();
                rows_from::<S>(&rows, parts[0].steps.len(), self.form, write, run);
            }
        }
    }
}

fn run<S: Scan>(shape: Shape3, form: ScanForm, src: &HostView, dst: &HostView) {
    let job: Job<S> = Job { shape, form, src: SendPtr::new(src.as_ptr()), dst: SendPtr::new(dst.as_ptr()) };
    let tasks = shape.outer * shape.groups();
    let width = shape.inner.min(COLUMNS);
    let at_once = if width == 1 { ROWS } else { 1 };
    if tasks >= 32 || shape.n * width < LONG {
        return pool::parallel_chunks(
            tasks.div_ceil(at_once),
            GRAIN.div_ceil(shape.n * width * at_once),
            |range| {
                let mut run: SmallVec<[S::A; COLUMNS]> = SmallVec::from_elem(S::IDENTITY, width.max(at_once));
                for few in range {
                    let few = few * at_once..tasks.min((few + 1) * at_once);
                    let part = |task: usize| {
                        let (base, width) = shape.group(task);
                        Part { base, width, steps: 0..shape.n }
                    };
                    let parts: SmallVec<[Part; ROWS]> = few.map(part).collect();
                    let used = if width == 1 { parts.len() } else { parts[0].width };
                    run.fill(S::IDENTITY);
                    job.scan(&parts, true, &mut run[..used]);
                }
            },
        );
    }
    let step = BLOCK / width;
    let blocks = shape.n.div_ceil(step);
    let part = |i: usize| {
        let ((base, width), b) = (shape.group(i / blocks), i % blocks);
        Part { base, width, steps: b * step..shape.n.min((b + 1) * step) }
    };
    let mut starts = vec![S::IDENTITY; tasks * blocks * width];
    let totals = SendPtr::new(starts.as_mut_ptr());
    let pass = |write: bool| {
        pool::parallel_chunks((tasks * blocks).div_ceil(at_once), 1, |range| {
            for few in range {
                let mut few = few * at_once..(tasks * blocks).min((few + 1) * at_once);
                while !few.is_empty() {
                    // The last block of a line may be shorter and goes alone.
                    let mut parts: SmallVec<[Part; ROWS]> = few.clone().map(part).collect();
                    let equal = parts.iter().take_while(|p| p.steps.len() == parts[0].steps.len()).count();
                    parts.truncate(equal);
                    // SAFETY: each part has `width` accumulators of its own; only the last of a line uses fewer.
                    let run = unsafe {
                        let used = (equal - 1) * width + parts[equal - 1].width;
                        std::slice::from_raw_parts_mut(totals.get().add(few.start * width), used)
                    };
                    job.scan(&parts, write, run);
                    few.start += equal;
                }
            }
        });
    };
    pass(false);
    for all in starts.chunks_exact_mut(blocks * width) {
        let mut run: SmallVec<[S::A; COLUMNS]> = SmallVec::from_elem(S::IDENTITY, width);
        for totals in all.chunks_exact_mut(width) {
            for (r, t) in run.iter_mut().zip(totals) {
                *r = S::op(*r, std::mem::replace(t, *r));
            }
        }
    }
    pass(true);
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
