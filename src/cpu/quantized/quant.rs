//! Quantised matrices on the host: codecs, `quantize` and `dequantize`. Codes are read 32 at a time, which fill
//! whole words in every format; the products of `qmm` share the codecs.

use crate::bail;
use crate::core::{Dtype, Result};
use crate::cpu::runtime::elem::{Brain, Half, To};
use crate::cpu::runtime::pool::{SendPtr, parallel_chunks};
use crate::cpu::runtime::simd::multiversion;
use crate::kernels::HostView;
use crate::kernels::elementwise::fp8::{from_fp8, from_low, to_fp8};
use crate::kernels::quantized::quant::{Format, Mode, from_e8m0, to_e8m0, to_fp4};

/// Codes that are decoded together.
pub(in crate::cpu) const UNIT: usize = 32;

/// Values of a unit that are decoded side by side: a quad of four neighbouring codes in each of them.
pub(in crate::cpu) const QUADS: usize = 8;

/// Place of code `i` of a unit where the first codes of all quads come first, then the second ones, and so on:
/// the order in which vectors of quads give them.
#[inline(always)]
pub(in crate::cpu) const fn dealt(i: usize) -> usize {
    i / UNIT * UNIT + i % 4 * QUADS + i % UNIT / 4
}

/// Reads codes as numbers, without scale and bias.
pub(in crate::cpu) trait Codec {
    /// Bits of a code: words of a unit.
    const BITS: usize;
    /// Whether groups have biases.
    const AFFINE: bool;
    /// Whether a group is half a unit; else it is some units.
    const SHORT: bool = false;

    /// The 32 codes in `BITS` words, a quad each from the lowest bit on; what follows it may be anything.
    ///
    /// # Safety
    /// The words can be read.
    unsafe fn quads(words: *const u32) -> [u32; QUADS];

    /// Value of code `i` of a quad.
    fn value(quad: u32, i: usize) -> f32;

    /// Values of the unit in their order.
    ///
    /// # Safety
    /// The words can be read.
    #[inline(always)]
    unsafe fn unit(words: *const u32, out: &mut [f32; UNIT]) {
        // SAFETY: by contract.
        let q = unsafe { Self::quads(words) };
        for (i, x) in out.iter_mut().enumerate() {
            *x = Self::value(q[i / 4], i % 4);
        }
    }
}

/// Unsigned integers of `B` bits.
pub(in crate::cpu) struct Int<const B: usize>;
/// E2M1, in groups of half a unit or more.
pub(in crate::cpu) struct Fp4<const SHORT: bool>;
/// E4M3.
pub(in crate::cpu) struct Fp8;

impl<const B: usize> Codec for Int<B> {
    const BITS: usize = B;
    const AFFINE: bool = true;

    #[inline(always)]
    unsafe fn quads(words: *const u32) -> [u32; QUADS] {
        let p: *const u8 = words.cast();
        // SAFETY: all reads lie in the B words.
        unsafe {
            match B {
                1 => std::array::from_fn(|i| *words >> (4 * i)),
                2 => p.cast::<[u8; QUADS]>().read_unaligned().map(u32::from),
                4 => p.cast::<[u16; QUADS]>().read_unaligned().map(u32::from),
                8 => words.cast::<[u32; QUADS]>().read(),
                _ => std::array::from_fn(|i| {
                    // A quad fits a word wherever it begins; the last words end where the unit does.
                    let at = (i * B / 2).min(4 * B - 4);
                    p.add(at).cast::<u32>().read_unaligned() >> (i * 4 * B - 8 * at)
                }),
            }
        }
    }

    #[inline(always)]
    fn value(quad: u32, i: usize) -> f32 {
        ((quad >> (i * B)) & ((1u32 << B) - 1)) as i32 as f32
    }
}

impl<const S: bool> Codec for Fp4<S> {
    const BITS: usize = 4;
    const AFFINE: bool = false;
    const SHORT: bool = S;

    #[inline(always)]
    unsafe fn quads(words: *const u32) -> [u32; QUADS] {
        // SAFETY: by contract.
        unsafe { Int::<4>::quads(words) }
    }

    #[inline(always)]
    fn value(quad: u32, i: usize) -> f32 {
        let code = quad >> (4 * i);
        // Twice the magnitudes, a digit each.
        let twice = (0xc864_3210u32 >> ((code & 7) << 2)) & 15;
        f32::from_bits((twice as i32 as f32 * 0.5).to_bits() | (code & 8) << 28)
    }
}

impl Codec for Fp8 {
    const BITS: usize = 8;
    const AFFINE: bool = false;

    #[inline(always)]
    unsafe fn quads(words: *const u32) -> [u32; QUADS] {
        // SAFETY: by contract.
        unsafe { Int::<8>::quads(words) }
    }

