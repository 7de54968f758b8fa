//! Sort and argsort along any axis: NaN last, complex numbers lexicographic, as in MLX. Elements become
//! unsigned integers of the same order; those are sorted by radix (long lines) or by comparison (short ones).
//! Sorted values are rebuilt from their keys: -0 comes before 0, every NaN is the canonical one. Argsort is
//! stable and takes the two zeros as equal.

use num_complex::Complex32;

use super::elem::{Brain, Half};
use super::pool::{self, SendPtr};
use super::walk::{Lines, locate};
use crate::bail;
use crate::core::layout::show;
use crate::core::{Dtype, Result};
use crate::kernels::HostView;

// Elements below which a comparison sort is faster than radix passes.
const SHORT: usize = 160;
const GRAIN: usize = 2048;

/// An element with an order-preserving integer.
trait Element: Copy + Send + Sync + 'static {
    /// Unsigned integer type of the keys.
    type Key: Key;
    /// Equal elements have equal keys; every NaN has the greatest one.
    fn key(self) -> Self::Key;
    /// A key that tells the two zeros apart.
    fn strict(self) -> Self::Key;
    /// The element of a strict key.
    fn back(key: Self::Key) -> Self;
}

/// Unsigned integers that a radix sort takes apart; `Pair` is a key with an index.
trait Key: Copy + Ord + Send + Sync + Default + 'static {
    const BITS: u32;
    type Pair: Copy + Ord + Send + Sync + Default + 'static;
    fn word(self) -> u64;
    fn pair(self, index: u32) -> Self::Pair;
    fn index(pair: Self::Pair) -> u32;
    fn pair_word(pair: Self::Pair) -> u64;
}

macro_rules! narrow_keys {
    ($($t:ty),*) => { $(impl Key for $t {
        const BITS: u32 = <$t>::BITS;
        type Pair = u64;
        #[inline(always)]
        fn word(self) -> u64 { self.into() }
        #[inline(always)]
        fn pair(self, index: u32) -> u64 { u64::from(self) << 32 | u64::from(index) }
        #[inline(always)]
        fn index(pair: u64) -> u32 { pair as u32 }
        #[inline(always)]
        fn pair_word(pair: u64) -> u64 { pair >> 32 }
    })* };
}
narrow_keys!(u8, u16, u32);

impl Key for u64 {
    const BITS: u32 = 64;
    type Pair = (u64, u32);
    #[inline(always)]
    fn word(self) -> u64 {
        self
    }
    #[inline(always)]
    fn pair(self, index: u32) -> (u64, u32) {
        (self, index)
    }
    #[inline(always)]
    fn index(pair: (u64, u32)) -> u32 {
        pair.1
    }
    #[inline(always)]
    fn pair_word(pair: (u64, u32)) -> u64 {
        pair.0
    }
}

macro_rules! element {
    ($($t:ty, $key:ty: |$x:ident| $into:expr, $strict:expr, |$k:ident| $back:expr;)*) => { $(
        impl Element for $t {
            type Key = $key;
            #[inline(always)]
            fn key(self) -> $key { let $x = self; $into }
            #[inline(always)]
            fn strict(self) -> $key { let $x = self; $strict }
            #[inline(always)]
            fn back($k: $key) -> Self { $back }
        }
    )* };
}

// Integer of the same order as floating point bits: negative numbers are inverted, -0 becomes 0 when folded.
macro_rules! float_key {
    ($bits:expr, $u:ty, $nan:expr, $fold:expr) => {{
        let sign: $u = 1 << (<$u>::BITS - 1);
        let bits: $u = $bits;
        let bits = if $fold && bits == sign { 0 } else { bits };
        let key = if bits & sign != 0 { !bits } else { bits | sign };
        if $nan { <$u>::MAX } else { key }
    }};
}
macro_rules! float_back {
    ($key:expr, $u:ty, $nan:expr) => {{
        let sign: $u = 1 << (<$u>::BITS - 1);
        let key: $u = $key;
        let value = if key & sign != 0 { key ^ sign } else { !key };
        if key == <$u>::MAX { $nan } else { value }
    }};
}
const HALF_NAN: u16 = 0x7c00;
const BRAIN_NAN: u16 = 0x7f80;

