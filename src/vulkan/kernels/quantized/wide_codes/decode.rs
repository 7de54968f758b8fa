//! How codes become left sides in registers, rounded once: whole numbers of two to eight bits with a scale and a bias, and small
//! floats (E2M1, E4M3) with a scale, which are exact.

use super::text::Program;
use crate::core::Dtype;
use crate::kernels::quantized::quant::Mode;
use crate::vulkan::kernels::matmul::warpgroup::text::{kind, put};
use crate::vulkan::kernels::quantized::small_floats::{self, eights, fours};
use crate::vulkan::tune::quantized::wide_codes::SPAN;

impl Program {
    pub(super) fn half(&self) -> bool {
        self.dtype == Dtype::F16
    }

    /// Pairs of what codes are added to, 128 or 1024, of one and of minus the first.
    fn whole(&self) -> [u32; 3] {
        match self.half() {
            true => [0x6400_6400, 0x3c00_3c00, 0xe400_e400],
            false => [0x4300_4300, 0x3f80_3f80, 0xc300_c300],
        }
    }

    /// Whether the halves of a lane's codes in a span have factors of their own.
    fn halves(&self) -> u32 {
        let own = if self.format.bits == 8 { 64 } else { 16 };
        if self.format.group <= own { 2 } else { 1 }
    }

    /// Which of four lanes' factors are taken: the first one's of the first half, what is added for each four lanes, and for the second half.
    fn selectors(&self) -> [u32; 4] {
        // A lane's codes of a half are of that group of a span, in quarters for each lane.
        let lanes = match self.format.bits {
            8 => SPAN / 2 / self.format.group,
            _ => SPAN / self.format.group.max(32),
        };
        match self.format.mode {
            Mode::Affine => [0x1010, 0x2222, lanes, 0x4444],
            Mode::Nvfp4 => [0, 0x2222, lanes, 0x1111],
            Mode::Mxfp4 | Mode::Mxfp8 => [0x4040, 0x0101, lanes, 0x0202],
        }
    }

    /// What decoding needs all along: of lane `t` of four, in registers.
    pub(super) fn constants(&self, o: &mut String) {
        let [first, each, lanes, second] = self.selectors();
        let [_, unity, minus] = self.whole();
        put(
            o,
            format_args!(
                "mul.lo.u32 tmp,t,{lanes}; shr.u32 tmp,tmp,2; mul.lo.u32 tmp,tmp,{each:#x}; add.u32 sel0,tmp,{first:#x}; add.u32 sel1,sel0,{second:#x};"
            ),
        );
        match self.format.mode {
            Mode::Affine => put(o, format_args!("mov.b32 unity,{unity:#x}; mov.b32 minus,{minus:#x};")),
            mode => {
                let up = if mode == Mode::Mxfp8 { eights(self.dtype) } else { fours(self.dtype) }.times;
                put(o, format_args!("mov.b32 up,{up:#x}; mov.b32 least,0x00400040;"));
                small_floats::constants(o, self.dtype);
            }
        }
    }

    /// The factors of a lane's codes in span `s`, from the lanes that have them.
    pub(super) fn factors(&self, o: &mut String, s: u32) {
        let (set, span) = self.set_of(s);
        let all = self.words();
        let of_span = SPAN / self.format.group;
        let affine = self.format.affine();
        // Affine, a word has those of two groups, else of four, and a lane has those of one span.
        let (words, first) = match of_span {
            1 => (1, 0),
            n if affine => (n / 2, n / 2 * span),
            n => (n / 4, 0),
        };
        for (i, row) in (0..words).flat_map(|i| [(i, 0), (i, 1)]) {
            let from = all * set + first + i;
            let lanes = match affine {
                true => vec![("fs", 2 * row), ("fb", 2 * row + 1)],
                false => vec![("fs", 2 * row + span)],
            };
            for (name, lane) in lanes {
                put(o, format_args!("shfl.sync.idx.b32 {name}{},fq{from},{lane},0x1c1f,-1;", 2 * row + i));
            }
        }
        self.factor_pairs(o, span, words);
    }

