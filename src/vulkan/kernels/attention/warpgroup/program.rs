//! The text of attention for warpgroup products (wgmma of PTX, NVIDIA's sm_90a). A workgroup has 128 queries of one head: two
//! warpgroups with 64 each, and one of which a thread fetches keys and values, 64 at a time, as images that lie as the
//! products read them (shaders/warpgroup/warpgroup_image.comp). Queries stay in registers, so do scores, weights and sums; the scores
//! of the next keys are under way while the weights of these are made, as is the product of the last ones with their values.
//! The order of the online softmax is that of FlashAttention (Dao 2023, Shah and others 2024).

use std::f32::consts::LOG2_E;
use std::mem::offset_of;

use super::mask::{Mask, MaskArgs};
use super::rows::{self, Rows, Sizes};
use crate::core::Dtype;
use crate::vulkan::kernels::matmul::warpgroup::text::{self, FIRST_THREAD, ONE_THREAD, Told, put, ready};

/// Queries of a workgroup.
pub const ROWS: u32 = 128;
/// Keys that meet them at a time.
pub const KEYS: u32 = 64;
/// Threads of a workgroup.
pub const THREADS: u32 = 384;
/// One kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Program {
    /// float16 or bfloat16.
    pub dtype: Dtype,
    /// Features that it has room for: 64 or 128.
    pub features: u32,
    /// A query sees the keys up to its own place, counted from the end.
    pub causal: bool,
    /// A dense mask.
    pub mask: Option<Mask>,
}

/// What the kernel is told; the text reads it by these places.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Args {
    pub q: u64,
    /// Images of keys and values.
    pub keys: u64,
    pub values: u64,
    /// Contiguous.
    pub out: u64,
    /// Where extents of rows go, or 0.
    pub extents: u64,
    /// A number for each head, or 0.
    pub sinks: u64,
    /// Bytes from one matrix of an image to the next.
    pub key_matrix: u64,
    pub value_matrix: u64,
    /// Elements from batch to batch, head to head, row to row.
    pub q_batch: u64,
    pub q_head: u64,
    pub q_row: u64,
    pub sizes: Sizes,
    /// The inverse of the scale.
    pub unscale: f32,
    pub unused: u32,
}

/// Bytes of [`Args`].
pub(super) const ARGS: usize = size_of::<Args>();

const _: () = assert!(ARGS == 128);
// SAFETY: repr(C) of 8-byte and then 4-byte fields without padding.
unsafe impl Told for Args {}