element! {
    u8, u8: |x| x, x, |k| k;
    u16, u16: |x| x, x, |k| k;
    u32, u32: |x| x, x, |k| k;
    u64, u64: |x| x, x, |k| k;
    i8, u8: |x| x as u8 ^ 0x80, x.key(), |k| (k ^ 0x80) as i8;
    i16, u16: |x| x as u16 ^ 0x8000, x.key(), |k| (k ^ 0x8000) as i16;
    i32, u32: |x| x as u32 ^ 1 << 31, x.key(), |k| (k ^ 1 << 31) as i32;
    i64, u64: |x| x as u64 ^ 1 << 63, x.key(), |k| (k ^ 1 << 63) as i64;
    Half, u16: |x| float_key!(x.0, u16, x.0 & 0x7fff > HALF_NAN, true),
        float_key!(x.0, u16, x.0 & 0x7fff > HALF_NAN, false), |k| Half(float_back!(k, u16, 0x7e00));
    Brain, u16: |x| float_key!(x.0, u16, x.0 & 0x7fff > BRAIN_NAN, true),
        float_key!(x.0, u16, x.0 & 0x7fff > BRAIN_NAN, false), |k| Brain(float_back!(k, u16, 0x7fc0));
    f32, u32: |x| float_key!(x.to_bits(), u32, x.is_nan(), true),
        float_key!(x.to_bits(), u32, x.is_nan(), false),
        |k| f32::from_bits(float_back!(k, u32, 0x7fc0_0000));
    f64, u64: |x| float_key!(x.to_bits(), u64, x.is_nan(), true),
        float_key!(x.to_bits(), u64, x.is_nan(), false),
        |k| f64::from_bits(float_back!(k, u64, 0x7ff8_0000_0000_0000));
    Complex32, u64: |z| if z.re.is_nan() || z.im.is_nan() { u64::MAX } else {
            u64::from(z.re.key()) << 32 | u64::from(z.im.key())
        }, z.key(),
        |k| if k == u64::MAX { Complex32::new(f32::from_bits(0x7fc0_0000), 0.0) } else {
            Complex32::new(f32::back((k >> 32) as u32), f32::back(k as u32))
        };
}

// Sorts `a` by the low PASSES * DIGIT bits of its words; stable. `b` is scratch of the same length.
#[inline(always)]
fn radix<T: Copy, const PASSES: usize, const DIGIT: u32>(a: &mut [T], b: &mut [T], word: impl Fn(T) -> u64) {
    let n = a.len();
    assert!(n == b.len() && n > 0);
    let digit = |w: u64, p: usize| (w >> (p as u32 * DIGIT)) as usize & ((1 << DIGIT) - 1);
    let mut counts = vec![0u32; PASSES << DIGIT];
    for &x in a.iter() {
        let w = word(x);
        for p in 0..PASSES {
            // SAFETY: a digit is below 2^DIGIT and there are that many counts for each pass.
            unsafe { *counts.get_unchecked_mut((p << DIGIT) + digit(w, p)) += 1 };
        }
    }
    let (mut from, mut to) = (a.as_mut_ptr(), b.as_mut_ptr());
    let mut swapped = false;
    for p in 0..PASSES {
        let counts = &mut counts[p << DIGIT..(p + 1) << DIGIT];
        // A digit that all share needs no pass.
        // SAFETY: the buffers are not empty.
        if counts[digit(word(unsafe { *from }), p)] as usize == n {
            continue;
        }
        let mut at = 0;
        for c in counts.iter_mut() {
            at += std::mem::replace(c, at);
        }
        for i in 0..n {
            // SAFETY: both buffers have n elements; counts send each element to its own place in 0..n,
            // because they were counted over the same words.
            unsafe {
                let x = *from.add(i);
                let slot = counts.get_unchecked_mut(digit(word(x), p));
                *to.add(*slot as usize) = x;
                *slot += 1;
            }
        }
        std::mem::swap(&mut from, &mut to);
        swapped = !swapped;
    }
    if swapped {
        a.copy_from_slice(b);
    }
}

fn order<T: Copy + Ord>(a: &mut [T], b: &mut [T], bits: u32, word: impl Fn(T) -> u64) {
    // Indices make pairs distinct and equal keys cannot be told apart, so any sort is stable here.
    match (a.len(), bits) {
        (0..SHORT, _) | (0..1500, 64) => a.sort_unstable(),
        (_, 8) => radix::<T, 1, 8>(a, b, word),
        (_, 16) => radix::<T, 2, 8>(a, b, word),
        (0..2048, 32) => radix::<T, 4, 8>(a, b, word),
        (_, 32) => radix::<T, 3, 11>(a, b, word),
        _ => radix::<T, 6, 11>(a, b, word),
    }
}

/// Where the lines are and how long.
struct Job<'a, E, D> {
    lines: &'a Lines,
    src: SendPtr<E>,
    dst: SendPtr<D>,
}

fn fill_pairs<E: Element>(line: impl Iterator<Item = E>, pairs: &mut [<E::Key as Key>::Pair]) {
    for (i, (p, x)) in pairs.iter_mut().zip(line).enumerate() {
        *p = x.key().pair(i as u32);
    }
}

