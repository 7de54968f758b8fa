//! Codes of other formats as left sides, and the scales of their sums.

use crate::kernels::quantized::quant::Mode;
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::quantized::few_rows::program::{Program, four};
use crate::vulkan::kernels::quantized::small_floats;

impl Program {
    /// Makes left sides of sixteen codes of each row, the `step`th of a chunk.
    pub(super) fn left(&self, o: &mut String, step: u32) {
        let wide = self.format.bits == 8;
        let word = if wide { step } else { step / 2 };
        for (row, c) in [(0, word), (1, word + 2)] {
            match (self.format.mode, wide) {
                (Mode::Affine, true) => put(
                    o,
                    format_args!("prmt.b32 a{row},c{c},0,0x4140; prmt.b32 a{},c{c},0,0x4342;", row + 2),
                ),
                (Mode::Affine, false) => self.digits(o, [row, c], step),
                (Mode::Mxfp8, _) => {
                    for (to, pair) in [(row, "0x1100"), (row + 2, "0x3322")] {
                        put(o, format_args!("prmt.b32 tmp,c{c},c{c},{pair};"));
                        small_floats::eight(o, self.dtype, &format!("a{to}"));
                    }
                }
                _ if !self.half() => self.doubled(o, [row, c], step),
                _ => {
                    for (to, place) in [(row, 8 * (step % 2)), (row + 2, 8 * (step % 2) + 4)] {
                        small_floats::four(
                            o,
                            self.dtype,
                            [&format!("a{to}"), &format!("c{c}")],
                            place,
                            ["tmp", "tmp2"],
                        );
                    }
                }
            }
        }
    }

    /// Four bits as whole numbers.
    fn digits(&self, o: &mut String, [row, c]: [u32; 2], step: u32) {
        if step % 2 == 1 {
            put(o, format_args!("shr.u32 c{c},c{c},8;"));
        }
        put(o, format_args!("and.b32 a{row},c{c},0x000f000f;"));
        match self.half() {
            true => {
                put(o, format_args!("shr.u32 a{to},c{c},4; and.b32 a{to},a{to},0x000f000f;", to = row + 2))
            }
            false => put(o, format_args!("and.b32 a{},c{c},0x00f000f0;", row + 2)),
        }
    }

    /// E2M1 of bfloat16: one product takes digits up to where they go, and the sign to its own place beside copies that are taken away.
    fn doubled(&self, o: &mut String, [row, c]: [u32; 2], step: u32) {
        if step % 2 == 1 {
            put(o, format_args!("shr.u32 c{c},c{c},8;"));
        }
        for (to, place) in [(row, 0), (row + 2, 4)] {
            put(
                o,
                format_args!(
                    "and.b32 a{to},c{c},{:#x}; mul.lo.u32 a{to},a{to},{}; and.b32 a{to},a{to},0x81c081c0;",
                    0x000f_000f << place,
                    65 << (6 - place)
                ),
            );
        }
    }

    /// The scales of what a lane has of two rows of a chunk of 32 codes, groups of 16 of which it has half of one.
    pub(super) fn lane_scales(&self, o: &mut String, chunk: u32) {
        for row in 0..2 {
            let from = row * self.piece_of().words() + chunk / 2;
            put(o, format_args!("prmt.b32 tmp,sc{from},0,lane{};", chunk % 2));
            small_floats::eight(o, self.dtype, &format!("bw{row}"));
            put(o, format_args!("mul.rn.{}x2 bw{row},bw{row},upper;", self.kind()));
        }
    }

    /// Multiplies them by the rows of x, into sums of one name, to which those of another are added, if that has one.
    pub(super) fn multiply_left(&self, o: &mut String, p: u32, n: u32, [sums, add]: [&str; 2]) {
        for j in 0..self.form.tiles {
            let x = (j * self.form.pieces + p) * self.span() / 8 + 2 * n;
            let right = [format!("x{x}"), format!("x{}", x + 1)];
            let sums = four(sums, 4 * j).join(",");
            let add = if add.is_empty() { ["z"; 4].map(String::from) } else { four(add, 4 * j) };
            self.multiply(o, &sums, right, add);
        }
    }

    /// Adds the sums of a group times their scales.
    pub(super) fn scale(&self, o: &mut String, group: u32) {
        let words = self.piece_of().words();
        for row in 0..2 {
            if self.format.affine() {
                let own = format!("f{row}");
                let to = if group.is_multiple_of(2) { [&own, "f2"] } else { ["f2", &own] };
                self.pair(o, to, &format!("sc{}", row * words + group / 2));
                continue;
            }
            let from = format!("sc{}", row * words + group / 4);
            match group % 4 {
                3 => put(o, format_args!("shr.u32 tmp,{from},1;")),
                byte => put(o, format_args!("shl.b32 tmp,{from},{};", 23 - 8 * byte)),
            }
            // None is half the smallest power with an exponent.
            put(
                o,
                format_args!("and.b32 tmp,tmp,0x7f800000; max.u32 tmp,tmp,0x00400000; mov.b32 f{row},tmp;"),
            );
        }
        for e in 0..4 * self.form.tiles {
            put(o, format_args!("fma.rn.f32 tot{e},acc{e},f{},tot{e};", e / 2 % 2));
        }
    }
}
