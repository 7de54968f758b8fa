//! The text of the choice of experts: a warp has a row, whose lanes have every 32nd element each, in words that are ordered as the elements
//! are, equal ones by their places. The greatest word of a warp is what comes next.

use super::Told as Args;
use crate::core::Dtype;
use crate::kernels::sort::Selection;
use crate::vulkan::kernels::matmul::warpgroup::text::{head, put};
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
    pub(super) fn items(&self) -> u32 {
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
    pub(super) fn inside(&self, j: u32) -> String {
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
