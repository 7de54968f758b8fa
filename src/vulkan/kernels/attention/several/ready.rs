//! Queries and the newest key in the text of `text`: normalised, turned and brought to shared memory, with the newest value; the newest
//! key and value are stored where the others are.

use super::args::place;
use super::text::Program;
use crate::vulkan::kernels::matmul::warpgroup::text::{four, inverse_root, pair, put};
use crate::vulkan::tune::attention::several::THREADS;
use crate::vulkan::tune::norm::ENOUGH;

/// Vectors of a row that are summed one behind the other.
const SUMMED: u32 = ENOUGH as u32;

/// Bits of 2 / pi, and of pi / 2 as two numbers.
const TURNS: &str = "0d3FE45F306DC9C883";
const QUARTER: [&str; 2] = ["0dBFF921FB54442D18", "0dBC91A62633145C07"];
/// Bits of what a sine and a cosine within an eighth of a turn are made with (shaders/lib/math.glsl).
const SINE: [&str; 3] = ["0fB94CA1F9", "0f3C08839E", "0fBE2AAAA3"];
const COSINE: [&str; 3] = ["0f37CCF5CE", "0fBAB6061A", "0f3D2AAAA5"];

impl Program {
    /// What the rest of the text reads in shared memory. A row's eighths are as many lanes'.
    pub(super) fn ready(self, o: &mut String) {
        self.load(o);
        self.angles(o);
        if self.norm {
            self.normalise(o);
        }
        put(o, format_args!("{}", self.barrier()));
        self.turn(o);
        self.keep(o);
        put(o, format_args!("{}", self.barrier()));
    }

    /// Asks for the thread's eighth of a query, of the newest key or of the newest value, and of what normalises it.
    fn load(self, o: &mut String) {
        let chunks = self.chunks();
        put(
            o,
            format_args!(
                "shr.u32 j,tid,{log}; and.b32 u,tid,{mask}; setp.lt.u32 mine,j,{all}; setp.lt.and.u32 mine,u,{own},mine; setp.ge.u32 plain,j,{value}; setp.eq.u32 q,j,{rows};
mad.lo.u32 whose,tile,{rows},j; min.u32 whose,whose,{heads}; mad.lo.u32 whose,kv,{group},whose; setp.ge.u32 p,j,{rows}; selp.u32 whose,kv,whose,p;
ld.param.u32 t0,[args+{q0}]; ld.param.u32 t1,[args+{k0}]; ld.param.u32 t2,[args+{v0}]; selp.b32 t0,t1,t0,q; selp.b32 t0,t2,t0,plain; mul.lo.u32 t0,t0,batch;
ld.param.u32 t1,[args+{q1}]; ld.param.u32 t2,[args+{k1}]; selp.b32 t1,t2,t1,q; ld.param.u32 t2,[args+{v1}]; selp.b32 t1,t2,t1,plain; mad.lo.u32 t0,t1,whose,t0; shl.b32 t1,u,4; add.u32 t0,t0,t1;
ld.param.u64 d64,[args+{qa}]; ld.param.u64 e64,[args+{ka}]; selp.b64 d64,e64,d64,q; ld.param.u64 e64,[args+{va}]; selp.b64 d64,e64,d64,plain; cvt.u64.u32 e64,t0; add.u64 d64,d64,e64;
@mine ld.global.cg.v4.b32 {{c0,c1,c2,c3}},[d64];",
                log = chunks.ilog2(),
                mask = chunks - 1,
                rows = self.rows,
                value = self.rows + 1,
                all = self.rows + 2,
                own = self.features / 8,
                heads = self.group - 1,
                group = self.group,
                q0 = self.arg(place!(q_steps)),
                q1 = self.arg(place!(q_steps) + 4),
                k0 = self.arg(place!(key_steps)),
                k1 = self.arg(place!(key_steps) + 4),
                v0 = self.arg(place!(value_steps)),
                v1 = self.arg(place!(value_steps) + 4),
                qa = self.arg(place!(q)),
                ka = self.arg(place!(key)),
                va = self.arg(place!(value)),
            ),
        );
        if self.norm {
            put(
                o,
                format_args!(
                    "ld.param.u64 d64,[args+{}]; ld.param.u64 e64,[args+{}]; selp.b64 d64,e64,d64,q; cvt.u64.u32 e64,t1; add.u64 d64,d64,e64;
@mine ld.global.nc.v4.b32 {{w0,w1,w2,w3}},[d64];",
                    self.arg(place!(q_weight)),
                    self.arg(place!(k_weight))
                ),
            );
        }
    }

