//! Batched matrix products on the host, through the `gemm` crate: float32, float64 and complex64 with any
//! strides in place, float16 and bfloat16 through float32 panels that are converted once a block and rounded
//! once. Many small products run in parallel with each other, large ones inside; a single row or column
//! takes the loops of `gemv`. Sums do not depend on the number of threads there.

pub mod gather_mm;
pub(super) mod gemv;
#[cfg(target_arch = "x86_64")]
pub(super) mod tiles;
pub(super) mod tiny;
mod turned;

use std::sync::atomic::{AtomicBool, Ordering};

use gemm::Parallelism;
use num_complex::Complex32;
use smallvec::SmallVec;

use super::runtime::elem::{Brain, Half, To};
use super::runtime::pool::{self, SendPtr, parallel_chunks};
use super::runtime::simd::multiversion;
use crate::bail;
use crate::core::fork::Shared;
use crate::core::layout::{collapse, show};
use crate::core::{Dtype, Result};
use crate::kernels::HostView;
use crate::memory::host_block;

/// `dst = a @ b` over the last two axes; batch axes are already broadcast through strides.
/// dtypes float16, bfloat16, float32, float64, complex64; `dst` is row-major contiguous.
pub fn matmul(a: &HostView, b: &HostView, dst: &HostView) -> Result<()> {
    dispatch(None, a, b, dst, 1.0, 0.0)
}

/// `dst = alpha * (a @ b) + beta * c`; `c` has the shape of `dst`, with any strides. With `beta` zero `c`
/// is not read.
pub fn addmm(c: &HostView, a: &HostView, b: &HostView, dst: &HostView, alpha: f32, beta: f32) -> Result<()> {
    dispatch(Some(c), a, b, dst, alpha, beta)
}

pub(crate) static MEASURED: Shared<()> = Shared::new(|| ());

/// Before the first product: lets `gemm` measure the caches, which it does once for the process, under a lock of ours
/// that a fork waits for. Otherwise a child forked meanwhile would wait for a thread that it does not have.
fn ready() {
    static READY: AtomicBool = AtomicBool::new(false);
    if READY.load(Ordering::Acquire) {
        return;
    }
    let _held = MEASURED.lock();
    const N: usize = 32;
    let (one, n) = ([1f32; N * N], N as isize);
    let mut product = [0f32; N * N];
    let (a, d) = (one.as_ptr(), product.as_mut_ptr());
    let par = Parallelism::None;
    // SAFETY: three matrices of N x N elements, the written one apart from the others.
    unsafe { gemm::gemm(N, N, N, d, 1, n, false, a, 1, n, a, 1, n, 0.0, 1.0, false, false, false, par) };
    READY.store(true, Ordering::Release);
}

/// `dst (m, n) = a (m, k) @ b (k, n)`, added to what is there with `add`, by the `gemm` crate; `dst` comes with the strides of
/// its rows and columns; two numbers scale what is there and the product.
///
/// # Safety
/// The matrices are valid for their sizes; nobody else touches `dst`, and it overlaps none of the others.
pub(super) unsafe fn multiply<T: Copy + Send + Sync + 'static>(
    size: [usize; 3],
    to: (*mut T, isize, isize),
    add: bool,
    a: Mat<T>,
    b: Mat<T>,
    scales: [T; 2],
    par: Parallelism,
) {
    // SAFETY: the contract is the same.
    unsafe {
        if to.2 == 1 && turned::takes(size, b) {
            turned::multiply(size, (to.0, to.1), add, a, b, scales, par);
        } else {
            direct(size, to, add, a, b, scales, par);
        }
    }
}

/// The same, with the sides as they lie.
///
/// # Safety
/// As for [`multiply`].
unsafe fn direct<T: Copy + Send + Sync + 'static>(
    [m, n, k]: [usize; 3],
    (dst, rs, cs): (*mut T, isize, isize),
    add: bool,
    a: Mat<T>,
    b: Mat<T>,
    [kept, scale]: [T; 2],
    par: Parallelism,
) {
    ready();
    // SAFETY: the caller's contract.
    unsafe {
        gemm::gemm(
            m, n, k, dst, cs, rs, add, a.ptr, a.cs, a.rs, b.ptr, b.cs, b.rs, kept, scale, false, false,
            false, par,
        );
    }
}

