//! Run-time choice of the vector instruction set, and branch-free conversions that vectorise. A kernel body
//! is written once, as plain loops; `multiversion!` compiles it for the baseline and for AVX2, and picks at
//! run time. Fused multiply-add is never formed implicitly, so all versions give the same bits.

/// Whether this machine runs the AVX2 versions.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn has_avx2() -> bool {
    // The standard library caches the answer: this is one load and a test.
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
}

/// Defines a function in two versions, baseline and AVX2, chosen by the processor at each call. The body
/// and everything hot that it calls must be `#[inline(always)]` to be compiled for the wider version.
macro_rules! multiversion {
    ($(#[$meta:meta])* $vis:vis unsafe fn $name:ident<$($g:ident: $bound:path),*>
        ($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        $vis unsafe fn $name<$($g: $bound),*>($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            unsafe fn body<$($g: $bound),*>($($arg: $ty),*) $(-> $ret)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
                unsafe fn avx2<$($g: $bound),*>($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: the caller's contract is passed on unchanged.
                    unsafe { body::<$($g),*>($($arg),*) }
                }
                if $crate::cpu::runtime::simd::has_avx2() {
                    // SAFETY: the features were just detected; the contract is passed on unchanged.
                    return unsafe { avx2::<$($g),*>($($arg),*) };
                }
            }
            // SAFETY: the caller's contract is passed on unchanged.
            unsafe { body::<$($g),*>($($arg),*) }
        }
    };
}
pub(crate) use multiversion;

/// Keeps lanes whole vectors in the loop that adds to them or multiplies them: seen together with the joins that follow, it
/// would be taken apart into the pairs that the last of them want. A copy of the lanes passes through memory in between;
/// the lanes themselves would be held there throughout if their address were given away.
#[inline(always)]
pub(crate) fn keep_vectors<T: Copy, const N: usize>(lanes: [T; N]) -> [T; N] {
    std::hint::black_box(lanes)
}

/// Copies to memory that nobody will read for long, past the caches where that is possible. [`stream_end`] comes
/// before anything that tells other threads of it.
///
/// # Safety
/// Both sides hold `n` elements, do not overlap, and `to` is aligned to 16 bytes.
#[inline(always)]
pub(crate) unsafe fn stream<T: Copy>(from: *const T, n: usize, to: *mut T) {
    let bytes = n * size_of::<T>();
    let (from, to) = (from.cast::<u8>(), to.cast::<u8>());
    #[cfg(target_arch = "x86_64")]
    let whole = {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        for at in (0..bytes / 16).map(|i| 16 * i) {
            // SAFETY: sixteen bytes lie at `at` on both sides; the target is aligned by contract.
            unsafe {
                _mm_stream_si128(
                    to.add(at).cast::<__m128i>(),
                    _mm_loadu_si128(from.add(at).cast::<__m128i>()),
                );
            }
        }
        bytes / 16 * 16
    };
    #[cfg(not(target_arch = "x86_64"))]
    let whole = 0;
    // SAFETY: what is left of the range.
    unsafe { std::ptr::copy_nonoverlapping(from.add(whole), to.add(whole), bytes - whole) };
}

/// Orders what this thread has streamed before whatever it stores next.
#[inline(always)]
pub(crate) fn stream_end() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a fence; every x86-64 processor has it.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Value of IEEE half bits, exactly.
#[inline(always)]
pub(crate) fn f16_to_f32(h: u16) -> f32 {
    let h = u32::from(h);
    // Shift exponent and mantissa into place, rescale by 2^112; that also normalises subnormals.
    let scaled = f32::from_bits((h & 0x7fff) << 13) * f32::from_bits(0x7780_0000);
    let special = if h & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled.to_bits() | special | (h & 0x8000) << 16)
}

/// Nearest half, ties to even; NaN stays NaN.
#[inline(always)]
pub(crate) fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let abs = bits & 0x7fff_ffff;
    // Subnormal results: adding 0.5 lets the adder round at the 2^-24 position.
    let small = (f32::from_bits(abs) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    // Normal results: rebias, round half to even on bit 13.
    let normal = abs.wrapping_sub(0x3800_0000).wrapping_add(0xfff + ((abs >> 13) & 1)) >> 13;
    let finite = if abs < 0x3880_0000 { small } else { normal };
    // From 65520 on everything rounds to infinity.
    let big = if abs > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
    (sign | if abs >= 0x477f_f000 { big } else { finite }) as u16
}

/// Value of bfloat16 bits, exactly.
#[inline(always)]
pub(crate) fn bf16_to_f32(h: u16) -> f32 {
    f32::from_bits(u32::from(h) << 16)
}

/// Nearest bfloat16, ties to even; NaN stays NaN.
#[inline(always)]
pub(crate) fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x40;
    (if bits & 0x7fff_ffff > 0x7f80_0000 { quiet } else { rounded }) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    #[test]
    fn half_conversions_agree_with_the_reference_on_every_value() {
        for h in 0..=u16::MAX {
            let (a, b) = (f16_to_f32(h), f16::from_bits(h).to_f32());
            assert!(a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(), "{h:#x}");
            let (a, b) = (bf16_to_f32(h), bf16::from_bits(h).to_f32());
            assert!(a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(), "{h:#x}");
        }
    }

    #[test]
    fn rounding_to_half_agrees_with_the_reference() {
        let mut bits = 0u32;
        for _ in 0..2_000_000 {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let around = (bits & 0xffff_e000).wrapping_add((bits >> 3) % 3).wrapping_add(0xfff);
            for x in [f32::from_bits(bits), f32::from_bits(around)] {
                if x.is_nan() {
                    assert!(f16::from_bits(f32_to_f16(x)).is_nan());
                    assert!(bf16::from_bits(f32_to_bf16(x)).is_nan());
                } else {
                    assert_eq!(f32_to_f16(x), f16::from_f32(x).to_bits(), "{x:e}");
                    assert_eq!(f32_to_bf16(x), bf16::from_f32(x).to_bits(), "{x:e}");
                }
            }
        }
    }
}
