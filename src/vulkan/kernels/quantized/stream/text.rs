//! The text of one row of x by codes of four bits that walk by it, in PTX: what shaders/quantized/qmm_stream.comp computes, in the
//! same order. PTX keeps subnormal numbers, so that codes become float32 by a mask alone; NVIDIA's driver flushes those of shaders.

use super::{Args, place};
use crate::core::Dtype;
use crate::vulkan::kernels::matmul::warpgroup::text::{self, head, kind, put};
use crate::vulkan::tune::quantized::stream::{CODES, SUMS, WARP};

/// The place that code j of a word is masked at, of the word or of its upper 24 bits.
const PLACES: [u32; 8] = [0, 4, 8, 12, 16, 20, 16, 20];

/// The element of 16 bits in register `from` as float32.
pub fn widen(dtype: Dtype, o: &mut String, to: &str, from: &str) {
    text::element(o, dtype, to, from, "t0");
}

/// A number as it would have been stored.
pub fn rounded(dtype: Dtype, o: &mut String, number: &str) {
    put(o, format_args!("cvt.rn.{}.f32 h0,{number};", kind(dtype)));
    widen(dtype, o, number, "h0");
}

/// One kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Walk {
    /// float16 or bfloat16.
    pub dtype: Dtype,
    /// Codes that share a scale and a bias: 32, 64 or 128.
    pub group: u32,
    /// Length of a row.
    pub k: u32,
    /// Threads that span a row, whole warps: a team; teams of a workgroup.
    pub threads: u32,
    pub teams: u32,
    /// Rows of codes that a team has on their way, a power of two, of both matrices where there are two at once.
    pub rows: u32,
    /// Workgroups of a multiprocessor that registers are kept for.
    pub together: u32,
    /// Matrices in one grid.
    pub matrices: u32,
    /// A team has rows of both matrices.
    pub pair: bool,
    /// The row is normalised first.
    pub norm: bool,
    /// And stored.
    pub keep: bool,
    /// Arrays that what follows the products reads, if something does.
    pub after: Option<u32>,
}

impl Walk {
    pub(super) fn sides(&self) -> u32 {
        if self.pair { 2 } else { 1 }
    }

    /// Rows of a unit, of each matrix.
    pub(super) fn each(&self) -> u32 {
        self.rows / self.sides()
    }

    /// Warps of a team.
    pub(super) fn parts(&self) -> u32 {
        self.threads / WARP
    }

    pub(super) fn all_threads(&self) -> u32 {
        self.threads * self.teams
    }

    /// Bytes of a row of codes, and of its scales.
    pub(super) fn bytes(&self) -> [u32; 2] {
        [self.k / 2, self.k / self.group * 2]
    }

    /// Whether each thread has a part of the row.
    fn full(&self) -> bool {
        self.k == CODES * self.threads
    }

    /// Matrices that follow each other in the grid.
    pub(super) fn lined(&self) -> u32 {
        if self.pair { 1 } else { self.matrices }
    }

    pub(super) fn widen(&self, o: &mut String, to: &str, from: &str) {
        widen(self.dtype, o, to, from);
    }

    /// A pair of elements as float32.
    fn pair(&self, o: &mut String, to: [&str; 2], from: &str) {
        text::pair(o, self.dtype, to, from, "t0");
    }