/// A matrix in host memory: pointer to its first element and strides in elements.
#[derive(Clone, Copy)]
pub(super) struct Mat<T> {
    pub ptr: *const T,
    pub rs: isize,
    pub cs: isize,
}

// SAFETY: a description; kernels only read through it, while the views it came from are alive.
unsafe impl<T> Send for Mat<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Mat<T> {}

impl<T: Copy> Mat<T> {
    /// The matrix that many elements on.
    pub(super) fn moved(self, elements: isize) -> Self {
        Mat { ptr: self.ptr.wrapping_offset(elements), ..self }
    }

    /// The matrix from (row, col) on.
    pub(super) fn from(self, row: usize, col: usize) -> Self {
        self.moved(row as isize * self.rs + col as isize * self.cs)
    }

    /// Rows and columns exchanged.
    pub(super) fn transposed(self) -> Self {
        Mat { rs: self.cs, cs: self.rs, ..self }
    }
}

/// Sizes, and what happens to a sum before it is stored: `alpha * sum + beta * c`.
#[derive(Clone, Copy)]
pub(super) struct Dims {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub alpha: f32,
    pub beta: f32,
}

/// Element types of products.
pub(super) trait Element: Copy + Send + Sync + To<Self::Sum> + 'static {
    /// What products are summed in.
    type Sum: Copy + Send + Sync + To<Self> + 'static;

    /// One product of matrices into contiguous rows of `dst`.
    ///
    /// # Safety
    /// Operands are valid for the sizes, `dst` for `m * n` writes nobody else sees.
    unsafe fn product(
        d: Dims,
        a: Mat<Self>,
        b: Mat<Self>,
        c: Option<Mat<Self>>,
        dst: *mut Self,
        par: Parallelism,
    ) -> Result<()>;

    /// Products with a single row or column, if the type has loops for them; false if not taken.
    ///
    /// # Safety
    /// As for [`Element::product`].
    unsafe fn vector(d: Dims, a: Mat<Self>, b: Mat<Self>, c: Option<Mat<Self>>, dst: *mut Self) -> bool {
        let _ = (d, a, b, c, dst);
        false
    }
}

/// Scales for a type that `gemm` multiplies itself.
trait Native: Element<Sum = Self> {
    fn scale(x: f32) -> Self;
    fn times(self, other: Self) -> Self;
}

/// `dst = beta * c` in contiguous rows.
///
/// # Safety
/// Both are valid for m x n elements, and nobody else sees `dst`.
unsafe fn scaled_copy<T: Native>(d: Dims, c: Mat<T>, dst: *mut T, par: Parallelism) {
    let (beta, out) = (T::scale(d.beta), SendPtr::new(dst));
    chunks(par, d.m, (GRAIN / d.n.max(1)).max(1), |rows| {
        for i in rows {
            let from = c.from(i, 0).ptr;
            // SAFETY: by contract; rows are disjoint.
            unsafe {
                let to = out.get().add(i * d.n);
                // A loop of its own where elements are neighbours, which becomes vectors.
                if c.cs == 1 {
                    (0..d.n).for_each(|j| *to.add(j) = (*from.add(j)).times(beta));
                } else {
                    (0..d.n)
                        .for_each(|j| *to.add(j) = (*from.wrapping_offset(j as isize * c.cs)).times(beta));
                }
            }
        }
    });
}

unsafe fn native<T: Native>(
    d: Dims,
    a: Mat<T>,
    b: Mat<T>,
    c: Option<Mat<T>>,
    dst: *mut T,
    par: Parallelism,
) -> Result<()> {
    let add = c.filter(|_| d.beta != 0.0);
    if let Some(c) = add {
        // SAFETY: passed on.
        unsafe { scaled_copy(d, c, dst, par) };
    }
    let (size, to) = ([d.m, d.n, d.k], (dst, d.n as isize, 1));
    // SAFETY: the caller guarantees the operands; dst is read only where it was just filled.
    unsafe { multiply(size, to, add.is_some(), a, b, [T::scale(1.0), T::scale(d.alpha)], par) };
    Ok(())
}

