//! The end of a text of `text`: what warps have is added up, and stored, or what follows is made of it.

use super::text::{Walk, rounded};
use super::{Args, place};
use crate::vulkan::kernels::matmul::warpgroup::text::put;

impl Walk {
    /// The place of result `i` of the workgroup: `row`, the sums' `slot`, the matrix' results at `d`; none are left, or this one is not its own: `nothing`.
    pub(super) fn find_result(&self, o: &mut String, nothing: &str) {
        let each = self.each();
        put(
            o,
            format_args!(
                "shr.u32 slot,i,{shift}; and.b32 t2,i,{mask}; div.u32 at,slot,{teams}; mul.lo.u32 t1,at,{teams}; sub.u32 t1,slot,t1; add.u32 next,first,t1; mad.lo.u32 next,at,step,next;
mad.lo.u32 slot,slot,{rows},t2;
setp.ge.u32 p,next,all;
@p bra {nothing};",
                shift = each.trailing_zeros(),
                mask = each - 1,
                rows = self.rows,
                teams = self.teams,
            ),
        );
        self.place_of(o, &[]);
        put(
            o,
            format_args!(
                "add.u32 row,row0,t2; mul.lo.u32 t1,own,{each}; setp.lt.u32 p,row,t1;
@p bra {nothing};"
            ),
        );
    }

    /// Elements of arrays that follow the product.
    pub(super) fn read_arrays(&self, o: &mut String) {
        for k in 0..self.arrays() {
            put(
                o,
                format_args!(
                    "ld.param.u64 d,[args+{}]; mad.wide.u32 d,row,2,d; ld.global.b16 h0,[d];",
                    place!(results) + 8 * (k as usize + 1)
                ),
            );
            self.widen(o, &format!("a{k}"), "h0");
        }
    }

    /// Adds up what warps have, and stores it. The first result of a thread finds its arrays' elements read.
    pub(super) fn finish(&self, o: &mut String, steps: &str) {
        put(o, format_args!("mov.u32 i,tid;\nRESULT:"));
        put(
            o,
            format_args!(
                "mul.lo.u32 t0,turns,{}; setp.ge.u32 p,i,t0;\n@p bra DONE;",
                self.teams * self.each()
            ),
        );
        self.find_result(o, "NEXT");
        if self.arrays() > 0 {
            put(o, format_args!("setp.eq.u32 p,i,tid;\n@p bra READ;"));
            self.read_arrays(o);
            put(o, format_args!("READ:"));
        }
        for side in 0..self.sides() {
            self.sum_up(o, side);
        }
        for side in 0..self.sides() {
            if !self.norm {
                self.check(o, side);
            }
        }
        self.store(o, steps);
        put(o, format_args!("NEXT:\nadd.u32 i,i,{};\nbra RESULT;", self.all_threads()));
    }

    /// The sum of all warps, as y{side}, one after the other.
    fn sum_up(&self, o: &mut String, side: u32) {
        let (parts, offset) = (self.parts(), side * self.each());
        let width = [4, 2, 1].into_iter().find(|w| parts % w == 0).unwrap_or(1);
        put(o, format_args!("mov.u32 t1,sums; add.u32 t0,slot,{offset}; mad.lo.u32 t1,t0,{},t1;", 4 * parts));
        let names = ["v0", "v1", "v2", "v3"];
        for at in (0..parts).step_by(width as usize) {
            let to = names[..width as usize].join(",");
            let (kind, to) =
                if width > 1 { (format!(".v{width}"), format!("{{{to}}}")) } else { (String::new(), to) };
            put(o, format_args!("ld.shared{kind}.f32 {to},[t1+{}];", 4 * at));
            for (k, name) in names[..width as usize].iter().enumerate() {
                match at as usize + k {
                    0 => put(o, format_args!("mov.f32 y{side},{name};")),
                    _ => put(o, format_args!("add.f32 y{side},y{side},{name};")),
                }
            }
        }
    }

    /// A result that is no number, as the matrix of the values of codes gives it: infinities, and sums of codes beyond the largest
    /// number, are NaN here whose share cancels.
    fn check(&self, o: &mut String, side: u32) {
        let [codes, factors] = self.bytes();
        put(
            o,
            format_args!(
                "mov.b32 t0,y{side}; and.b32 t0,t0,0x7f800000; setp.ne.u32 p,t0,0x7f800000;
@p bra NUMBER{side};
ld.param.u64 d,[args+{x}];",
                x = place!(x),
            ),
        );
        let parts = [("cw0", place!(codes)), ("cf0", place!(scales)), ("cb0", place!(biases))];
        self.told(o, &parts.map(|(to, at)| (to, at + 8 * side as usize)));
        put(
            o,
            format_args!(
                "mad.wide.u32 cw0,row,{codes},cw0; mad.wide.u32 cf0,row,{factors},cf0; mad.wide.u32 cb0,row,{factors},cb0;
mov.f32 y{side},0f00000000; mov.u32 t2,0;
CODES{side}:
ld.global.b32 high,[cw0]; div.u32 at,t2,{group}; mul.wide.u32 wide,at,2; add.u64 cw1,cf0,wide; add.u64 cf1,cb0,wide;
ld.global.b16 h0,[cw1];",
                group = self.group
            ),
        );
        self.widen(o, "v1", "h0");
        put(o, format_args!("ld.global.b16 h0,[cf1];"));
        self.widen(o, "v2", "h0");
        for e in 0..8 {
            put(o, format_args!("ld.global.b16 h0,[d+{}];", 2 * e));
            self.widen(o, "v3", "h0");
            put(
                o,
                format_args!(
                    "shr.u32 t0,high,{}; and.b32 t0,t0,15; cvt.rn.f32.u32 v0,t0; fma.rn.f32 v0,v1,v0,v2; fma.rn.f32 y{side},v3,v0,y{side};",
                    4 * e
                ),
            );
        }
        put(
            o,
            format_args!(
                "add.u64 cw0,cw0,4; add.u64 d,d,16; add.u32 t2,t2,8; setp.lt.u32 p,t2,{};
@p bra CODES{side};
NUMBER{side}:",
                self.k
            ),
        );
    }

    /// What is told of the matrix that unit `next` is of: registers, and where the first matrix' stands.
    fn told(&self, o: &mut String, what: &[(&str, usize)]) {
        let take = |o: &mut String, guard: &str, m: usize| {
            for (to, at) in what {
                put(o, format_args!("{guard}ld.param.u64 {to},[args+{}];", at + 8 * m));
            }
        };
        take(o, "", 0);
        if self.lined() > 1 {
            put(o, format_args!("setp.ge.u32 p,next,u0; sub.u32 t0,next,u0;"));
            take(o, "@p ", 1);
        }
        if self.lined() > 2 {
            put(o, format_args!("setp.ge.and.u32 q,t0,u1,p;"));
            take(o, "@q ", 2);
        }
    }

    /// Stores y0, or what is made of it.
    fn store(&self, o: &mut String, steps: &str) {
        if self.after.is_some() {
            (0..self.sides()).for_each(|s| rounded(self.dtype, o, &format!("y{s}")));
            o.push_str(steps);
        }
        self.told(o, &[("d", place!(results))]);
        put(
            o,
            format_args!("mad.wide.u32 d,row,2,d; cvt.rn.{}.f32 h0,y0; st.global.b16 [d],h0;", self.kind()),
        );
    }
}
