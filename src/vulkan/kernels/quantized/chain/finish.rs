//! What becomes of the sums of a product, in the text of `text`: the thread's result is found and what follows it asked for before the
//! product, warps' parts are added up behind it, and results are stored, as elements and as words.

use super::text::Chain;
use super::{Stage, place};
use crate::vulkan::kernels::matmul::warpgroup::text::{pair, put};
use crate::vulkan::kernels::quantized::small_floats;
use crate::vulkan::kernels::quantized::stream::{rounded, widen};
use crate::vulkan::tune::quantized::chain::TILE;

impl Chain {
    /// The thread's result of this stage, `res` of matrix `m`; its tile of the workgroup is `tile`, half of the tiles on is the other matrix'.
    pub(super) fn find(self, o: &mut String) {
        put(
            o,
            format_args!(
                "and.b32 t1,flags,4; shr.u32 t1,t1,2; shr.u32 t0,subs,t1; shl.b32 t0,t0,{log}; setp.lt.u32 mine,tid,t0; shr.u32 tile,tid,{log};",
                log = TILE.ilog2()
            ),
        );
        self.matrix(o, "tile", "sa", ["base", "subs", "flags"]);
        put(
            o,
            format_args!(
                "and.b32 t0,tid,{}; add.u32 res,row0,t0; shl.b32 mm,m,30; or.b32 mm,mm,res;",
                TILE - 1
            ),
        );
    }

    /// Asks for the elements of arrays that follow it; of those that an earlier stage made the words with their tags. What is added to each
    /// matrix' results takes the place of the first.
    pub(super) fn arrays(self, o: &mut String) {
        put(
            o,
            format_args!(
                "shr.u32 t1,flags,8; and.b32 t1,t1,3; mov.b16 r0,0; mov.b16 r1,0; ld.param.u64 d,[sm+{}]; setp.ne.u64 p,d,0; and.pred p,p,mine; mad.wide.u32 d,res,2,d;\n@p ld.global.nc.b16 r0,[d];",
                place!(added)
            ),
        );
        for k in 0..2 {
            put(
                o,
                format_args!(
                    "setp.gt.and.u32 p,t1,{k},mine; ld.param.u64 d,[sa+{}]; ld.param.u32 tag,[sa+{}];
@!p bra NOARRAY{k};
setp.eq.u32 q,tag,0;
@q bra PLAIN{k};
shr.u32 t2,res,1; mad.wide.u32 d,t2,8,d;
AGAIN{k}:
ld.relaxed.gpu.global.b64 o0,[d]; mov.b64 {{t0,t2}},o0; setp.ne.u32 q,t2,tag;
@q bra AGAIN{k};
and.b32 t2,res,1; shl.b32 t2,t2,4; shr.u32 t0,t0,t2; cvt.u16.u32 r{k},t0;
bra NOARRAY{k};
PLAIN{k}:
mov.u32 t2,res;
{of_table}mad.wide.u32 d,t2,2,d; ld.global.cg.b16 r{k},[d];
NOARRAY{k}:",
                    place!(results) + 8 * (k + 1),
                    place!(array_tags) + 4 * k,
                    of_table = self.of_table(k),
                ),
            );
        }
    }

