//! What warps do that bring rows of x to shared memory.

use super::text::{Program, four};
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::progress;
use crate::vulkan::kernels::quantized::push::Push;
use crate::vulkan::tune::quantized::wide_codes::{ACROSS, RING, SPAN};

impl Program {
    /// How lanes take the sixteen chunks of a span's row, those of lanes that multiply: bytes from one such lane's to the next one's, and
    /// between neighbouring pairs of the four chunks that each of them has.
    fn chunks(&self) -> [u32; 2] {
        match self.format.bits {
            8 => [32, 128],
            _ => [64, 32],
        }
    }

    /// Each warp has a span of the ring, a lane a quarter of rows that lie eight apart, four times 16 bytes of each. Elements lie as lanes
    /// that multiply have their weights: of each step eight rows' 16 bytes beside each other.
    pub(super) fn bring(&self, o: &mut String) {
        let ([apart, pairs], tiles) = (self.chunks(), self.tiles());
        put(
            o,
            format_args!(
                "sub.u32 warp,warp,{ACROSS}; and.b32 v,lane,7; shr.u32 r,lane,3; mad.lo.u32 full,warp,8,full; mul.lo.u32 own,own,{batch}; mul.lo.u32 left,left,{batch};
ld.param.u64 xa,[args]; add.u32 tmp,own,warp; mul.wide.u32 l,tmp,{span}; add.u64 xa,xa,l; and.b32 tmp,r,1; mul.wide.u32 l,tmp,16; add.u64 xa,xa,l; shr.u32 tmp,r,1; mul.wide.u32 l,tmp,{pairs}; add.u64 xa,xa,l; mul.wide.u32 l,v,{row}; add.u64 xa,xa,l;
mov.u32 at,ring; mad.lo.u32 at,warp,{stage},at; mad.lo.u32 at,v,16,at; mad.lo.u32 at,r,{quarter},at; mov.u32 phase,1;",
                batch = self.spans(),
                span = 2 * SPAN,
                row = 2 * self.k,
                stage = self.stage(),
                quarter = self.stage() / 4,
            ),
        );
        (0..tiles)
            .for_each(|n| put(o, format_args!("add.u32 tmp,v,{}; setp.lt.u32 there{n},tmp,rows;", 8 * n)));
        (0..16 * tiles).for_each(|i| put(o, format_args!("mov.b32 x{i},0;")));
        progress::warp_waits(o, size_of::<Push>());
        put(o, format_args!("setp.ge.u32 p,warp,left;\n@p bra DONE;\nBRING:"));
        for (n, i) in (0..tiles).flat_map(|n| (0..4).map(move |i| (n, i))) {
            let (at, to) = (apart * i + 16 * n * self.k, four("x", 16 * n + 4 * i).join(","));
            put(o, format_args!("@there{n} ld.global.cg.v4.b32 {{{to}}},[xa+{at}];"));
        }
        put(
            o,
            format_args!(
                "EMPTY:\nmbarrier.try_wait.parity.shared::cta.b64 q,[full+{}],phase;\n@!q bra EMPTY;",
                8 * RING
            ),
        );
        (0..tiles).for_each(|n| self.lay(o, n));
        put(
            o,
            format_args!(
                "fence.proxy.async.shared::cta;\nmbarrier.arrive.shared::cta.b64 _,[full];\nxor.b32 phase,phase,1; add.u32 warp,warp,{RING}; setp.lt.u32 p,warp,left; add.u64 xa,xa,{};\n@p bra BRING;\nbra DONE;",
                RING * 2 * SPAN
            ),
        );
    }

    /// Stores what came of row `n` of a lane: words of its four chunks beside each other, in the order of digits, of pairs of odd codes, or of bytes as they lie.
    fn lay(&self, o: &mut String, n: u32) {
        let digits = self.format.bits == 4;
        if self.odd() {
            (0..4).for_each(|i| self.lay_odd(o, 16 * n + 4 * i));
        }
        for x in (0..4).map(|i| 16 * n + 4 * i).filter(|_| digits) {
            let [a, b, c, d] = [x, x + 1, x + 2, x + 3];
            put(
                o,
                format_args!(
                    "prmt.b32 h0,x{a},x{c},0x5410; prmt.b32 h1,x{a},x{c},0x7632; prmt.b32 h2,x{b},x{d},0x5410; prmt.b32 x{d},x{b},x{d},0x7632; mov.b32 x{a},h0; mov.b32 x{b},h1; mov.b32 x{c},h2;"
                ),
            );
        }
        for word in 0..4 {
            let words = [0, 4, 8, 12].map(|i| format!("x{}", 16 * n + i + word)).join(",");
            let at = word * self.columns * 16 + 128 * n;
            put(o, format_args!("st.shared.v4.b32 [at+{at}],{{{words}}};"));
        }
    }
}