impl Program {
    fn rows(self) -> Rows {
        Rows::new(self.dtype, self.features, KEYS)
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
.reg .b32 tid,warp,lane,wg,w,g,t,tmp,tmp2,l,n,d,dv,heads,group,kv,h,b,first,limit,tiles,slot,phase,gone,sm,fullb,emptyb,left,
row0,row1,lim0,lim1,whole,lo,hik,lok,hit,lot,key,pos,extra;
.reg .b64 kb,vb,qb,ob,x,y,z,desc,a0,a1,eb,sb;
.reg .f32 o<{sums}>,e<32>,m0,m1,l0,l1,s0,s1,t0,t1,units,x0,x1;
.reg .b32 f<{queries}>,c<16>,v<5>;
.reg .b16 half;
{mask}{sizes}
{FIRST_THREAD}",
                mask = self.mask.map_or(String::new(), |m| m.registers() + "\n"),
                opening = text::opening(
                    ARGS + self.mask.map_or(0, |_| size_of::<MaskArgs>()), [THREADS, 1], [stages * rows.piece(), stages]),
                sizes = Sizes::read(offset_of!(Args, sizes)),
                sums = self.features / 2,
                queries = self.features / 4,
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
add.u32 tiles,limit,{most}; shr.u32 tiles,tiles,6;
mov.u32 slot,0; mov.u32 left,tiles;
setp.lt.u32 p,warp,8;
@p bra CONSUMER;
setmaxnreg.dec.sync.aligned.u32 40;
{ONE_THREAD}
div.u32 tmp,h,group; mad.lo.u32 tmp,b,kv,tmp; cvt.u64.u32 x,tmp;
ld.param.u64 kb,[args+8]; ld.param.u64 y,[args+48]; mad.lo.u64 kb,x,y,kb;
ld.param.u64 vb,[args+16]; ld.param.u64 y,[args+56]; mad.lo.u64 vb,x,y,vb;
mov.u32 phase,1;",
                causal = if self.causal {
                    "add.u32 limit,first,128; add.u32 limit,limit,extra; min.u32 limit,limit,n;"
                } else {
                    ""
                },
                most = KEYS - 1,
            ),
        );
    }

    /// One thread fetches the keys of a turn and the values of the one before it.
    fn fetch(self, o: &mut String) {
        let rows = self.rows();
        rows.fetch(o, "kb", "AF");
        put(o, format_args!("FETCH:\nsub.u32 left,left,1; setp.eq.u32 last,left,0;\n@last bra VALUES;"));
        rows.fetch(o, "kb", "AK");
        put(o, format_args!("VALUES:"));
        rows.fetch(o, "vb", "AV");
        put(o, format_args!("@!last bra FETCH;\nbra DONE;"));
    }

    /// The queries of a thread, and the products with the first keys.
    fn prologue(self, o: &mut String) {
        let [whole, limits] = rows::bounds(self.causal);
        put(
            o,
            format_args!(
                "CONSUMER:
setmaxnreg.inc.sync.aligned.u32 232;
shr.u32 wg,warp,2; and.b32 w,warp,3; shr.u32 g,lane,2; and.b32 t,lane,3;
mad.lo.u32 row0,wg,64,first;
{whole}
mad.lo.u32 row0,w,16,row0; add.u32 row0,row0,g; add.u32 row1,row0,8;
{limits}
ld.param.u64 qb,[args]; cvt.u64.u32 x,b; ld.param.u64 y,[args+64]; mul.lo.u64 z,x,y;
cvt.u64.u32 x,h; ld.param.u64 y,[args+72]; mad.lo.u64 z,x,y,z; shl.b64 z,z,1; add.u64 qb,qb,z;
ld.param.u64 y,[args+80]; sub.u32 tmp,l,1; shl.b32 pos,t,3; cvt.u64.u32 z,pos;
min.u32 tmp2,row0,tmp; cvt.u64.u32 x,tmp2; mad.lo.u64 x,x,y,z; shl.b64 x,x,1; add.u64 a0,qb,x;
min.u32 tmp2,row1,tmp; cvt.u64.u32 x,tmp2; mad.lo.u64 x,x,y,z; shl.b64 x,x,1; add.u64 a1,qb,x;",
            ),
        );
        self.rows().load(o, ["a0", "a1"], "f", "d");
        for i in 0..self.features / 2 {
            put(o, format_args!("mov.f32 o{i},0f00000000;"));
        }
        self.mask_rows(o);
        let sink = if self.dtype == Dtype::BF16 {
            "cvt.u32.u16 tmp,half; shl.b32 tmp,tmp,16; mov.b32 x0,tmp;"
        } else {
            "cvt.f32.f16 x0,half;"
        };
        put(
            o,
            format_args!(
                "{units}
mov.f32 m0,0fff800000; mov.f32 l0,0f00000000;
ld.param.u64 sb,[args+40]; setp.eq.u64 p,sb,0;
@p bra NOSINK;
mul.wide.u32 x,h,2; add.u64 sb,sb,x; ld.global.nc.b16 half,[sb]; {sink}
{sunk} mul.f32 m0,x0,x1; setp.eq.u32 q,t,0; selp.f32 l0,0f3f800000,0f00000000,q;
NOSINK:
mov.f32 m1,m0; mov.f32 l1,l0;
setp.eq.u32 lane0,lane,0;
mov.u32 phase,0; mov.u32 gone,0; mov.u32 key,0;
mov.u32 hik,8; shr.u32 tmp,sm,4; add.u32 lok,tmp,{kstep}; mov.u32 hit,{KEYS}; add.u32 lot,tmp,{tstep};",
                units = match self.mask {
                    None => "ld.param.f32 units,[args+116];",
                    Some(_) => "ld.param.f32 sees,[args+116]; mov.f32 units,0f3f800000;",
                },
                sunk = match self.mask {
                    None => "ld.param.f32 x1,[args+120];".to_string(),
                    Some(_) => format!("mov.f32 x1,0f{:08X};", LOG2_E.to_bits()),
                },
                kstep = KEYS << 16,
                tstep = 8 << 16,
            ),
        );
        self.rows().products(o, "f", "e", "P", false);
        self.ask_mask(o);
        put(o, format_args!("wgmma.wait_group.sync.aligned 0;"));
        self.release(o);
        self.weights(o, "P");
        self.converted(o);
    }

    /// Lets go of the oldest pieces, so many as keys or values of a turn have.
    fn release(self, o: &mut String) {
        let rows = self.rows();
        text::let_go(o, "gone", rows.pieces(), rows.stages());
    }

    /// The loop over keys: the scores of the next ones are begun, then the sums of these, during which scores become weights.
    fn turns(self, o: &mut String) {
        put(o, format_args!("LOOP:\nsub.u32 left,left,1; setp.eq.u32 last,left,0;\n@last bra LAST;"));
        let rows = self.rows();
        rows.products(o, "f", "e", "S", false);
        rows.sum_next(o, "V");
        self.ask_mask(o);
        put(o, format_args!("wgmma.wait_group.sync.aligned 1;"));
        self.release(o);
        self.weights(o, "S");
        put(o, format_args!("wgmma.wait_group.sync.aligned 0;"));
        self.release(o);
        put(
            o,
            format_args!(
                "setp.neu.f32 p,x0,0f3f800000; setp.neu.f32 q,x1,0f3f800000; or.pred p,p,q; vote.sync.any.pred p,p,-1;
@!p bra SCALED;"
            ),
        );
        for i in 0..self.features / 2 {
            put(o, format_args!("mul.f32 o{i},o{i},x{};", i / 2 % 2));
        }
        put(o, format_args!("SCALED:"));
        self.converted(o);
        put(o, format_args!("bra LOOP;\nLAST:"));
        rows.sum_next(o, "L");
    }

    /// Weights of 16 bits, as the left side of a product.
    fn converted(self, o: &mut String) {
        for i in 0..16 {
            put(o, format_args!("cvt.rn.{}x2.f32 c{i},e{},e{};", self.rows().kind, 2 * i + 1, 2 * i));
        }
        put(o, format_args!("add.u32 key,key,{KEYS};"));
    }

    /// Scores become weights; x0 and x1 are what sums so far are multiplied by.
    fn weights(self, o: &mut String, tag: &str) {
        self.with_mask(o);
        self.rows().masked(o, tag);
        put(o, format_args!("mov.f32 x0,m0; mov.f32 x1,m1;"));
        for i in (0..32).step_by(4) {
            put(
                o,
                format_args!(
                    "max.f32 m0,m0,e{i}; max.f32 m0,m0,e{}; max.f32 m1,m1,e{}; max.f32 m1,m1,e{};",
                    i + 1,
                    i + 2,
                    i + 3
                ),
            );
        }
        text::over_four(o, "max", ["m0", "m1"]);
        let [m0, m1] = self.tops(o);
        put(
            o,
            format_args!(
                "sub.f32 x0,x0,{m0}; sub.f32 x1,x1,{m1}; mul.f32 x0,x0,units; mul.f32 x1,x1,units;
ex2.approx.ftz.f32 x0,x0; ex2.approx.ftz.f32 x1,x1;
mul.f32 t0,{m0},units; mul.f32 t1,{m1},units; neg.f32 t0,t0; neg.f32 t1,t1;
mul.f32 l0,l0,x0; mul.f32 l1,l1,x1; mov.f32 s0,0f00000000; mov.f32 s1,0f00000000;"
            ),
        );
        for i in 0..32 {
            let row = i / 2 % 2;
            put(
                o,
                format_args!(
                    "fma.rn.f32 e{i},e{i},units,t{row}; ex2.approx.ftz.f32 e{i},e{i}; add.f32 s{row},s{row},e{i};"
                ),
            );
        }
        put(o, format_args!("add.f32 l0,l0,s0; add.f32 l1,l1,s1;"));
    }

    /// Divides by the sums of weights and writes results, and extents.
    fn finish(self, o: &mut String) {
        put(o, format_args!("wgmma.wait_group.sync.aligned 0;"));
        text::over_four(o, "add", ["l0", "l1"]);
        put(
            o,
            format_args!(
                "setp.lt.u32 ok0,row0,l; setp.lt.u32 ok1,row1,l;
mad.lo.u32 tmp,b,heads,h; cvt.u64.u32 x,tmp; cvt.u64.u32 y,l; mul.lo.u64 x,x,y; cvt.u64.u32 y,row0; add.u64 x,x,y;
ld.param.u64 eb,[args+32]; setp.ne.u64 q,eb,0; setp.eq.u32 p,t,0; and.pred q,q,p;
shl.b64 y,x,2; add.u64 eb,eb,y;
lg2.approx.f32 t0,l0; fma.rn.f32 t0,m0,units,t0; lg2.approx.f32 t1,l1; fma.rn.f32 t1,m1,units,t1;
and.pred p,q,ok0; and.pred r,q,ok1;
@p st.global.f32 [eb],t0;
@r st.global.f32 [eb+32],t1;
rcp.rn.f32 x0,l0; rcp.rn.f32 x1,l1;
ld.param.u64 ob,[args+24]; cvt.u64.u32 y,dv; mad.lo.u64 x,x,y,0; cvt.u64.u32 z,pos; add.u64 x,x,z; shl.b64 x,x,1;
add.u64 a0,ob,x; shl.b64 y,y,4; add.u64 a1,a0,y;"
            ),
        );
        self.rows().store(o, ["x0", "x1"], "dv");
    }
}
