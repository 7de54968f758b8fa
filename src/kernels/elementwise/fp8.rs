//! The 8-bit float of one sign, four exponent and three mantissa bits (E4M3, without infinities): values to
//! +-448, one NaN per sign. Conversions as MLX has them: to nearest even, and everything beyond the largest
//! value, NaN included, becomes that value. Branch-free, for the loops of the table.

/// Bits of the nearest E4M3 number.
#[inline(always)]
pub fn to_fp8(x: f32) -> u8 {
    let u: u32 = x.to_bits() & 0x7fff_ffff;
    // Adding 2^14 leaves a small value in units of 2^-9, rounded, in the low bits.
    let small: u32 = (f32::from_bits(u) + 16384.0).to_bits().wrapping_sub(0x4680_0000);
    let normal: u32 = u.wrapping_sub(0x3c00_0000).wrapping_add(0x7_ffff + ((u >> 20) & 1)) >> 20;
    let clamped: u32 = if normal < 0x7e { normal } else { 0x7e };
    let finite: u32 = if u < 0x3c80_0000 { small } else { clamped };
    let code: u32 = if u < 0x43e8_0000 { finite } else { 0x7e };
    (code | (x.to_bits() >> 24 & 0x80)) as u8
}

/// Value of E4M3 bits, exactly.
#[inline(always)]
pub fn from_fp8(code: u8) -> f32 {
    from_low(code.into())
}

/// Value of the lowest eight bits as an E4M3 number, for vectors of words.
#[inline(always)]
pub fn from_low(code: u32) -> f32 {
    let m: u32 = code & 0x7f;
    let small: u32 = (m as i32 as f32 * 0.001953125).to_bits();
    let normal: u32 = (m << 20) + 0x3c00_0000;
    let finite: u32 = if m < 8 { small } else { normal };
    let bits: u32 = if m == 0x7f { 0x7fc0_0000 } else { finite };
    f32::from_bits(bits | (code & 0x80) << 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_and_ties_go_to_even() {
        for c in (0..=255u8).filter(|c| c & 0x7f != 0x7f) {
            assert_eq!(to_fp8(from_fp8(c)), c);
        }
        for c in 0..0x7du8 {
            let (low, high) = (from_fp8(c), from_fp8(c + 1));
            let middle = (low + high) / 2.0;
            assert_eq!(to_fp8(middle), c + (c & 1), "{middle}");
            assert_eq!(to_fp8(middle.next_down()), c);
            assert_eq!(to_fp8(middle.next_up()), c + 1);
        }
        assert_eq!((from_fp8(1), from_fp8(8), from_fp8(0x7e)), (0.001953125, 0.015625, 448.0));
        assert!(from_fp8(0x7f).is_nan() && from_fp8(0xff).is_nan());
    }

    #[test]
    fn what_is_too_large_becomes_the_largest_value() {
        for x in [448.0, 463.9, 464.0, 1e30, f32::INFINITY, f32::NAN] {
            assert_eq!((to_fp8(x), to_fp8(-x)), (0x7e, 0xfe), "{x}");
        }
        assert_eq!((to_fp8(0.0), to_fp8(-0.0), to_fp8(-1e-30)), (0, 0x80, 0x80));
    }
}
