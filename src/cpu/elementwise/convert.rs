//! Conversions between dtypes over contiguous blocks. float16 and bfloat16 go through float32, as in MLX;
//! floats out of an integer's range give what x86 conversions give, on every machine.

use half::{bf16, f16};
use num_complex::Complex32;

use crate::core::Dtype;
use crate::cpu::runtime::simd::{bf16_to_f32, f32_to_bf16};
use crate::kernels::elementwise::loops::{BlockFn, Kern, kern3, loop1};

/// One byte of 0 or 1.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Flag(u8);

trait To<U>: Copy {
    fn to(self) -> U;
}

macro_rules! int_to {
    ($t:ty: $($u:ty),*) => {
        $(impl To<$u> for $t { #[inline(always)] fn to(self) -> $u { self as $u } })*
        impl To<Flag> for $t { #[inline(always)] fn to(self) -> Flag { Flag((self != 0) as u8) } }
        impl To<Complex32> for $t { #[inline(always)] fn to(self) -> Complex32 { Complex32::new(self as f32, 0.0) } }
        impl To<$t> for Flag { #[inline(always)] fn to(self) -> $t { self.0 as $t } }
        impl To<$t> for Complex32 { #[inline(always)] fn to(self) -> $t { self.re.to() } }
    };
}
int_to!(u8: u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);
int_to!(u16: u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);
int_to!(u32: u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);
int_to!(u64: u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);
int_to!(i8: u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);
int_to!(i16: u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);
int_to!(i32: u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);
int_to!(i64: u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);

macro_rules! float_to {
    ($t:ty: $($small:ty),*) => {
        $(impl To<$small> for $t {
            #[inline(always)]
            fn to(self) -> $small { let i: i32 = self.to(); i as $small }
        })*
        impl To<i32> for $t {
            #[inline(always)]
            fn to(self) -> i32 {
                // SAFETY: where the result is used it is in range; without saturation the loop vectorises.
                if self.abs() < 2147483648.0 { unsafe { self.to_int_unchecked() } } else { i32::MIN }
             }
        }
        impl To<i64> for $t {
            #[inline(always)]
            fn to(self) -> i64 { if self.abs() < 9223372036854775808.0 { self as i64 } else { i64::MIN } }
        }
        impl To<u32> for $t {
            #[inline(always)]
            fn to(self) -> u32 {
                if self.abs() < 2147483648.0 { (self as i32) as u32 } else if self > 0.0 && self < 4294967296.0 { self as u32 } else { 0 }
            }
        }
        impl To<u64> for $t {
            #[inline(always)]
            fn to(self) -> u64 {
                if self.abs() < 9223372036854775808.0 { (self as i64) as u64 }
                else if self > 0.0 && self < 18446744073709551616.0 { self as u64 } else { 0 }
            }
        }
        impl To<f32> for $t { #[inline(always)] fn to(self) -> f32 { self as f32 } }
        impl To<f64> for $t { #[inline(always)] fn to(self) -> f64 { self as f64 } }
        impl To<Flag> for $t { #[inline(always)] fn to(self) -> Flag { Flag((self != 0.0) as u8) } }
        impl To<Complex32> for $t { #[inline(always)] fn to(self) -> Complex32 { Complex32::new(self as f32, 0.0) } }
        impl To<$t> for Flag { #[inline(always)] fn to(self) -> $t { self.0 as $t } }
        impl To<$t> for Complex32 { #[inline(always)] fn to(self) -> $t { self.re as $t } }
    };
}
float_to!(f32: u8, u16, i8, i16);
float_to!(f64: u8, u16, i8, i16);
impl To<Flag> for Flag {
    #[inline(always)]
    fn to(self) -> Flag {
        self
    }
}
impl To<Complex32> for Flag {
    #[inline(always)]
    fn to(self) -> Complex32 {
        Complex32::new(f32::from(self.0), 0.0)
    }
}
impl To<Flag> for Complex32 {
    #[inline(always)]
    fn to(self) -> Flag {
        Flag((self.re != 0.0 || self.im != 0.0) as u8)
    }
}
impl To<Complex32> for Complex32 {
    #[inline(always)]
    fn to(self) -> Complex32 {
        self
    }
}

unsafe fn base<T: To<U>, U>(n: usize, a: *const u8, _: *const u8, _: *const u8, o: *mut u8) {
    // SAFETY: the contract of `BlockFn`.
    unsafe { loop1::<T, U>(n, a, o, T::to) }
}
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c,bmi1,bmi2"))]
unsafe fn avx2<T: To<U>, U>(n: usize, a: *const u8, _: *const u8, _: *const u8, o: *mut u8) {
    // SAFETY: the contract of `BlockFn`.
    unsafe { loop1::<T, U>(n, a, o, T::to) }
}
fn pair<T: To<U>, U>() -> Kern {
    let v3: BlockFn = avx2::<T, U>;
    Kern([base::<T, U>, v3, v3])
}

fn from<T>(to: Dtype) -> Kern
where
    T: To<Flag> + To<u8> + To<u16> + To<u32> + To<u64> + To<i8> + To<i16> + To<i32> + To<i64>,
    T: To<f32> + To<f64> + To<Complex32>,
{
    match to {
        Dtype::Bool => pair::<T, Flag>(),
        Dtype::U8 => pair::<T, u8>(),
        Dtype::U16 => pair::<T, u16>(),
        Dtype::U32 => pair::<T, u32>(),
        Dtype::U64 => pair::<T, u64>(),
        Dtype::I8 => pair::<T, i8>(),
        Dtype::I16 => pair::<T, i16>(),
        Dtype::I32 => pair::<T, i32>(),
        Dtype::I64 => pair::<T, i64>(),
        Dtype::F16 | Dtype::BF16 | Dtype::F32 => pair::<T, f32>(),
        Dtype::F64 => pair::<T, f64>(),
        Dtype::C64 => pair::<T, Complex32>(),
    }
}

/// The conversion between two dtypes in registers, where float16 and bfloat16 are held as float32.
pub fn cast_loop(src: Dtype, dst: Dtype) -> BlockFn {
    let kern = match src {
        Dtype::Bool => from::<Flag>(dst),
        Dtype::U8 => from::<u8>(dst),
        Dtype::U16 => from::<u16>(dst),
        Dtype::U32 => from::<u32>(dst),
        Dtype::U64 => from::<u64>(dst),
        Dtype::I8 => from::<i8>(dst),
        Dtype::I16 => from::<i16>(dst),
        Dtype::I32 => from::<i32>(dst),
        Dtype::I64 => from::<i64>(dst),
        Dtype::F16 | Dtype::BF16 | Dtype::F32 => from::<f32>(dst),
        Dtype::F64 => from::<f64>(dst),
        Dtype::C64 => from::<Complex32>(dst),
    };
    kern.get()
}

unsafe fn f16_load(n: usize, a: *const u8, _: *const u8, _: *const u8, o: *mut u8) {
    // SAFETY: the contract of `BlockFn`.
    unsafe { loop1::<u16, f32>(n, a, o, |x| f16::from_bits(x).to_f32_const()) }
}
unsafe fn f16_store(n: usize, a: *const u8, _: *const u8, _: *const u8, o: *mut u8) {
    // SAFETY: the contract of `BlockFn`.
    unsafe { loop1::<f32, u16>(n, a, o, |x| f16::from_f32_const(x).to_bits()) }
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
unsafe fn f16_load_f16c(n: usize, a: *const u8, b: *const u8, c: *const u8, o: *mut u8) {
    use std::arch::x86_64::*;
    let (src, dst) = (a.cast::<u16>(), o.cast::<f32>());
    let whole = n & !7;
    for i in (0..whole).step_by(8) {
        // SAFETY: i + 8 <= n.
        unsafe { _mm256_storeu_ps(dst.add(i), _mm256_cvtph_ps(_mm_loadu_si128(src.add(i).cast()))) }
    }
    // SAFETY: the rest of the same ranges.
    unsafe { f16_load(n - whole, src.add(whole).cast(), b, c, dst.add(whole).cast()) }
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
unsafe fn f16_store_f16c(n: usize, a: *const u8, b: *const u8, c: *const u8, o: *mut u8) {
    use std::arch::x86_64::*;
    let (src, dst) = (a.cast::<f32>(), o.cast::<u16>());
    let whole = n & !7;
    for i in (0..whole).step_by(8) {
        // SAFETY: i + 8 <= n.
        unsafe {
            let h = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(src.add(i)));
            _mm_storeu_si128(dst.add(i).cast(), h);
        }
    }
    // SAFETY: the rest of the same ranges.
    unsafe { f16_store(n - whole, src.add(whole).cast(), b, c, dst.add(whole).cast()) }
}

/// Reads float16 or bfloat16 into float32; `None` for other dtypes.
pub fn half_load(dtype: Dtype) -> Option<BlockFn> {
    match dtype {
        #[cfg(target_arch = "x86_64")]
        Dtype::F16 if crate::kernels::elementwise::loops::level() > 0 => Some(f16_load_f16c),
        Dtype::F16 => Some(f16_load),
        Dtype::BF16 => Some(kern3!(1, u16 => f32, |x| bf16_to_f32(x)).get()),
        _ => None,
    }
}

/// Writes float32 as float16 or bfloat16, rounding to nearest even; `None` for other dtypes.
pub fn half_store(dtype: Dtype) -> Option<BlockFn> {
    match dtype {
        #[cfg(target_arch = "x86_64")]
        Dtype::F16 if crate::kernels::elementwise::loops::level() > 0 => Some(f16_store_f16c),
        Dtype::F16 => Some(f16_store),
        Dtype::BF16 => Some(kern3!(1, f32 => u16, |x| f32_to_bf16(x)).get()),
        _ => None,
    }
}

/// One element of any real dtype from a float64, for constants and ranges.
pub fn put_f64(v: f64, dtype: Dtype, out: *mut u8) {
    // SAFETY: the caller's `out` holds one element of `dtype`.
    unsafe {
        match dtype {
            Dtype::F16 => out.cast::<u16>().write_unaligned(f16::from_f32_const(v as f32).to_bits()),
            Dtype::BF16 => out.cast::<bf16>().write_unaligned(bf16::from_bits(f32_to_bf16(v as f32))),
            d => {
                let mut tmp = [0u64; 1];
                cast_loop(Dtype::F64, d)(
                    1,
                    (&raw const v).cast(),
                    std::ptr::null(),
                    std::ptr::null(),
                    tmp.as_mut_ptr().cast(),
                );
                std::ptr::copy_nonoverlapping(tmp.as_ptr().cast::<u8>(), out, d.size());
            }
        }
    }
}
