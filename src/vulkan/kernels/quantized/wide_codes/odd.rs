//! Codes of two, three, five and six bits, as pairs of `eights`: a lane has 32 of a row of a span, as many words as a code has bits.

use super::text::Program;
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::quantized::eights::{self, halves};

/// What a pair of codes that are digits of bfloat16 are multiplied by, and scales, so that they are what they are: 2^127 and 2^6.
const UP: u32 = 0x7f00;
/// See [`UP`].
const SCALE: u32 = 0x4280_4280;

impl Program {
    /// Whether codes are of two, three, five or six bits.
    pub(super) fn odd(&self) -> bool {
        eights::has(self.format.bits)
    }

    /// The register of word `word` of a lane's codes of a row of a span.
    fn odd_register(&self, [set, span, row, word]: [u32; 4]) -> u32 {
        ((self.spans() * set + span) * 2 + row) * self.format.bits + word
    }

    /// Asks for a batch at `at`: by words, which begin anywhere, or by two, each of which is some of what lanes beside each other have; the
    /// first-level cache has the rest for the next load.
    pub(super) fn ask_odd(&self, o: &mut String, set: u32, at: u32) {
        let bits = self.format.bits;
        let of_span = |span: u32| [(span, 0, "wa"), (span, 1, "wb")];
        for (span, row, name) in (0..self.spans()).flat_map(of_span) {
            let (c, at) = (self.odd_register([set, span, row, 0]), at + 16 * bits * span);
            let step = if bits.is_multiple_of(2) { 2 } else { 1 };
            for word in (0..bits).step_by(step) {
                let (c, at) = (c + word, at + 4 * word);
                match step {
                    2 => put(
                        o,
                        format_args!(
                            "@p ld.global.nc.L1::evict_first.v2.b32 {{c{c},c{}}},[{name}+{at}];",
                            c + 1
                        ),
                    ),
                    _ => put(o, format_args!("@p ld.global.nc.L1::evict_first.b32 c{c},[{name}+{at}];")),
                }
            }
        }
    }

    /// What scales are multiplied by besides.
    pub(super) fn odd_scale(&self, to: u32) -> String {
        if !self.odd() || self.half() {
            return String::new();
        }
        format!(" mov.b32 tmp,{SCALE:#x}; mul.rn.bf16x2 sc{to},sc{to},tmp;")
    }

    /// Two pairs of an eight of span `s` as values.
    pub(super) fn decode_odd(&self, o: &mut String, s: u32, eight: u32, [step, row, to, of_scale]: [u32; 4]) {
        let (bits, (set, span)) = (self.format.bits, self.set_of(s));
        let mut last = None;
        for (pair, i) in eights::pairs(bits)[2 * step as usize..][..2].iter().zip(0..) {
            let first = (0..4).map(|n| pair.bytes >> (4 * n) & 15).min().unwrap_or(0) + bits * eight;
            let word = first / 4;
            let c = self.odd_register([set, span, row, word]);
            let selector = pair.bytes + 0x1111 * (bits * eight) - 0x1111 * (4 * word);
            if last != Some((word, selector)) {
                let next = if word + 1 < bits { c + 1 } else { c };
                put(o, format_args!("prmt.b32 tmp2,c{c},c{next},{selector:#x};"));
                last = Some((word, selector));
            }
            let from = if pair.down > 0 { "tmp" } else { "tmp2" };
            if pair.down > 0 {
                put(o, format_args!("shr.u32 tmp,tmp2,{};", pair.down));
            }
            put(o, format_args!("and.b32 tmp,{from},{:#x};", pair.mask));
            let to = to + 2 * i;
            if self.half() {
                // Digits behind a power of two are whole numbers, some places up.
                let [down, minus] = [
                    halves(pair.up.map(|up| 0x3c00 - (up << 10))),
                    halves(pair.up.map(|up| 0xe400 - (up << 10))),
                ];
                put(
                    o,
                    format_args!(
                        "or.b32 tmp,tmp,0x64006400; mov.b32 h0,{down:#x}; mov.b32 h1,{minus:#x}; fma.rn.f16x2 tmp,tmp,h0,h1; fma.rn.f16x2 f{to},tmp,sc{of_scale},bi{of_scale};"
                    ),
                );
                continue;
            }
            let up = halves(pair.up.map(|up| UP - (up << 7)));
            put(
                o,
                format_args!(
                    "mov.b32 h0,{up:#x}; mul.rn.bf16x2 tmp,tmp,h0; fma.rn.bf16x2 f{to},tmp,sc{of_scale},bi{of_scale};"
                ),
            );
        }
    }

    /// Words of a chunk of a row from register x on, in the order of pairs.
    pub(super) fn lay_odd(&self, o: &mut String, x: u32) {
        for (i, pair) in eights::pairs(self.format.bits).iter().enumerate() {
            let ([a, b], selector) = pair.elements();
            put(o, format_args!("prmt.b32 h{i},x{},x{},{selector:#06x};", x + a, x + b));
        }
        (0..4).for_each(|i| put(o, format_args!("mov.b32 x{},h{i};", x + i)));
    }
}