/// A product that `tiny` takes.
///
/// # Safety
/// As for [`Element::product`].
unsafe fn small<T: Native + gemv::Real>(d: Dims, a: Mat<T>, b: Mat<T>, c: Option<Mat<T>>, dst: *mut T) {
    let (alpha, beta) = (<T as Native>::scale(d.alpha), <T as Native>::scale(d.beta));
    let c = c.filter(|_| d.beta != 0.0);
    let put = |i: usize, sums: &[T]| {
        for (j, &sum) in sums.iter().enumerate() {
            let mut y = sum.times(alpha);
            // SAFETY: the caller guarantees c and dst for m x n elements.
            unsafe {
                if let Some(c) = c {
                    y += (*c.from(i, j).ptr).times(beta);
                }
                *dst.add(i * d.n + j) = y;
            }
        }
    };
    // SAFETY: the contract is the same.
    unsafe { tiny::product([d.m, d.n, d.k], a, b, put) };
}

macro_rules! native {
    ($($t:ty, |$x:ident| $scale:expr, $vector:tt;)*) => {$(
        impl Native for $t {
            fn scale($x: f32) -> Self { $scale }
            fn times(self, other: Self) -> Self { self * other }
        }
        impl Element for $t {
            type Sum = $t;
            unsafe fn product(
                d: Dims, a: Mat<Self>, b: Mat<Self>, c: Option<Mat<Self>>, dst: *mut Self, par: Parallelism,
            ) -> Result<()> {
                native!(@small $vector, d, a, b, c, dst);
                // SAFETY: the contract is the same.
                unsafe { native(d, a, b, c, dst, par) }
            }
            native!(@vector $vector);
        }
    )*};
    (@small yes, $d:ident, $a:ident, $b:ident, $c:ident, $dst:ident) => {
        if tiny::takes([$d.m, $d.n, $d.k]) {
            // SAFETY: the contract is the same.
            unsafe { small($d, $a, $b, $c, $dst) };
            return Ok(());
        }
    };
    (@small no, $($rest:ident),*) => {};
    (@vector yes) => {
        unsafe fn vector(d: Dims, a: Mat<Self>, b: Mat<Self>, c: Option<Mat<Self>>, dst: *mut Self) -> bool {
            // SAFETY: the contract is the same.
            unsafe { gemv::run(d, a, b, c, dst) }
        }
    };
    (@vector no) => {};
}

native! {
    f32, |x| x, yes;
    f64, |x| x.into(), yes;
    Complex32, |x| Complex32::new(x, 0.0), no;
}

/// Bytes of float32 panel that are worth holding at once.
const PANEL: usize = 64 << 20;
/// Elements below which a loop stays on one thread.
const GRAIN: usize = 1 << 14;

multiversion! {
    /// `count` elements `step` apart, as float32.
    unsafe fn widen<T: HalfLike>(src: *const T, step: isize, dst: *mut f32, count: usize) {
        if step == 1 {
            for i in 0..count {
                // SAFETY: the caller guarantees both for `count`.
                unsafe { *dst.add(i) = (*src.add(i)).to() };
            }
        } else {
            for i in 0..count {
                // SAFETY: as above, with steps.
                unsafe { *dst.add(i) = (*src.wrapping_offset(i as isize * step)).to() };
            }
        }
    }
}

multiversion! {
    /// Rounds a row of sums: `alpha * x + beta * c`, elements of c `step` apart.
    unsafe fn narrow<T: HalfLike>(src: *const f32, c: *const T, step: isize, scale: (f32, f32), dst: *mut T, count: usize) {
        if c.is_null() && scale.0 == 1.0 {
            for i in 0..count {
                // SAFETY: the caller guarantees both for `count`.
                unsafe { *dst.add(i) = T::round(*src.add(i)) };
            }
        } else {
            for i in 0..count {
                // SAFETY: as above; c is null or valid with its step.
                unsafe {
                    let mut x = scale.0 * *src.add(i);
                    if !c.is_null() {
                        let y: f32 = (*c.wrapping_offset(i as isize * step)).to();
                        x += scale.1 * y;
                    }
                    *dst.add(i) = T::round(x);
                }
            }
        }
    }
}

