//! Element types as the kernels see them, and how they become accumulators and results.

use num_complex::Complex32;

use super::simd::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};

/// Bits of a boolean, a half and a bfloat16; distinct types so that conversions can tell them apart.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Bool(pub u8);
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Half(pub u16);
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Brain(pub u16);

/// Conversion between element and accumulator; integers extend or truncate.
pub(crate) trait To<T> {
    fn to(self) -> T;
}

macro_rules! to {
    ($($from:ty => $($into:ty),+: |$x:ident| $e:expr;)*) => { $($(
        impl To<$into> for $from {
            #[inline(always)]
            fn to(self) -> $into { let $x = self; $e }
        }
    )+)* };
}

to! {
    Bool => u8: |x| u8::from(x.0 != 0);
    u8 => Bool: |x| Bool(x);
    Bool => u32: |x| u32::from(x.0 != 0);
    u8 => u8: |x| x;
    u8 => u32: |x| x.into();
    u16 => u16: |x| x;
    u16 => u32: |x| x.into();
    u32 => u32: |x| x;
    u32 => u64: |x| x.into();
    u64 => u64: |x| x;
    i8 => u32: |x| x as u32;
    i16 => u32: |x| x as u32;
    i32 => u64: |x| x as u64;
    i8 => i8: |x| x;
    i16 => i16: |x| x;
    i32 => i32: |x| x;
    i64 => i64: |x| x;
    Half => f32: |x| f16_to_f32(x.0);
    Brain => f32: |x| bf16_to_f32(x.0);
    f32 => Half: |x| Half(f32_to_f16(x));
    f32 => Brain: |x| Brain(f32_to_bf16(x));
    f32 => f32: |x| x;
    f32 => f64: |x| x.into();
    f64 => f64: |x| x;
    Complex32 => Complex32: |x| x;
}
