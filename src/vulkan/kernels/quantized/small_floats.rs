//! Small floats (E2M1, E4M3) as pairs of elements of 16 bits in PTX: their digits are those of a number near the smallest one, which is
//! multiplied up. For `wide_codes`, `few_rows` and chains.

use crate::core::Dtype;
use crate::vulkan::kernels::matmul::warpgroup::text::{kind, put};

/// Where the digits of a small float go in an element of 16 bits, and what makes them its value again.
pub struct Small {
    /// Places that exponent and mantissa go up.
    up: u32,
    /// Their bits there.
    digits: u32,
    /// A pair of the power of two that the value is too small by.
    pub times: u32,
}

/// E2M1.
pub fn fours(dtype: Dtype) -> Small {
    match dtype {
        Dtype::F16 => Small { up: 9, digits: 0x0e00_0e00, times: 0x7400_7400 },
        _ => Small { up: 6, digits: 0x01c0_01c0, times: 0x7e80_7e80 },
    }
}

/// E4M3.
pub fn eights(dtype: Dtype) -> Small {
    match dtype {
        Dtype::F16 => Small { up: 7, digits: 0x3f80_3f80, times: 0x5c00_5c00 },
        _ => Small { up: 4, digits: 0x07f0_07f0, times: 0x7b80_7b80 },
    }
}

/// What `eight` needs in registers.
pub fn constants(o: &mut String, dtype: Dtype) {
    let beyond = if dtype == Dtype::F16 { 0x5860_5860_u32 } else { 0x7b0b_7b0b };
    put(
        o,
        format_args!(
            "mov.b32 eights,{:#x}; mov.b32 beyond,{beyond:#x}; mov.b32 zero,0;",
            eights(dtype).times
        ),
    );
}

/// The digits of a pair of E2M1, from `place` on in each half of `from`, in `to`: too small by `times` of [`fours`]. `free` are two more
/// registers, here and below.
pub fn four(o: &mut String, dtype: Dtype, [to, from]: [&str; 2], place: u32, free: [&str; 2]) {
    let [tmp, tmp2] = free;
    let Small { up, digits, .. } = fours(dtype);
    let moved = |o: &mut String, to: &str, up: u32| match (up, place) {
        (up, place) if up >= place => put(o, format_args!("shl.b32 {to},{from},{};", up - place)),
        _ => put(o, format_args!("shr.u32 {to},{from},{};", place - up)),
    };
    moved(o, tmp, up);
    moved(o, tmp2, 12);
    put(
        o,
        format_args!(
            "and.b32 {tmp2},{tmp2},0x80008000; and.b32 {tmp},{tmp},{digits:#x}; or.b32 {to},{tmp},{tmp2};"
        ),
    );
}

/// The E2M1 in the last four bits of `from` as float32.
pub fn single(o: &mut String, to: &str, from: &str, [tmp, tmp2]: [&str; 2]) {
    put(
        o,
        format_args!(
            "and.b32 {tmp2},{from},8; shl.b32 {tmp2},{tmp2},28; and.b32 {tmp},{from},7; shl.b32 {tmp},{tmp},22; or.b32 {tmp},{tmp},{tmp2}; mov.b32 {to},{tmp}; mul.rn.f32 {to},{to},0f7E800000;"
        ),
    );
}

/// The power of two of a byte (E8M0) in 32 bits, which are written, as float32; of zero it is half the smallest with an exponent.
pub fn power(o: &mut String, to: &str, byte: &str) {
    put(o, format_args!("shl.b32 {byte},{byte},23; max.u32 {byte},{byte},0x00400000; mov.b32 {to},{byte};"));
}

/// A pair of E4M3, each twice in `tmp`; 480 is none: what makes it infinite, and no other, makes zero no number.
pub fn eight(o: &mut String, dtype: Dtype, to: &str) {
    let (Small { up, digits, .. }, kind) = (eights(dtype), kind(dtype));
    put(
        o,
        format_args!(
            "shl.b32 tmp2,tmp,{up}; and.b32 tmp,tmp,0x80008000; and.b32 tmp2,tmp2,{digits:#x}; or.b32 tmp,tmp,tmp2; mul.rn.{kind}x2 tmp,tmp,eights; mul.rn.{kind}x2 tmp2,tmp,beyond; fma.rn.{kind}x2 {to},tmp2,zero,tmp;"
        ),
    );
}
