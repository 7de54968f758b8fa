//! The table of a convolution's taps and channels, and what its kernels on warpgroups reckon with. Pure.

use super::input::{CHUNK, Input};

/// The sizes of a convolution; axes are x, y, z, then images. Axes that it has not are of length one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    /// Taps along each axis, and how far apart they are: negative where the kernel is mirrored.
    pub kernel: [i64; 3],
    pub dilation: [i64; 3],
    /// Zeros before the input.
    pub low: [i64; 3],
    /// Output positions, and input elements from one to the next.
    pub out: [i64; 3],
    pub stride: [i64; 3],
    /// Sizes of the input.
    pub size: [i64; 3],
    /// Channels that meet a tap.
    pub channels: i64,
    /// Elements between neighbours of the input, and of the result.
    pub input: [i64; 4],
    pub result: [i64; 4],
}

/// The x of a chunk that meets no input at all.
const OUTSIDE: i64 = -0x4000_0000;

impl Geometry {
    /// Chunks of all taps, with some that lie outside behind them: those that kernels fetch ahead, and of tiles of columns.
    /// Nothing where offsets have more than 32 bits.
    pub fn table(&self) -> Option<Vec<[i32; 4]>> {
        let chunk = i64::from(CHUNK);
        let [kx, ky, kz] = self.kernel;
        let taps = (0..kz).flat_map(|z| (0..ky).flat_map(move |y| (0..kx).map(move |x| [x, y, z])));
        let places = taps.flat_map(|tap| {
            let at: [i64; 3] = std::array::from_fn(|i| tap[i] * self.dilation[i] - self.low[i]);
            let first: i64 = at.iter().zip(self.input).map(|(a, step)| a * step).sum();
            (0..self.channels / chunk).map(move |c| [at[0], at[1], at[2], first + c * chunk])
        });
        let narrow = |place: [i64; 4]| {
            let mut out = [0; 4];
            for (o, v) in out.iter_mut().zip(place) {
                *o = i32::try_from(v).ok()?;
            }
            Some(out)
        };
        let mut table: Vec<[i32; 4]> = places.map(narrow).collect::<Option<_>>()?;
        table.resize(table.len().next_multiple_of(32) + 32, [OUTSIDE as i32, 0, 0, 0]);
        Some(table)
    }

    /// What kernels are told, with the address of the table.
    pub fn arguments(&self, table: u64) -> Input {
        // FITS: whoever asks has sizes of 32 bits; what is added wraps around.
        let narrow = |list: [i64; 3]| list.map(|v| v as u32);
        let step = [0, 1, 2, 3].map(|i| self.input[i] * self.stride.get(i).unwrap_or(&1));
        let jump = [4, 28].map(|by| {
            let mut rest = by;
            let places = self.out.map(|out| {
                let place = rest % out;
                rest /= out;
                place
            });
            let [x, y, z] = places;
            let offset: i64 = [x, y, z, rest].iter().zip(step).map(|(p, step)| p * step).sum();
            let moved: [i64; 3] = std::array::from_fn(|i| places[i] * self.stride[i]);
            [moved[0], moved[1], moved[2], offset].map(|v| v as u32)
        });
        Input {
            table: [table as u32, (table >> 32) as u32],
            out: narrow(self.out),
            stride: narrow(self.stride),
            size: narrow(self.size),
            step: step.map(|v| v as u32),
            result: self.result.map(|v| v as u32),
            jump,
        }
    }
}

#[cfg(test)]
#[path = "taps_tests.rs"]
mod tests;
