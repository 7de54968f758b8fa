//! The text of the gradient of attention's keys and values for warpgroup products. A workgroup has 64 keys of one head: one
//! warpgroup sums the gradient of their values, the other that of the keys themselves, so that each has room for its sum.
//! Scores lie turned over, keys are rows; a third warpgroup fetches images of cotangents and queries of all heads that share
//! the keys, in one order, and what the kernel of queries kept of each query is a pair of numbers of a column.

use std::mem::offset_of;

use super::rows::{self, Rows, Sizes};
use crate::core::Dtype;
use crate::vulkan::kernels::matmul::warpgroup::text::{self, FIRST_THREAD, ONE_THREAD, Told, put, ready};

/// Keys of a workgroup.
pub const ROWS: u32 = 64;
/// Threads of a workgroup.
pub const THREADS: u32 = 384;

/// One kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Keys {
    /// float16 or bfloat16.
    pub dtype: Dtype,
    /// Features that it has room for: 64 or 128.
    pub features: u32,
    /// A query sees the keys up to its own place, counted from the end.
    pub causal: bool,
    /// Queries that are met at a time: a divisor of the rows of the kernel of queries.
    pub queries: u32,
}

/// What the kernel is told; the text reads it by these places.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Args {
    pub k: u64,
    pub v: u64,
    /// Images of queries and cotangents.
    pub queries: u64,
    pub cots: u64,
    /// The gradients, contiguous.
    pub dk: u64,
    pub dv: u64,
    /// Of each query what is added to its scores, and to the cotangents of its weights.
    pub pairs: u64,
    /// Bytes from one matrix of an image to the next.
    pub query_matrix: u64,
    pub cot_matrix: u64,
    /// Elements from batch to batch, head to head, row to row.
    pub k_steps: [u64; 3],
    pub v_steps: [u64; 3],
    pub sizes: Sizes,
    /// What the sums of keys are multiplied by.
    pub scale: f32,
    /// Pairs of a head.
    pub padded: u32,
}

/// Bytes of [`Args`].
const ARGS: usize = size_of::<Args>();

const _: () = assert!(ARGS == 160);
// SAFETY: repr(C) of 8-byte and then 4-byte fields without padding.
unsafe impl Told for Args {}

/// What the sum of a warpgroup is.
#[derive(Clone, Copy, PartialEq)]
enum Sum {
    Keys,
    Values,
}

impl Keys {
    fn rows(self) -> Rows {
        Rows::new(self.dtype, self.features, self.queries)
    }

    /// The whole text.
    pub fn text(self) -> String {
        let mut o = String::with_capacity(96 << 10);
        self.head(&mut o);
        self.fetch(&mut o);
        self.prologue(&mut o);
        self.turns(&mut o, Sum::Keys);
        self.finish(&mut o, "[args+32]", "d");
        put(&mut o, format_args!("bra DONE;\nVALUES:"));
        self.turns(&mut o, Sum::Values);
        put(&mut o, format_args!("mov.f32 scale,0f3f800000;"));
        self.finish(&mut o, "[args+40]", "dv");
        o += "DONE:\nret;\n}\n";
        o
    }

    fn head(self, o: &mut String) {
        let rows = self.rows();
        let stages = rows.stages();
        put(
            o,
            format_args!(
                "{opening}
.reg .pred p,q,r,lane0,ok0,ok1;
.reg .b32 tid,warp,lane,w,g,t,tmp,tmp2,l,n,d,dv,heads,group,kv,h,b,first,begin,tiles,slot,phase,goneq,gonec,sm,fullb,emptyb,left,
row0,row1,lim0,lim1,whole,lo,hik,lok,hit,lot,kk<2>,query,pos,padded,extra,rest;
.reg .b64 qb,cb,qs,cs,x,y,z,desc,a0,a1,b0,b1,pairs,skip;
.reg .f32 o<{sums}>,e<{scores}>,u<{scores}>,m<{scores}>,t0,t1,units,scale,x0;
.reg .b32 f<{held}>,k<{held}>,c<{weights}>,v<4>;
{sizes}
ld.param.f32 units,[args+148]; ld.param.f32 scale,[args+152]; ld.param.u32 padded,[args+156];
{FIRST_THREAD}",
                opening = text::opening(ARGS, [THREADS, 1], [stages * rows.piece(), stages]),
                sizes = Sizes::read(offset_of!(Args, sizes)),
                sums = self.features / 2,
                scores = self.queries / 2,
                held = self.features / 4,
                weights = self.queries / 4,
            ),
        );
        ready(o, stages, 1);
        // Queries from `begin` on see some of the keys.
        put(
            o,
            format_args!(
                "fence.proxy.async.shared::cta;
READY:
bar.sync 0;
mov.u32 h,%ctaid.x; mov.u32 b,%ctaid.z; mov.u32 tmp,%ctaid.y; mul.lo.u32 first,tmp,{ROWS};
sub.u32 extra,n,l; mov.u32 begin,0;
{causal}
sub.u32 tiles,l,begin; add.u32 tiles,tiles,{most}; div.u32 tiles,tiles,{meet};
mul.lo.u32 left,tiles,group; mul.lo.u32 tmp,h,group; mad.lo.u32 tmp,b,heads,tmp; cvt.u64.u32 z,tmp;
mov.u32 slot,0;",
                causal = if self.causal {
                    format!(
                        "max.u32 begin,first,extra; sub.u32 begin,begin,extra; and.b32 begin,begin,{};",
                        !(self.queries - 1) as i32
                    )
                } else {
                    String::new()
                },
                most = self.queries - 1,
                meet = self.queries,
            ),
        );
    }

