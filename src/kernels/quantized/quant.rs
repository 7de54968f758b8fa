//! Formats of quantised matrices, as MLX has them: rows of codes that follow each other in the bits of uint32
//! words from the lowest on, and one scale (in affine formats also one bias) for each group of neighbours.
//! Thirty-two codes fill as many words as a code has bits, whatever that number is.

use crate::core::{Dtype, Error, Param, Result};
use crate::{bail, params};

/// How codes and scales are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// `scale * code + bias`, codes of 1, 2, 3, 4, 5, 6 or 8 bits; scales and biases are floats.
    Affine,
    /// Codes E2M1, scales powers of two (E8M0) for each 32.
    Mxfp4,
    /// Codes E4M3, scales powers of two (E8M0) for each 32.
    Mxfp8,
    /// Codes E2M1, scales E4M3 for each 16.
    Nvfp4,
}

impl Mode {
    /// The mode of that name.
    pub fn parse(op: &str, name: &str) -> Result<Mode> {
        Ok(match name {
            "affine" => Mode::Affine,
            "mxfp4" => Mode::Mxfp4,
            "mxfp8" => Mode::Mxfp8,
            "nvfp4" => Mode::Nvfp4,
            _ => bail!(
                Value,
                "[{op}] Invalid quantization mode '{name}', expected affine, mxfp4, mxfp8 or nvfp4."
            ),
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Affine => "affine",
            Mode::Mxfp4 => "mxfp4",
            Mode::Mxfp8 => "mxfp8",
            Mode::Nvfp4 => "nvfp4",
        }
    }

    /// Group size and bits where the caller names none.
    pub fn defaults(self) -> (i64, i64) {
        match self {
            Mode::Affine => (64, 4),
            Mode::Mxfp4 => (32, 4),
            Mode::Mxfp8 => (32, 8),
            Mode::Nvfp4 => (16, 4),
        }
    }
}

/// A mode with its group size and bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Format {
    /// How codes and scales are read.
    pub mode: Mode,
    /// Neighbours along a row that share a scale: 16, 32, 64 or 128.
    pub group: u32,
    /// Bits of a code.
    pub bits: u32,
}

impl Format {
    /// The format with these numbers, if there is such.
    pub fn new(op: &str, mode: Mode, group: i64, bits: i64) -> Result<Format> {
        if mode == Mode::Affine {
            if ![32, 64, 128].contains(&group) {
                bail!(
                    Value,
                    "[{op}] The requested group size {group} is not supported. The supported group sizes are 32, \
                     64, and 128."
                );
            }
            if ![1, 2, 3, 4, 5, 6, 8].contains(&bits) {
                bail!(
                    Value,
                    "[{op}] The requested number of bits {bits} is not supported. The supported bits are 1, 2, 3, \
                     4, 5, 6 and 8."
                );
            }
        } else {
            let (g, b) = mode.defaults();
            let name = mode.name();
            if group != g {
                bail!(Value, "[{op}] {name} quantization requires group size {g} but got {group}.");
            }
            if bits != b {
                bail!(Value, "[{op}] {name} quantization requires bits to be {b} but got {bits}.");
            }
        }
        Ok(Format { mode, group: group as u32, bits: bits as u32 })
    }

    /// What a file keeps of it: name of the mode, group size, bits.
    pub fn params(self) -> Option<Vec<Param>> {
        params![self.mode.name(), i64::from(self.group), i64::from(self.bits)]
    }

    /// Words of `len` codes; `len` is a multiple of the group size.
    pub fn words(self, len: usize) -> usize {
        len / 16 * self.bits as usize / 2
    }

    /// Groups of `len` codes.
    pub fn groups(self, len: usize) -> usize {
        len / self.group as usize
    }

    /// Whether there are biases.
    pub fn affine(self) -> bool {
        self.mode == Mode::Affine
    }

    /// Fails for a dtype that kernels do not take as scales of this format for results of dtype `out`.
    pub fn check_scales(self, op: &str, scales: Dtype, out: Dtype) -> Result<()> {
        let wanted = if self.affine() { out } else { Dtype::U8 };
        if scales == wanted && matches!(out, Dtype::F16 | Dtype::BF16 | Dtype::F32) {
            return Ok(());
        }
        Err(Error::Value(format!("[{op}] Got scales of dtype {scales} for results of dtype {out}.")))
    }
}

/// Divisor of a global scale: the largest code times the largest scale of [`Mode::Nvfp4`].
pub const GLOBAL: f32 = 6.0 * 448.0;

/// Value of an E8M0 scale.
#[inline(always)]
pub fn from_e8m0(byte: u8) -> f32 {
    f32::from_bits(if byte == 0 { 0x0040_0000 } else { u32::from(byte) << 23 })
}

/// The E8M0 scale whose power of two is at or above `x`, which is not negative; 1 for zero.
#[inline(always)]
pub fn to_e8m0(x: f32) -> u8 {
    let bits = x.to_bits();
    let above = (bits >> 23) + u32::from(bits & 0x7f_ffff != 0);
    if bits == 0 { 127 } else { above.min(254) as u8 }
}

/// E2M1 bits of the value nearest to `x`; a tie goes to zero, and what is not a number, or infinite, is zero.
#[inline(always)]
pub fn to_fp4(x: f32) -> u32 {
    let a = x.abs();
    let code: u32 = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0].iter().map(|&t| u32::from(a > t)).sum();
    let sign = if x < 0.0 && code > 0 { 8 } else { 0 };
    if a < f32::INFINITY { code | sign } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_at_or_above() {
        for (x, e) in [(0.0, 127), (1.0, 127), (1.0001, 128), (0.5, 126), (0.6, 127), (3.0, 129), (1e-45, 1)]
        {
            assert_eq!(to_e8m0(x), e, "{x}");
        }
        assert_eq!((from_e8m0(127), from_e8m0(0), from_e8m0(130)), (1.0, 2f32.powi(-127), 8.0));
    }

    #[test]
    fn words_hold_whole_groups() {
        for (mode, group, bits) in [(Mode::Affine, 32, 3), (Mode::Nvfp4, 16, 4), (Mode::Affine, 128, 5)] {
            let f = Format::new("test", mode, group, bits).unwrap();
            let len = group as usize * 3;
            assert_eq!(f.words(len) * 32, len * bits as usize);
            assert_eq!(f.groups(len), 3);
        }
    }
}
