//! The text of the gradient of attention's queries for warpgroup products. A workgroup has 128 queries of one head, 64 a warpgroup,
//! whose features and whose cotangents' stay in registers; a third warpgroup fetches images of values and keys, some at a
//! time. Scores and cotangents of weights are products with those, the sum is one with the keys once more: as they lie, a
//! key's features are beside each other. What all weights of a row share of their cotangents is found first, and kept for the
//! kernel of keys (Dao, FlashAttention-2, section 3.1).

use std::mem::offset_of;

use super::rows::{self, Rows, Sizes};
use crate::core::Dtype;
use crate::vulkan::kernels::matmul::warpgroup::text::{self, FIRST_THREAD, ONE_THREAD, Told, put, ready};

/// Queries of a workgroup.
pub const ROWS: u32 = 128;
/// Threads of a workgroup.
pub const THREADS: u32 = 384;

/// One kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Queries {
    /// float16 or bfloat16.
    pub dtype: Dtype,
    /// Features that it has room for: 64 or 128.
    pub features: u32,
    /// A query sees the keys up to its own place, counted from the end.
    pub causal: bool,
    /// Keys that are met at a time, a multiple of 16.
    pub keys: u32,
}

/// What the kernel is told; the text reads it by these places.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Args {
    pub q: u64,
    pub cot: u64,
    /// What attention gave, contiguous.
    pub out: u64,
    /// Images of keys and values.
    pub keys: u64,
    pub values: u64,
    /// The gradient, contiguous.
    pub dq: u64,
    /// Of each row, float32: its extent, and what the kernel of keys adds to its scores and to the cotangents of its weights.
    pub extents: u64,
    pub pairs: u64,
    /// Bytes from one matrix of an image to the next.
    pub key_matrix: u64,
    pub value_matrix: u64,
    /// Elements from batch to batch, head to head, row to row.
    pub q_steps: [u64; 3],
    pub cot_steps: [u64; 3],
    pub sizes: Sizes,
    /// What the sums are multiplied by.
    pub scale: f32,
    /// Pairs of a head.
    pub padded: u32,
}

/// Bytes of [`Args`].
const ARGS: usize = size_of::<Args>();

const _: () = assert!(ARGS == 168);
// SAFETY: repr(C) of 8-byte and then 4-byte fields without padding.
unsafe impl Told for Args {}

impl Queries {
    fn rows(self) -> Rows {
        Rows::new(self.dtype, self.features, self.keys)
    }

