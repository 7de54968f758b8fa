//! Bits of single blocks as numbers: scales, offsets, codes and values.

use half::{bf16, f16};

use super::blocks::{Format, SUPER};

fn half(block: &[u8], at: usize) -> f16 {
    f16::from_le_bytes([block[at], block[at + 1]])
}

/// The value that the packed number 0 stands for.
pub(super) fn bias(format: Format, block: &[u8]) -> f16 {
    match format {
        Format::Q4_1 => half(block, 2),
        Format::Q4_0 => f16::from_f32(-8.0 * half(block, 0).to_f32()),
        _ => f16::from_f32(-128.0 * half(block, 0).to_f32()),
    }
}

pub(super) fn weight(format: Format, block: &[u8], out: &mut [u8]) {
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

pub(super) fn values(format: Format, block: &[u8], out: &mut [u8]) {
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