    /// One thread fetches cotangents and queries of a turn, head by head.
    fn fetch(self, o: &mut String) {
        put(
            o,
            format_args!(
                "setp.lt.u32 p,warp,8;
@p bra CONSUMER;
setmaxnreg.dec.sync.aligned.u32 24;
{ONE_THREAD}
mul.wide.u32 y,begin,{};
ld.param.u64 qb,[args+16]; ld.param.u64 qs,[args+56]; mad.lo.u64 qb,z,qs,qb; add.u64 qb,qb,y;
ld.param.u64 cb,[args+24]; ld.param.u64 cs,[args+64]; mad.lo.u64 cb,z,cs,cb; add.u64 cb,cb,y;
mul.wide.u32 y,tiles,{}; sub.u64 qs,qs,y; sub.u64 cs,cs,y;
mov.u32 phase,1; mov.u32 rest,tiles;
FETCH:",
                self.features * 2,
                self.rows().piece() * self.rows().pieces()
            ),
        );
        self.rows().fetch(o, "cb", "Fcb");
        self.rows().fetch(o, "qb", "Fqb");
        put(
            o,
            format_args!(
                "sub.u32 rest,rest,1; setp.eq.u32 q,rest,0;
@q mov.u32 rest,tiles;
@q add.u64 qb,qb,qs;
@q add.u64 cb,cb,cs;
sub.u32 left,left,1; setp.ne.u32 q,left,0;
@q bra FETCH;
bra DONE;"
            ),
        );
    }

    /// What a thread has of its two keys, and where the pairs of its queries begin.
    fn prologue(self, o: &mut String) {
        let meet = self.queries;
        put(
            o,
            format_args!(
                "CONSUMER:
setmaxnreg.inc.sync.aligned.u32 240;
and.b32 w,warp,3; shr.u32 g,lane,2; and.b32 t,lane,3; shl.b32 pos,t,3;
mad.lo.u32 row0,w,16,first; add.u32 row0,row0,g; add.u32 row1,row0,8;
sub.u32 lim0,row0,extra; sub.u32 lim1,row1,extra; add.u32 whole,first,{}; sub.u32 whole,whole,extra;
setp.lt.u32 ok0,row0,n; setp.lt.u32 ok1,row1,n;
cvt.u64.u32 y,padded; mul.lo.u64 y,z,y; cvt.u64.u32 x,begin; add.u64 y,y,x; mul.wide.u32 x,t,2; add.u64 y,y,x; shl.b64 y,y,3;
ld.param.u64 pairs,[args+48]; add.u64 pairs,pairs,y;
mul.lo.u32 tmp,tiles,{meet}; sub.u32 tmp,padded,tmp; mul.wide.u32 skip,tmp,8;
cvt.u64.u32 z,pos; sub.u32 tmp,n,1; min.u32 lo,row0,tmp; min.u32 tmp,row1,tmp;",
                ROWS - 1
            ),
        );
        for (rows, base, steps) in [("a", 0, 72), ("b", 8, 96)] {
            rows::strided(o, rows, base, steps);
        }
        let of = self.rows();
        of.begin(o);
        put(
            o,
            format_args!(
                "mov.u32 gonec,0; mov.u32 goneq,{}; mov.u32 query,begin; mov.u32 rest,tiles; mov.u32 left,0;",
                of.pieces()
            ),
        );
        of.load(o, ["a0", "a1"], "f", "d");
        put(o, format_args!("setp.ge.u32 p,warp,4;\n@p bra VALUES;"));
        of.load(o, ["b0", "b1"], "k", "dv");
    }