    pub(super) fn kind(&self) -> &'static str {
        kind(self.dtype)
    }

    /// Arrays that are read after the products.
    pub(super) fn arrays(&self) -> u32 {
        self.after.unwrap_or(0)
    }

    /// The text; `steps` make `y0` of the products `y0` and `y1` and the elements `a0` and `a1` of arrays, all rounded.
    pub fn text(&self, steps: &str) -> String {
        let mut o = head("sm_80", size_of::<Args>(), [self.all_threads(), self.together]);
        put(&mut o, format_args!(".shared .align 16 .b8 sums[{SUMS}];\n.shared .align 16 .b8 squares[128];"));
        self.registers(&mut o);
        self.begin(&mut o);
        for r in 0..self.rows {
            self.fetch(&mut o, r, "");
        }
        self.keep_x(&mut o);
        if self.arrays() > 0 {
            put(&mut o, format_args!("mov.u32 i,tid;"));
            self.find_result(&mut o, "NOTHING");
            self.read_arrays(&mut o);
            put(&mut o, format_args!("NOTHING:"));
        }
        self.walk(&mut o);
        self.finish(&mut o, steps);
        put(&mut o, format_args!("DONE:\nret;\n}}"));
        o
    }

    fn registers(&self, o: &mut String) {
        let rows = self.rows;
        put(
            o,
            format_args!(
                ".reg .pred p,q,odd,there,more,up16,up8,up4,up2,up1,writes,stores;
.reg .b32 tid,lane,col,team,mine,cta,first,unit,all,n,at,row0,own,row,i,slot,t0,t1,t2,sumat,next,left,turns,step,n0,n1,n2,u0,u1;
.reg .b32 x<16>,w<16>,c<{}>,high;
.reg .b16 h0,h1,s<{rows}>,z<{rows}>;
.reg .f32 xs<32>,f<{rows}>,y0,y1,a0,a1,sum,down,most,v0,v1,v2,v3,root;
.reg .b64 cw0,cw1,cf0,cf1,cb0,cb1,wide,d;
.reg .b64 pw<3>,pf<3>,pb<3>;",
                4 * rows
            ),
        );
    }

    /// Which thread it is, what it has of every matrix, and the first unit of its team.
    fn begin(&self, o: &mut String) {
        let each = self.each();
        let team = match (self.teams, self.threads) {
            (1, _) => "mov.u32 team,0; mov.u32 col,tid;".into(),
            (_, t) => format!("div.u32 team,tid,{t}; mul.lo.u32 t0,team,{t}; sub.u32 col,tid,t0;"),
        };
        put(
            o,
            format_args!(
                "mov.u32 tid,%tid.x; and.b32 lane,tid,31; {team}
mov.u32 cta,%ctaid.x; ld.param.u32 t1,[args+{apart}]; ld.param.u32 step,[args+{step}]; mul.lo.u32 first,cta,t1; add.u32 unit,first,team;
and.b32 t0,tid,1; setp.ne.u32 odd,t0,0;
min.u32 mine,col,{last}; setp.lt.u32 there,col,{parts};
shl.b32 at,mine,4; cvt.u64.u32 wide,at;",
                apart = place!(apart),
                step = place!(step),
                last = self.k / CODES - 1,
                parts = self.k / CODES,
            ),
        );
        for m in 0..self.matrices as usize {
            put(
                o,
                format_args!(
                    "ld.param.u64 pw{m},[args+{}]; ld.param.u64 pf{m},[args+{}]; ld.param.u64 pb{m},[args+{}]; add.u64 pw{m},pw{m},wide;",
                    place!(codes) + 8 * m,
                    place!(scales) + 8 * m,
                    place!(biases) + 8 * m,
                ),
            );
        }
        put(
            o,
            format_args!("mul.lo.u32 at,mine,{CODES}; div.u32 at,at,{}; mul.wide.u32 wide,at,2;", self.group),
        );
        for m in 0..self.matrices {
            if self.group > CODES {
                put(o, format_args!("@odd mov.b64 pf{m},pb{m};"));
            } else {
                put(o, format_args!("add.u64 pb{m},pb{m},wide;"));
            }
            put(
                o,
                format_args!(
                    "add.u64 pf{m},pf{m},wide; ld.param.u32 n{m},[args+{}];",
                    place!(lengths) + 4 * m as usize
                ),
            );
        }
        let units = |o: &mut String, to: &str, n: &str| {
            put(
                o,
                format_args!("add.u32 {to},{n},{}; shr.u32 {to},{to},{};", each - 1, each.trailing_zeros()),
            );
        };
        units(o, "all", "n0");
        if self.lined() > 1 {
            put(o, format_args!("mov.u32 u0,all;"));
            units(o, "u1", "n1");
            put(o, format_args!("add.u32 all,all,u1;"));
        }
        if self.lined() > 2 {
            units(o, "t1", "n2");
            put(o, format_args!("add.u32 all,all,t1;"));
        }
        // Of neighbours the next workgroup's are none of this one's.
        put(
            o,
            format_args!(
                "ld.param.u32 t1,[args+{}]; setp.le.u32 p,t1,{teams}; add.u32 t2,first,t1;
@!p min.u32 all,all,t2;
setp.ge.u32 p,first,all;
@p bra DONE;
sub.u32 t1,all,1; min.u32 next,unit,t1;",
                place!(apart),
                teams = self.teams
            ),
        );
        self.seek(o);
    }

    /// The matrix of unit `next`, its rows as `n`, the unit's number in it as `own`, and its first row.
    pub(super) fn place_of(&self, o: &mut String, chosen: &[[&str; 2]]) {
        let choose = |o: &mut String, guard: &str, m: usize| {
            for [to, from] in chosen {
                put(o, format_args!("{guard}mov.b64 {to},{from}{m};"));
            }
        };
        put(o, format_args!("mov.u32 own,next; mov.u32 n,n0;"));
        choose(o, "", 0);
        if self.lined() > 1 {
            put(o, format_args!("setp.ge.u32 p,own,u0;\n@p sub.u32 own,own,u0;\n@p mov.u32 n,n1;"));
            choose(o, "@p ", 1);
        }
        if self.lined() > 2 {
            put(o, format_args!("setp.ge.and.u32 q,own,u1,p;\n@q sub.u32 own,own,u1;\n@q mov.u32 n,n2;"));
            choose(o, "@q ", 2);
        }
        let each = self.each();
        put(o, format_args!("mul.lo.u32 row0,own,{each}; sub.u32 t1,n,{each}; min.u32 row0,row0,t1;"));
    }

    /// Where the rows of unit `next` begin.
    fn seek(&self, o: &mut String) {
        let all = [["cw0", "pw"], ["cf0", "pf"], ["cb0", "pb"]];
        self.place_of(o, &all[..if self.group > CODES { 2 } else { 3 }]);
        let [codes, factors] = self.bytes();
        let lay = |o: &mut String, to: &str, from: &str, bytes: u32| {
            put(o, format_args!("mad.wide.u32 {to},row0,{bytes},{from};"));
        };
        for side in (0..self.sides()).rev() {
            let from = |what: &str| if self.pair { format!("p{what}{side}") } else { format!("c{what}0") };
            lay(o, &format!("cw{side}"), &from("w"), codes);
            lay(o, &format!("cf{side}"), &from("f"), factors);
            if self.group == CODES {
                lay(o, &format!("cb{side}"), &from("b"), factors);
            }
        }
    }

    /// Asks for row r of the unit that was sought.
    fn fetch(&self, o: &mut String, r: u32, guard: &str) {
        let (side, i, c) = (r / self.each(), r % self.each(), 4 * r);
        let [codes, factors] = self.bytes().map(|b| b * i);
        put(
            o,
            format_args!(
                "{guard}ld.global.nc.L1::no_allocate.v4.b32 {{c{c},c{},c{},c{}}},[cw{side}+{codes}];
{guard}ld.global.nc.b16 s{r},[cf{side}+{factors}];",
                c + 1,
                c + 2,
                c + 3
            ),
        );
        if self.group == CODES {
            put(o, format_args!("{guard}ld.global.nc.b16 z{r},[cb{side}+{factors}];"));
        }
    }

    /// Reads the thread's 32 elements of x, normalised where they are to be, and makes them large enough for the codes' small numbers.
    fn keep_x(&self, o: &mut String) {
        let load = |o: &mut String, to: char, from: usize, how: &str| {
            put(o, format_args!("ld.param.u64 d,[args+{from}]; mad.wide.u32 d,mine,64,d;"));
            for i in 0..4 {
                let [a, b, c, e] = [0, 1, 2, 3].map(|k| 4 * i + k);
                put(
                    o,
                    format_args!("ld.global{how}.v4.b32 {{{to}{a},{to}{b},{to}{c},{to}{e}}},[d+{}];", 16 * i),
                );
            }
        };
        load(o, 'x', place!(x), "");
        if self.norm {
            load(o, 'w', place!(norm), ".nc");
            self.normalise(o);
        }
        for i in 0..16 {
            self.pair(o, [&format!("xs{}", 2 * i), &format!("xs{}", 2 * i + 1)], &format!("x{i}"));
        }
        if !self.full() {
            (0..32).for_each(|k| put(o, format_args!("@!there mov.f32 xs{k},0f00000000;")));
        }
        put(o, format_args!("and.b32 t2,x0,0x7fff7fff;"));
        for k in 1..16 {
            put(o, format_args!("and.b32 t1,x{k},0x7fff7fff; max.{}x2 t2,t2,t1;", self.kind()));
        }
        self.pair(o, ["most", "sum"], "t2");
        put(o, format_args!("max.f32 most,most,sum;"));
        for k in 0..4 {
            put(o, format_args!("add.f32 v{k},xs{k},xs{};", k + 4));
        }
        (8..32).for_each(|k| put(o, format_args!("add.f32 v{0},v{0},xs{k};", k % 4)));
        put(o, format_args!("add.f32 v0,v0,v1; add.f32 v2,v2,v3; add.f32 sum,v0,v2;"));
        if self.group > CODES {
            for (to, op) in [("sum", "add"), ("most", "max")] {
                put(o, format_args!("shfl.sync.bfly.b32 v0,{to},1,31,-1; {op}.f32 {to},{to},v0;"));
            }
        }
        // The largest becomes one of 2^125 to 2^126; infinities and NaN stay what they are.
        put(
            o,
            format_args!(
                "mov.b32 t0,most; shr.u32 t0,t0,23; max.u32 t0,t0,125; min.u32 t0,t0,230;
add.u32 t1,t0,24; shl.b32 t1,t1,23; mov.b32 down,t1;"
            ),
        );
        for place in [0, 4, 8, 12, 16, 20] {
            put(o, format_args!("sub.u32 t1,{},t0; shl.b32 t1,t1,23; mov.b32 v0,t1;", 379 - place));
            for k in (0..32).filter(|k| PLACES[k % 8] == place) {
                put(o, format_args!("mul.f32 xs{k},xs{k},v0;"));
            }
        }
    }

    /// Normalises the elements in `x` by the weights in `w`; with `keep` the first team stores them.
    fn normalise(&self, o: &mut String) {
        put(o, format_args!("mov.f32 v2,0f00000000; mov.f32 v3,v2;"));
        for i in 0..16 {
            self.pair(o, ["v0", "v1"], &format!("x{i}"));
            put(o, format_args!("fma.rn.f32 v2,v0,v0,v2; fma.rn.f32 v3,v1,v1,v3;"));
        }
        put(o, format_args!("add.f32 v2,v2,v3;"));
        if !self.full() {
            put(o, format_args!("@!there mov.f32 v2,0f00000000;"));
        }
        for lane in [16, 8, 4, 2, 1] {
            put(o, format_args!("shfl.sync.bfly.b32 v0,v2,{lane},31,-1; add.f32 v2,v2,v0;"));
        }
        if self.parts() > 1 {
            put(
                o,
                format_args!(
                    "mov.u32 t0,squares; shr.u32 t1,tid,5; mad.lo.u32 t1,t1,4,t0; setp.eq.u32 q,lane,0; setp.eq.and.u32 q,team,0,q;
@q st.shared.f32 [t1],v2;
bar.sync 0;
ld.shared.f32 v2,[t0];"
                ),
            );
            for part in 1..self.parts() {
                put(o, format_args!("ld.shared.f32 v0,[t0+{}]; add.f32 v2,v2,v0;", 4 * part));
            }
        }
        put(
            o,
            format_args!(
                "ld.param.f32 v1,[args+{}]; mov.f32 v0,0f{:08X}; div.rn.f32 v2,v2,v0; add.f32 v2,v2,v1;",
                place!(eps),
                (self.k as f32).to_bits()
            ),
        );
        text::inverse_root(o, "root", "v2");
        for i in 0..16 {
            self.pair(o, ["v0", "v1"], &format!("x{i}"));
            self.pair(o, ["v2", "v3"], &format!("w{i}"));
            put(
                o,
                format_args!(
                    "mul.f32 v0,v0,root; mul.f32 v0,v0,v2; mul.f32 v1,v1,root; mul.f32 v1,v1,v3; cvt.rn.{}x2.f32 x{i},v1,v0;",
                    self.kind()
                ),
            );
        }
        if self.keep {
            put(
                o,
                format_args!(
                    "setp.eq.u32 q,cta,0; setp.eq.and.u32 q,team,0,q; and.pred q,q,there; ld.param.u64 d,[args+{}]; mad.wide.u32 d,mine,64,d;",
                    place!(kept)
                ),
            );
            for i in 0..4 {
                let [a, b, c, e] = [0, 1, 2, 3].map(|k| 4 * i + k);
                put(o, format_args!("@q st.global.v4.b32 [d+{}],{{x{a},x{b},x{c},x{e}}};", 16 * i));
            }
        }
    }

    /// What a thread adds to row r, as f{r}.
    fn product(&self, o: &mut String, r: u32) {
        for word in 0..4 {
            for j in 0..8 {
                let (k, c) = (8 * word + j, 4 * r + word);
                if j == 6 {
                    put(o, format_args!("shr.u32 high,c{c},8;"));
                }
                let from = if j < 6 { format!("c{c}") } else { "high".into() };
                put(o, format_args!("and.b32 t0,{from},{}; mov.b32 v0,t0;", 15_u32 << PLACES[j as usize]));
                let to = j % 2;
                match k {
                    0 | 1 => put(o, format_args!("mul.f32 y{to},v0,xs{k};")),
                    _ => put(o, format_args!("fma.rn.f32 y{to},v0,xs{k},y{to};")),
                }
            }
        }
        self.widen(o, "v1", &format!("s{r}"));
        put(o, format_args!("add.f32 v0,y0,y1;"));
        if self.group > CODES {
            put(
                o,
                format_args!(
                    "shfl.sync.bfly.b32 v2,v0,1,31,-1; add.f32 v0,v0,v2; mul.f32 v0,v0,down; selp.f32 v0,sum,v0,odd; mul.f32 f{r},v0,v1;"
                ),
            );
        } else {
            self.widen(o, "v2", &format!("z{r}"));
            put(o, format_args!("mul.f32 v0,v0,down; mul.f32 v2,v2,sum; fma.rn.f32 f{r},v1,v0,v2;"));
        }
        if !self.full() {
            // A factor of another group may be infinite.
            put(o, format_args!("@!there mov.f32 f{r},0f00000000;"));
        }
    }

    /// Sums over a warp: lane 32 / rows * r has that of row r, in f0. Which rows are summed up together does not change bits.
    fn fold(&self, o: &mut String) {
        for lane in [16, 8, 4, 2, 1] {
            let left = self.rows * lane / WARP;
            if left == 0 {
                put(o, format_args!("shfl.sync.bfly.b32 v0,f0,{lane},31,-1; add.f32 f0,f0,v0;"));
            }
            for k in 0..left {
                let other = k + left;
                put(
                    o,
                    format_args!(
                        "selp.f32 v0,f{k},f{other},up{lane}; selp.f32 v1,f{other},f{k},up{lane}; shfl.sync.bfly.b32 v0,v0,{lane},31,-1; add.f32 f{k},v1,v0;"
                    ),
                );
            }
        }
    }

    /// All units of the team: the next one's rows are asked for as registers come free. All teams go round as often, so that branches are
    /// the workgroup's: elsewhere the driver's compiler writes the loop out twice.
    fn walk(&self, o: &mut String) {
        let (rows, parts) = (self.rows, self.parts());
        for lane in [16, 8, 4, 2, 1] {
            put(o, format_args!("and.b32 t0,lane,{lane}; setp.ne.u32 up{lane},t0,0;"));
        }
        put(
            o,
            format_args!(
                "and.b32 t0,lane,{mask}; setp.eq.u32 writes,t0,0; shr.u32 t0,lane,{shift};
mad.lo.u32 t0,team,{rows},t0; shr.u32 t1,col,5; mad.lo.u32 t0,t0,{parts},t1; mov.u32 sumat,sums; mad.lo.u32 sumat,t0,4,sumat;
sub.u32 left,all,first; add.u32 left,left,step; sub.u32 left,left,1; div.u32 left,left,step; mov.u32 turns,left;
WALK:
setp.lt.and.u32 stores,unit,all,writes; add.u32 unit,unit,step; setp.lt.u32 more,unit,all; sub.u32 t1,all,1; min.u32 next,unit,t1;",
                mask = WARP / rows - 1,
                shift = (WARP / rows).trailing_zeros(),
            ),
        );
        self.seek(o);
        for r in 0..rows {
            self.product(o, r);
            self.fetch(o, r, "@more ");
        }
        self.fold(o);
        put(
            o,
            format_args!(
                "@stores st.shared.f32 [sumat],f0;
add.u32 sumat,sumat,{}; sub.u32 left,left,1; setp.ne.u32 p,left,0;
@p bra WALK;
bar.sync 0;",
                4 * self.teams * rows * parts
            ),
        );
    }
}
