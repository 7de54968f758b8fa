//! Float32 values that are computed at once, by whatever vectors the processor has. Called by `chained`.

use crate::kernels::elementwise::scalar_special;
#[cfg(target_arch = "x86_64")]
use crate::kernels::elementwise::scalar_special::{ERF_FAR, ERF_NEAR};

/// Float32 values that are computed at once.
pub trait Vector: Copy {
    const LANES: usize;
    unsafe fn load(at: *const f32) -> Self;
    /// One value everywhere.
    unsafe fn all(at: *const f32) -> Self;
    unsafe fn store(self, at: *mut f32);
    unsafe fn add(self, o: Self) -> Self;
    unsafe fn sub(self, o: Self) -> Self;
    unsafe fn mul(self, o: Self) -> Self;
    unsafe fn div(self, o: Self) -> Self;
    /// The larger one, the first where that is NaN, else the second where they are equal or that is.
    unsafe fn max(self, o: Self) -> Self;
    unsafe fn min(self, o: Self) -> Self;
    /// The same for an `o` that is neither NaN nor zero.
    #[inline(always)]
    unsafe fn max_plain(self, o: Self) -> Self {
        // SAFETY: the caller's processor.
        unsafe { self.max(o) }
    }
    #[inline(always)]
    unsafe fn min_plain(self, o: Self) -> Self {
        // SAFETY: the caller's processor.
        unsafe { self.min(o) }
    }
    unsafe fn abs(self) -> Self;
    unsafe fn neg(self) -> Self;
    unsafe fn sqrt(self) -> Self;
    /// `yes` where it is greater than `than`, else `no`.
    unsafe fn greater(self, than: Self, yes: Self, no: Self) -> Self;
    /// Numbers that are not negative, with the signs of others.
    unsafe fn with_sign(self, s: Self) -> Self;
    /// self * b + c, rounded once.
    unsafe fn fma(self, b: Self, c: Self) -> Self;
    /// The error function of some, in their place; not inlined, so that those who call it with a copy keep theirs in registers at
    /// other times.
    unsafe fn erf_of<const U: usize>(x: &mut [Self; U]);
}

impl Vector for f32 {
    const LANES: usize = 1;
    #[inline(always)]
    unsafe fn load(at: *const f32) -> f32 {
        // SAFETY: the caller's address.
        unsafe { *at }
    }
    #[inline(always)]
    unsafe fn all(at: *const f32) -> f32 {
        // SAFETY: the caller's address.
        unsafe { *at }
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f32) {
        // SAFETY: the caller's address.
        unsafe { *at = self }
    }
    #[inline(always)]
    unsafe fn add(self, o: f32) -> f32 {
        self + o
    }
    #[inline(always)]
    unsafe fn sub(self, o: f32) -> f32 {
        self - o
    }
    #[inline(always)]
    unsafe fn mul(self, o: f32) -> f32 {
        self * o
    }
    #[inline(always)]
    unsafe fn div(self, o: f32) -> f32 {
        self / o
    }
    #[inline(always)]
    unsafe fn max(self, o: f32) -> f32 {
        if self > o || self.is_nan() { self } else { o }
    }
    #[inline(always)]
    unsafe fn min(self, o: f32) -> f32 {
        if self < o || self.is_nan() { self } else { o }
    }
    #[inline(always)]
    unsafe fn abs(self) -> f32 {
        f32::abs(self)
    }
    #[inline(always)]
    unsafe fn neg(self) -> f32 {
        -self
    }
    #[inline(always)]
    unsafe fn sqrt(self) -> f32 {
        f32::sqrt(self)
    }
    #[inline(always)]
    unsafe fn greater(self, than: f32, yes: f32, no: f32) -> f32 {
        if self > than { yes } else { no }
    }
    #[inline(always)]
    unsafe fn with_sign(self, s: f32) -> f32 {
        f32::from_bits(self.to_bits() | (s.to_bits() & 0x8000_0000))
    }
    #[inline(always)]
    unsafe fn fma(self, b: f32, c: f32) -> f32 {
        self.mul_add(b, c)
    }
    #[inline(always)]
    unsafe fn erf_of<const U: usize>(x: &mut [f32; U]) {
        *x = x.map(scalar_special::erf);
    }
}

