//! The text of attention of one position of several sequences: a workgroup has the heads that share a key head, its warps go through
//! sixteen keys at a time by products of matrix units. Keys are the left side of one product and values that of the other, both as they lie
//! in memory, so that nothing goes through shared memory on the way.

use super::args::{Args, place};
use crate::core::Dtype;
use crate::vulkan::kernels::attention::Mask;
use crate::vulkan::kernels::matmul::warpgroup::text::{four, head, kind, pair, put};
use crate::vulkan::kernels::progress;
use crate::vulkan::tune::attention::several::{AHEAD, KEYS, THREADS, TOGETHER, WARPS};

/// One kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Program {
    /// bfloat16 or float16.
    pub dtype: Dtype,
    /// Of a head: 64, 96 or 128.
    pub features: u32,
    /// Of which so many are turned, as neighbours or half of them apart.
    pub dims: u32,
    pub traditional: bool,
    /// Heads that share a key head, those of a workgroup, and workgroups that share them.
    pub group: u32,
    pub rows: u32,
    pub tiles: u32,
    /// Heads of keys, where it is a front.
    pub kv: u32,
    /// Parts of the keys, a power of two.
    pub parts: u32,
    pub norm: bool,
    pub waves: bool,
    pub(in crate::vulkan::kernels::attention) mask: Mask,
    pub sinks: bool,
    /// It is what a chain of products begins with: where its arguments lie among the chain's.
    pub front: Option<u32>,
}

/// Bits of log2(e), of the lowest number and of minus infinity.
pub(super) const LOG2E: &str = "0f3FB8AA3B";
const LOWEST: &str = "0fFF7FFFFF";
pub(super) const NOTHING: &str = "0fFF800000";
/// Bytes that a prefetch brings.
const LINE: u32 = 128;
/// Keys whose values a lane has, from twice its place on.
const BESIDE: [u32; 4] = [0, 1, 8, 9];
/// Scores of a lane: of two heads for a key, and for the eighth one after it.
const SCORES: [&str; 4] = ["s0", "s1", "s4", "s5"];
/// Bits of -2e38: what is added below that makes a score the lowest number.
const FAR: &str = "0fFF167699";

