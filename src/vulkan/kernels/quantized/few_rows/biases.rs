//! Biases of codes, which meet sums of x: three numbers for each sum that have all of its digits, of bfloat16, or for float16, whose range is
//! too short for sums, of float32 with eleven bits (tf32).

use super::program::{Program, four};
use crate::vulkan::kernels::matmul::warpgroup::text::put;

/// Bits of 2^-37, which both come to, and of the least number of float16.
const DOWN: [u32; 2] = [0x2d00_0000, 0x3380_0000];
/// The bits of a number that a part of a sum has.
const PART: u32 = 0xffff_e000;

impl Program {
    /// Registers of sums of x for the biases of eight rows.
    pub(super) fn parts(&self) -> u32 {
        if self.half() { 3 } else { 2 }
    }

    /// The sums of four groups as the right side that biases meet: three numbers for each, that have all of its digits.
    pub(super) fn deal_sums(&self, o: &mut String, to: u32) {
        let down = DOWN[usize::from(self.half())];
        if self.half() {
            put(
                o,
                format_args!(
                    "selp.f32 f0,sum1,sum0,odd; selp.f32 f1,sum3,sum2,odd; selp.f32 f0,f1,f0,high; mul.f32 f0,f0,0f{down:08X};"
                ),
            );
            for i in to..to + 3 {
                put(
                    o,
                    format_args!(
                        "mov.b32 tmp,f0; and.b32 bx{i},tmp,{PART:#x}; mov.b32 f1,bx{i}; sub.f32 f0,f0,f1;"
                    ),
                );
            }
            return;
        }
        put(
            o,
            format_args!(
                "selp.f32 f0,sum2,sum0,odd; selp.f32 f1,sum3,sum1,odd; mul.f32 f0,f0,0f{down:08X}; mul.f32 f1,f1,0f{down:08X};"
            ),
        );
        for i in 0..3 {
            put(o, format_args!("cvt.rn.bf16x2.f32 h{i},f1,f0;"));
            self.pair(o, ["f2", "f3"], &format!("h{i}"));
            put(o, format_args!("sub.f32 f0,f0,f2; sub.f32 f1,f1,f3;"));
        }
        put(o, format_args!("selp.b32 bx{to},h1,h0,high; selp.b32 bx{},0,h2,high;", to + 1));
    }

    /// Multiplies the biases of a set of a subgroup's pieces, which `bi0` and `bi1` have, by sums of x.
    pub(super) fn biased(&self, o: &mut String, set: u32) {
        if self.half() {
            for (row, to) in ["f0", "f1"].into_iter().enumerate() {
                self.pair(o, [to, "f2"], &format!("bi{row}"));
                put(o, format_args!("mov.b32 a{row},{to};"));
            }
        } else {
            put(o, format_args!("mov.b32 a0,bi0; mov.b32 a1,bi1; mov.b32 a2,bi0; mov.b32 a3,bi1;"));
        }
        for j in 0..self.form.tiles {
            let all = self.form.pieces * self.sets();
            let (b, sums) = (self.parts() * (j * all + set), four("tot", 4 * j).join(","));
            match self.half() {
                true => (b..b + 3).for_each(|part| {
                    put(
                        o,
                        format_args!(
                            "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {{{sums}}},{{a0,a1}},{{bx{part}}},{{{sums}}};"
                        ),
                    );
                }),
                false => {
                    let right = [format!("bx{b}"), format!("bx{}", b + 1)];
                    self.multiply(o, &sums, right, four("tot", 4 * j));
                }
            }
        }
    }
}
