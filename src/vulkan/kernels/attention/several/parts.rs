//! How the workgroups of a line's parts become one result in the text of `text`: each leaves its part, and the last of them joins all.

use super::args::place;
use super::text::{LOG2E, NOTHING, Program};
use crate::vulkan::kernels::matmul::warpgroup::text::{element, put};

impl Program {
    /// Stores the result; of parts the workgroup that comes last does.
    pub(super) fn result(self, o: &mut String) {
        if self.parts > 1 {
            self.join(o);
        } else {
            put(o, format_args!("mov.f32 b0,top; mov.f32 b1,sum;"));
            self.extra(o);
            put(o, format_args!("max.f32 top,top,f;"));
            self.shares(o, 1);
            (0..4).for_each(|i| put(o, format_args!("mul.f32 d{i},d{i},b0; mul.f32 d{i},d{i},root;")));
        }
        put(
            o,
            format_args!(
                "cvt.rn.{kind}x2.f32 t0,d1,d0; cvt.rn.{kind}x2.f32 t1,d3,d2; ld.param.u64 d64,[args+{}]; mul.lo.u32 t2,line,{}; shl.b32 u,u,3; add.u32 t2,t2,u; cvt.u64.u32 e64,t2; add.u64 d64,d64,e64;
@here st.global.v2.b32 [d64],{{t0,t1}};",
                self.arg(place!(dst)),
                self.bytes(),
                kind = self.kind(),
            ),
        );
    }

    /// The sink of the thread's row as `f`.
    fn extra(self, o: &mut String) {
        if self.sinks {
            put(o, format_args!("rem.u32 t1,line,{0}; mad.lo.u32 t1,kv,{0},t1;", self.group));
        }
        self.sink(o, "t1");
    }

    /// The sink of head `head` as `f`, in units of log 2; nothing where there are none.
    pub(super) fn sink(self, o: &mut String, head: &str) {
        put(o, format_args!("mov.f32 f,{NOTHING};"));
        if self.sinks {
            put(
                o,
                format_args!(
                    "ld.param.u32 t2,[args+{}]; mul.lo.u32 t0,{head},t2; ld.param.u64 d64,[args+{}]; mad.wide.s32 d64,t0,2,d64; ld.global.nc.b16 h0,[d64];",
                    self.arg(place!(sink_step)),
                    self.arg(place!(sinks)),
                ),
            );
            element(o, self.dtype, "f", "h0", "t0");
            put(o, format_args!("mul.f32 f,f,{LOG2E};"));
        }
    }

    /// Of so many parts whose greatest scores and sums are pairs from b0 on: the first of each becomes its share, before all are divided
    /// by `root`; `top` is the greatest of all, `f` a score without a value.
    fn shares(self, o: &mut String, parts: u32) {
        put(
            o,
            format_args!(
                "setp.eq.f32 q,top,{NOTHING}; selp.f32 fin,zf,top,q; sub.f32 root,f,fin; ex2.approx.ftz.f32 root,root;"
            ),
        );
        for i in 0..parts {
            put(
                o,
                format_args!(
                    "sub.f32 b{0},b{0},fin; ex2.approx.ftz.f32 b{0},b{0}; fma.rn.f32 root,b{0},b{1},root;",
                    2 * i,
                    2 * i + 1
                ),
            );
        }
        put(o, format_args!("rcp.approx.f32 root,root;"));
    }

    /// Leaves a part; the workgroup that comes last takes all of them, in order, and leaves the counter zero.
    fn join(self, o: &mut String) {
        let parts = self.parts;
        put(
            o,
            format_args!(
                "mul.lo.u32 t0,line,{parts}; add.u32 t1,t0,part; ld.param.u64 d64,[args+{values}]; mad.wide.u32 e64,t1,{bytes},d64; mul.wide.u32 ma,u,16; add.u64 e64,e64,ma;
@here st.global.v4.f32 [e64],{{d0,d1,d2,d3}};
mad.wide.u32 d64,t0,{bytes},d64; add.u64 ma,ma,d64; ld.param.u64 mb,[args+{heads}]; mad.wide.u32 e64,t1,8,mb; setp.eq.and.u32 p,u,0,here; mad.wide.u32 mb,t0,8,mb;
@p st.global.v2.f32 [e64],{{top,sum}};
fence.acq_rel.gpu;
bar.sync 0;
setp.ne.u32 p,tid,0; mov.u32 t2,flag;
@p bra COUNTED;
mov.u32 t0,%ctaid.z; ld.param.u32 t1,[args+{lines}]; mad.lo.u32 t0,t0,t1,kv; mad.lo.u32 t0,t0,{tiles},tile; ld.param.u64 d64,[args+{counters}]; mad.wide.u32 d64,t0,4,d64;
atom.acq_rel.gpu.global.add.u32 t0,[d64],1;
st.shared.b32 [t2],t0; setp.ne.u32 q,t0,{last};
@!q st.global.b32 [d64],zero;
fence.acq_rel.gpu;
COUNTED:
bar.sync 0;
ld.shared.b32 t0,[t2]; setp.ne.u32 p,t0,{last};
@p bra DONE;
fence.acq_rel.gpu;",
                values = self.arg(place!(parts)),
                bytes = 4 * self.features,
                heads = self.arg(place!(heads)),
                lines = self.arg(place!(lines)),
                tiles = self.tiles,
                counters = self.arg(place!(counters)),
                last = parts - 1,
            ),
        );
        self.extra(o);
        put(o, format_args!("mov.f32 top,f;"));
        for i in 0..parts {
            put(
                o,
                format_args!(
                    "@here ld.relaxed.gpu.global.v2.f32 {{b{0},b{1}}},[mb+{2}];\n@here max.f32 top,top,b{0};",
                    2 * i,
                    2 * i + 1,
                    8 * i
                ),
            );
        }
        self.shares(o, parts);
        (0..4).for_each(|i| put(o, format_args!("mov.f32 d{i},zf;")));
        for i in 0..parts {
            put(
                o,
                format_args!(
                    "@here ld.relaxed.gpu.global.v4.f32 {{s0,s1,s2,s3}},[ma+{}];",
                    i * 4 * self.features
                ),
            );
            (0..4).for_each(|e| put(o, format_args!("fma.rn.f32 d{e},s{e},b{},d{e};", 2 * i)));
        }
        (0..4).for_each(|i| put(o, format_args!("mul.f32 d{i},d{i},root;")));
    }
}