/// The error function, step by step as `scalar_special::erf` has it.
///
/// # Safety
/// The caller's processor has the vectors.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn erf<V: Vector>(x: V) -> V {
    // SAFETY: the caller's processor.
    unsafe {
        let c = |x: f32| V::all(&x);
        let (m, most) = (x.abs(), c(3.95));
        let a = m.greater(most, most, m);
        let s = a.mul(a);
        let s2 = s.mul(s);
        let [p0, p1, p2, p3, p4, p5, p6] = ERF_NEAR.map(c);
        let (p0, p2, p4) = (p0.fma(s, p1), p2.fma(s, p3), p4.fma(s, p5));
        let p = p6.fma(s2, p4).fma(s2, p2).fma(s2, p0);
        let [q0, q1, q2, q3, q4, q5, q6] = ERF_FAR.map(c);
        let (q0, q2, q4) = (q0.fma(a, q1), q2.fma(a, q3), q4.fma(a, q5));
        let q = q6.fma(s, q4).fma(s, q2).fma(s, q0);
        let square = q.mul(q);
        let fourth = square.mul(square);
        let tail = fourth.neg().fma(fourth, c(1.0)).with_sign(x);
        m.greater(c(1.1), tail, p.fma(x, x))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Vector, erf};
    use std::arch::x86_64::*;

    macro_rules! vector {
        ($t:ty, $lanes:literal, $load:ident, $all:ident, $store:ident, $add:ident, $sub:ident, $mul:ident, $div:ident,
            $sqrt:ident, $larger:ident, $smaller:ident, |$a:ident, $b:ident| $max:expr, $min:expr, |$x:ident| $abs:expr, $neg:expr,
            |$m:ident, $than:ident, $yes:ident, $no:ident| $greater:expr, |$n:ident, $s:ident| $signed:expr,
            $fma:ident, $erf:ident, $features:literal) => {
            impl Vector for $t {
                const LANES: usize = $lanes;
                #[inline(always)]
                unsafe fn load(at: *const f32) -> $t {
                    // SAFETY: the caller's address and processor, here and below.
                    unsafe { $load(at) }
                }
                #[inline(always)]
                unsafe fn all(at: *const f32) -> $t {
                    // SAFETY: as above.
                    unsafe { $all(*at) }
                }
                #[inline(always)]
                unsafe fn store(self, at: *mut f32) {
                    // SAFETY: as above.
                    unsafe { $store(at, self) }
                }
                #[inline(always)]
                unsafe fn add(self, o: $t) -> $t {
                    // SAFETY: as above.
                    unsafe { $add(self, o) }
                }
                #[inline(always)]
                unsafe fn sub(self, o: $t) -> $t {
                    // SAFETY: as above.
                    unsafe { $sub(self, o) }
                }
                #[inline(always)]
                unsafe fn mul(self, o: $t) -> $t {
                    // SAFETY: as above.
                    unsafe { $mul(self, o) }
                }
                #[inline(always)]
                unsafe fn div(self, o: $t) -> $t {
                    // SAFETY: as above.
                    unsafe { $div(self, o) }
                }
                #[inline(always)]
                unsafe fn max(self, $b: $t) -> $t {
                    let $a = self;
                    // SAFETY: as above.
                    unsafe { $max }
                }
                #[inline(always)]
                unsafe fn min(self, $b: $t) -> $t {
                    let $a = self;
                    // SAFETY: as above.
                    unsafe { $min }
                }
                #[inline(always)]
                unsafe fn max_plain(self, o: $t) -> $t {
                    // SAFETY: as above.
                    unsafe { $larger(o, self) }
                }
                #[inline(always)]
                unsafe fn min_plain(self, o: $t) -> $t {
                    // SAFETY: as above.
                    unsafe { $smaller(o, self) }
                }
                #[inline(always)]
                unsafe fn abs(self) -> $t {
                    let $x = self;
                    // SAFETY: as above.
                    unsafe { $abs }
                }
                #[inline(always)]
                unsafe fn neg(self) -> $t {
                    let $x = self;
                    // SAFETY: as above.
                    unsafe { $neg }
                }
                #[inline(always)]
                unsafe fn sqrt(self) -> $t {
                    // SAFETY: as above.
                    unsafe { $sqrt(self) }
                }
                #[inline(always)]
                unsafe fn greater(self, $than: $t, $yes: $t, $no: $t) -> $t {
                    let $m = self;
                    // SAFETY: as above.
                    unsafe { $greater }
                }
                #[inline(always)]
                unsafe fn with_sign(self, $s: $t) -> $t {
                    let $n = self;
                    // SAFETY: as above.
                    unsafe { $signed }
                }
                #[inline(always)]
                unsafe fn fma(self, b: $t, c: $t) -> $t {
                    // SAFETY: as above.
                    unsafe { $fma(self, b, c) }
                }
                #[inline(always)]
                unsafe fn erf_of<const U: usize>(x: &mut [$t; U]) {
                    // SAFETY: as above.
                    unsafe { $erf(x) }
                }
            }

            #[target_feature(enable = $features)]
            #[inline(never)]
            unsafe fn $erf<const U: usize>(x: &mut [$t; U]) {
                for x in x {
                    // SAFETY: the features that the function is for.
                    *x = unsafe { erf(*x) };
                }
            }
        };
    }
    // The instructions give the second operand where either is NaN and where both are zeros.
    vector!(
        __m256,
        8,
        _mm256_loadu_ps,
        _mm256_set1_ps,
        _mm256_storeu_ps,
        _mm256_add_ps,
        _mm256_sub_ps,
        _mm256_mul_ps,
        _mm256_div_ps,
        _mm256_sqrt_ps,
        _mm256_max_ps,
        _mm256_min_ps,
        |a, b| _mm256_blendv_ps(_mm256_max_ps(a, b), a, _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a)),
        _mm256_blendv_ps(_mm256_min_ps(a, b), a, _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a)),
        |x| _mm256_andnot_ps(_mm256_set1_ps(-0.0), x),
        _mm256_xor_ps(_mm256_set1_ps(-0.0), x),
        |m, than, yes, no| _mm256_blendv_ps(no, yes, _mm256_cmp_ps::<_CMP_GT_OQ>(m, than)),
        |n, s| _mm256_or_ps(n, _mm256_and_ps(_mm256_set1_ps(-0.0), s)),
        _mm256_fmadd_ps,
        erf_narrow,
        "avx2,fma"
    );
    vector!(
        __m512,
        16,
        _mm512_loadu_ps,
        _mm512_set1_ps,
        _mm512_storeu_ps,
        _mm512_add_ps,
        _mm512_sub_ps,
        _mm512_mul_ps,
        _mm512_div_ps,
        _mm512_sqrt_ps,
        _mm512_max_ps,
        _mm512_min_ps,
        |a, b| _mm512_mask_mov_ps(_mm512_max_ps(a, b), _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a), a),
        _mm512_mask_mov_ps(_mm512_min_ps(a, b), _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a), a),
        |x| _mm512_andnot_ps(_mm512_set1_ps(-0.0), x),
        _mm512_xor_ps(_mm512_set1_ps(-0.0), x),
        |m, than, yes, no| _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask::<_CMP_GT_OQ>(m, than), yes),
        |n, s| _mm512_or_ps(n, _mm512_and_ps(_mm512_set1_ps(-0.0), s)),
        _mm512_fmadd_ps,
        erf_wide,
        "avx512f,avx512vl,avx512bw,avx512dq"
    );
}
