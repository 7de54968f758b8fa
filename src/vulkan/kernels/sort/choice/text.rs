//! The text of the choice of experts: a warp has a row, whose lanes have every 32nd element each, in words that are ordered as the elements
//! are, equal ones by their places. The greatest word of a warp is what comes next.

use super::Told as Args;
use crate::core::Dtype;
use crate::kernels::sort::{Followed, Selection};
use crate::vulkan::kernels::matmul::warpgroup::text::{head, kind, put};
use crate::vulkan::kernels::progress;

/// Lanes of a warp.
pub(super) const LANES: u32 = 32;

/// One choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Choice {
    /// Elements of a row.
    pub n: u32,
    /// bfloat16 or float16, of the row and of what is chosen.
    pub dtype: Dtype,
    pub how: Selection,
}

impl Choice {
    /// Whether ranks are counted from the greatest element down.
    fn greatest(&self) -> bool {
        self.how.from > 0
    }

    /// Elements of a lane.
    fn items(&self) -> u32 {
        self.n.div_ceil(LANES)
    }

    /// The text of a kernel by itself; a workgroup has a row.
    pub fn text(&self) -> String {
        let mut o = head("sm_90", progress::told::<Args>(), [LANES, 1]);
        put(
            &mut o,
            format_args!(
                ".reg .pred p;
.reg .b32 lane,row,rows,place,number;
.reg .b64 from,to;
mov.u32 lane,%tid.x; mov.u32 row,%ctaid.x; ld.param.u32 rows,[args+{}];",
                std::mem::offset_of!(Args, rows)
            ),
        );
        progress::workgroup_waits(&mut o, size_of::<Args>());
        put(
            &mut o,
            format_args!(
                "ld.param.u64 from,[args+{}]; mul.wide.u32 to,row,{}; add.u64 from,from,to;",
                std::mem::offset_of!(Args, keys),
                2 * self.n
            ),
        );
        self.choose(&mut o);
        self.follow(&mut o);
        self.store(&mut o, "row", [std::mem::offset_of!(Args, places), std::mem::offset_of!(Args, chosen)]);
        progress::ends(&mut o, size_of::<Args>());
        o += "ret;\n}\n";
        o
    }

    /// What a lane has of the row at `from`: the element that is chosen for it as `place`, and its bits as `number`. All lanes come here,
    /// those behind the last choice for nothing.
    pub fn choose(&self, o: &mut String) {
        self.choose_from(o, None);
    }

    /// The same; the row stands as words of two elements, with the tag in a register.
    pub fn choose_from(&self, o: &mut String, tag: Option<&str>) {
        let items = self.items();
        put(
            o,
            format_args!(
                "{{
.reg .pred cp,cn;
.reg .b16 ch<{items}>;
.reg .b32 e<{items}>,k<{items}>,won,top,ct,cs;
.reg .b64 ca,cw<{items}>;
mov.u32 won,0;"
            ),
        );
        match tag {
            Some(tag) => self.await_words(o, tag),
            None => self.read_elements(o),
        }
        if self.how.softmax {
            self.softmax(o);
        }
        (0..items).for_each(|j| self.word(o, j));
        for r in 0..self.how.count {
            put(o, format_args!("mov.u32 top,k0;"));
            (1..items).for_each(|j| put(o, format_args!("max.u32 top,top,k{j};")));
            let lane = if self.greatest() { self.how.count - 1 - r } else { r };
            put(
                o,
                format_args!(
                    "redux.sync.max.u32 top,top,-1; setp.eq.u32 cp,lane,{lane}; selp.b32 won,top,won,cp;"
                ),
            );
            for j in 0..items {
                put(o, format_args!("setp.eq.u32 cp,k{j},top; selp.b32 k{j},0,k{j},cp;"));
            }
        }
        // Lanes behind have the first one's, or any that is there.
        let inverted = if self.greatest() { "" } else { " xor.b32 place,place,65535;" };
        put(
            o,
            format_args!(
                "setp.lt.u32 cp,lane,{}; and.b32 place,won,65535;{inverted} selp.b32 place,place,0,cp;
and.b32 ct,place,31; shr.u32 top,place,5; mov.u32 number,0;",
                self.how.count
            ),
        );
        for j in 0..items {
            put(
                o,
                format_args!(
                    "shfl.sync.idx.b32 cs,e{j},ct,31,-1; setp.eq.u32 cp,top,{j}; selp.b32 number,cs,number,cp;"
                ),
            );
        }
        o.push_str("}\n");
    }

    fn read_elements(&self, o: &mut String) {
        put(o, format_args!("mad.wide.u32 ca,lane,2,from;"));
        for j in 0..self.items() {
            put(o, format_args!("mov.b16 ch{j},0;{}", self.inside(j)));
            put(o, format_args!("{}ld.global.cg.b16 ch{j},[ca+{}];", self.guard(j), 2 * LANES * j));
        }
        (0..self.items()).for_each(|j| put(o, format_args!("cvt.u32.u16 e{j},ch{j};")));
    }