    /// Results of the stage: what warps have is added up, and stored, or what follows is made of it.
    pub(super) fn finish(self, o: &mut String, after: &[String]) {
        self.share(o, "sa", ["t3", "subs", "flags"]);
        put(
            o,
            format_args!(
                "shr.u32 t0,flags,2; and.b32 t0,t0,1; shl.b32 t1,subs,{tile}; shr.u32 t1,t1,t0; setp.lt.u32 mine,tid,t1;
@!mine bra FINISHED;
ld.param.u32 k,[sa+{k}]; {spans} and.b32 res,mm,0x3fffffff; mov.b32 {{r0,r1}},rr;
and.b32 t0,flags,4; setp.ne.u32 p,t0,0; {of_unit}mov.u32 t3,spans;
mov.f32 y0,0f00000000; mov.f32 y1,y0;
SUM:
ld.shared.f32 v0,[t1]; add.f32 y0,y0,v0; add.u32 t3,t3,-1; setp.ne.u32 q,t3,0; add.u32 at,t1,t0; add.u32 t1,t1,t2;
@p ld.shared.f32 v1,[at];
@p add.f32 y1,y1,v1;
@q bra SUM;",
                of_unit = self.of_unit(),
                tile = TILE.ilog2(),
                k = place!(k),
                spans = self.spans("SUMMED"),
            ),
        );
        o.push_str(&self.each("CHECKED", "kind", Chain::checks));
        self.add_picked(o);
        put(
            o,
            format_args!(
                "ld.param.u64 d,[sa+{}]; shr.u32 t3,flags,16; setp.eq.u32 p,t3,0;\n@p bra STORE;",
                place!(results)
            ),
        );
        for k in 0..2 {
            widen(self.dtype, o, &format!("a{k}"), &format!("r{k}"));
        }
        ["y0", "y1"].iter().for_each(|y| rounded(self.dtype, o, y));
        for (i, steps) in after.iter().enumerate() {
            put(o, format_args!("setp.ne.u32 p,t3,{};\n@p bra AFTER{i};\n{{", i + 1));
            o.push_str(steps);
            put(o, format_args!("bra STORED;\n}}\nAFTER{i}:"));
        }
        let mut add = String::new();
        rounded(self.dtype, &mut add, "y0");
        widen(self.dtype, &mut add, "a0", "r0");
        put(&mut add, format_args!("add.rn.f32 y0,y0,a0;"));
        put(
            o,
            format_args!(
                "STORE:
shr.u32 t0,mm,30; shl.b32 t0,t0,3; cvt.u64.u32 wide,t0; add.u64 wide,wide,sa; ld.param.u64 d,[wide+{}]; ld.param.u64 o0,[wide+{}]; setp.eq.u64 p,o0,0;
@p bra STORED;
{add}STORED:
mad.wide.u32 d,res,2,d; cvt.rn.{kind}.f32 h0,y0; st.global.b16 [d],h0;
ld.param.u64 d,[sa+{}]; ld.param.u32 tag,[sa+{}]; setp.eq.u32 p,tag,0;
@p bra FINISHED;
cvt.u32.u16 t0,h0; activemask.b32 t3; shfl.sync.bfly.b32 t1,t0,1,31,t3; shl.b32 t1,t1,16; or.b32 t0,t0,t1; mov.b64 o0,{{t0,tag}}; shl.b32 t1,res,2; cvt.u64.u32 wide,t1; add.u64 d,d,wide; and.b32 t1,tid,1; setp.eq.u32 p,t1,0;
@p st.relaxed.gpu.global.b64 [d],o0;
FINISHED:",
                place!(results),
                place!(added),
                place!(words),
                place!(tag),
                kind = self.kind()
            ),
        );
    }

    /// Where the thread's sum of the first unit is, as `t1`, how many bytes it is to the next span's, `t2`, and to the other matrix', `t0`.
    fn of_unit(self) -> String {
        let unit = (4 * TILE).ilog2();
        match self.by_rows() {
            true => format!(
                "shr.u32 t1,tid,{log}; mul.lo.u32 t1,t1,spans; shl.b32 t1,t1,{unit}; and.b32 t2,tid,{last}; shl.b32 t2,t2,2; add.u32 t1,t1,t2; mov.u32 t2,slots; add.u32 t1,t1,t2; mul.lo.u32 t0,subs,spans; shl.b32 t0,t0,{half}; mov.u32 t2,{bytes};\n",
                log = TILE.ilog2(),
                last = TILE - 1,
                half = unit - 1,
                bytes = 4 * TILE,
            ),
            false => format!(
                "shl.b32 t1,tid,2; mov.u32 t2,slots; add.u32 t1,t1,t2; shl.b32 t2,subs,{unit}; shr.u32 t0,t2,1;\n"
            ),
        }
    }

    /// Results of both sides that are no numbers.
    fn checks(self, o: &mut String) {
        if !self.values() {
            self.check(o, 0);
            put(o, format_args!("and.b32 t0,flags,4; setp.eq.u32 p,t0,0;\n@p bra NUMBER1;"));
            self.check(o, 1);
        }
    }