    #[inline(always)]
    fn value(quad: u32, i: usize) -> f32 {
        from_low(quad >> (8 * i))
    }
}

/// Calls `$f::<Codec, ...>` with the codec of a format.
macro_rules! by_codec {
    ($format:expr, $f:ident $(:: <$t:ty>)? ($($arg:expr),* $(,)?)) => {{
        use $crate::cpu::quantized::quant::{Fp4, Fp8, Int};
        use $crate::kernels::quantized::quant::Mode;
        match ($format.mode, $format.bits) {
            (Mode::Affine, 1) => $f::<Int<1> $(, $t)?>($($arg),*),
            (Mode::Affine, 2) => $f::<Int<2> $(, $t)?>($($arg),*),
            (Mode::Affine, 3) => $f::<Int<3> $(, $t)?>($($arg),*),
            (Mode::Affine, 5) => $f::<Int<5> $(, $t)?>($($arg),*),
            (Mode::Affine, 6) => $f::<Int<6> $(, $t)?>($($arg),*),
            (Mode::Affine, 8) => $f::<Int<8> $(, $t)?>($($arg),*),
            (Mode::Affine, _) => $f::<Int<4> $(, $t)?>($($arg),*),
            (Mode::Mxfp8, _) => $f::<Fp8 $(, $t)?>($($arg),*),
            (Mode::Mxfp4, _) => $f::<Fp4<false> $(, $t)?>($($arg),*),
            (Mode::Nvfp4, _) => $f::<Fp4<true> $(, $t)?>($($arg),*),
        }
    }};
}
pub(in crate::cpu) use by_codec;

/// Element types that are quantised.
pub(in crate::cpu) trait Float: Copy + Send + Sync + To<f32> + 'static
where
    f32: To<Self>,
{
    /// The nearest value of the type.
    #[inline(always)]
    fn nearest(x: f32) -> f32 {
        let y: Self = x.to();
        y.to()
    }
}
impl Float for f32 {}
impl Float for Half {}
impl Float for Brain {}

/// Calls a function generic over the float type of a dtype.
macro_rules! by_float {
    ($op:expr, $dtype:expr, $f:ident($($arg:expr),* $(,)?)) => {
        match $dtype {
            Dtype::F32 => $f::<f32>($($arg),*),
            Dtype::F16 => $f::<Half>($($arg),*),
            Dtype::BF16 => $f::<Brain>($($arg),*),
            d => bail!(Value, "[{}] Expected float32, float16 or bfloat16, got {d}.", $op),
        }
    };
}
pub(in crate::cpu) use by_float;

/// Scale, or bias, number `i` as a float.
///
/// # Safety
/// `at` points to at least `i + 1` elements of the dtype.
#[inline(always)]
pub(in crate::cpu) unsafe fn factor(mode: Mode, dtype: Dtype, at: *const u8, i: usize) -> f32 {
    // SAFETY: by contract.
    unsafe {
        match (mode, dtype) {
            (Mode::Nvfp4, _) => from_fp8(*at.add(i)),
            (Mode::Mxfp4 | Mode::Mxfp8, _) => from_e8m0(*at.add(i)),
            (_, Dtype::F16) => (*at.cast::<Half>().add(i)).to(),
            (_, Dtype::BF16) => (*at.cast::<Brain>().add(i)).to(),
            _ => *at.cast::<f32>().add(i),
        }
    }
}

/// Groups below which a loop stays on one thread.
const GRAIN: usize = 256;

fn check(op: &str, ok: bool) -> Result<()> {
    if !ok {
        bail!(Value, "[{op}] Expected contiguous arrays whose shapes follow from the format.");
    }
    Ok(())
}

/// Codes, scales and (in affine formats) biases of `w`, whose last axis is a multiple of the group size. `global`
/// is what [`GLOBAL`](crate::kernels::quantized::quant::GLOBAL) is divided by. All are contiguous.
pub fn quantize(
    f: Format,
    w: &HostView,
    global: Option<f32>,
    codes: &HostView,
    scales: &HostView,
    biases: Option<&HostView>,
) -> Result<()> {
    let groups = f.groups(w.size());
    let fits = |v: &HostView| v.is_row_contiguous() && v.size() == groups;
    check(
        "quantize",
        w.is_row_contiguous()
            && codes.is_row_contiguous()
            && codes.size() == f.words(w.size())
            && fits(scales)
            && biases.is_none_or(fits)
            && biases.is_some() == f.affine()
            && biases.is_none_or(|b| b.dtype == w.dtype),
    )?;
    f.check_scales("quantize", scales.dtype, w.dtype)?;
    by_float!("quantize", w.dtype, quantize_as(f, w, global, codes, scales, biases))
}

