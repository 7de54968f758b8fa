//! Softmax and log-sum-exp over the last axis. Halves are computed in float32; a row is read once into the
//! cache, its maximum taken off before exponentiation. Rows of only -inf give NaN (softmax) and -inf
//! (logsumexp), as in MLX.

use smallvec::SmallVec;

use crate::bail;
use crate::core::layout::show;
use crate::core::{Dtype, Result};
use crate::cpu::reduce::arithmetic::Order;
use crate::cpu::reduce::fold::{Cascade, Fold, Max, Sum};
use crate::cpu::runtime::elem::{Brain, Half, To};
use crate::cpu::runtime::pool::{self, SendPtr};
use crate::cpu::runtime::simd::{keep_vectors, multiversion};
use crate::cpu::runtime::walk::{Lines, locate};
use crate::kernels::HostView;

const LANES: usize = 32;
const BLOCK: usize = 1024;
const GRAIN: usize = 8192;

/// What softmax computes in.
trait Real: Order + To<Self> + Default + std::ops::Sub<Output = Self> + std::ops::Mul<Output = Self> {
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn inverse(self) -> Self;
    fn infinite(self) -> bool;
    fn plus(self, o: Self) -> Self;
}

macro_rules! real {
    ($($t:ty: |$x:ident| $exp:expr;)*) => { $(impl Real for $t {
        #[inline(always)]
        fn exp(self) -> Self { let $x = self; $exp }
        #[inline(always)]
        fn ln(self) -> Self { <$t>::ln(self) }
        #[inline(always)]
        fn inverse(self) -> Self { 1.0 / self }
        #[inline(always)]
        fn infinite(self) -> bool { self.is_infinite() }
        #[inline(always)]
        fn plus(self, o: Self) -> Self { self + o }
    })* };
}
real! {
    f32: |x| crate::kernels::elementwise::scalar::exp(x);
    f64: |x| f64::exp(x);
}

/// A pair of element and computation type; carries the sum that joins block results.
trait Kind: Copy + Send + Sync + 'static {
    type S: Copy + Send + Sync + To<Self::A> + 'static;
    type A: Real + To<Self::S>;
    type Total: Fold<A = Self::A>;
    type Top: Fold<A = Self::A>;
}

#[derive(Clone, Copy)]
struct OfF16;
#[derive(Clone, Copy)]
struct OfBf16;
#[derive(Clone, Copy)]
struct OfF32;
#[derive(Clone, Copy)]
struct OfF64;

macro_rules! kind {
    ($($k:ty: $s:ty, $a:ty;)*) => { $(impl Kind for $k {
        type S = $s;
        type A = $a;
        type Total = Sum<$a, $a, $a>;
        type Top = Max<$a, $a>;
    })* };
}
kind! {
    OfF16: Half, f32;
    OfBf16: Brain, f32;
    OfF32: f32, f32;
    OfF64: f64, f64;
}

// Copies a row into `out` in the computation type and returns its maximum.
#[inline(always)]
unsafe fn load<K: Kind>(row: *const K::S, stride: isize, out: &mut [K::A]) -> K::A {
    if stride == 1 {
        // SAFETY: the caller's row has as many elements as `out`.
        let row = unsafe { std::slice::from_raw_parts(row, out.len()) };
        for (o, &x) in out.iter_mut().zip(row) {
            *o = x.to();
        }
    } else {
        for (i, o) in out.iter_mut().enumerate() {
            // SAFETY: as above.
            *o = unsafe { *row.offset(i as isize * stride) }.to();
        }
    }
    maximum::<K>(out)
}

#[inline(always)]
fn maximum<K: Kind>(xs: &[K::A]) -> K::A {
    let mut lanes = [K::A::LEAST; LANES];
    let chunks = xs.chunks_exact(LANES);
    let rest = chunks.remainder();
    for c in chunks {
        for j in 0..LANES {
            lanes[j] = K::Top::join(lanes[j], c[j]);
        }
    }
    for half in [16, 8, 4, 2, 1] {
        for j in 0..half {
            lanes[j] = K::Top::join(lanes[j], lanes[j + half]);
        }
    }
    rest.iter().fold(lanes[0], |m, &x| K::Top::join(m, x))
}

