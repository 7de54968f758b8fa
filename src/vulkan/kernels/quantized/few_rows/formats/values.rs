//! Values of codes of other formats as float32, for results that are computed one by one.

use crate::kernels::quantized::quant::{Format, Mode};
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::quantized::few_rows::program::Program;
use crate::vulkan::kernels::quantized::small_floats;

impl Program {
    /// Adds eight products of values to `y`, those of codes at `wa` and of x in `c0` to `c3`, with the factors that `count` eights are at.
    pub(in super::super) fn eight_values(&self, o: &mut String, y: u32) {
        let Format { mode, group, bits } = self.format;
        match bits {
            8 => put(o, format_args!("ld.global.v2.b32 {{word,a2}},[wa]; add.u64 wa,wa,8;")),
            _ => put(o, format_args!("ld.global.b32 word,[wa]; add.u64 wa,wa,4;")),
        }
        put(o, format_args!("shr.u32 tmp,count,{};", (group / 8).ilog2()));
        match mode {
            Mode::Nvfp4 => {
                put(
                    o,
                    format_args!(
                        "cvt.u64.u32 l,tmp; add.u64 da,sa,l; ld.global.u8 a0,[da]; mov.f32 w1,0f00000000;"
                    ),
                );
                Self::e4m3(o, "w0", "a0");
            }
            Mode::Affine => {
                put(
                    o,
                    format_args!(
                        "mul.wide.u32 l,tmp,2; add.u64 da,sa,l; add.u64 l,ba,l;\nld.global.u16 a0,[da]; ld.global.u16 a1,[l];"
                    ),
                );
                self.pair(o, ["w0", "e0"], "a0");
                self.pair(o, ["w1", "e0"], "a1");
            }
            _ => {
                put(
                    o,
                    format_args!(
                        "cvt.u64.u32 l,tmp; add.u64 da,sa,l; ld.global.u8 a0,[da]; mov.f32 w1,0f00000000;"
                    ),
                );
                small_floats::power(o, "w0", "a0");
            }
        }
        put(o, format_args!("ld.global.cg.v4.b32 {{c0,c1,c2,c3}},[xa]; add.u64 xa,xa,16;"));
        for i in 0..8 {
            if i % 2 == 0 {
                self.pair(o, ["e2", "e3"], &format!("c{}", i / 2));
            }
            let word = if bits == 8 && i >= 4 { "a2" } else { "word" };
            self.value(o, word);
            put(
                o,
                format_args!(
                    "fma.rn.f32 e0,e0,w0,w1; fma.rn.f32 y{y},e{},e0,y{y}; shr.u32 {word},{word},{bits};",
                    2 + i % 2
                ),
            );
        }
    }

    /// The first code of a word as a number, in `e0`.
    fn value(&self, o: &mut String, word: &str) {
        match self.format.mode {
            Mode::Affine => put(
                o,
                format_args!("and.b32 tmp,{word},{}; cvt.rn.f32.u32 e0,tmp;", (1 << self.format.bits) - 1),
            ),
            Mode::Mxfp8 => Self::e4m3(o, "e0", word),
            _ => small_floats::single(o, "e0", word, ["tmp", "tmp2"]),
        }
    }

    /// A number of E4M3, of which one is none, as float32.
    fn e4m3(o: &mut String, to: &str, from: &str) {
        put(
            o,
            format_args!(
                "and.b32 tmp,{from},127; setp.eq.u32 p,tmp,127; shl.b32 tmp,tmp,20; and.b32 tmp2,{from},128; shl.b32 tmp2,tmp2,24; or.b32 tmp,tmp,tmp2; mov.b32 {to},tmp; mul.rn.f32 {to},{to},0f7B800000;\n@p mov.f32 {to},0f7FC00000;"
            ),
        );
    }
}