fn quantize_as<T: Float>(
    f: Format,
    w: &HostView,
    global: Option<f32>,
    codes: &HostView,
    scales: &HostView,
    biases: Option<&HostView>,
) -> Result<()>
where
    f32: To<T>,
{
    let group = f.group as usize;
    let words = f.words(group);
    let (src, out) = (SendPtr::new(w.as_ptr::<T>()), SendPtr::new(codes.as_ptr::<u32>()));
    let s = SendPtr::new(scales.ptr);
    let b = biases.map(|b| SendPtr::new(b.as_ptr::<T>()));
    parallel_chunks(f.groups(w.size()), GRAIN, |r| {
        for g in r {
            let mut x = [0.0f32; 128];
            let mut q = [0u32; 128];
            let (x, q) = (&mut x[..group], &mut q[..group]);
            for (i, x) in x.iter_mut().enumerate() {
                // SAFETY: group g of w.
                *x = unsafe { *src.get().add(g * group + i) }.to();
            }
            // SAFETY: each group writes its own scale, bias and words.
            unsafe {
                if let Some(b) = b {
                    let (scale, bias) = affine_group(x, q, f.bits);
                    *s.get().cast::<T>().add(g) = scale.to();
                    *b.get().add(g) = bias.to();
                } else {
                    *s.get().add(g) = float_group::<T>(f.mode, x, q, global);
                }
                pack(q, f.bits, std::slice::from_raw_parts_mut(out.get().add(g * words), words));
            }
        }
    });
    Ok(())
}

multiversion! {
    /// Codes of a group; returns scale and bias. The end of larger magnitude is exact.
    unsafe fn affine_group<>(x: &[f32], q: &mut [u32], bits: u32) -> (f32, f32) {
        let top = ((1u32 << bits) - 1) as f32;
        let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
        for &v in x {
            low = if v < low { v } else { low };
            high = if v > high { v } else { high };
        }
        let (scale, bias) = if bits == 1 {
            ((high - low).max(1e-7), low)
        } else {
            let step = ((high - low) / top).max(1e-7);
            let below = low.abs() > high.abs();
            let (step, edge) = if below { (step, low) } else { (-step, high) };
            let count = (edge / step).round_ties_even();
            if count != 0.0 { (edge / count, edge) } else { (step, 0.0) }
        };
        for (q, &v) in q.iter_mut().zip(x) {
            let y = ((v - bias) / scale).round_ties_even();
            // The conversion takes what is not a number to zero.
            *q = y.clamp(0.0, top) as u32;
        }
        (scale, bias)
    }
}

/// Codes of a group of floats; returns the byte of its scale.
fn float_group<T: Float>(mode: Mode, x: &[f32], q: &mut [u32], global: Option<f32>) -> u8
where
    f32: To<T>,
{
    let largest = x.iter().fold(0.0f32, |m, v| if v.abs() > m { v.abs() } else { m });
    let top = if mode == Mode::Mxfp8 { 448.0 } else { 6.0 };
    let ratio = T::nearest(largest / top);
    let (byte, scale) = if mode == Mode::Nvfp4 {
        let byte = to_fp8(global.map_or(ratio, |g| ratio * g));
        (byte, from_fp8(byte))
    } else {
        let byte = to_e8m0(ratio);
        (byte, T::nearest(from_e8m0(byte)))
    };
    for (q, &v) in q.iter_mut().zip(x) {
        let y = T::nearest(v / scale);
        let y = global.map_or(y, |g| y * g);
        *q = if mode == Mode::Mxfp8 { to_fp8(y).into() } else { to_fp4(y) };
    }
    byte
}

/// Writes codes one after the other into the bits of `words`.
fn pack(q: &[u32], bits: u32, words: &mut [u32]) {
    let (mut held, mut count, mut at) = (0u64, 0, 0);
    for &c in q {
        held |= u64::from(c) << count;
        count += bits;
        if count >= 32 {
            words[at] = held as u32;
            (held, count, at) = (held >> 32, count - 32, at + 1);
        }
    }
}

/// Values of quantised rows. `dst` (float32, float16 or bfloat16) has the dtype of affine scales; products with
/// the scale and sums with the bias are rounded to it one by one. All are contiguous.
pub fn dequantize(
    f: Format,
    codes: &HostView,
    scales: &HostView,
    biases: Option<&HostView>,
    dst: &HostView,
) -> Result<()> {
    let groups = f.groups(dst.size());
    let fits = |v: &HostView| v.is_row_contiguous() && v.size() == groups;
    check(
        "dequantize",
        dst.is_row_contiguous()
            && codes.is_row_contiguous()
            && codes.size() == f.words(dst.size())
            && fits(scales)
            && biases.is_some() == f.affine()
            && biases.is_none_or(|b| fits(b) && b.dtype == scales.dtype),
    )?;
    f.check_scales("dequantize", scales.dtype, dst.dtype)?;
    by_float!("dequantize", dst.dtype, dequantize_as(f, codes, scales, biases, dst))
}