// Replaces each element by its exponential above `max` and returns the sum.
#[inline(always)]
fn exponentials<K: Kind>(xs: &mut [K::A], max: K::A) -> K::A {
    let mut total = Cascade::<K::Total>::new();
    for block in xs.chunks_mut(BLOCK) {
        for x in block.iter_mut() {
            *x = (*x - max).exp();
        }
        let mut lanes = [K::A::default(); LANES];
        let chunks = block.chunks_exact(LANES);
        let rest = chunks.remainder();
        for c in chunks {
            for j in 0..LANES {
                lanes[j] = lanes[j].plus(c[j]);
            }
        }
        lanes = keep_vectors(lanes);
        for half in [16, 8, 4, 2, 1] {
            for j in 0..half {
                lanes[j] = lanes[j].plus(lanes[j + half]);
            }
        }
        total.push(rest.iter().fold(lanes[0], |sum, &x| sum.plus(x)));
    }
    total.result()
}

multiversion! {
    unsafe fn softmax_rows<K: Kind>(lines: &Lines, src: *const K::S, dst: *mut K::S, from: usize, to: usize) {
        let mut row: Vec<K::A> = vec![K::A::default(); lines.len];
        for k in from..to {
            let (s, d) = locate(&lines.axes, k);
            // SAFETY: offsets come from the views; dst rows are contiguous.
            unsafe {
                let max = load::<K>(src.offset(s), lines.src, &mut row);
                let scale = exponentials::<K>(&mut row, max).inverse();
                let out = dst.offset(d);
                for (i, &e) in row.iter().enumerate() {
                    *out.add(i) = (e * scale).to();
                }
            }
        }
    }
}

multiversion! {
    unsafe fn logsumexp_rows<K: Kind>(
        lines: &Lines, src: *const K::S, dst: *mut K::S, from: usize, to: usize, parts: bool,
    ) {
        let mut row: Vec<K::A> = vec![K::A::default(); lines.len];
        for k in from..to {
            let (s, d) = locate(&lines.axes, k);
            // SAFETY: offsets come from the views.
            unsafe {
                let max = load::<K>(src.offset(s), lines.src, &mut row);
                let above = match max.infinite() {
                    true => max,
                    false => exponentials::<K>(&mut row, max).ln(),
                };
                let out = dst.offset(d);
                if parts {
                    (*out, *out.add(1)) = (max.to(), above.to());
                } else {
                    *out = if max.infinite() { max } else { above.plus(max) }.to();
                }
            }
        }
    }
}

/// What is stored: every element's share, or one or two numbers for a row.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Softmax,
    LogSumExp,
    Parts,
}

impl Form {
    fn shape(self, src: &HostView) -> SmallVec<[i64; 6]> {
        let mut shape: SmallVec<[i64; 6]> = src.shape[..].into();
        match self {
            Form::Softmax => {}
            Form::LogSumExp => drop(shape.pop()),
            Form::Parts => shape[src.ndim() - 1] = 2,
        }
        shape
    }
}

fn run<K: Kind>(src: &HostView, dst: &HostView, form: Form) {
    let lines = &Lines::new(src, src.ndim() - 1, dst);
    let (from, to) = (SendPtr::new(src.as_ptr::<K::S>()), SendPtr::new(dst.as_ptr::<K::S>()));
    pool::parallel_chunks(lines.count, GRAIN.div_ceil(lines.len.max(1)), |r| {
        // SAFETY: ranges are disjoint, so are the rows they write.
        unsafe {
            match form {
                Form::Softmax => softmax_rows::<K>(lines, from.get(), to.get(), r.start, r.end),
                Form::LogSumExp => logsumexp_rows::<K>(lines, from.get(), to.get(), r.start, r.end, false),
                Form::Parts => logsumexp_rows::<K>(lines, from.get(), to.get(), r.start, r.end, true),
            }
        }
    });
}

fn dispatch(op: &str, src: &HostView, dst: &HostView, form: Form) -> Result<()> {
    if src.ndim() == 0 {
        bail!(Value, "[{op}] Expected an array of at least one dimension.");
    }
    let shape = form.shape(src);
    if dst.shape[..] != shape[..] || dst.dtype != src.dtype || !dst.is_row_contiguous() {
        let (e, g) = (show(&shape), show(&dst.shape));
        bail!(Value, "[{op}] Expected a contiguous output {} {e}, got {} {g}.", src.dtype, dst.dtype);
    }
    if dst.size() == 0 {
        return Ok(());
    }
    match src.dtype {
        Dtype::F16 => run::<OfF16>(src, dst, form),
        Dtype::BF16 => run::<OfBf16>(src, dst, form),
        Dtype::F32 => run::<OfF32>(src, dst, form),
        Dtype::F64 => run::<OfF64>(src, dst, form),
        d => bail!(Value, "[{op}] Expected a floating point type, got {d}."),
    }
    Ok(())
}