    fn await_words(&self, o: &mut String, tag: &str) {
        put(o, format_args!("shr.u32 ct,lane,1; mad.wide.u32 ca,ct,8,from; mov.u32 cs,0;"));
        (0..self.items()).for_each(|j| put(o, format_args!("mov.b64 cw{j},{{cs,{tag}}};")));
        put(o, format_args!("WORDS_COME:\nsetp.ne.u32 cn,cs,0;"));
        for j in 0..self.items() {
            put(o, format_args!("{}", self.inside(j)));
            put(o, format_args!("{}ld.relaxed.gpu.global.b64 cw{j},[ca+{}];", self.guard(j), 4 * LANES * j));
        }
        for j in 0..self.items() {
            put(o, format_args!("mov.b64 {{e{j},ct}},cw{j}; setp.ne.or.u32 cn,ct,{tag},cn;"));
        }
        put(o, format_args!("@cn bra WORDS_COME;\nand.b32 ct,lane,1; shl.b32 ct,ct,4;"));
        (0..self.items())
            .for_each(|j| put(o, format_args!("shr.u32 e{j},e{j},ct; and.b32 e{j},e{j},65535;")));
    }

    /// Has `cp` say whether the lane's element j is one, where that is a question.
    fn inside(&self, j: u32) -> String {
        if LANES * (j + 1) <= self.n {
            return String::new();
        }
        format!(" add.u32 ct,lane,{}; setp.lt.u32 cp,ct,{};", LANES * j, self.n)
    }

