//! How a piece of codes lies in shared memory (kernels/quantized/few_rows): 128 bytes of each of 16 rows, and behind them the scales and
//! biases of each row, those of its part of K. Follows from the format and the length of a row.

use super::few_rows::UNIT;
use crate::core::Dtype;
use crate::kernels::quantized::quant::{Format, Mode};

/// Bytes of a row's codes in a piece.
pub(in crate::vulkan) const BYTES: u32 = 128;

/// A piece of 16 rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::vulkan) struct Piece {
    /// Codes of a row.
    pub span: u32,
    /// Bytes of a row's scales, and of its biases.
    pub factors: u32,
    /// Scales, and biases where there are.
    pub kinds: u32,
    /// Pieces are whole, and their factors lie where one copy takes them; else they are taken with what is around them, word by word.
    pub whole: bool,
}

impl Piece {
    pub fn of(format: Format, k: u32) -> Piece {
        let span = 8 * BYTES / format.bits;
        let (kinds, size) = if format.affine() { (2, 2) } else { (1, 1) };
        let factors = span / format.group * size;
        Piece { span, factors, kinds, whole: k.is_multiple_of(span) && factors >= 4 }
    }

    /// Words of a row's factors in registers.
    pub fn words(&self) -> u32 {
        self.factors.div_ceil(4)
    }

    /// Copies of a row's factors of a kind: scales that are bytes begin anywhere in a word, others in either half of it.
    pub fn copies(&self) -> u32 {
        match (self.whole, self.kinds) {
            (true, _) => 1,
            (false, 1) => (self.factors + 3).div_ceil(4),
            (false, _) => (self.factors + 2).div_ceil(4),
        }
    }

    /// Bytes that a row's factors of a kind have there.
    pub fn room(&self) -> u32 {
        if self.whole { self.factors } else { 4 * self.copies().next_power_of_two() }
    }

    /// Bytes of all of it.
    pub fn bytes(&self) -> u32 {
        UNIT * (BYTES + self.kinds * self.room())
    }
}

/// Whether codes of a format become left sides of elements of a dtype.
pub(in crate::vulkan) fn decodes(format: Format, dtype: Dtype) -> bool {
    let codes = match format.mode {
        Mode::Affine => matches!(format.bits, 4 | 8),
        Mode::Mxfp4 | Mode::Mxfp8 | Mode::Nvfp4 => true,
    };
    codes && matches!(dtype, Dtype::F16 | Dtype::BF16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_all_factors_wherever_they_begin() {
        for (mode, bits, groups) in [
            (Mode::Affine, 4, &[32, 64, 128][..]),
            (Mode::Affine, 8, &[32, 64, 128]),
            (Mode::Mxfp4, 4, &[32]),
            (Mode::Mxfp8, 8, &[32]),
            (Mode::Nvfp4, 4, &[16]),
        ] {
            for &group in groups {
                let format = Format { mode, group, bits };
                for k in [256, 288, 384, 2880, 4096] {
                    let p = Piece::of(format, k);
                    let starts = if p.whole { 0..1 } else { 0..4 };
                    for start in starts.step_by(if format.affine() { 2 } else { 1 }) {
                        // What ends inside a word begins a word's part before.
                        let inside = p.factors > 2 || start % 4 + p.factors <= 4;
                        assert!(p.whole || !inside || start + p.factors <= 4 * p.copies());
                    }
                    assert!(p.room() >= p.factors && p.bytes().is_multiple_of(64), "{format:?} {k}");
                    assert!(!p.whole || matches!(p.factors, 4 | 8 | 16) && k % p.span == 0);
                }
            }
        }
        let format = Format { mode: Mode::Affine, group: 64, bits: 4 };
        assert_eq!(Piece::of(format, 2048).bytes(), super::super::few_rows::PIECE);
    }
}