/// Scratch for so many elements.
fn scratch<T>(len: usize) -> Result<(crate::core::HostBlock, *mut T)> {
    let block = host_block((len * size_of::<T>()).max(64))?;
    let p = block.ptr().cast();
    Ok((block, p))
}

/// Calls `f` on chunks of `0..n`, in parallel where the product runs so.
pub(super) fn chunks(
    par: Parallelism,
    n: usize,
    grain: usize,
    f: impl Fn(std::ops::Range<usize>) + Send + Sync,
) {
    match par {
        Parallelism::None => f(0..n),
        Parallelism::Rayon(_) => parallel_chunks(n, grain, f),
    }
}

/// The same for each of `0..n`, which may fail: one of the errors.
fn try_chunks(
    par: Parallelism,
    n: usize,
    grain: usize,
    f: impl Fn(usize) -> Result<()> + Send + Sync,
) -> Result<()> {
    let failed = std::sync::Mutex::new(None);
    chunks(par, n, grain, |r| {
        for i in r {
            if let Err(e) = f(i) {
                *failed.lock().unwrap_or_else(|e| e.into_inner()) = Some(e);
            }
        }
    });
    failed.into_inner().unwrap_or_else(|e| e.into_inner()).map_or(Ok(()), Err)
}

/// A float32 copy of a matrix, lines along its nearer axis.
///
/// # Safety
/// `src` is valid for rows x cols, `dst` for as many writes.
unsafe fn panel<T: HalfLike>(
    src: Mat<T>,
    rows: usize,
    cols: usize,
    dst: *mut f32,
    par: Parallelism,
) -> Mat<f32> {
    if cols > 1 && src.cs.abs() != 1 && (src.rs.abs() == 1 || src.rs.abs() < src.cs.abs()) && rows > 1 {
        // SAFETY: the transposed matrix is the same memory.
        return unsafe { panel(src.transposed(), cols, rows, dst, par) }.transposed();
    }
    let out = SendPtr::new(dst);
    chunks(par, rows, (GRAIN / cols.max(1)).max(1), |r| {
        for i in r {
            // SAFETY: rows are disjoint; valid by contract.
            unsafe { widen(src.from(i, 0).ptr, src.cs, out.get().add(i * cols), cols) };
        }
    });
    Mat { ptr: dst, rs: cols as isize, cs: 1 }
}

/// The two 16-bit floats.
pub(super) trait HalfLike: Element<Sum = f32> {
    fn round(x: f32) -> Self;
}
impl HalfLike for Half {
    #[inline(always)]
    fn round(x: f32) -> Self {
        x.to()
    }
}
impl HalfLike for Brain {
    #[inline(always)]
    fn round(x: f32) -> Self {
        x.to()
    }
}

/// Through float32 panels, into rows of `dst` that are `ld` apart.
///
/// # Safety
/// As for [`Element::product`].
unsafe fn through_panels<T: HalfLike>(
    d: Dims,
    a: Mat<T>,
    b: Mat<T>,
    c: Option<Mat<T>>,
    (dst, ld): (*mut T, usize),
    par: Parallelism,
) -> Result<()> {
    let add = c.filter(|_| d.beta != 0.0);
    let fit = |other: usize, len: usize| (PANEL / 4 / other.max(1)).max(64).min(len);
    let bn = fit(d.k, d.n);
    let bm = fit(d.k.max(bn), d.m);
    let (_hold_b, pb) = scratch(d.k * bn)?;
    let (_hold_a, pa) = scratch(d.k * bm)?;
    let (_hold_c, sums) = scratch(bm * bn)?;
    let out = SendPtr::new(dst);
    for j in (0..d.n).step_by(bn) {
        let n = bn.min(d.n - j);
        // SAFETY: scratch holds k x bn; the operand is valid by contract.
        let right = unsafe { panel(b.from(0, j), d.k, n, pb, par) };
        for i in (0..d.m).step_by(bm) {
            let m = bm.min(d.m - i);
            // SAFETY: as above; sums hold bm x bn.
            unsafe {
                let left = panel(a.from(i, 0), m, d.k, pa, par);
                let block = Dims { m, n, k: d.k, alpha: 1.0, beta: 0.0 };
                native(block, left, right, None, sums, par)?;
            }
            let held = SendPtr::new(sums);
            chunks(par, m, (GRAIN / n.max(1)).max(1), |r| {
                for row in r {
                    let (from, step) = match add {
                        Some(c) => (c.from(i + row, j).ptr, c.cs),
                        None => (std::ptr::null(), 0),
                    };
                    // SAFETY: rows of the block are disjoint.
                    unsafe {
                        let to = out.get().add((i + row) * ld + j);
                        narrow(held.get().add(row * n), from, step, (d.alpha, d.beta), to, n);
                    }
                }
            });
        }
    }
    Ok(())
}