    /// The factors of a lane's codes in each half of a span, as pairs.
    fn factor_pairs(&self, o: &mut String, span: u32, words: u32) {
        for (half, row) in (0..self.halves()).flat_map(|h| [(h, 0), (h, 1)]) {
            let sel = match (self.format.group, self.format.bits) {
                (128, _) => ["0x1010", "0x3232"][span as usize],
                (64, 8) => ["0x1010", "0x3232"][half as usize],
                _ => ["sel0", "sel1"][half as usize],
            };
            let (to, low, high) = (2 * half + row, 2 * row, 2 * row + words - 1);
            match self.format.mode {
                Mode::Affine => put(
                    o,
                    format_args!(
                        "prmt.b32 sc{to},fs{low},fs{high},{sel}; prmt.b32 bi{to},fb{low},fb{high},{sel};{}",
                        self.odd_scale(to)
                    ),
                ),
                // A number of bfloat16 whose exponent it is; none is half the smallest power with one.
                Mode::Mxfp4 | Mode::Mxfp8 => put(
                    o,
                    format_args!(
                        "prmt.b32 tmp,fs{low},zero,{sel}; shl.b32 tmp,tmp,7; max.bf16x2 sc{to},tmp,least;"
                    ),
                ),
                Mode::Nvfp4 => {
                    put(o, format_args!("prmt.b32 tmp,fs{low},fs{high},{sel};"));
                    small_floats::eight(o, self.dtype, &format!("sc{to}"));
                }
            }
        }
    }

    /// Two pairs of codes of a half of span `s` as values of row `row`.
    pub(super) fn decode(&self, o: &mut String, s: u32, half: u32, [word, step, row]: [u32; 3]) {
        let of_scale = if self.halves() == 2 { 2 * half + row } else { row };
        let to = 16 * half + 4 * (2 * word + step) + row;
        if self.odd() {
            return self.decode_odd(o, s, 2 * half + word, [step, row, to, of_scale]);
        }
        let (set, span) = self.set_of(s);
        let wide = self.format.bits == 8;
        let c =
            if wide { 16 * set + 8 * half + 2 * word + step } else { 16 * set + 8 * span + 2 * half + word };
        let c = c + 4 * row;
        if wide && self.format.affine() && !self.half() {
            // Digits beyond the seventh, and what the power of two is taken off by where that is not set.
            put(o, format_args!("and.b32 sevens,c{c},0x7f7f7f7f; xor.b32 tops,c{c},0xffffffff;"));
        }
        for pair in 0..2 {
            let place = 8 * step + 4 * pair;
            match self.format.mode {
                Mode::Affine if wide => self.whole_of_eight(o, c, pair),
                Mode::Affine => self.whole_of_four(o, c, place),
                Mode::Mxfp4 | Mode::Nvfp4 => {
                    small_floats::four(o, self.dtype, ["tmp", &format!("c{c}")], place, ["tmp", "tmp2"]);
                    put(o, format_args!("mul.rn.{}x2 tmp,tmp,up;", kind(self.dtype)));
                }
                Mode::Mxfp8 => {
                    put(o, format_args!("prmt.b32 tmp,c{c},c{c},{};", ["0x1100", "0x3322"][pair as usize]));
                    small_floats::eight(o, self.dtype, "tmp");
                }
            }
            let (to, kind) = (to + 2 * pair, kind(self.dtype));
            match self.format.affine() {
                true => put(o, format_args!("fma.rn.{kind}x2 f{to},tmp,sc{of_scale},bi{of_scale};")),
                false => put(o, format_args!("mul.rn.{kind}x2 f{to},tmp,sc{of_scale};")),
            }
        }
    }

    /// Digits behind a power of two are whole numbers, as which they are told apart again.
    fn whole_of_four(&self, o: &mut String, c: u32, place: u32) {
        let ([behind, ..], kind) = (self.whole(), kind(self.dtype));
        put(
            o,
            format_args!(
                "shr.u32 tmp,c{c},{place}; and.b32 tmp,tmp,0x000f000f; or.b32 tmp,tmp,{behind:#x}; fma.rn.{kind}x2 tmp,tmp,unity,minus;"
            ),
        );
    }

    /// The same of eight bits, of which bfloat16 has seven behind its power of two: with the eighth, that stays.
    fn whole_of_eight(&self, o: &mut String, c: u32, pair: u32) {
        let ([behind, ..], kind) = (self.whole(), kind(self.dtype));
        let behind = behind >> 8 | behind;
        let sel = ["0x4140", "0x4342"][pair as usize];
        if self.half() {
            return put(
                o,
                format_args!("prmt.b32 tmp,c{c},{behind:#x},{sel}; fma.rn.{kind}x2 tmp,tmp,unity,minus;"),
            );
        }
        let signs = ["0x9988", "0xbbaa"][pair as usize];
        put(
            o,
            format_args!(
                "prmt.b32 tmp,sevens,{behind:#x},{sel}; prmt.b32 tmp2,tops,tops,{signs}; and.b32 tmp2,tmp2,minus; fma.rn.{kind}x2 tmp,tmp,unity,tmp2;"
            ),
        );
    }
}
