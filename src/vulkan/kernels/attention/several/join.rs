//! How warps become one result in the text of `text`.

use super::args::place;
use super::text::{NOTHING, Program};
use crate::vulkan::kernels::matmul::warpgroup::text::{four, put};
use crate::vulkan::tune::attention::several::WARPS;

impl Program {
    /// The greatest of the eight numbers of a row in b0 to b7, as `top`, and what the others are beside.
    fn greatest(o: &mut String) {
        put(
            o,
            format_args!(
                "max.f32 top,b0,b1; max.f32 fin,b2,b3; max.f32 top,top,fin; max.f32 fin,b4,b5; max.f32 top,top,fin; max.f32 fin,b6,b7; max.f32 top,top,fin;
setp.eq.f32 q,top,{NOTHING}; selp.f32 fin,zf,top,q;"
            ),
        );
    }

    /// Each warp's sums beside the greatest score of all, in shared memory: half of the warps add theirs to the other half's.
    pub(super) fn leave(self, o: &mut String) {
        for by in [4, 8, 16] {
            for i in 0..2 {
                put(o, format_args!("shfl.sync.bfly.b32 f,l{i}f,{by},31,-1; add.f32 l{i}f,l{i}f,f;"));
            }
        }
        put(
            o,
            format_args!(
                "mov.u32 j,{}; shl.b32 t0,warp,2; add.u32 t0,j,t0; shl.b32 t1,t,6;",
                self.shared("tops")
            ),
        );
        for i in 0..2 {
            put(
                o,
                format_args!(
                    "shl.b32 u,t,1; add.u32 u,u,{i}; setp.lt.u32 r{i},u,{rows}; setp.eq.and.u32 p,g,0,r{i}; add.u32 t2,t0,t1;
@p st.shared.f32 [t2+{at}],m{i};
@p st.shared.f32 [t2+{sums}],l{i}f;",
                    rows = self.rows,
                    at = 32 * i,
                    sums = 32 * i + self.extremes(),
                ),
            );
        }
        put(o, format_args!("{}", self.barrier()));
        for i in 0..2 {
            put(
                o,
                format_args!(
                    "shl.b32 u,t,1; add.u32 u,u,{i}; min.u32 u,u,{last}; shl.b32 u,u,5; add.u32 u,u,j; ld.shared.v4.f32 {{{}}},[u]; ld.shared.v4.f32 {{{}}},[u+16];",
                    four("b", 0),
                    four("b", 4),
                    last = self.rows - 1,
                ),
            );
            Self::greatest(o);
            put(o, format_args!("sub.f32 f{i},m{i},fin; ex2.approx.ftz.f32 f{i},f{i};"));
        }
        for i in 0..self.padded() / 4 {
            put(o, format_args!("mul.f32 o{i},o{i},f{};", i % 2));
        }
        put(
            o,
            format_args!(
                "mov.u32 at,{held}; and.b32 t0,warp,{half}; mul.lo.u32 t0,t0,{all}; add.u32 at,at,t0; mul.lo.u32 t0,t,{two}; add.u32 at,at,t0; shl.b32 t0,g,5; add.u32 at,at,t0; setp.ge.u32 high,warp,{warps};
@high bra LEAVE;
{barrier}",
                barrier = self.barrier(),
                held = self.shared("held"),
                half = WARPS / 2 - 1,
                warps = WARPS / 2,
                all = self.rows * 4 * self.padded(),
                two = 8 * self.padded(),
            ),
        );
        self.fours(o, |o, row, [place, first]| {
            put(o, format_args!("@r{row} ld.shared.v4.f32 {{d0,d1,d2,d3}},[at+{place}];"));
            for i in 0..4 {
                put(o, format_args!("@r{row} add.f32 o{0},o{0},d{i};", first + 2 * i));
            }
        });
        put(o, format_args!("LEAVE:"));
        self.fours(o, |o, row, [place, first]| {
            let all = [0, 2, 4, 6].map(|i| format!("o{}", first + i)).join(",");
            put(o, format_args!("@r{row} st.shared.v4.f32 [at+{place}],{{{all}}};"));
        });
        put(o, format_args!("@!high bra LEFT;\n{0}\nLEFT:\n{0}", self.barrier()));
    }

    /// Fours of features of a row that a lane has: which row, where they lie, and the first of their registers, of which every other is its.
    fn fours(self, o: &mut String, each: impl Fn(&mut String, u32, [u32; 2])) {
        for row in 0..2 {
            for four in 0..self.padded() / 32 {
                let place = 4 * (row * self.padded() + four / 2 * 64 + four % 2 * 4);
                each(o, row, [place, 8 * four + row]);
            }
        }
    }

    /// Four features of a row for each thread, as d0 to d3, beside the greatest score `top`, and the sum of weights.
    pub(super) fn gather(self, o: &mut String) {
        let fours = self.padded() / 4;
        put(
            o,
            format_args!(
                "shr.u32 j,tid,{log}; and.b32 u,tid,{mask}; setp.lt.u32 here,j,{rows}; min.u32 whose,j,{last}; mad.lo.u32 t0,tile,{rows},whose; setp.lt.and.u32 here,t0,{group},here; setp.lt.and.u32 here,u,{there},here;
ld.param.u32 t1,[args+{lines}]; mad.lo.u32 line,batch,t1,kv; mad.lo.u32 line,line,{group},t0;
mov.u32 t1,{tops}; shl.b32 t0,whose,5; add.u32 t1,t1,t0; ld.shared.v4.f32 {{{b0}}},[t1]; ld.shared.v4.f32 {{{b4}}},[t1+16]; ld.shared.v4.f32 {{{b8}}},[t1+{sums}]; ld.shared.v4.f32 {{{b12}}},[t1+{more}];",
                log = fours.ilog2(),
                mask = fours - 1,
                there = self.features / 4,
                rows = self.rows,
                last = self.rows - 1,
                group = self.group,
                lines = self.arg(place!(lines)),
                b0 = four("b", 0),
                b4 = four("b", 4),
                b8 = four("b", 8),
                b12 = four("b", 12),
                sums = self.extremes(),
                more = self.extremes() + 16,
                tops = self.shared("tops"),
            ),
        );
        Self::greatest(o);
        put(o, format_args!("mov.f32 sum,zf;"));
        for i in 0..WARPS {
            put(
                o,
                format_args!("sub.f32 z,b{i},fin; ex2.approx.ftz.f32 z,z; fma.rn.f32 sum,z,b{},sum;", 8 + i),
            );
        }
        put(
            o,
            format_args!(
                "mov.u32 t1,{}; mul.lo.u32 t0,whose,{}; add.u32 t1,t1,t0; shl.b32 t0,u,4; add.u32 t1,t1,t0;",
                self.shared("held"),
                4 * self.padded()
            ),
        );
        (0..4).for_each(|i| put(o, format_args!("mov.f32 d{i},zf;")));
        for warp in 0..WARPS / 2 {
            put(
                o,
                format_args!(
                    "ld.shared.v4.f32 {{b0,b1,b2,b3}},[t1+{}];",
                    warp * self.rows * 4 * self.padded()
                ),
            );
            (0..4).for_each(|i| put(o, format_args!("add.f32 d{i},d{i},b{i};")));
        }
    }
}