/// The same where there are few rows: some columns at a time, which stay in the caches of a core.
///
/// # Safety
/// As for [`Element::product`].
unsafe fn by_columns<T: HalfLike>(
    d: Dims,
    a: Mat<T>,
    b: Mat<T>,
    c: Option<Mat<T>>,
    dst: *mut T,
    par: Parallelism,
) -> Result<()> {
    let (width, out) = (turned::columns(d.k), SendPtr::new(dst));
    try_chunks(par, d.n.div_ceil(width), 1, |i| {
        let j = i * width;
        let some = Dims { n: width.min(d.n - j), ..d };
        let (right, add) = (b.from(0, j), c.map(|c| c.from(0, j)));
        // SAFETY: the contract is the same; chunks write disjoint columns.
        unsafe { through_panels(some, a, right, add, (out.get().add(j), d.n), Parallelism::None) }
    })
}

macro_rules! halves {
    ($($t:ty),*) => {$(
        impl Element for $t {
            type Sum = f32;
            unsafe fn product(
                d: Dims, a: Mat<Self>, b: Mat<Self>, c: Option<Mat<Self>>, dst: *mut Self, par: Parallelism,
            ) -> Result<()> {
                // SAFETY: the contract is the same.
                unsafe {
                    if turned::few(d.m, d.n) {
                        by_columns(d, a, b, c, dst, par)
                    } else {
                        through_panels(d, a, b, c, (dst, d.n), par)
                    }
                }
            }
            unsafe fn vector(d: Dims, a: Mat<Self>, b: Mat<Self>, c: Option<Mat<Self>>, dst: *mut Self) -> bool {
                // SAFETY: the contract is the same.
                unsafe { gemv::run(d, a, b, c, dst) }
            }
        }
    )*};
}
halves!(Half, Brain);

fn dispatch(
    c: Option<&HostView>,
    a: &HostView,
    b: &HostView,
    dst: &HostView,
    alpha: f32,
    beta: f32,
) -> Result<()> {
    let op = if c.is_some() { "addmm" } else { "matmul" };
    let nd = dst.ndim();
    let same = |v: &HostView| v.dtype == dst.dtype && v.ndim() == nd;
    let rest = |v: &HostView| v.shape[..nd.max(2) - 2] == dst.shape[..nd.max(2) - 2];
    let fits = nd >= 2
        && same(a)
        && same(b)
        && c.is_none_or(|c| same(c) && c.shape == dst.shape)
        && rest(a)
        && rest(b)
        && a.shape[nd - 2] == dst.shape[nd - 2]
        && b.shape[nd - 1] == dst.shape[nd - 1]
        && a.shape[nd - 1] == b.shape[nd - 2]
        && dst.is_row_contiguous();
    if !fits {
        bail!(
            Value,
            "[{op}] Expected operands of one dtype whose product is contiguous, got {} {}, {} {} for {} {}.",
            show(&a.shape),
            a.dtype,
            show(&b.shape),
            b.dtype,
            show(&dst.shape),
            dst.dtype
        );
    }
    if dst.size() == 0 {
        return Ok(());
    }
    match dst.dtype {
        Dtype::F32 => run::<f32>(c, a, b, dst, alpha, beta),
        Dtype::F64 => run::<f64>(c, a, b, dst, alpha, beta),
        Dtype::C64 => run::<Complex32>(c, a, b, dst, alpha, beta),
        Dtype::F16 => run::<Half>(c, a, b, dst, alpha, beta),
        Dtype::BF16 => run::<Brain>(c, a, b, dst, alpha, beta),
        t => bail!(Value, "[{op}] Only inexact types are supported, got {t}."),
    }
}