    /// A result that is no number, as the matrix of the values of codes gives it: elements beyond 2^27, sums of codes beyond the largest
    /// number, and infinities are infinities or NaN here. A normalised row has none of the first, and gives NaN for the last.
    fn check(self, o: &mut String, side: u32) {
        if self.picks.is_some() {
            return self.check_picked(o, side);
        }
        self.if_no_number(o, side);
        put(
            o,
            format_args!(
                "{codes} mad.wide.u32 o4,res,t0,o4; shr.u32 t0,k,{half}; mad.wide.u32 o5,res,t0,o5; mad.wide.u32 o6,res,t0,o6;
mov.f32 y{side},0f00000000; mov.u32 t2,0;
CODES{side}:
{some} shr.u32 t0,t2,{group}; shl.b32 t0,t0,{bytes}; cvt.u64.u32 wide,t0; add.u64 o8,o5,wide; add.u64 o9,o6,wide;",
                codes = self.bytes_of(["t0", "k"]),
                some = self.some_codes("o4"),
                half = self.of_factor_byte(),
                group = self.group().ilog2(),
                bytes = self.factor_log2(),
            ),
        );
        self.factors_there(o);
        self.word_of_codes(o, side);
        put(
            o,
            format_args!(
                "add.u64 o4,o4,{}; add.u32 t2,t2,{}; setp.lt.u32 p,t2,k;
@p bra CODES{side};
NUMBER{side}:",
                self.at_once() * self.holds.bits / 8,
                self.at_once()
            ),
        );
    }

    /// Goes on where a side's result is a number, or its row was normalised; else finds the matrix in `o4` to `o6`, x in `d`, and in `o7` what
    /// two elements of x take.
    pub(super) fn if_no_number(self, o: &mut String, side: u32) {
        put(
            o,
            format_args!(
                "mov.b32 t0,y{side}; and.b32 t0,t0,0x7f800000; setp.ne.u32 p,t0,0x7f800000;
@p bra NUMBER{side};
and.b32 t0,flags,1; setp.ne.u32 p,t0,0;
@p bra NUMBER{side};
shr.u32 t1,mm,30; add.u32 t1,t1,{side}; shl.b32 t1,t1,3; cvt.u64.u32 wide,t1; add.u64 sm,sa,wide;
ld.param.u64 o4,[sm+{codes}]; ld.param.u64 o5,[sm+{scales}]; ld.param.u64 o6,[sm+{biases}]; ld.param.u64 d,[sa+{x}]; ld.param.u32 tag,[sa+{tag}];
setp.eq.u32 p,tag,0; selp.u32 t3,4,8,p; cvt.u64.u32 o7,t3;",
                codes = place!(codes),
                scales = place!(scales),
                biases = place!(biases),
                x = place!(x),
                tag = place!(x_tag),
            ),
        );
    }

    /// The scale at `o8` as `v2`, and the bias at `o9` as `v3`.
    pub(super) fn factors_there(self, o: &mut String) {
        if self.floats() {
            put(o, format_args!("ld.global.u8 h0,[o8]; cvt.u32.u16 t0,h0; mov.f32 v3,0f00000000;"));
            return small_floats::power(o, "v2", "t0");
        }
        for (to, from) in [("v2", "o8"), ("v3", "o9")] {
            put(o, format_args!("ld.global.b16 h0,[{from}];"));
            widen(self.dtype, o, to, "h0");
        }
    }

    /// Adds the products of codes that were read to a side's result, one by one.
    pub(super) fn word_of_codes(self, o: &mut String, side: u32) {
        for i in 0..self.at_once() / 2 {
            put(o, format_args!("ld.global.cg.b32 x1,[d]; add.u64 d,d,o7;"));
            pair(o, self.dtype, ["v0", "v1"], "x1", "t0");
            for (e, x) in [(2 * i, "v0"), (2 * i + 1, "v1")] {
                self.code(o, e);
                match self.floats() {
                    true => small_floats::single(o, "q0", "t0", ["t0", "t1"]),
                    false => put(o, format_args!("cvt.rn.f32.u32 q0,t0;")),
                }
                put(o, format_args!("fma.rn.f32 q0,v2,q0,v3; fma.rn.f32 y{side},{x},q0,y{side};"));
            }
        }
    }
}
