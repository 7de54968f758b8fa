//! Quantised numbers in blocks (layouts: ggml-common.h of ggml). Blocks of 32 with one scale and offset are
//! repacked into MLX's affine form, in which an element is `scale * q + bias`; the others are multiplied out
//! in float32 and rounded to float16. Blocks are decoded when their array is evaluated.
//!
//! Where MLX's reader and ggml differ (Q4_K: the former gives every second group of 32 the scale and offset of
//! the group before it), ggml is followed: it defines what the files mean.

use half::{bf16, f16};

use super::super::load::Fill;
use super::super::source::Source;

/// Bytes of blocks fetched at once.
const CHUNK: usize = 1 << 18;
/// Elements of the larger blocks.
const SUPER: usize = 256;

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

fn half(block: &[u8], at: usize) -> f16 {
    f16::from_le_bytes([block[at], block[at + 1]])
}

/// The value that the packed number 0 stands for.
fn bias(format: Format, block: &[u8]) -> f16 {
    match format {
        Format::Q4_1 => half(block, 2),
        Format::Q4_0 => f16::from_f32(-8.0 * half(block, 0).to_f32()),
        _ => f16::from_f32(-128.0 * half(block, 0).to_f32()),
    }
}

fn weight(format: Format, block: &[u8], out: &mut [u8]) {
    if format == Format::Q8_0 {
        // Signed numbers become numbers from 0 on.
        out.iter_mut().zip(&block[2..]).for_each(|(o, &b)| *o = b ^ 0x80);
        return;
    }
    // A byte holds numbers i and i + 16; wanted are neighbours in one byte.
    let q = &block[block.len() - 16..];
    for (i, pair) in q.chunks_exact(2).enumerate() {
        out[i] = (pair[0] & 15) | (pair[1] & 15) << 4;
        out[8 + i] = pair[0] >> 4 | pair[1] & 0xf0;
    }
}

fn values(format: Format, block: &[u8], out: &mut [u8]) {
    let mut put = |i: usize, v: f32| {
        out[2 * i..2 * i + 2].copy_from_slice(&f16::from_f32(v).to_le_bytes());
    };
    match format {
        Format::Bf16 => put(0, bf16::from_le_bytes([block[0], block[1]]).to_f32()),
        Format::Q2K => {
            let (d, m) = (half(block, 80).to_f32(), half(block, 82).to_f32());
            for i in 0..SUPER {
                // 128 numbers lie in 32 bytes, two bits of a byte each.
                let (byte, shift) = (16 + i / 128 * 32 + i % 32, i % 128 / 32 * 2);
                let scale = block[i / 16];
                let q = f32::from(block[byte] >> shift & 3);
                put(i, d * f32::from(scale & 15) * q - m * f32::from(scale >> 4));
            }
        }
        Format::Q4K => {
            let (d, m) = (half(block, 0).to_f32(), half(block, 2).to_f32());
            for i in 0..SUPER {
                let (scale, min) = pair_of_six_bits(&block[4..16], i / 32);
                let byte = block[16 + i / 64 * 32 + i % 32];
                let q = if i % 64 < 32 { byte & 15 } else { byte >> 4 };
                put(i, d * f32::from(scale) * f32::from(q) - m * f32::from(min));
            }
        }
        _ => {
            let d = half(block, 208).to_f32();
            for i in 0..SUPER {
                let (group, r) = (i / 128, i % 128);
                let low = block[group * 64 + r % 64] >> (r / 64 * 4) & 15;
                let high = block[128 + group * 32 + r % 32] >> (r / 32 * 2) & 3;
                let q = i32::from(low | high << 4) - 32;
                // FITS: the byte is one with a sign.
                put(i, d * f32::from(block[192 + i / 16] as i8) * q as f32);
            }
        }
    }
}

/// Scale and offset number `j` of the eight pairs in 12 bytes.
fn pair_of_six_bits(b: &[u8], j: usize) -> (u8, u8) {
    if j < 4 {
        return (b[j] & 63, b[j + 4] & 63);
    }
    (b[j + 4] & 15 | b[j - 4] >> 6 << 4, b[j + 4] >> 4 | b[j] >> 6 << 4)
}
