//! Where threads copy pieces of other formats from and to, and read; and which of them end with their row.

use super::CHUNKS;
use crate::kernels::quantized::quant::Mode;
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::quantized::few_rows::program::Program;
use crate::vulkan::kernels::quantized::small_floats;
use crate::vulkan::tune::quantized::few_rows::UNIT;
use crate::vulkan::tune::quantized::pieces::BYTES;

/// Pairs of what scales of E4M3 are multiplied by, so that what digits of E2M1 times them are is in the range of bfloat16 and of float16.
const UPPER: [u32; 2] = [0x7a80_7a80, 0x5400_5400];

impl Program {
    /// Registers that the usual pieces do not need.
    fn more_registers(&self, o: &mut String) {
        let (piece, pieces) = (self.piece_of(), self.form.pieces);
        put(
            o,
            format_args!(
                ".reg .b32 raw<8>,bw<8>,fm<{masks}>,sel<2>,osel,hsel,lane<2>,upper,kx,eights,beyond,zero;
.reg .b64 bp;",
                masks = pieces * piece.words()
            ),
        );
    }

    /// Where threads copy from and to, and read.
    pub(in super::super) fn other_places(&self, o: &mut String) {
        let (piece, pieces) = (self.piece_of(), self.form.pieces);
        let (span, [codes, factors]) = (piece.span, self.row_bytes());
        self.more_registers(o);
        put(
            o,
            format_args!(
                "mov.u32 tmp,%ctaid.x; div.u32 list,tmp,{splits}; rem.u32 split,tmp,{splits}; mov.u32 tmp,%nctaid.x; div.u32 lists,tmp,{splits};
mad.lo.u32 k0,split,{warps},warp; mul.lo.u32 k0,k0,{all};
shr.u32 tmp,lane,3; and.b32 tmp2,lane,7; mul.lo.u32 co,k0,{bits}; shr.u32 co,co,3; mad.lo.u32 co,tmp,{codes},co; mad.lo.u32 co,tmp2,16,co;
mov.u32 rs,ring; mad.lo.u32 rs,warp,{ring},rs;
shl.b32 sr,tmp,1; mad.lo.u32 cs,tmp,{BYTES},rs; xor.b32 tmp,tmp2,sr; mad.lo.u32 cs,tmp,16,cs;
setp.ge.u32 second,lane,16; shr.u32 tmp,k0,{group}; mul.lo.u32 tmp,tmp,{size}; and.b32 fo,lane,15; mad.lo.u32 fs,fo,{room},rs; add.u32 fs,fs,{behind};
mad.lo.u32 fo,fo,{factors},tmp; mad.lo.u32 sel0,g,{factors},tmp;
mad.lo.u32 ss,g,{BYTES},rs; mad.lo.u32 ss,t,{own},ss; mad.lo.u32 kx,t,{beside},k0; and.b32 tmp,g,3;",
                splits = self.form.splits,
                warps = self.form.warps,
                all = span * pieces,
                bits = self.format.bits,
                ring = pieces * piece.bytes(),
                group = self.format.group.ilog2(),
                size = piece.factors * self.format.group / span,
                room = piece.room(),
                behind = UNIT * BYTES,
                own = if self.apart() { 4 } else { 8 },
                beside = self.beside(),
            ),
        );
        for i in 0..CHUNKS {
            put(o, format_args!("xor.b32 tmp2,tmp,{i}; mad.lo.u32 rx{i},tmp2,32,ss;"));
        }
        put(
            o,
            format_args!(
                "mad.lo.u32 rs,g,{},rs; add.u32 rs,rs,{}; mov.u32 rb,rs; and.b32 tmp,t,1; setp.ne.u32 odd,tmp,0; setp.ge.u32 high,t,2;
selp.b32 osel,0x3232,0x1010,odd; selp.b32 hsel,0x3232,0x1010,high;
and.b32 sel0,sel0,3; add.u32 sel1,sel0,{}; and.b32 sel1,sel1,3; mad.lo.u32 sel0,sel0,0x1111,0x3210; mad.lo.u32 sel1,sel1,0x1111,0x3210;",
                piece.room(),
                UNIT * BYTES,
                piece.factors % 4,
            ),
        );
        if piece.whole && piece.kinds == 2 {
            put(o, format_args!("selp.u32 tmp,{},0,second; add.u32 fs,fs,tmp;", UNIT * piece.room()));
        }
        small_floats::constants(o, self.dtype);
        if self.format.mode == Mode::Nvfp4 {
            let half = usize::from(self.half());
            put(
                o,
                format_args!(
                    "selp.b32 lane0,0x1111,0,high; add.u32 lane1,lane0,0x2222; mov.b32 upper,{:#x};",
                    UPPER[half]
                ),
            );
        }
        self.ends(o);
        self.sums_places(o);
    }

    /// What a lane copies of each piece, and which of a row's factors are those of the piece, where rows end before pieces do.
    fn ends(&self, o: &mut String) {
        let (piece, k) = (self.piece_of(), self.k);
        for p in 0..self.form.pieces {
            if !self.exact() {
                put(
                    o,
                    format_args!(
                        "and.b32 tmp,lane,7; mad.lo.u32 tmp,tmp,{},k0; add.u32 tmp,tmp,{}; setp.lt.u32 p,tmp,{k}; selp.u32 size{p},16,0,p;",
                        piece.span / 8,
                        piece.span * p,
                    ),
                );
            }
            if piece.whole && self.exact() {
                continue;
            }
            put(
                o,
                format_args!(
                    "add.u32 tmp,k0,{}; min.u32 tmp,tmp,{k}; sub.u32 tmp,{k},tmp; shr.u32 tmp,tmp,{}; mul.lo.u32 tmp,tmp,{}; min.u32 tmp,tmp,{bytes}; setp.ge.u32 p,tmp,{bytes}; selp.u32 half{p},{bytes},0,p;",
                    piece.span * p,
                    self.format.group.ilog2(),
                    piece.factors * self.format.group / piece.span,
                    bytes = piece.factors,
                ),
            );
            let words = if piece.whole { 0 } else { piece.words() };
            for word in 0..words {
                put(
                    o,
                    format_args!(
                        "min.u32 tmp2,tmp,{at}; sub.u32 tmp2,tmp,tmp2; min.u32 tmp2,tmp2,4; shl.b32 tmp2,tmp2,3; mov.u32 len,1; shl.b32 len,len,tmp2; sub.u32 fm{},len,1;",
                        p * piece.words() + word,
                        at = 4 * word,
                    ),
                );
            }
        }
    }
}
