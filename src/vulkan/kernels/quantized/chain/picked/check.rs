//! Results of picked matrices that are no numbers, one by one, in the text of a chain.

use super::super::text::Chain;
use super::super::{Stage, place};
use super::text::{ANY, ROWS};
use crate::vulkan::kernels::matmul::warpgroup::text::put;

impl Chain {
    /// As `check`, of what is picked.
    pub(in crate::vulkan::kernels::quantized::chain) fn check_picked(self, o: &mut String, side: u32) {
        self.if_no_number(o, side);
        put(
            o,
            format_args!(
                "ld.param.u32 at,[sa+{part}]; selp.b32 at,at,k,columns;
mov.f32 y{side},0f00000000; mov.u32 t2,0;
CODES{side}:
div.u32 x2,t2,at; mul.lo.u32 x3,x2,at; sub.u32 x3,t2,x3; mov.f32 weight,0f3F800000; mov.u32 x4,res; ld.param.u32 x5,[sa+{rows}]; and.b32 t0,flags,{ROWS}; setp.eq.u32 p,t0,0;
@p bra COLUMN{side};
div.u32 x2,res,x5; mul.lo.u32 x6,x2,x5; sub.u32 x4,res,x6;
COLUMN{side}:
mov.u32 t0,ids; mad.lo.u32 t0,x2,4,t0; ld.shared.b32 x7,[t0]; mov.u32 t0,weights; mad.lo.u32 t0,x2,4,t0;
@columns ld.shared.f32 weight,[t0];
and.b32 t0,flags,{ANY}; setp.ne.u32 q,t0,0; selp.b32 x7,x7,0,q; mad.lo.u32 x4,x7,x5,x4;
{at} mad.wide.u32 o8,x4,t0,o4; {x3} cvt.u64.u32 wide,t0; add.u64 o8,o8,wide; {codes}
shr.u32 t0,at,{half}; mul.wide.u32 o8,x4,t0; shr.u32 t0,x3,{group}; shl.b32 t0,t0,{bytes}; cvt.u64.u32 wide,t0; add.u64 wide,wide,o8; add.u64 o8,o5,wide; add.u64 o9,o6,wide;",
                part = place!(part),
                rows = place!(rows),
                at = self.bytes_of(["t0", "at"]),
                x3 = self.bytes_of(["t0", "x3"]),
                codes = self.some_codes("o8"),
                half = self.of_factor_byte(),
                group = self.group().ilog2(),
                bytes = self.factor_log2(),
            ),
        );
        self.factors_there(o);
        put(o, format_args!("mul.f32 v2,v2,weight; mul.f32 v3,v3,weight;"));
        self.word_of_codes(o, side);
        put(
            o,
            format_args!(
                "add.u32 t2,t2,{}; setp.lt.u32 p,t2,k;\n@p bra CODES{side};\nNUMBER{side}:",
                self.at_once()
            ),
        );
    }
}