    fn guard(&self, j: u32) -> &'static str {
        if LANES * (j + 1) <= self.n { "" } else { "@cp " }
    }

    /// The word of element j; 0 is none. As `key_of` of shaders/sort/order.glsl.
    fn word(&self, o: &mut String, j: u32) {
        let infinite = if self.dtype == Dtype::BF16 { 0x7f80 } else { 0x7c00 };
        let turned = if self.how.negated { "xor.b32 cs,cs,32768;" } else { "" };
        put(
            o,
            format_args!(
                "and.b32 ct,e{j},32767; setp.gt.u32 cn,ct,{infinite}; mov.u32 cs,e{j};{turned} setp.eq.u32 cp,cs,32768; selp.b32 cs,0,cs,cp;
shr.u32 ct,cs,15; sub.u32 ct,0,ct; and.b32 ct,ct,32767; or.b32 ct,ct,32768; xor.b32 cs,cs,ct; selp.b32 cs,65535,cs,cn;
shl.b32 cs,cs,16; add.u32 ct,lane,{}; or.b32 k{j},cs,ct;",
                LANES * j
            ),
        );
        if !self.greatest() {
            put(o, format_args!("xor.b32 k{j},k{j},-1;"));
        }
        let inside = self.inside(j);
        if !inside.is_empty() {
            put(o, format_args!("{} selp.b32 k{j},k{j},0,cp;", inside.trim()));
        }
    }

    /// The number with these bits as float32.
    fn decoded(&self, to: &str, bits: &str, free: &str) -> String {
        if self.dtype == Dtype::BF16 {
            return format!("shl.b32 {free},{bits},16; mov.b32 {to},{free};");
        }
        format!("{{\n.reg .b16 dh;\ncvt.u16.u32 dh,{bits}; cvt.f32.f16 {to},dh;\n}}\n")
    }

    /// Its bits, rounded.
    fn encoded(&self, to: &str, from: &str) -> String {
        let kind = kind(self.dtype);
        format!("{{\n.reg .b16 dh;\ncvt.rn.{kind}.f32 dh,{from}; cvt.u32.u16 {to},dh;\n}}\n")
    }

    /// Puts the row's softmax in place of it, summed up in the shader's order.
    fn softmax(&self, o: &mut String) {
        let items = self.items();
        put(
            o,
            format_args!(
                "{{
.reg .f32 x<{items}>,s<{items}>,m,q,sx,sn,sr;
.reg .b32 sb;"
            ),
        );
        for j in 0..items {
            put(o, format_args!("{}", self.decoded(&format!("x{j}"), &format!("e{j}"), "sb")));
            let inside = self.inside(j);
            if !inside.is_empty() {
                put(o, format_args!("{} selp.f32 x{j},x{j},0fFF800000,cp;", inside.trim()));
            }
        }
        put(o, format_args!("mov.f32 m,x0;"));
        (1..items).for_each(|j| put(o, format_args!("max.f32 m,m,x{j};")));
        for step in [16, 8, 4, 2, 1] {
            put(o, format_args!("shfl.sync.bfly.b32 q,m,{step},31,-1; max.f32 m,m,q;"));
        }
        for j in 0..items {
            put(o, format_args!("sub.rn.f32 x{j},x{j},m;"));
            exponential(o, &format!("x{j}"));
            put(o, format_args!("mov.f32 s{j},x{j};"));
        }
        for step in [16, 8, 4, 2, 1] {
            for j in 0..items {
                put(o, format_args!("shfl.sync.bfly.b32 q,s{j},{step},31,-1; add.rn.f32 s{j},s{j},q;"));
            }
        }
        (1..items).for_each(|j| put(o, format_args!("add.rn.f32 s0,s0,s{j};")));
        put(o, format_args!("rcp.rn.f32 q,s0;"));
        for j in 0..items {
            put(
                o,
                format_args!("mul.rn.f32 x{j},x{j},q;\n{}", self.encoded(&format!("e{j}"), &format!("x{j}"))),
            );
        }
        o.push_str("}\n");
    }

    /// What becomes of the numbers: `number` is that of the lane's place, in bits.
    pub fn follow(&self, o: &mut String) {
        let count = self.how.count;
        if self.how.after == Followed::Nothing {
            return;
        }
        put(o, format_args!("{{\n.reg .f32 y,sum,q,sx,sn,sr;\n.reg .b32 sb;"));
        put(o, format_args!("{}", self.decoded("y", "number", "sb")));
        if self.how.after == Followed::Softmax {
            put(o, format_args!("shfl.sync.idx.b32 sum,y,0,31,-1;"));
            for k in 1..count {
                put(o, format_args!("shfl.sync.idx.b32 q,y,{k},31,-1; max.f32 sum,sum,q;"));
            }
            put(o, format_args!("sub.rn.f32 y,y,sum;"));
            exponential(o, "y");
        }
        put(o, format_args!("mov.f32 sum,0f00000000;"));
        for k in 0..count {
            put(o, format_args!("shfl.sync.idx.b32 q,y,{k},31,-1; add.rn.f32 sum,sum,q;"));
        }
        if self.how.after == Followed::Softmax {
            put(o, format_args!("rcp.rn.f32 q,sum; mul.rn.f32 y,y,q;"));
        } else {
            // The sum is rounded as if it had been stored.
            put(
                o,
                format_args!(
                    "{}{}div.rn.f32 y,y,sum;",
                    self.encoded("sb", "sum"),
                    self.decoded("sum", "sb", "sb")
                ),
            );
        }
        put(o, format_args!("{}}}", self.encoded("number", "y")));
    }

    /// Stores a row's places and numbers where the program is told at `at`.
    pub fn store(&self, o: &mut String, row: &str, at: [usize; 2]) {
        let count = self.how.count;
        put(
            o,
            format_args!(
                "{{
.reg .pred sp;
.reg .b16 sh;
.reg .b32 st;
.reg .b64 sa,sl;
mad.lo.u32 st,{row},{count},lane; setp.lt.u32 sp,lane,{count}; ld.param.u64 sa,[args+{}]; mad.wide.u32 sl,st,4,sa;
@sp st.global.b32 [sl],place;
ld.param.u64 sa,[args+{}]; mad.wide.u32 sl,st,2,sa; cvt.u16.u32 sh,number;
@sp st.global.b16 [sl],sh;
}}",
                at[0], at[1]
            ),
        );
    }
}

/// exp of the number in `x`, as shaders/lib/expf.glsl has it; takes registers `sx`, `sn`, `sr` and `sb`.
fn exponential(o: &mut String, x: &str) {
    put(
        o,
        format_args!(
            "{{
.reg .pred xp,xq;
.reg .b32 xb,xs;
mov.b32 xb,{x}; setp.gt.u32 xp,xb,0xc2d00000; setp.le.u32 xq,xb,0xff800000; and.pred xp,xp,xq; selp.f32 {x},0fC2D00000,{x},xp;
mul.rn.f32 sn,{x},0f3FB8AA3B; cvt.rni.f32.f32 sn,sn;
fma.rn.f32 sr,sn,0fBF318000,{x}; fma.rn.f32 sr,sn,0f395E8083,sr;
fma.rn.f32 sx,sr,0f39506967,0f3AB743CE; fma.rn.f32 sx,sx,sr,0f3C088908; fma.rn.f32 sx,sx,sr,0f3D2AA9C1; fma.rn.f32 sx,sx,sr,0f3E2AAAAA; fma.rn.f32 sx,sx,sr,0f3F000000;
mul.rn.f32 {x},sr,sr; fma.rn.f32 sx,sx,{x},sr; add.rn.f32 sx,sx,0f3F800000;
add.rn.f32 sn,sn,0f4B400000; mov.b32 xs,sn; shl.b32 xs,xs,23; add.u32 xs,xs,0x5f800000; mov.b32 sn,xs; mul.rn.f32 {x},sx,sn; mul.rn.f32 {x},{x},0f1F800000;
}}"
        ),
    );
}