    /// The loop over queries. What a sum has of a turn is let go of in the next.
    fn turns(self, o: &mut String, sum: Sum) {
        let (rows, tag) = (self.rows(), if sum == Sum::Keys { "K" } else { "V" });
        put(o, format_args!("LOOP{tag}:"));
        for i in (0..self.queries / 2).step_by(4) {
            put(
                o,
                format_args!(
                    "ld.global.nc.v4.f32 {{m{i},m{},m{},m{}}},[pairs+{}];",
                    i + 1,
                    i + 2,
                    i + 3,
                    16 * i
                ),
            );
        }
        match sum {
            Sum::Keys => rows.products(o, "k", "u", "KC", false),
            Sum::Values => rows.keep(o, "VC"),
        }
        if sum == Sum::Values {
            rows.products(o, "f", "e", "VQ", false);
        }
        put(o, format_args!("setp.eq.u32 p,left,0;\n@p bra FIRST{tag};\nwgmma.wait_group.sync.aligned 1;"));
        rows.let_go(o, if sum == Sum::Keys { "goneq" } else { "gonec" });
        put(o, format_args!("FIRST{tag}:"));
        if sum == Sum::Keys {
            rows.products(o, "f", "e", "KQ", true);
            put(o, format_args!("wgmma.wait_group.sync.aligned 1;"));
            rows.let_go(o, "gonec");
        }
        put(o, format_args!("wgmma.wait_group.sync.aligned 0;"));
        if sum == Sum::Values {
            rows.let_go(o, "goneq");
        }
        self.weights(o, sum, tag);
        rows.sum(o);
        put(
            o,
            format_args!(
                "add.u32 query,query,{0}; add.u64 pairs,pairs,{1}; sub.u32 rest,rest,1; setp.eq.u32 q,rest,0;
@q mov.u32 rest,tiles;
@q mov.u32 query,begin;
@q add.u64 pairs,pairs,skip;
add.u32 left,left,1; mul.lo.u32 tmp,tiles,group; setp.lt.u32 q,left,tmp;
@q bra LOOP{tag};",
                self.queries,
                8 * self.queries
            ),
        );
    }

    /// Scores become weights, or cotangents of scores, as the left side of the sum.
    fn weights(self, o: &mut String, sum: Sum, tag: &str) {
        let kind = self.rows().kind;
        for i in 0..self.queries / 2 {
            let m = 4 * (i / 4) + 2 * (i % 2);
            put(o, format_args!("fma.rn.f32 e{i},e{i},units,m{m};"));
        }
        if self.causal {
            put(o, format_args!("setp.ge.s32 p,query,whole;\n@p bra SEEN{tag};\nmad.lo.u32 tmp,t,2,query;"));
            for i in 0..self.queries / 2 {
                let (at, row) = (8 * (i / 4) + i % 2, i / 2 % 2);
                put(
                    o,
                    format_args!(
                        "add.u32 tmp2,tmp,{at}; setp.ge.s32 p,tmp2,lim{row}; selp.f32 e{i},e{i},0fff800000,p;"
                    ),
                );
            }
            put(o, format_args!("SEEN{tag}:"));
        }
        for i in 0..self.queries / 2 {
            let m = 4 * (i / 4) + 2 * (i % 2) + 1;
            put(o, format_args!("ex2.approx.ftz.f32 e{i},e{i};"));
            if sum == Sum::Keys {
                put(o, format_args!("add.f32 u{i},u{i},m{m}; mul.f32 e{i},e{i},u{i};"));
            }
            if i % 2 == 1 {
                put(o, format_args!("cvt.rn.{kind}x2.f32 c{},e{i},e{};", i / 2, i - 1));
            }
        }
    }

    /// Writes the sums: of 32 features a thread has eight neighbours, since queries and cotangents were dealt so.
    fn finish(self, o: &mut String, to: &str, count: &str) {
        put(
            o,
            format_args!(
                "wgmma.wait_group.sync.aligned 0;
mad.lo.u32 tmp,b,kv,h; cvt.u64.u32 x,tmp; cvt.u64.u32 y,n; mul.lo.u64 x,x,y; mad.lo.u32 tmp,w,16,first; add.u32 tmp,tmp,g;
cvt.u64.u32 y,tmp; add.u64 x,x,y; cvt.u64.u32 y,{count}; cvt.u64.u32 z,pos; mad.lo.u64 a0,x,y,z; shl.b64 a0,a0,1;
ld.param.u64 x,{to}; add.u64 a0,a0,x; shl.b64 y,y,4; add.u64 a1,a0,y;"
            ),
        );
        self.rows().store(o, ["scale"; 2], count);
    }
}