// The elements of line `k`.
fn line<E: Copy, D>(job: &Job<E, D>, k: usize) -> impl Iterator<Item = E> {
    let (base, stride) = (job.src.get().wrapping_offset(locate(&job.lines.axes, k).0), job.lines.src);
    // SAFETY: the offsets come from the source view.
    (0..job.lines.len).map(move |i| unsafe { *base.wrapping_offset(i as isize * stride) })
}

// Writes line `k` of the destination.
fn put<E, D>(job: &Job<E, D>, k: usize, values: impl Iterator<Item = D>) {
    let (base, stride) = (job.dst.get().wrapping_offset(locate(&job.lines.axes, k).1), job.lines.dst);
    for (i, x) in values.enumerate() {
        // SAFETY: the offsets come from the destination view; lines are disjoint.
        unsafe { *base.wrapping_offset(i as isize * stride) = x };
    }
}

fn sort_lines<E: Element>(job: &Job<E, E>, range: std::ops::Range<usize>) {
    let n = job.lines.len;
    let mut keys = vec![E::Key::default(); n];
    let mut scratch = keys.clone();
    for k in range {
        for (key, x) in keys.iter_mut().zip(line(job, k)) {
            *key = x.strict();
        }
        order(&mut keys, &mut scratch, E::Key::BITS, E::Key::word);
        put(job, k, keys.iter().map(|&key| E::back(key)));
    }
}

fn argsort_lines<E: Element>(job: &Job<E, u32>, range: std::ops::Range<usize>) {
    let mut pairs = vec![<E::Key as Key>::Pair::default(); job.lines.len];
    let mut scratch = pairs.clone();
    for k in range {
        fill_pairs(line(job, k), &mut pairs);
        order(&mut pairs, &mut scratch, E::Key::BITS, E::Key::pair_word);
        put(job, k, pairs.iter().map(|&p| E::Key::index(p)));
    }
}

fn run<E: Element>(lines: &Lines, src: &HostView, dst: &HostView, indices: bool) {
    let (src, grain) = (SendPtr::new(src.as_ptr::<E>()), GRAIN.div_ceil(lines.len));
    if indices {
        let job = Job { lines, src, dst: SendPtr::new(dst.as_ptr::<u32>()) };
        pool::parallel_chunks(lines.count, grain, |r| argsort_lines(&job, r));
    } else {
        let job = Job { lines, src, dst: SendPtr::new(dst.as_ptr::<E>()) };
        pool::parallel_chunks(lines.count, grain, |r| sort_lines(&job, r));
    }
}

fn dispatch(op: &str, src: &HostView, axis: usize, dst: &HostView, indices: bool) -> Result<()> {
    use Dtype::*;
    if axis >= src.ndim() {
        bail!(Value, "[{op}] Axis {axis} is out of range for {} dimensions.", src.ndim());
    }
    let expected = if indices { U32 } else { src.dtype };
    if dst.shape != src.shape || dst.dtype != expected {
        let (e, g) = (show(&src.shape), show(&dst.shape));
        bail!(Value, "[{op}] Expected an output {expected} {e}, got {} {g}.", dst.dtype);
    }
    if src.size() == 0 {
        return Ok(());
    }
    if src.shape[axis] > i64::from(u32::MAX) {
        bail!(Value, "[{op}] An axis of {} elements is too long.", src.shape[axis]);
    }
    let lines = Lines::new(src, axis, dst);
    match src.dtype {
        Bool | U8 => run::<u8>(&lines, src, dst, indices),
        U16 => run::<u16>(&lines, src, dst, indices),
        U32 => run::<u32>(&lines, src, dst, indices),
        U64 => run::<u64>(&lines, src, dst, indices),
        I8 => run::<i8>(&lines, src, dst, indices),
        I16 => run::<i16>(&lines, src, dst, indices),
        I32 => run::<i32>(&lines, src, dst, indices),
        I64 => run::<i64>(&lines, src, dst, indices),
        F16 => run::<Half>(&lines, src, dst, indices),
        BF16 => run::<Brain>(&lines, src, dst, indices),
        F32 => run::<f32>(&lines, src, dst, indices),
        F64 => run::<f64>(&lines, src, dst, indices),
        C64 => run::<Complex32>(&lines, src, dst, indices),
    }
    Ok(())
}

/// Sorts `src` along `axis` into `dst`, of the same shape and dtype; any strides on both sides, and the same
/// memory if the layouts are equal.
///
/// # Errors
/// Value error for an axis out of range or an output of another shape or dtype.
pub fn sort(src: &HostView, axis: usize, dst: &HostView) -> Result<()> {
    dispatch("sort", src, axis, dst, false)
}

