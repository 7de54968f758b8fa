//! Pieces of other formats than four bits in groups of 64, and of rows that end within a piece: how they are copied, and become left sides. Where lanes
//! have codes of several groups, words of each are read instead of what lies beside each other. Scales, which sums
//! of groups are multiplied by, are copied with what lies around them where rows of them do not begin at whole words.

mod copies;
mod left;
mod piece;
mod places;
mod rows;
mod values;

use super::program::Program;
use crate::kernels::quantized::quant::{Format, Mode};
use crate::vulkan::tune::quantized::few_rows::{GROUP, SPAN};
use crate::vulkan::tune::quantized::pieces::Piece;

/// Chunks of a row of a piece that four lanes read at once, and words of two rows that a lane has of one.
const CHUNKS: u32 = 4;

impl Program {
    /// Whether pieces are those of four bits in groups of 64, all of them whole, as who does not pick matrices has them.
    pub(super) fn usual(&self) -> bool {
        let Format { mode, group, bits } = self.format;
        let four = mode == Mode::Affine && group == GROUP && bits == 4;
        !self.picked || four && self.k.is_multiple_of(SPAN)
    }

    pub fn piece_of(&self) -> Piece {
        Piece::of(self.format, self.k)
    }

    /// Codes of a row in a piece of a subgroup.
    pub(super) fn span(&self) -> u32 {
        if self.usual() { self.form.span() } else { self.piece_of().span }
    }

    /// Whether a lane has a word of each of two chunks of 32 where it else has codes beside each other.
    fn apart(&self) -> bool {
        self.format.bits == 4 && self.format.group <= 32
    }

    /// Whether codes are multiplied by their scales, of which products of sixteen codes have several.
    fn scaled(&self) -> bool {
        self.format.group < 32
    }

    /// Codes of a lane that lie beside each other, at most those of a chunk.
    fn beside(&self) -> u32 {
        if self.format.bits == 4 && !self.apart() { 16 } else { 8 }
    }

    /// Sets of four sums of x that biases of a piece meet.
    pub(super) fn sets(&self) -> u32 {
        if !self.format.affine() {
            return 0;
        }
        if self.apart() { 2 } else { 1 }
    }
}