    /// Cosines and sines of the sequence's place: the last threads have a pair each.
    fn angles(self, o: &mut String) {
        put(
            o,
            format_args!(
                "sub.u32 t0,{last},tid; setp.ge.u32 p,t0,{pairs};
@p bra ANGLED;
ld.param.u32 t1,[args+{step}]; mul.lo.u32 t1,t1,t0; ld.param.u64 d64,[args+{table}]; mad.wide.s32 d64,t1,4,d64; ld.global.nc.f32 angle,[d64];
ld.param.u32 t2,[args+{start}]; ld.param.u64 d64,[args+{starts}]; setp.eq.u64 q,d64,0; ld.param.u32 t1,[args+{ostep}]; mul.lo.u32 t1,t1,batch; mad.wide.s32 d64,t1,4,d64;
@!q ld.global.nc.b32 t2,[d64];
cvt.rn.f32.s32 z,t2; ld.param.f32 z2,[args+{pace}]; mul.f32 z,z,z2;",
                last = THREADS - 1,
                pairs = self.dims / 2,
                step = self.arg(place!(table_step)),
                table = self.arg(place!(table)),
                start = self.arg(place!(start)),
                starts = self.arg(place!(starts)),
                ostep = self.arg(place!(start_step)),
                pace = self.arg(place!(pace)),
            ),
        );
        if self.waves {
            put(o, format_args!("rcp.rn.f32 angle,angle;"));
        }
        put(
            o,
            format_args!(
                "mul.f32 angle,angle,z; cvt.f64.f32 wide0,angle; mul.f64 wide1,wide0,{TURNS}; cvt.rni.f64.f64 wide1,wide1; fma.rn.f64 wide2,wide1,{},wide0; fma.rn.f64 wide2,wide1,{},wide2; cvt.rn.f32.f64 z,wide2;
cvt.rni.s64.f64 d64,wide1; cvt.u32.u64 t1,d64; mul.f32 z2,z,z;",
                QUARTER[0], QUARTER[1]
            ),
        );
        for (to, [a, b, c]) in [("f0", SINE), ("f1", COSINE)] {
            put(
                o,
                format_args!("mov.f32 {to},{a}; fma.rn.f32 {to},{to},z2,{b}; fma.rn.f32 {to},{to},z2,{c};"),
            );
        }
        // The quadrant says which is which, and its sign.
        put(
            o,
            format_args!(
                "mul.f32 f0,f0,z2; fma.rn.f32 f0,f0,z,z; fma.rn.f32 f,z2,0fBF000000,0f3F800000; mul.f32 z2,z2,z2; fma.rn.f32 f1,f1,z2,f;
and.b32 t2,t1,1; setp.ne.u32 q,t2,0; selp.f32 z,f1,f0,q; selp.f32 z2,f0,f1,q; and.b32 t2,t1,2; shl.b32 t2,t2,30; mov.b32 t0,z; xor.b32 t0,t0,t2; mov.b32 z,t0;
add.u32 t1,t1,1; and.b32 t2,t1,2; shl.b32 t2,t2,30; mov.b32 t0,z2; xor.b32 t0,t0,t2; mov.b32 z2,t0; ld.param.f32 f,[args+{sign}]; mul.f32 z,z,f;
sub.u32 t0,{last},tid; shl.b32 t0,t0,3; mov.u32 t1,{angles}; add.u32 t0,t0,t1; st.shared.v2.f32 [t0],{{z2,z}};
ANGLED:",
                sign = self.arg(place!(sign)),
                angles = self.shared("angles"),
                last = THREADS - 1,
            ),
        );
    }

    /// Rows over the square root of their mean square, times weights; the newest value stays as it is.
    fn normalise(self, o: &mut String) {
        // In the order in which shaders/norm/norm.comp adds them up: a lane there has every `apart`th vector, one behind the other. Here
        // each of these is another lane's, which takes what the one before has; the last ones have all of it.
        let apart = self.chunks() / SUMMED;
        put(o, format_args!("mov.f32 sum,zf;"));
        for turn in 0..SUMMED {
            if turn > 0 {
                put(o, format_args!("shfl.sync.up.b32 sum,sum,{apart},0,-1;"));
            }
            for i in 0..4 {
                pair(o, self.dtype, ["z", "z2"], &format!("c{i}"), "t0");
                put(o, format_args!("fma.rn.f32 sum,z,z,sum; fma.rn.f32 sum,z2,z2,sum;"));
            }
        }
        let mut by = apart / 2;
        while by > 0 {
            put(o, format_args!("shfl.sync.bfly.b32 z,sum,{by},31,-1; add.f32 sum,sum,z;"));
            by /= 2;
        }
        // The last lane of the row.
        put(o, format_args!("or.b32 t0,lane,{}; shfl.sync.idx.b32 sum,sum,t0,31,-1;", self.chunks() - 1));
        put(
            o,
            format_args!(
                "mul.f32 root,sum,0f{:08X}; ld.param.f32 z,[args+{}]; add.f32 root,root,z;",
                // FITS: a power of two.
                (1.0 / self.features as f32).to_bits(),
                self.arg(place!(eps))
            ),
        );
        inverse_root(o, "root", "root");
        for i in 0..4 {
            pair(o, self.dtype, ["z", "z2"], &format!("c{i}"), "t0");
            pair(o, self.dtype, ["f0", "f1"], &format!("w{i}"), "t0");
            put(
                o,
                format_args!(
                    "mul.f32 z,z,root; mul.f32 z,z,f0; mul.f32 z2,z2,root; mul.f32 z2,z2,f1; cvt.rn.{}x2.f32 t0,z2,z; selp.b32 c{i},c{i},t0,plain;",
                    self.kind()
                ),
            );
        }
    }