impl Program {
    /// How elements are called.
    pub(super) fn kind(self) -> &'static str {
        kind(self.dtype)
    }

    /// Workgroups of a part of the keys.
    pub(super) fn lines(self) -> u32 {
        self.kv * self.tiles
    }

    /// Features that registers and shared memory have room for: those of values come by 64. What is behind a head's own is never stored.
    pub(super) fn padded(self) -> u32 {
        self.features.next_multiple_of(64)
    }

    /// Sixteen bytes of a row in shared memory.
    pub(super) fn chunks(self) -> u32 {
        self.padded() / 8
    }

    /// Bytes of a row in memory, and in shared memory.
    pub(super) fn bytes(self) -> u32 {
        2 * self.features
    }

    /// See `bytes`.
    pub(super) fn row(self) -> u32 {
        2 * self.padded()
    }

    /// Bytes of the greatest scores of rows and warps, behind which their sums lie.
    pub(super) fn extremes(self) -> u32 {
        4 * WARPS * self.rows
    }

    /// Fours of heads.
    fn halves(self) -> u32 {
        self.rows.div_ceil(4)
    }

    /// Registers of a row of keys that a lane has, which are a quarter of it.
    fn quarter(self) -> u32 {
        self.features / 8
    }

    /// Bytes of shared memory: rows that are ready, angles, extremes and sums, values of half of the warps, a number.
    fn pieces(self) -> [(&'static str, u32); 5] {
        [
            ("rows", (self.rows + 2) * self.row()),
            ("angles", 4 * self.features),
            ("tops", 2 * self.extremes()),
            ("held", WARPS / 2 * self.rows * 4 * self.padded()),
            ("flag", 16),
        ]
    }

    /// Where a piece of it lies: a chain has one place for all.
    pub(super) fn shared(self, piece: &str) -> String {
        if self.front.is_none() {
            return piece.into();
        }
        let before = self.pieces().into_iter().take_while(|p| p.0 != piece);
        format!("row+{}", before.map(|p| p.1).sum::<u32>())
    }

    /// Where an argument lies.
    pub(super) fn arg(self, at: usize) -> usize {
        self.front.unwrap_or(0) as usize + at
    }

    /// A barrier of the threads that take part.
    pub(super) fn barrier(self) -> String {
        if self.front.is_some() { format!("bar.sync 1,{THREADS};") } else { "bar.sync 0;".into() }
    }

    pub fn text(self) -> String {
        let mut o = head("sm_90", progress::told::<Args>(), [THREADS, TOGETHER]);
        for (piece, bytes) in self.pieces() {
            put(&mut o, format_args!(".shared .align 16 .b8 {piece}[{bytes}];"));
        }
        self.registers(&mut o);
        // Keys and values that others left there are older than what the commands before this one make.
        self.begin(&mut o);
        self.ahead(&mut o);
        progress::workgroup_waits(&mut o, size_of::<Args>());
        self.ready(&mut o);
        self.walk(&mut o);
        self.leave(&mut o);
        self.gather(&mut o);
        self.result(&mut o);
        put(&mut o, format_args!("DONE:"));
        progress::ends(&mut o, size_of::<Args>());
        put(&mut o, format_args!("ret;\n}}"));
        o
    }

    pub(super) fn registers(self, o: &mut String) {
        put(
            o,
            format_args!(
                ".reg .pred p,q,l0,l1,n0,n1,v<4>,near,live,mine,plain,beyond,upper,high,r0,r1,here,stored;
.reg .b32 tid,lane,warp,g,t,part,tile,kv,batch,begin,end,key0,place,ks,vs,ms,own,own1,zero,t0,t1,t2,j,u;
.reg .b32 x<{all}>,qq<{q}>,mk<4>,hi<2>,lo<2>,a<4>,c<4>,w<4>,y<4>,whose,at,newest,line;
.reg .b16 h0,h1;
.reg .f32 s<16>,o<{out}>,m<2>,l0f,l1f,top,fin,f,f0,f1,scale,d<8>,b<32>,sum,root,z,z2,zf,angle;
.reg .f64 wide0,wide1,wide2;
.reg .b64 ka,ka8,va,va1,kb,vb,ma,mb,d64,e64;",
                all = self.padded() / 4,
                q = self.quarter() / 2 * self.halves(),
                out = self.padded() / 4,
            ),
        );
    }

    /// Which heads and part of the keys the workgroup has.
    fn which(self) -> String {
        let tiles = self.tiles;
        match self.front {
            Some(_) => format!(
                "mov.u32 t0,%ctaid.x; div.u32 part,t0,{lines}; rem.u32 t0,t0,{lines}; div.u32 kv,t0,{tiles}; rem.u32 tile,t0,{tiles}; mov.u32 batch,0;",
                lines = self.lines(),
            ),
            None => format!(
                "mov.u32 t0,%ctaid.x; div.u32 part,t0,{tiles}; rem.u32 tile,t0,{tiles}; mov.u32 kv,%ctaid.y; mov.u32 batch,%ctaid.z;"
            ),
        }
    }

    /// Finds what the workgroup and the lane have, and asks for the first keys.
    pub(super) fn begin(self, o: &mut String) {
        put(
            o,
            format_args!(
                "mov.u32 tid,%tid.x; and.b32 lane,tid,31; shr.u32 warp,tid,5; shr.u32 g,lane,2; and.b32 t,lane,3; mov.u32 zero,0; mov.f32 zf,0f00000000;
{which}
ld.param.u32 t0,[args+{span}]; ld.param.u32 t1,[args+{n}]; mul.lo.u32 begin,part,t0; add.u32 end,begin,t0; min.u32 end,end,t1; ld.param.u32 place,[args+{at}];
mad.lo.u32 key0,warp,{KEYS},begin;
ld.param.u32 ks,[args+{k2}]; ld.param.u32 t0,[args+{k0}]; ld.param.u32 t1,[args+{k1}]; mul.lo.u32 t0,t0,batch; mad.lo.u32 t0,t1,kv,t0;
ld.param.u64 ka,[args+{k}]; cvt.u64.u32 d64,t0; add.u64 kb,ka,d64; mul.wide.u32 d64,t,16; add.u64 ka,kb,d64; add.u32 t0,key0,g; mad.wide.u32 ka,t0,ks,ka;
ld.param.u32 vs,[args+{v2}]; ld.param.u32 t0,[args+{v0}]; ld.param.u32 t1,[args+{v1}]; mul.lo.u32 t0,t0,batch; mad.lo.u32 t0,t1,kv,t0;
ld.param.u64 va,[args+{v}]; cvt.u64.u32 d64,t0; add.u64 vb,va,d64; mul.wide.u32 d64,g,16; add.u64 va,vb,d64; shl.b32 t0,t,1; add.u32 t0,key0,t0; mad.wide.u32 va,t0,vs,va;",
                which = self.which(),
                span = self.arg(place!(span)),
                n = self.arg(place!(n)),
                at = self.arg(place!(place)),
                k = self.arg(place!(k)),
                k0 = self.arg(place!(k_steps)),
                k1 = self.arg(place!(k_steps) + 4),
                k2 = self.arg(place!(k_steps) + 8),
                v = self.arg(place!(v)),
                v0 = self.arg(place!(v_steps)),
                v1 = self.arg(place!(v_steps) + 4),
                v2 = self.arg(place!(v_steps) + 8),
            ),
        );
        if self.mask != Mask::None {
            put(
                o,
                format_args!(
                    "ld.param.u32 ms,[args+{m2}]; ld.param.u32 t0,[args+{m0}]; ld.param.u32 t1,[args+{m1}]; mul.lo.u32 t0,t0,batch; ld.param.u64 ma,[args+{mask}];
mul.lo.u32 u,kv,{group}; mul.lo.u32 t2,tile,{rows}; shl.b32 own,t,1; add.u32 own1,own,1;",
                    m0 = self.arg(place!(m_steps)),
                    m1 = self.arg(place!(m_steps) + 4),
                    m2 = self.arg(place!(m_steps) + 8),
                    rows = self.rows,
                    group = self.group,
                    mask = self.arg(place!(mask)),
                ),
            );
            for own in ["own", "own1"] {
                put(
                    o,
                    format_args!(
                        "min.u32 {own},{own},{}; add.u32 {own},{own},t2; min.u32 {own},{own},{}; add.u32 {own},{own},u; mad.lo.u32 {own},{own},t1,t0;",
                        self.rows - 1,
                        self.group - 1
                    ),
                );
            }
            put(o, format_args!("add.u32 t0,key0,g; mad.wide.u32 ma,t0,ms,ma;"));
        }
        self.fetch_keys(o);
    }

    /// Brings the warp's first values and its next keys and values to the second-level cache: a line of 128 bytes by each lane.
    pub(super) fn ahead(self, o: &mut String) {
        let lines = self.row() / LINE;
        put(o, format_args!("shr.u32 t0,lane,{}; and.b32 t1,lane,{};", lines.ilog2(), lines - 1));
        put(
            o,
            format_args!(
                "mul.wide.u32 d64,t1,{LINE}; add.u64 kb,kb,d64; add.u64 vb,vb,d64; add.u32 t0,t0,key0; add.u32 t1,key0,{KEYS}; min.u32 t1,t1,end; setp.lt.u32 p,t0,t1; mad.wide.u32 e64,t0,vs,vb;
@p prefetch.global.L2 [e64];"
            ),
        );
        for _ in 0..AHEAD {
            put(
                o,
                format_args!(
                    "add.u32 t0,t0,{turn}; add.u32 t1,t1,{turn}; min.u32 t1,t1,end; setp.lt.u32 p,t0,t1; mad.wide.u32 d64,t0,ks,kb; mad.wide.u32 e64,t0,vs,vb;
@p prefetch.global.L2 [d64];
@p prefetch.global.L2 [e64];",
                    turn = KEYS * WARPS
                ),
            );
        }
    }

    /// Asks for the lane's quarters of the keys of its group, and for what the mask says of them.
    fn fetch_keys(self, o: &mut String) {
        put(
            o,
            format_args!(
                "add.u32 t0,key0,g; setp.lt.u32 l0,t0,end; setp.eq.u32 n0,t0,place; add.u32 t0,t0,8; setp.lt.u32 l1,t0,end; setp.eq.u32 n1,t0,place; mad.wide.u32 ka8,ks,8,ka;"
            ),
        );
        for (i, from) in ["ka", "ka8"].into_iter().enumerate() {
            for c in 0..self.features / 32 {
                let to = four("x", self.quarter() * i as u32 + 4 * c);
                put(
                    o,
                    format_args!("@l{i} ld.global.nc.L1::no_allocate.v4.b32 {{{to}}},[{from}+{}];", 64 * c),
                );
            }
        }
        let kind = match self.mask {
            Mask::None => return,
            Mask::Bool => "u8",
            _ => "u16",
        };
        for i in 0..2 {
            for (e, own) in ["own", "own1"].into_iter().enumerate() {
                put(
                    o,
                    format_args!(
                        "cvt.u64.u32 mb,{own}; add.u64 mb,ma,mb; mad.wide.u32 mb,ms,{},mb;\n@l{i} ld.global.nc.{kind} mk{},[mb];",
                        8 * i,
                        2 * i + e
                    ),
                );
            }
        }
    }

    /// Asks for the lane's eighths of the values of four keys, which are nothing where there is no key.
    fn fetch_values(self, o: &mut String) {
        let of_key = self.padded() / 16;
        // Eighths of the last 64 features that there are.
        let last = self.features % 64 / 8;
        put(o, format_args!("shl.b32 t0,t,1; add.u32 t0,key0,t0; setp.lt.u32 near,g,{last};"));
        (0..4 * of_key).for_each(|i| put(o, format_args!("mov.b32 x{i},zero;")));
        for (i, by) in BESIDE.into_iter().enumerate() {
            put(o, format_args!("add.u32 t1,t0,{by}; setp.lt.u32 v{i},t1,end; mad.wide.u32 va1,vs,{by},va;"));
            for half in 0..self.padded() / 64 {
                let to = four("x", of_key * i as u32 + 4 * half);
                if 64 * (half + 1) > self.features {
                    put(o, format_args!("and.pred v{i},v{i},near;"));
                }
                put(
                    o,
                    format_args!("@v{i} ld.global.nc.L1::no_allocate.v4.b32 {{{to}}},[va1+{}];", 128 * half),
                );
            }
        }
    }

    /// All keys of the warp.
    pub(super) fn walk(self, o: &mut String) {
        put(
            o,
            format_args!(
                "mov.u32 t0,{}; add.u32 newest,t0,{}; shl.b32 t1,t,4; and.b32 t2,g,3; setp.ge.u32 high,g,4; setp.ge.u32 upper,t,2;",
                self.shared("rows"),
                self.rows * self.row(),
            ),
        );
        // The left side has two quarters of a chunk in rows of their own: so has the right side in columns.
        for half in 0..self.halves() {
            put(
                o,
                format_args!(
                    "add.u32 u,t2,{}; min.u32 u,u,{}; mad.lo.u32 u,u,{},t0; add.u32 u,u,t1;",
                    4 * half,
                    self.rows - 1,
                    self.row()
                ),
            );
            for c in 0..self.features / 32 {
                let q = 2 * (half * self.features / 32 + c);
                put(
                    o,
                    format_args!(
                        "ld.shared.v4.b32 {{c0,c1,c2,c3}},[u+{}]; selp.b32 qq{q},c1,c0,high; selp.b32 qq{},c3,c2,high;",
                        64 * c,
                        q + 1
                    ),
                );
            }
        }
        (0..self.padded() / 4).for_each(|i| put(o, format_args!("mov.f32 o{i},zf;")));
        put(
            o,
            format_args!(
                "mov.f32 m0,{NOTHING}; mov.f32 m1,m0; mov.f32 l0f,zf; mov.f32 l1f,zf; ld.param.f32 scale,[args+{}]; mul.f32 scale,scale,{LOG2E}; setp.ge.u32 p,key0,end;
@p bra TILED;
TILE:",
                self.arg(place!(scale))
            ),
        );
        self.scores(o);
        self.fetch_values(o);
        self.masked(o);
        self.weights(o);
        self.add_values(o);
        put(
            o,
            format_args!(
                "add.u32 key0,key0,{}; setp.lt.u32 live,key0,end; mad.wide.u32 ka,ks,{0},ka; mad.wide.u32 va,vs,{0},va;",
                KEYS * WARPS
            ),
        );
        if self.mask != Mask::None {
            put(o, format_args!("mad.wide.u32 ma,ms,{},ma;", KEYS * WARPS));
        }
        self.fetch_keys(o);
        put(o, format_args!("@live bra TILE;\nTILED:"));
    }

    /// Scores of sixteen keys, eight at a time: a lane has those of two heads for a key of each eight. Of a product's sixteen rows eight
    /// are one half of the keys' features and eight the other half, whose columns are theirs.
    fn scores(self, o: &mut String) {
        put(o, format_args!("shl.b32 t1,t,4; add.u32 t1,newest,t1;"));
        let chunks = self.features / 32;
        for i in 0..2 {
            for c in 0..chunks {
                let to = four("x", self.quarter() * i + 4 * c);
                put(o, format_args!("@n{i} ld.shared.v4.b32 {{{to}}},[t1+{}];", 64 * c));
            }
        }
        for (c, (i, half)) in
            (0..chunks).flat_map(|c| (0..2).flat_map(move |i| (0..self.halves()).map(move |h| (c, (i, h)))))
        {
            let s = four("s", 8 * half + 4 * i);
            let from = if c == 0 { "zf,zf,zf,zf".to_string() } else { s.clone() };
            let (q, x) = (2 * (half * chunks + c), four("x", self.quarter() * i + 4 * c));
            put(
                o,
                format_args!(
                    "mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{{s}}},{{{x}}},{{qq{q},qq{}}},{{{from}}};",
                    q + 1,
                    kind = self.kind(),
                ),
            );
        }
        // Halves that lie in other lanes.
        for s in [0, 1, 4, 5] {
            if self.halves() == 1 {
                put(o, format_args!("shfl.sync.bfly.b32 z,s{},2,31,-1; add.f32 s{s},s{s},z;", s + 2));
            } else {
                put(
                    o,
                    format_args!(
                        "selp.f32 z,s{},s{},upper; selp.f32 s{s},s{},s{s},upper; shfl.sync.bfly.b32 z,z,2,31,-1; add.f32 s{s},s{s},z;",
                        s + 2,
                        s + 8,
                        s + 10
                    ),
                );
            }
        }
    }

    /// Scores in units of log 2, with what the mask says.
    fn masked(self, o: &mut String) {
        for (i, s) in SCORES.into_iter().enumerate() {
            put(o, format_args!("mul.f32 {s},{s},scale;"));
            match self.mask {
                Mask::None => {}
                Mask::Bool => {
                    put(o, format_args!("setp.ne.u32 q,mk{i},0; selp.f32 {s},{s},{LOWEST},q;"));
                }
                // Masks of float16 end where scores do not.
                _ if self.dtype == Dtype::F16 => put(
                    o,
                    format_args!("cvt.u16.u32 h0,mk{i}; cvt.f32.f16 z,h0; fma.rn.f32 {s},z,{LOG2E},{s};"),
                ),
                _ => put(
                    o,
                    format_args!(
                        "shl.b32 t0,mk{i},16; mov.b32 z,t0; fma.rn.f32 {s},z,{LOG2E},{s}; setp.lt.f32 q,z,{FAR}; setp.gt.and.f32 q,z,{NOTHING},q; selp.f32 {s},{LOWEST},{s},q;"
                    ),
                ),
            }
            put(o, format_args!("selp.f32 {s},{s},{NOTHING},l{};", i / 2));
        }
    }

    /// Weights of the lane's four scores beside the greatest of their heads so far, and what was summed up beside the new ones.
    fn weights(self, o: &mut String) {
        for i in 0..2 {
            put(o, format_args!("max.f32 b{i},{},{}; max.f32 b{i},b{i},m{i};", SCORES[i], SCORES[2 + i]));
        }
        for by in [4, 8, 16] {
            for i in 0..2 {
                put(o, format_args!("shfl.sync.bfly.b32 z,b{i},{by},31,-1; max.f32 b{i},b{i},z;"));
            }
        }
        for i in 0..2 {
            put(
                o,
                format_args!(
                    "setp.eq.f32 q,b{i},{NOTHING}; selp.f32 fin,zf,b{i},q; sub.f32 f{i},m{i},fin; ex2.approx.ftz.f32 f{i},f{i}; mov.f32 m{i},b{i}; mul.f32 l{i}f,l{i}f,f{i};"
                ),
            );
            for s in [SCORES[i], SCORES[2 + i]] {
                put(
                    o,
                    format_args!("sub.f32 {s},{s},fin; ex2.approx.ftz.f32 {s},{s}; add.f32 l{i}f,l{i}f,{s};"),
                );
            }
        }
        // Weights as two elements each, so that nothing of them is lost that counts; keys and heads are exchanged.
        for i in 0..2 {
            let [s0, s1] = [SCORES[2 * i], SCORES[2 * i + 1]];
            put(o, format_args!("cvt.rn.{}x2.f32 hi{i},{s1},{s0};", self.kind()));
            pair(o, self.dtype, ["z", "z2"], &format!("hi{i}"), "t0");
            put(
                o,
                format_args!(
                    "sub.f32 z,{s0},z; sub.f32 z2,{s1},z2; cvt.rn.{}x2.f32 lo{i},z2,z;
movmatrix.sync.aligned.m8n8.trans.b16 hi{i},hi{i}; movmatrix.sync.aligned.m8n8.trans.b16 lo{i},lo{i};",
                    self.kind()
                ),
            );
        }
        for i in 0..self.padded() / 4 {
            put(o, format_args!("mul.f32 o{i},o{i},f{};", i % 2));
        }
    }

    /// The product of the values, two keys' elements a word, with the weights.
    fn add_values(self, o: &mut String) {
        let of_key = self.padded() / 16;
        put(o, format_args!("shl.b32 t1,g,4; add.u32 t1,newest,t1; shl.b32 t0,t,1; add.u32 t0,key0,t0;"));
        for (i, by) in BESIDE.into_iter().enumerate() {
            put(o, format_args!("add.u32 t2,t0,{by}; setp.eq.u32 q,t2,place;"));
            for half in 0..self.padded() / 64 {
                let to = four("x", of_key * i as u32 + 4 * half);
                put(o, format_args!("@q ld.shared.v4.b32 {{{to}}},[t1+{}];", self.row() + 128 * half));
            }
        }
        for word in 0..of_key {
            let x = |key: u32| format!("x{}", of_key * key + word);
            for pair in 0..2 {
                let [low, high] = [x(2 * pair), x(2 * pair + 1)];
                put(
                    o,
                    format_args!(
                        "prmt.b32 a{},{low},{high},0x5410; prmt.b32 a{},{low},{high},0x7632;",
                        2 * pair,
                        2 * pair + 1
                    ),
                );
            }
            let out = four("o", 4 * word);
            for part in ["hi", "lo"] {
                put(
                    o,
                    format_args!(
                        "mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{{out}}},{{a0,a1,a2,a3}},{{{part}0,{part}1}},{{{out}}};",
                        kind = self.kind(),
                    ),
                );
            }
        }
    }
}