fn dequantize_as<T: Float>(
    f: Format,
    codes: &HostView,
    scales: &HostView,
    biases: Option<&HostView>,
    dst: &HostView,
) -> Result<()>
where
    f32: To<T>,
{
    let group = f.group as usize;
    let (w, s) = (SendPtr::new(codes.as_ptr::<u32>()), SendPtr::new(scales.ptr));
    let b = biases.map(|b| SendPtr::new(b.ptr));
    let out = SendPtr::new(dst.as_ptr::<T>());
    let dtype = scales.dtype;
    parallel_chunks(f.groups(dst.size()), GRAIN, |r| {
        for g in r {
            // SAFETY: group g of each view; groups are disjoint.
            unsafe {
                let scale = T::nearest(factor(f.mode, dtype, s.get(), g));
                let bias = b.map(|b| factor(f.mode, dtype, b.get(), g));
                let from = w.get().add(f.words(group) * g);
                by_codec!(f, group_values::<T>(from, scale, bias, out.get().add(g * group), group));
            }
        }
    });
    Ok(())
}

multiversion! {
    /// Values of one group.
    unsafe fn group_values<C: Codec, T: Rounded>(w: *const u32, scale: f32, bias: Option<f32>, dst: *mut T, group: usize) {
        for u in 0..group.div_ceil(UNIT) {
            let count = UNIT.min(group - u * UNIT);
            // SAFETY: the caller guarantees the words and the results of the group.
            unsafe {
                let mut q = [0.0; UNIT];
                if count == UNIT {
                    C::unit(w.add(u * C::BITS), &mut q);
                } else {
                    half_unit::<C>(w, &mut q);
                }
                let to = dst.add(u * UNIT);
                for (i, q) in q.iter().enumerate().take(count) {
                    let y = T::nearest(q * scale);
                    *to.add(i) = T::put(match bias {
                        Some(b) => y + b,
                        None => y,
                    });
                }
            }
        }
    }
}

/// A float type with its rounding, for use as a bound.
pub(in crate::cpu) trait Rounded: Copy {
    fn nearest(x: f32) -> f32;
    fn put(x: f32) -> Self;
}
impl<T: Float> Rounded for T
where
    f32: To<T>,
{
    #[inline(always)]
    fn nearest(x: f32) -> f32 {
        <T as Float>::nearest(x)
    }
    #[inline(always)]
    fn put(x: f32) -> T {
        x.to()
    }
}

/// The 16 codes of half a unit, then zeros.
///
/// # Safety
/// Half of a unit's words can be read; their number is even.
#[inline(always)]
pub(in crate::cpu) unsafe fn half_unit<C: Codec>(w: *const u32, out: &mut [f32; UNIT]) {
    let mut words = [0u32; 8];
    for (i, x) in words.iter_mut().enumerate().take(C::BITS / 2) {
        // SAFETY: by contract.
        *x = unsafe { *w.add(i) };
    }
    // SAFETY: a unit has at most eight words.
    unsafe { C::unit(words.as_ptr(), out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_read_what_pack_wrote() {
        fn check<C: Codec>() {
            let q: Vec<u32> = (0..32u32).map(|i| (i * 37 + 11) & ((1 << C::BITS) - 1)).collect();
            let mut words = vec![0; C::BITS];
            pack(&q, C::BITS as u32, &mut words);
            let mut got = [0.0; UNIT];
            // SAFETY: the words of one unit.
            unsafe { C::unit(words.as_ptr(), &mut got) };
            assert!(q.iter().zip(got).all(|(&a, b)| a as f32 == b), "{} bits", C::BITS);
        }
        check::<Int<1>>();
        check::<Int<2>>();
        check::<Int<3>>();
        check::<Int<4>>();
        check::<Int<5>>();
        check::<Int<6>>();
        check::<Int<8>>();
    }

    #[test]
    fn dealt_places_are_those_of_vectors_of_quads() {
        let mut seen = [false; UNIT];
        for i in 0..UNIT {
            let (quad, place) = (dealt(i) % QUADS, dealt(i) / QUADS);
            assert_eq!((quad, place), (i / 4, i % 4));
            seen[dealt(i)] = true;
        }
        assert!(seen.iter().all(|&s| s) && dealt(UNIT + 5) == UNIT + dealt(5));
    }
}