    /// The whole text.
    pub fn text(self) -> String {
        let mut o = String::with_capacity(96 << 10);
        self.head(&mut o);
        self.fetch(&mut o);
        self.prologue(&mut o);
        self.turns(&mut o);
        self.finish(&mut o);
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
.reg .pred p,q,r,last,lane0,ok0,ok1;
.reg .b32 tid,warp,lane,wg,w,g,t,tmp,tmp2,l,n,d,dv,heads,group,kv,h,b,first,limit,slot,phase,gonek,gonev,sm,fullb,emptyb,left,
row0,row1,lim0,lim1,whole,lo,hik,lok,hit,lot,kk<2>,key,pos,extra;
.reg .b64 kb,vb,x,y,z,desc,a0,a1,b0,b1,place0,place1;
.reg .f32 o<{sums}>,e<{scores}>,u<{scores}>,n0,n1,s0,s1,t0,t1,units,x0,x1;
.reg .b32 f<{held}>,k<{held}>,c<{weights}>,v<4>;
.reg .b16 h0,h1;
{sizes}
{FIRST_THREAD}",
                opening = text::opening(ARGS, [THREADS, 1], [stages * rows.piece(), stages]),
                sizes = Sizes::read(offset_of!(Args, sizes)),
                sums = self.features / 2,
                scores = self.keys / 2,
                held = self.features / 4,
                weights = self.keys / 4,
            ),
        );
        ready(o, stages, 1);
        // The tiles that have the most to do are begun first.
        put(
            o,
            format_args!(
                "fence.proxy.async.shared::cta;
READY:
bar.sync 0;
mov.u32 h,%ctaid.x; mov.u32 b,%ctaid.z;
mov.u32 tmp,%nctaid.y; mov.u32 tmp2,%ctaid.y; sub.u32 tmp,tmp,tmp2; sub.u32 tmp,tmp,1; mul.lo.u32 first,tmp,{ROWS};
sub.u32 extra,n,l;
mov.u32 limit,n;
{causal}
add.u32 left,limit,{most}; div.u32 left,left,{keys};
mov.u32 slot,0;
setp.lt.u32 p,warp,8;
@p bra CONSUMER;
setmaxnreg.dec.sync.aligned.u32 24;
{ONE_THREAD}
div.u32 tmp,h,group; mad.lo.u32 tmp,b,kv,tmp; cvt.u64.u32 x,tmp;
ld.param.u64 kb,[args+24]; ld.param.u64 y,[args+64]; mad.lo.u64 kb,x,y,kb;
ld.param.u64 vb,[args+32]; ld.param.u64 y,[args+72]; mad.lo.u64 vb,x,y,vb;
mov.u32 phase,1;",
                causal = if self.causal {
                    "add.u32 limit,first,128; add.u32 limit,limit,extra; min.u32 limit,limit,n;"
                } else {
                    ""
                },
                most = self.keys - 1,
                keys = self.keys,
            ),
        );
    }

    /// One thread fetches values and keys of a turn.
    fn fetch(self, o: &mut String) {
        put(o, format_args!("FETCH:"));
        self.rows().fetch(o, "vb", "Fvb");
        self.rows().fetch(o, "kb", "Fkb");
        put(o, format_args!("sub.u32 left,left,1; setp.ne.u32 q,left,0;\n@q bra FETCH;\nbra DONE;"));
    }

    /// What a thread has of its two rows: features and cotangents, what weights share, extents.
    fn prologue(self, o: &mut String) {
        let [whole, limits] = rows::bounds(self.causal);
        put(
            o,
            format_args!(
                "CONSUMER:
setmaxnreg.inc.sync.aligned.u32 240;
shr.u32 wg,warp,2; and.b32 w,warp,3; shr.u32 g,lane,2; and.b32 t,lane,3; shl.b32 pos,t,3;
mad.lo.u32 row0,wg,64,first;
{whole}
mad.lo.u32 row0,w,16,row0; add.u32 row0,row0,g; add.u32 row1,row0,8;
{limits}
setp.lt.u32 ok0,row0,l; setp.lt.u32 ok1,row1,l;
cvt.u64.u32 z,pos; sub.u32 tmp,l,1; min.u32 lo,row0,tmp; min.u32 tmp,row1,tmp;",
            ),
        );
        for (rows, base, steps) in [("a", 0, 80), ("b", 8, 104)] {
            rows::strided(o, rows, base, steps);
        }
        // Rows of results, which are contiguous, and numbers of rows.
        put(
            o,
            format_args!(
                "mad.lo.u32 tmp2,b,heads,h; cvt.u64.u32 x,tmp2; cvt.u64.u32 y,l; mul.lo.u64 x,x,y;
cvt.u64.u32 y,lo; add.u64 place0,x,y; cvt.u64.u32 y,tmp; add.u64 place1,x,y;
ld.param.u64 x,[args+48]; shl.b64 y,place0,2; add.u64 y,x,y; ld.global.f32 n0,[y]; shl.b64 y,place1,2; add.u64 y,x,y; ld.global.f32 n1,[y];
cvt.u64.u32 y,dv; ld.param.u64 x,[args+16];
mad.lo.u64 desc,place0,y,z; shl.b64 desc,desc,1; add.u64 kb,x,desc; mad.lo.u64 desc,place1,y,z; shl.b64 desc,desc,1; add.u64 vb,x,desc;
mov.f32 s0,0f00000000; mov.f32 s1,0f00000000;"
            ),
        );
        let of = self.rows();
        of.load(o, ["a0", "a1"], "f", "d");
        of.load(o, ["b0", "b1"], "k", "dv");
        of.dots(o, ["kb", "vb"], "k", "dv");
        for n in ["n0", "n1"] {
            rows::taken_off(o, n);
        }
        // Rows that are not there have no weight.
        put(
            o,
            format_args!(
                "neg.f32 s0,s0; neg.f32 s1,s1; ld.param.f32 units,[args+156]; ld.param.u64 x,[args+56]; ld.param.u32 tmp,[args+164];
mad.lo.u32 tmp2,b,heads,h; mul.wide.u32 y,tmp2,tmp; cvt.u64.u32 z,row0; add.u64 y,y,z; shl.b64 y,y,3; add.u64 x,x,y;
setp.eq.u32 p,t,0; selp.f32 t0,n0,0fff800000,ok0; selp.f32 t1,s0,0f00000000,ok0;
@p st.global.v2.f32 [x],{{t0,t1}};
selp.f32 t0,n1,0fff800000,ok1; selp.f32 t1,s1,0f00000000,ok1;
@p st.global.v2.f32 [x+64],{{t0,t1}};"
            ),
        );
        self.rows().begin(o);
        put(o, format_args!("mov.u32 gonev,0; mov.u32 gonek,{}; mov.u32 key,0;", self.rows().pieces()));
    }

    /// The loop over keys. Keys are let go of a turn later, when the sum that has them is done.
    fn turns(self, o: &mut String) {
        let rows = self.rows();
        put(o, format_args!("LOOP:"));
        rows.products(o, "k", "u", "V", false);
        put(o, format_args!("setp.eq.u32 p,key,0;\n@p bra FIRST;\nwgmma.wait_group.sync.aligned 1;"));
        rows.let_go(o, "gonek");
        put(o, format_args!("FIRST:"));
        rows.products(o, "f", "e", "K", true);
        put(o, format_args!("wgmma.wait_group.sync.aligned 1;"));
        rows.let_go(o, "gonev");
        put(o, format_args!("wgmma.wait_group.sync.aligned 0;"));
        rows.masked(o, "");
        for i in 0..self.keys / 2 {
            let row = i / 2 % 2;
            put(
                o,
                format_args!(
                    "fma.rn.f32 e{i},e{i},units,n{row}; ex2.approx.ftz.f32 e{i},e{i}; add.f32 u{i},u{i},s{row}; mul.f32 e{i},e{i},u{i};"
                ),
            );
            if i % 2 == 1 {
                put(o, format_args!("cvt.rn.{}x2.f32 c{},e{i},e{};", rows.kind, i / 2, i - 1));
            }
        }
        rows.sum(o);
        put(
            o,
            format_args!(
                "add.u32 key,key,{}; sub.u32 left,left,1; setp.ne.u32 q,left,0;
@q bra LOOP;",
                self.keys
            ),
        );
    }

    /// Writes the sums: of 32 features a thread has eight neighbours, since keys were dealt so.
    fn finish(self, o: &mut String) {
        put(
            o,
            format_args!(
                "wgmma.wait_group.sync.aligned 0;
ld.param.f32 x0,[args+160]; ld.param.u64 x,[args+40]; cvt.u64.u32 y,d; cvt.u64.u32 z,pos;
mad.lo.u64 a0,place0,y,z; shl.b64 a0,a0,1; add.u64 a0,a0,x; mad.lo.u64 a1,place1,y,z; shl.b64 a1,a1,1; add.u64 a1,a1,x;"
            ),
        );
        self.rows().store(o, ["x0"; 2], "d");
    }
}