/// Softmax over the last axis. `src` has any strides, `dst` is contiguous and of the same shape and dtype
/// (float16, bfloat16, float32 or float64); both may be the same memory if the layouts are equal.
///
/// # Errors
/// Value error for other dtypes and shapes.
pub fn softmax(src: &HostView, dst: &HostView) -> Result<()> {
    dispatch("softmax", src, dst, Form::Softmax)
}

/// Logarithm of the sum of exponentials over the last axis; `dst` is contiguous without that axis. An
/// infinite maximum is the result itself; an empty row gives -inf. With `parts`, `dst` has two elements in place of the
/// axis: the maximum, and the logarithm of the sum of exponentials above it.
///
/// # Errors
/// Value error for other dtypes and shapes.
pub fn logsumexp(src: &HostView, parts: bool, dst: &HostView) -> Result<()> {
    dispatch("logsumexp", src, dst, if parts { Form::Parts } else { Form::LogSumExp })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::runtime::testing::{Owned, Rng, layouts};

    fn error(dtype: Dtype) -> f64 {
        match dtype {
            Dtype::F16 => 1e-3,
            Dtype::BF16 => 8e-3,
            Dtype::F32 => 1e-6,
            _ => 1e-14,
        }
    }

    #[test]
    fn rows_of_every_dtype_and_layout() {
        let mut rng = Rng(11);
        for shape in [vec![33], vec![1], vec![4, 33], vec![3, 1], vec![2, 3, 1500], vec![300, 70]] {
            for dtype in [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64] {
                for (name, layout, count) in layouts(&shape) {
                    let a =
                        Owned::filled(dtype, count, layout, |_| (rng.unit() * 30.0 - 20.0).floor().into());
                    let n = *shape.last().unwrap() as usize;
                    let soft = Owned::zeros(dtype, &shape);
                    let logs = Owned::zeros(dtype, &shape[..shape.len() - 1]);
                    softmax(&a.view(), &soft.view()).unwrap();
                    logsumexp(&a.view(), false, &logs.view()).unwrap();
                    let (x, soft, logs) = (a.reals(), soft.reals(), logs.reals());
                    for (k, row) in x.chunks(n).enumerate() {
                        let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                        let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
                        let want = sum.ln() + max;
                        let what = format!("{dtype} {name} {shape:?}");
                        assert!((logs[k] - want).abs() <= error(dtype) * want.abs().max(1.0), "{what}");
                        for (j, x) in row.iter().enumerate() {
                            let want = (x - max).exp() / sum;
                            let tiny = if dtype == Dtype::F16 { 6e-8 } else { 1e-40 };
                            let bound = error(dtype) * want + tiny;
                            assert!((soft[k * n + j] - want).abs() <= bound, "{what}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn infinities_and_nan_as_in_mlx() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        for dtype in [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64] {
            for (row, soft, log) in [
                ([-inf, -inf], [nan, nan], -inf),
                ([inf, 1.0], [nan, nan], inf),
                ([nan, 1.0], [nan, nan], nan),
                ([1.0, nan], [nan, nan], nan),
                ([-inf, 0.0], [0.0, 1.0], 0.0),
                ([nan, nan], [nan, nan], nan),
            ] {
                let a = Owned::from_f64(dtype, &[2], &row);
                let (s, l) = (Owned::zeros(dtype, &[2]), Owned::zeros(dtype, &[]));
                softmax(&a.view(), &s.view()).unwrap();
                logsumexp(&a.view(), false, &l.view()).unwrap();
                let same = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan();
                assert!(s.reals().iter().zip(soft).all(|(&a, b)| same(a, b)), "{row:?} {:?}", s.reals());
                assert!(same(l.reals()[0], log), "{row:?} {:?}", l.reals());
            }
        }
    }

    #[test]
    fn nothing_to_do_and_wrong_types() {
        let empty = Owned::zeros(Dtype::F32, &[3, 0]);
        softmax(&empty.view(), &empty.view()).unwrap();
        let ints = Owned::zeros(Dtype::I32, &[3]);
        assert!(softmax(&ints.view(), &ints.view()).is_err());
    }
}
