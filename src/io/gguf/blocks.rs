//! Quantised numbers in blocks (layouts: ggml-common.h of ggml). Blocks of 32 with one scale and offset are
//! repacked into MLX's affine form, in which an element is `scale * q + bias`; the others are multiplied out
//! in float32 and rounded to float16. Blocks are decoded when their array is evaluated.
//!
//! Where MLX's reader and ggml differ (Q4_K: the former gives every second group of 32 the scale and offset of
//! the group before it), ggml is followed: it defines what the files mean.

use super::decode::{bias, values, weight};
use crate::io::load::Fill;
use crate::io::source::Source;

/// Bytes of blocks fetched at once.
const CHUNK: usize = 1 << 18;
/// Elements of the larger blocks.
pub(super) const SUPER: usize = 256;

/// A kind of block that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// f16 scale; 32 numbers of 4 bits, less 8.
    Q4_0,
    /// f16 scale and offset; 32 numbers of 4 bits.
    Q4_1,
    /// f16 scale; 32 signed bytes.
    Q8_0,
    /// 16 pairs of 4-bit scale and offset, 256 numbers of 2 bits, f16 factors of scales and offsets.
    Q2K,
    /// f16 factors, 8 pairs of 6-bit scale and offset, 256 numbers of 4 bits.
    Q4K,
    /// 256 numbers of 6 bits less 32 (4 low bits, then 2 high), 16 scales of 8 bits, f16 factor.
    Q6K,
    /// One bfloat16.
    Bf16,
}

/// What is made of the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The numbers, float16.
    Values,
    /// The quantised numbers packed into uint32, the first in the lowest bits.
    Weight,
    /// One float16 a block.
    Scales,
    /// One float16 a block.
    Biases,
}

/// A part of the tensor whose blocks begin at `start`.
pub struct Blocks {
    /// The kind of its blocks.
    pub format: Format,
    /// What is wanted.
    pub part: Part,
    /// Position in the file.
    pub start: u64,
}

impl Format {
    /// The format with this number in files.
    pub fn of(kind: u32) -> Option<Format> {
        Some(match kind {
            2 => Format::Q4_0,
            3 => Format::Q4_1,
            8 => Format::Q8_0,
            10 => Format::Q2K,
            12 => Format::Q4K,
            14 => Format::Q6K,
            30 => Format::Bf16,
            _ => return None,
        })
    }

    /// Elements of one block.
    pub fn elements(self) -> usize {
        match self {
            Format::Q4_0 | Format::Q4_1 | Format::Q8_0 => 32,
            Format::Q2K | Format::Q4K | Format::Q6K => SUPER,
            Format::Bf16 => 1,
        }
    }

    /// Bytes of one block.
    pub fn bytes(self) -> usize {
        match self {
            Format::Q4_0 => 18,
            Format::Q4_1 => 20,
            Format::Q8_0 => 34,
            Format::Q2K => 84,
            Format::Q4K => 144,
            Format::Q6K => 210,
            Format::Bf16 => 2,
        }
    }

    /// The arrays that a tensor becomes.
    pub fn parts(self) -> &'static [Part] {
        match self {
            Format::Q4_0 | Format::Q4_1 | Format::Q8_0 => &[Part::Weight, Part::Scales, Part::Biases],
            _ => &[Part::Values],
        }
    }

    /// uint32 words of packed numbers in a block.
    pub fn packed_words(self) -> usize {
        if self == Format::Q8_0 { 8 } else { 4 }
    }
}

impl Blocks {
    /// Bytes that one block becomes.
    fn decoded(&self) -> usize {
        match self.part {
            Part::Values => 2 * self.format.elements(),
            Part::Weight => 4 * self.format.packed_words(),
            Part::Scales | Part::Biases => 2,
        }
    }

    /// Decodes block after block.
    pub fn open<'a>(&'a self, source: &'a Source) -> Fill<'a> {
        let (size, decoded) = (self.format.bytes(), self.decoded());
        let mut at = self.start;
        let mut scratch = vec![0; CHUNK / size * size];
        Box::new(move |dst| {
            for part in dst.chunks_mut(CHUNK / size * decoded) {
                let raw = &mut scratch[..part.len() / decoded * size];
                source.read_at(at, raw)?;
                at += raw.len() as u64;
                for (block, out) in raw.chunks_exact(size).zip(part.chunks_exact_mut(decoded)) {
                    self.decode(block, out);
                }
            }
            Ok(())
        })
    }

    fn decode(&self, block: &[u8], out: &mut [u8]) {
        match self.part {
            Part::Values => values(self.format, block, out),
            Part::Weight => weight(self.format, block, out),
            Part::Scales => out.copy_from_slice(&block[..2]),
            Part::Biases => out.copy_from_slice(&bias(self.format, block).to_le_bytes()),
        }
    }
}