/// Indices that sort `src` along `axis`, as uint32; equal elements keep their order.
///
/// # Errors
/// Value error for an axis out of range or an output of another shape or dtype.
pub fn argsort(src: &HostView, axis: usize, dst: &HostView) -> Result<()> {
    dispatch("argsort", src, axis, dst, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Layout;
    use crate::core::layout::row_major;
    use crate::cpu::testing::{Owned, Rng, layouts};
    use num_complex::Complex64;
    use std::cmp::Ordering;

    // NaN last, then lexicographic.
    fn compare(a: &Complex64, b: &Complex64) -> Ordering {
        let nan = |z: &Complex64| z.re.is_nan() || z.im.is_nan();
        match (nan(a), nan(b)) {
            (false, false) => (a.re, a.im).partial_cmp(&(b.re, b.im)).unwrap(),
            (x, y) => x.cmp(&y),
        }
    }

    fn check(shape: &[i64], axis: usize, dtype: Dtype, mut value: impl FnMut() -> Complex64) {
        for (name, layout, count) in layouts(shape) {
            let a = Owned::filled(dtype, count, layout, |_| value());
            let (sorted, order) = (Owned::zeros(dtype, shape), Owned::zeros(Dtype::U32, shape));
            sort(&a.view(), axis, &sorted.view()).unwrap();
            argsort(&a.view(), axis, &order.view()).unwrap();
            let (x, got, idx) = (a.values(), sorted.values(), order.reals());
            let (n, step) = (shape[axis] as usize, row_major(shape)[axis] as usize);
            for first in (0..x.len()).filter(|i| i / step % n == 0) {
                let mut want: Vec<usize> = (0..n).collect();
                want.sort_by(|&i, &j| compare(&x[first + i * step], &x[first + j * step]));
                for (i, &w) in want.iter().enumerate() {
                    let what = format!("{dtype} {name} {shape:?} axis {axis} line {first} [{i}]");
                    assert_eq!(idx[first + i * step], w as f64, "{what}");
                    let (g, w) = (got[first + i * step], x[first + w * step]);
                    let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
                    let nan = w.re.is_nan() || w.im.is_nan();
                    assert!(if nan { g.re.is_nan() } else { same(g.re, w.re) && same(g.im, w.im) }, "{what}");
                }
                let zeros = (0..n).map(|i| got[first + i * step].re).filter(|&z| z == 0.0);
                let signs: Vec<bool> = zeros.map(|z| z.is_sign_positive()).collect();
                assert!(signs.is_sorted(), "{dtype} {name} {shape:?} line {first}");
            }
        }
    }

    #[test]
    fn every_dtype_layout_and_axis() {
        let mut rng = Rng(5);
        for dtype in Dtype::ALL {
            for (shape, axis) in
                [(vec![33], 0), (vec![4, 33], 1), (vec![33, 4], 0), (vec![2, 200, 3], 1), (vec![1], 0)]
            {
                // Negative numbers would become ones in uint64 that float64 cannot tell apart.
                let least = if dtype == Dtype::U64 { 0.0 } else { -40.0 };
                check(&shape, axis, dtype, || {
                    Complex64::new((rng.next() % 90) as f64 + least, (rng.next() % 3) as f64)
                });
            }
        }
    }

    #[test]
    fn long_lines_take_the_radix_passes() {
        let mut rng = Rng(6);
        for dtype in [Dtype::U8, Dtype::I16, Dtype::F16, Dtype::F32, Dtype::I64, Dtype::F64, Dtype::C64] {
            for n in [500, 3000] {
                check(&[n], 0, dtype, || Complex64::new(rng.unit() * 2e4 - 1e4, rng.unit()));
            }
        }
        check(&[5000], 0, Dtype::U32, || ((rng.next() >> 32) as f64).into());
        check(&[5000], 0, Dtype::I64, || (rng.unit() * 3.6e18 - 1.8e18).floor().into());
    }

    #[test]
    fn nan_comes_last_and_negative_zero_before_zero() {
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1.0, -1.0, -f64::NAN];
        let mut rng = Rng(8);
        for dtype in [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64, Dtype::C64] {
            for n in [40, 700, 2500] {
                check(&[2, n], 1, dtype, || {
                    Complex64::new(special[rng.next() as usize % 8], special[rng.next() as usize % 8])
                });
            }
        }
    }

    #[test]
    fn sorting_in_place_and_nothing() {
        let a = Owned::from_f64(Dtype::F32, &[4], &[3.0, -0.0, f64::NAN, -5.0]);
        sort(&a.view(), 0, &a.view()).unwrap();
        assert_eq!(a.reals()[..3], [-5.0, 0.0, 3.0]);
        assert!(a.reals()[3].is_nan());
        let none = Owned::filled(Dtype::F32, 0, Layout::contiguous(&[0, 3]), |_| 0.0.into());
        sort(&none.view(), 0, &none.view()).unwrap();
        assert!(sort(&a.view(), 1, &a.view()).is_err());
    }
}
