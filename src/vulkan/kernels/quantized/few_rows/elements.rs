//! What products with codes are to matrix units, for elements of either kind: codes become elements whose exponent is zero by a mask alone.
//! bfloat16 has codes at two places of a word, and x in the range that makes up for both; float16, whose range is too short for that, has
//! them shifted.

use super::program::{Program, four};
use super::steps;
use crate::core::Dtype;
use crate::kernels::quantized::quant::Mode;
use crate::vulkan::kernels::matmul::warpgroup::text::{self, put};

/// What codes are multiplied by as elements of bfloat16: low digits, and those four places up.
const UP: [u32; 2] = [0x6f80_6f80, 0x6d80_6d80];
/// What undoes that, of bfloat16 and float16.
const BACK: [u32; 2] = [0x5200_0000, 0x4b80_0000];
/// The same of E2M1, whose values both have 2^126 and 2^14 times too small.
const BACK_FOURS: [u32; 2] = [0x4e80_0000, 0x4680_0000];
/// The same where they are multiplied by their scales, which makes up for all but 2^8; E4M3 is taken as it is.
const BACK_SCALED: [u32; 2] = [0x4380_0000; 2];

impl Program {
    /// Whether elements are float16.
    pub(super) fn half(&self) -> bool {
        self.dtype == Dtype::F16
    }

    /// How they are called.
    pub(super) fn kind(&self) -> &'static str {
        text::kind(self.dtype)
    }

    /// A pair of elements as float32.
    pub(super) fn pair(&self, o: &mut String, to: [&str; 2], from: &str) {
        steps::widen(o, self.dtype, to, from);
    }

    /// Takes a sum of products to its own range.
    pub(super) fn back(&self, o: &mut String, y: &str) {
        let back = match self.format.mode {
            Mode::Affine => BACK,
            Mode::Mxfp4 => BACK_FOURS,
            Mode::Nvfp4 => BACK_SCALED,
            Mode::Mxfp8 => return,
        };
        put(o, format_args!("mul.f32 {y},{y},0f{:08X};", back[usize::from(self.half())]));
    }

    /// What `ranged` multiplies by.
    pub(super) fn range(&self, o: &mut String) {
        if !self.half() {
            put(
                o,
                format_args!("mov.b32 up0,{:#x}; mov.b32 up1,{:#x}; mov.b32 up2,0x80008000;", UP[0], UP[1]),
            );
        }
    }

    /// The eight pairs of x in `h` in the range that codes need, from register `first` on.
    pub(super) fn ranged(&self, o: &mut String, first: u32) {
        for k in 0..8 {
            match self.half() {
                true => put(o, format_args!("mov.b32 x{},h{k};", first + k)),
                false => put(o, format_args!("fma.rn.bf16x2 x{},h{k},up{},up2;", first + k, k % 2)),
            }
        }
    }

    pub(super) fn multiply(&self, o: &mut String, to: &str, right: [String; 2], add: [String; 4]) {
        put(
            o,
            format_args!(
                "mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{{to}}},{{a0,a1,a2,a3}},{{{}}},{{{}}};",
                right.join(","),
                add.join(","),
                kind = self.kind(),
            ),
        );
    }

    /// Multiplies a quarter of a group of a piece: codes two at a time, at two places of half a word each.
    pub(super) fn multiply_group(&self, o: &mut String, p: u32, i: u32, h: u32) {
        let (low, high) = (h / 2, h / 2 + 2);
        if h % 2 == 1 {
            put(o, format_args!("shr.u32 c{low},c{low},8; shr.u32 c{high},c{high},8;"));
        }
        put(o, format_args!("and.b32 a0,c{low},0x000f000f; and.b32 a1,c{high},0x000f000f;"));
        for (to, from) in [(2, low), (3, high)] {
            match self.half() {
                true => put(o, format_args!("shr.u32 a{to},c{from},4; and.b32 a{to},a{to},0x000f000f;")),
                false => put(o, format_args!("and.b32 a{to},c{from},0x00f000f0;")),
            }
        }
        for j in 0..self.form.tiles {
            let x = ((j * self.form.pieces + p) * self.form.groups + i) * 8 + 2 * h;
            let right = [format!("x{x}"), format!("x{}", x + 1)];
            let sums = four("acc", 4 * j);
            let add = if h == 0 { ["z"; 4].map(String::from) } else { sums.clone() };
            self.multiply(o, &sums.join(","), right, add);
        }
    }

    /// Adds the sums of a group times their scales.
    pub(super) fn scale_group(&self, o: &mut String, i: u32) {
        for row in 0..2 {
            let word = 2 * row + i / 2;
            let own = format!("f{row}");
            let to = if i.is_multiple_of(2) { [&own, "f2"] } else { ["f2", &own] };
            self.pair(o, to, &format!("sc{word}"));
        }
        for e in 0..4 * self.form.tiles {
            put(o, format_args!("fma.rn.f32 tot{e},acc{e},f{},tot{e};", e / 2 % 2));
        }
    }
}
