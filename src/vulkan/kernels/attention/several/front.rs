//! Attention of one sequence as what a chain of products begins with (kernels/quantized/chain): the first eight warps of some workgroups
//! have a part of it each, whose values they leave as words with a tag each. Behind that all workgroups join the parts, some features
//! each, and leave the result as words, too, for which the first product waits.

use super::args::place;
use super::text::{NOTHING, Program};
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::progress;
use crate::vulkan::tune::attention::several::{THREADS, of_part};

/// Features of a head that a workgroup joins at a time: a lane each.
const LANES: u32 = 32;

impl Program {
    fn heads(self) -> u32 {
        self.kv * self.group
    }

    /// Workgroups that have a part.
    fn workgroups(self) -> u32 {
        self.lines() * self.parts
    }

    /// The parts; all threads wait for the commands before this one, whose words lie at `at`.
    pub fn front_parts(self, o: &mut String, at: usize) {
        put(
            o,
            format_args!(
                "mov.u32 t0,%ctaid.x; setp.ge.u32 p,t0,{}; setp.ge.u32 q,tid,{}; or.pred p,p,q;
@p bra OTHERS;
{{",
                self.workgroups(),
                THREADS
            ),
        );
        self.registers(o);
        self.begin(o);
        self.ahead(o);
        progress::workgroup_waits(o, at);
        self.ready(o);
        self.walk(o);
        self.leave(o);
        self.gather(o);
        put(
            o,
            format_args!(
                "ld.param.u32 t2,[args+{tag}]; mul.lo.u32 t0,line,{parts}; add.u32 t0,t0,part; ld.param.u64 d64,[args+{at}]; mad.wide.u32 d64,t0,{bytes},d64; mad.wide.u32 e64,u,32,d64;",
                tag = self.arg(place!(tag)),
                parts = self.parts,
                at = self.arg(place!(parts)),
                bytes = of_part(self.features),
            ),
        );
        for i in 0..4 {
            put(
                o,
                format_args!(
                    "mov.b32 t0,d{i}; mov.b64 ka,{{t0,t2}};\n@here st.relaxed.gpu.global.b64 [e64+{}],ka;",
                    8 * i
                ),
            );
        }
        put(o, format_args!("setp.eq.and.u32 here,u,0,here;"));
        for (i, from) in (0..).zip(["top", "sum"]) {
            put(
                o,
                format_args!(
                    "mov.b32 t0,{from}; mov.b64 ka,{{t0,t2}};\n@here st.relaxed.gpu.global.b64 [d64+{}],ka;",
                    8 * (self.features + i)
                ),
            );
        }
        put(o, format_args!("}}\nbra PARTED;\nOTHERS:"));
        progress::workgroup_waits_there(o, at, "_BESIDE");
        put(o, format_args!("PARTED:"));
    }

    /// Joins them: a warp has a part, and the first one adds them up in order.
    pub fn front_join(self, o: &mut String) {
        put(
            o,
            format_args!(
                "{{
.reg .pred p,q,mine,own;
.reg .b32 chunk,all,head,at,tag,t0,t1,t2,value,one;
.reg .b16 h0;
.reg .b64 d64,e64,word,most,more;
.reg .f32 z,m,s,top,fin,sum,x,f;
mov.u32 chunk,%ctaid.x; mov.u32 all,%nctaid.x; ld.param.u32 tag,[args+{tag}]; setp.lt.u32 mine,warp,{parts}; setp.eq.u32 own,warp,0;
bar.sync 0;
JOINING:
setp.ge.u32 p,chunk,{chunks};
@p bra JOINED;
div.u32 head,chunk,{each}; rem.u32 at,chunk,{each}; mad.lo.u32 at,at,{LANES},lane;
@!mine bra CAME;
mad.lo.u32 t0,head,{parts},warp; ld.param.u64 d64,[args+{left}]; mad.wide.u32 d64,t0,{bytes},d64; mad.wide.u32 e64,at,8,d64;
COMING:
ld.relaxed.gpu.global.b64 word,[e64]; ld.relaxed.gpu.global.b64 most,[d64+{extremes}]; ld.relaxed.gpu.global.b64 more,[d64+{sums}];
mov.b64 {{value,t0}},word; mov.b64 {{t1,t2}},most; setp.ne.u32 p,t0,tag; setp.ne.or.u32 p,t2,tag,p; mov.b64 {{t2,t0}},more; setp.ne.or.u32 p,t0,tag,p;
@p bra COMING;
mov.u32 t0,{values}; mad.lo.u32 t0,warp,{row},t0; mad.lo.u32 t0,lane,4,t0; st.shared.b32 [t0],value;
setp.eq.u32 p,lane,0; mov.u32 t0,{values}; mad.lo.u32 t0,warp,8,t0;
@p st.shared.v2.b32 [t0+{behind}],{{t1,t2}};
CAME:
bar.sync 0;
@!own bra LEAVING;",
                tag = self.arg(place!(tag)),
                parts = self.parts,
                chunks = self.heads() * self.features / LANES,
                each = self.features / LANES,
                left = self.arg(place!(parts)),
                bytes = of_part(self.features),
                extremes = 8 * self.features,
                sums = 8 * self.features + 8,
                values = self.shared("rows"),
                row = 4 * LANES,
                behind = 4 * LANES * self.parts,
            ),
        );
        self.add_parts(o);
        put(o, format_args!("LEAVING:\nbar.sync 0;\nadd.u32 chunk,chunk,all;\nbra JOINING;\nJOINED:\n}}"));
    }

    /// The lane's feature of all parts, stored as an element, and by pairs as words.
    fn add_parts(self, o: &mut String) {
        let behind = 4 * LANES * self.parts;
        self.sink(o, "head");
        put(o, format_args!("mov.u32 one,{}; mov.f32 top,f;", self.shared("rows")));
        for p in 0..self.parts {
            put(o, format_args!("ld.shared.f32 m,[one+{}]; max.f32 top,top,m;", behind + 8 * p));
        }
        put(
            o,
            format_args!(
                "setp.eq.f32 q,top,{NOTHING}; selp.f32 fin,0f00000000,top,q; sub.f32 sum,f,fin; ex2.approx.ftz.f32 sum,sum; mov.f32 x,0f00000000; mad.lo.u32 t1,lane,4,one;"
            ),
        );
        for p in 0..self.parts {
            put(
                o,
                format_args!(
                    "ld.shared.v2.f32 {{m,s}},[one+{}]; sub.f32 m,m,fin; ex2.approx.ftz.f32 m,m; fma.rn.f32 sum,s,m,sum; ld.shared.f32 z,[t1+{}]; fma.rn.f32 x,z,m,x;",
                    behind + 8 * p,
                    4 * LANES * p
                ),
            );
        }
        put(
            o,
            format_args!(
                "rcp.approx.f32 sum,sum; mul.f32 x,x,sum; cvt.rn.{kind}.f32 h0,x; mad.lo.u32 at,head,{features},at; ld.param.u64 d64,[args+{dst}]; mad.wide.u32 d64,at,2,d64; st.global.b16 [d64],h0;
cvt.u32.u16 t0,h0; shfl.sync.bfly.b32 t1,t0,1,31,-1; shl.b32 t1,t1,16; or.b32 t0,t0,t1; mov.b64 word,{{t0,tag}}; and.b32 t1,lane,1; setp.eq.u32 p,t1,0; ld.param.u64 d64,[args+{words}]; mad.wide.u32 d64,at,4,d64;
@p st.relaxed.gpu.global.b64 [d64],word;",
                features = self.features,
                dst = self.arg(place!(dst)),
                words = self.arg(place!(words)),
                kind = self.kind(),
            ),
        );
    }
}