    /// Turns a row, whose pairs are neighbours or half of what is turned apart, and stores it. What is behind stays as it is.
    fn turn(self, o: &mut String) {
        let angles = self.shared("angles");
        let (half, apart) = (self.dims / 16, !self.traditional);
        match apart {
            // The lane with the other element of each pair.
            true => put(
                o,
                format_args!(
                    "setp.ge.u32 upper,u,{half}; selp.u32 t0,{half},0,upper; sub.u32 t1,u,t0; add.u32 t2,lane,{half}; shl.b32 t0,t0,1; sub.u32 at,t2,t0; shl.b32 t1,t1,6; mov.u32 t2,{angles}; add.u32 t1,t1,t2;",
                ),
            ),
            false => put(o, format_args!("shl.b32 t1,u,5; mov.u32 t2,{angles}; add.u32 t1,t1,t2;")),
        }
        // The newest value is not turned either.
        put(o, format_args!("setp.ge.u32 beyond,u,{}; or.pred beyond,beyond,plain;", self.dims / 8));
        for i in (0..4).filter(|_| apart) {
            put(o, format_args!("shfl.sync.idx.b32 y{i},c{i},at,31,-1;"));
        }
        for i in 0..4 {
            if apart {
                put(
                    o,
                    format_args!(
                        "ld.shared.v4.f32 {{d0,d1,d2,d3}},[t1+{}]; xor.b32 t0,y{i},0x80008000; selp.b32 y{i},y{i},t0,upper;",
                        16 * i
                    ),
                );
            } else {
                // The first of the pair takes the second away.
                put(
                    o,
                    format_args!(
                        "ld.shared.v2.f32 {{d0,d1}},[t1+{}]; mov.f32 d2,d0; mov.f32 d3,d1; prmt.b32 y{i},c{i},c{i},0x1032; xor.b32 y{i},y{i},0x00008000;",
                        8 * i
                    ),
                );
            }
            pair(o, self.dtype, ["z", "z2"], &format!("c{i}"), "t0");
            pair(o, self.dtype, ["f0", "f1"], &format!("y{i}"), "t0");
            put(
                o,
                format_args!(
                    "mul.f32 z,z,d0; fma.rn.f32 z,f0,d1,z; mul.f32 z2,z2,d2; fma.rn.f32 z2,f1,d3,z2; cvt.rn.{}x2.f32 t0,z2,z; selp.b32 c{i},c{i},t0,beyond;",
                    self.kind()
                ),
            );
        }
        put(
            o,
            format_args!(
                "mov.u32 t1,{rows}; shl.b32 t0,tid,4; add.u32 t0,t0,t1;
@mine st.shared.v4.b32 [t0],{{{}}};",
                four("c", 0),
                rows = self.shared("rows"),
            ),
        );
    }

    /// Stores the newest key and value with the others, where the part has their place.
    fn keep(self, o: &mut String) {
        put(
            o,
            format_args!(
                "setp.ge.and.u32 stored,j,{rows},mine; setp.ge.and.u32 stored,place,begin,stored; setp.lt.and.u32 stored,place,end,stored; setp.eq.and.u32 stored,tile,0,stored;
selp.b32 t1,vs,ks,plain; ld.param.u32 t0,[args+{k0}]; ld.param.u32 t2,[args+{v0}]; selp.b32 t0,t2,t0,plain; mul.lo.u32 t0,t0,batch; ld.param.u32 t2,[args+{k1}]; ld.param.u32 at,[args+{v1}]; selp.b32 t2,at,t2,plain; mad.lo.u32 t0,t2,kv,t0; mad.lo.u32 t0,t1,place,t0; shl.b32 t1,u,4; add.u32 t0,t0,t1;
ld.param.u64 d64,[args+{k}]; ld.param.u64 e64,[args+{v}]; selp.b64 d64,e64,d64,plain; cvt.u64.u32 e64,t0; add.u64 d64,d64,e64;
@stored st.global.v4.b32 [d64],{{{four}}};",
                rows = self.rows,
                k0 = self.arg(place!(k_steps)),
                k1 = self.arg(place!(k_steps) + 4),
                v0 = self.arg(place!(v_steps)),
                v1 = self.arg(place!(v_steps) + 4),
                k = self.arg(place!(k)),
                v = self.arg(place!(v)),
                four = four("c", 0),
            ),
        );
    }
}