/// Floating point operations below which one product stays on one thread.
const SMALL: usize = 1 << 21;

fn run<T: Element>(
    c: Option<&HostView>,
    a: &HostView,
    b: &HostView,
    dst: &HostView,
    alpha: f32,
    beta: f32,
) -> Result<()> {
    let nd = dst.ndim();
    let mat = |v: &HostView| Mat::<T> {
        ptr: v.ptr.cast(),
        rs: v.strides[nd - 2] as isize,
        cs: v.strides[nd - 1] as isize,
    };
    let mut lists: SmallVec<[&[i64]; 3]> = [&a.strides[..nd - 2], &b.strides[..nd - 2]].into_iter().collect();
    lists.extend(c.map(|c| &c.strides[..nd - 2]));
    let (mut batch, mut strides) = collapse(&dst.shape[..nd - 2], &lists);
    let (ma, mb, mc) = (mat(a), mat(b), c.map(mat));
    let mut d = Dims {
        m: dst.shape[nd - 2] as usize,
        n: dst.shape[nd - 1] as usize,
        k: a.shape[nd - 1] as usize,
        alpha,
        beta,
    };
    // A batch axis along which only `a` moves, in step with its rows, is more rows.
    while let Some(&len) = batch.last() {
        let last = batch.len() - 1;
        let follows = |s: i64, rs: isize| s == d.m as i64 * rs as i64;
        let c_follows = mc.is_none_or(|m| follows(strides[2][last], m.rs));
        if d.m < 2 || strides[1][last] != 0 || !follows(strides[0][last], ma.rs) || !c_follows {
            break;
        }
        d.m *= len as usize;
        batch.pop();
        strides.iter_mut().for_each(|s| s.truncate(last));
    }
    let count: usize = batch.iter().map(|&x| x as usize).product();
    let out = SendPtr::new(dst.as_ptr::<T>());
    let one = |i: usize, par: Parallelism| -> Result<()> {
        let mut rest = i as i64;
        let mut at = [0i64; 3];
        for ax in (0..batch.len()).rev() {
            let x = rest % batch[ax];
            rest /= batch[ax];
            for (t, s) in at.iter_mut().zip(&strides) {
                *t += x * s[ax];
            }
        }
        let (x, y) = (ma.moved(at[0] as isize), mb.moved(at[1] as isize));
        let z = mc.map(|m| m.moved(at[2] as isize));
        // SAFETY: the views are valid by contract; products of the batch write disjoint results.
        unsafe {
            let to = out.get().add(i * d.m * d.n);
            if (d.m == 1 || d.n == 1) && T::vector(d, x, y, z, to) {
                return Ok(());
            }
            T::product(d, x, y, z, to, par)
        }
    };
    each(count, 2 * d.m * d.n * d.k.max(1), one)
}

/// Runs `count` products of `work` operations each: small ones in parallel with each other, large ones inside.
pub(super) fn each(
    count: usize,
    work: usize,
    one: impl Fn(usize, Parallelism) -> Result<()> + Send + Sync,
) -> Result<()> {
    let threads = pool::threads();
    if count > 1 && (work < SMALL || count >= 4 * threads && work < 64 * SMALL) {
        let grain = (SMALL / 4 / work.max(1)).max(1);
        return try_chunks(Parallelism::Rayon(threads), count, grain, |i| one(i, Parallelism::None));
    }
    let par = if work < SMALL || threads == 1 { Parallelism::None } else { Parallelism::Rayon(threads) };
    let all = || (0..count).try_for_each(|i| one(i, par));
    if matches!(par, Parallelism::None) { all() } else { pool::install(all) }
}

#[cfg(test)]
mod tests;
