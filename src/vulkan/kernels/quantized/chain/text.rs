//! The text of a chain of products by one row: stage by stage; rows go from stage to stage as words with tags. A warp goes through
//! units, four rows by a span of codes, in the order of memory, and asks for units of the next stages while it waits for a row. A unit's
//! codes are read as they lie: on the left side of a product on matrix units each row is a group of codes, on the right side each column
//! is one of x. What counts of a product is a diagonal, one number of each lane and row.

use std::mem::offset_of;

use super::codes::UP;
use super::mixed::Mix;
use super::picked::text::{COLUMNS, Picked};
use super::row::FEW;
use super::{Args, PickArgs, Stage, place};
use crate::core::Dtype;
use crate::vulkan::kernels::attention::several::{Args as FrontArgs, Program as Front};
use crate::vulkan::kernels::matmul::warpgroup::text::{head, kind, put};
use crate::vulkan::kernels::progress;
use crate::vulkan::tune::quantized::chain::{BATCHES, Kind, THREADS, TILE, WARPS, slots};

/// One kernel: rows of 16 bits; matrices of codes of two to eight bits, or of elements (`values`), by one kind or by several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Chain {
    /// What matrices hold, of products whose part of the text is written; codes share a scale and a bias by 32, 64 or 128.
    pub holds: Kind,
    /// bfloat16 or float16.
    pub dtype: Dtype,
    /// Rows of those end inside a span.
    pub ragged: bool,
    /// All kinds of products, where there are several.
    pub mix: Mix,
    /// Elements of a row in shared memory.
    pub row: u32,
    /// An attention that comes first.
    pub front: Option<Front>,
    /// Where it is said which matrices rows pick, which comes first.
    pub picks: Option<Picked>,
    /// Rows may be sums.
    pub summed: bool,
}

/// Parts of a span.
pub(super) const PARTS: u32 = 8 * BATCHES;
impl Chain {
    /// Words of codes that a lane reads of a part.
    pub(super) fn words(self) -> u32 {
        let bytes = self.lane_bytes();
        (0..4).map(|t| (t * bytes % 4 + bytes).div_ceil(4)).max().unwrap_or(0)
    }

    /// Eights of codes that it has of a part.
    pub(super) fn eights(self) -> u32 {
        self.holds.part() / 32
    }

    /// Makes bytes of a row of so many codes.
    pub(super) fn bytes_of(self, [to, from]: [&str; 2]) -> String {
        match self.holds.bits {
            bits if bits.is_power_of_two() => format!("shr.u32 {to},{from},{};", (8 / bits).ilog2()),
            bits => format!("mul.lo.u32 {to},{from},{bits}; shr.u32 {to},{to},3;"),
        }
    }

    /// Codes that share a scale and a bias.
    pub(super) fn group(self) -> u32 {
        self.holds.group
    }

    pub(super) fn values(self) -> bool {
        self.holds.values()
    }

    /// Whether elements are float16.
    pub(super) fn half(self) -> bool {
        self.dtype == Dtype::F16
    }

    /// How they are called.
    pub(super) fn kind(self) -> &'static str {
        kind(self.dtype)
    }

    /// Bytes of a span of a row of a matrix.
    fn span_bytes(self) -> u32 {
        self.span() * self.holds.bits / 8
    }

    /// Bytes of a batch that a lane has.
    pub(super) fn lane_bytes(self) -> u32 {
        if self.values() { 16 } else { self.holds.part() * self.holds.bits / 32 }
    }

    /// Codes of a row of a unit, and bytes of their scales.
    pub(super) fn span(self) -> u32 {
        self.holds.span()
    }

    fn factors(self) -> u32 {
        if self.values() { 0 } else { (self.span() / self.group()) << self.factor_log2() }
    }

    /// Binary places of the bytes of a scale: powers of two are one.
    pub(super) fn factor_log2(self) -> u32 {
        u32::from(!self.floats())
    }

    /// Binary places of how many codes have a byte of scales.
    pub(super) fn of_factor_byte(self) -> u32 {
        self.group().max(2).ilog2() - self.factor_log2()
    }

    /// Whether codes are small floats.
    pub(super) fn floats(self) -> bool {
        self.holds.floats
    }

    /// The text; `after[i]` makes `y0` of the products `y0` and `y1` and the elements `a0` and `a1` of arrays, all rounded.
    pub fn text(self, after: &[String]) -> String {
        let first = self.first_bytes();
        let mut o = head("sm_90", progress::told::<Args>() + first, [THREADS, 1]);
        put(
            &mut o,
            format_args!(
                ".shared .align 512 .b8 row[{}];
.shared .align 16 .b8 totals[{}];
.shared .align 16 .b8 squares[{}];
.shared .align 16 .b8 slots[{}];",
                2 * self.row,
                self.most(|c| c.holds.totals(c.row)),
                4 * WARPS,
                4 * TILE * slots(&self.kinds(), self.row),
            ),
        );
        self.registers(&mut o);
        self.picking(&mut o);
        self.begin(&mut o);
        if let Some(front) = self.front {
            front.front_join(&mut o);
            put(&mut o, format_args!("setp.eq.u32 p,stages,0;\n@p bra ENDED;"));
        }
        put(&mut o, format_args!("STAGE:"));
        if let Some(picked @ Picked::Within(_)) = self.picks {
            self.choose_within(&mut o, picked, size_of::<Args>() + self.front_bytes());
        }
        self.open(&mut o);
        self.weights(&mut o);
        self.find(&mut o);
        self.stage_x(&mut o);
        self.walks(&mut o);
        put(&mut o, format_args!("bar.sync 0;"));
        self.finish(&mut o, after);
        put(
            &mut o,
            format_args!(
                "add.u32 stage,stage,1; add.u64 sa,sa,{}; setp.lt.u32 p,stage,{};
@p bra STAGE;
ENDED:",
                size_of::<Stage>(),
                if self.within() { "turns" } else { "stages" }
            ),
        );
        progress::ends(&mut o, size_of::<Args>() + first);
        put(&mut o, format_args!("ret;"));
        if !self.mixed() {
            self.next_run(&mut o);
        }
        self.starts(&mut o);
        put(&mut o, format_args!("}}"));
        o
    }

    /// Bytes that it is told of what comes first, behind those of products.
    fn first_bytes(self) -> usize {
        self.front_bytes() + self.picks.map_or(0, |_| size_of::<PickArgs>())
    }

    fn front_bytes(self) -> usize {
        self.front.map_or(0, |_| size_of::<FrontArgs>())
    }

    /// Whether what is picked is chosen amid the products.
    pub(super) fn within(self) -> bool {
        matches!(self.picks, Some(Picked::Within(_)))
    }

    fn registers(self, o: &mut String) {
        put(
            o,
            format_args!(
                ".reg .pred p,q,valid,live,mine,isnorm,keeps,first,never,odd,j0,j1,upper,second,edge,l0,l1,l2,l3;
.reg .b32 tid,lane,warp,g,t,cta,stage,stages,k,flags,base,subs,spans,tag,w0,w1,w2,w3,w4,w5,w6,w7;
.reg .b32 m,row0,at,slot,res,t0,t1,t2,t3,zero,up0,up1,x<16>,quad,total,left,room,tile,mm,rr,fa0,fa1,fa2,fa3;
.reg .b32 cstage,cu,cend,cbase,n,ck,run,cquad,cpitch,cspitch,lanescale,tmp0,cat,one,four,xl,cspans;
.reg .b32 c<{codes}>,b<{codes2}>,f<8>;
.reg .b16 h0,h1,hz,r0,r1,ss<4>,zz<4>;
.reg .f32 d<32>,zf,v0,v1,v2,v3,q0,q1,q2,q3,y0,y1,a0,a1,root,eps,sum;
.reg .b64 sa,sm,ca,d,wide,o<16>,nc,ns,nz,nc1,nc2,nc3,ns1,nz1;",
                codes = self.most(|c| if c.values() { 32 } else { 16 * c.words() }),
                codes2 = self.most(|c| if c.values() { 8 } else { 16 * c.eights() }),
            ),
        );
        if self.most(|c| u32::from(c.slips())) > 0 {
            put(o, format_args!(".reg .b32 slip,e<4>;"));
        }
        if self.summed {
            put(o, format_args!(".reg .pred summed;\n.reg .b32 pw<{n}>,hs<{n}>;", n = 4 * FEW));
        }
        self.mix_registers(o);
    }

    /// The first units are asked for before anything else.
    fn begin(self, o: &mut String) {
        put(
            o,
            format_args!(
                "mov.u32 tid,%tid.x; and.b32 lane,tid,31; shr.u32 warp,tid,5; shr.u32 g,lane,2; and.b32 t,lane,3; mov.u32 cta,%ctaid.x;
mov.u32 zero,0; mov.f32 zf,0f00000000; mov.u32 t0,%nctaid.x; setp.eq.u32 never,t0,0;
ld.param.u32 stages,[args+{stages}]; mov.u64 sa,args; add.u64 sa,sa,{first};
sub.u64 ca,sa,{size}; mov.u32 cstage,-1; mov.u32 cu,0; mov.u32 cend,0; mov.b16 hz,0; selp.b32 one,0,1,never; selp.b32 four,0,4,never;
shr.u32 t0,g,1; xor.b32 t0,t0,t; shl.b32 t0,t0,3; add.u32 total,t0,g;{lanescale}",
                stages = offset_of!(Args, stages),
                first = offset_of!(Args, stage),
                size = size_of::<Stage>(),
                lanescale = if self.mixed() { String::new() } else { self.lane_scale() },
            ),
        );
        if let Some(front) = self.front {
            front.front_parts(o, size_of::<Args>() + self.first_bytes());
        }
        let mut waited = self.front.is_some();
        if self.mixed() {
            put(o, format_args!("setp.ne.u32 amid,zero,0;"));
        }
        match self.picks {
            Some(Picked::Within(_)) => self.start(o, size_of::<Args>() + self.front_bytes()),
            Some(picked) => {
                self.find_picks(o, picked, size_of::<Args>());
                self.first(o);
                waited = true;
            }
            None => self.first(o),
        }
        if !waited {
            progress::workgroup_waits(o, size_of::<Args>() + self.first_bytes());
        }
        put(
            o,
            format_args!(
                "mov.u32 up0,{}; mov.u32 up1,{}; mov.u32 stage,0; setp.eq.u32 first,cta,0;
and.b32 t0,g,1; setp.ne.u32 odd,t0,0; shr.u32 t0,g,1; xor.b32 t0,t0,t; and.b32 t1,t0,1; setp.ne.u32 j0,t1,0; setp.ge.u32 j1,t0,2; setp.ge.u32 upper,lane,16; and.b32 t0,lane,8; setp.ne.u32 second,t0,0; and.b32 t0,lane,7; setp.eq.u32 edge,t0,0;",
                UP[0],
                UP[1],
            ),
        );
    }

    /// Where the lane's scale of a span is.
    pub(super) fn lane_scale(self) -> String {
        format!(
            " shr.u32 lanescale,total,{shared}; shl.b32 lanescale,lanescale,{bytes};",
            shared = if self.values() { 0 } else { (self.group() / self.holds.part()).ilog2() },
            bytes = self.factor_log2(),
        )
    }

    /// Finds the warp's first run and asks for its first unit.
    pub(super) fn first_units(self, o: &mut String) {
        self.run(o, "FIRST");
        self.second(o);
        if self.values() {
            return self.fetch_values(o);
        }
        (0..BATCHES).for_each(|j| self.fetch(o, j));
        self.fetch_factors(o);
    }

    /// The workgroup's first tile of the stage at `at`, as `base`, and how many it has, as `subs`; two matrices at once have half of them each.
    pub(super) fn share(self, o: &mut String, at: &str, [base, subs, flags]: [&str; 3]) {
        put(
            o,
            format_args!(
                "ld.param.u32 {flags},[{at}+{of}]; shr.u32 t0,{flags},2; and.b32 t0,t0,1; ld.param.u32 t1,[{at}+{each}]; ld.param.u32 t2,[{at}+{more}];
min.u32 t3,cta,t2; mad.lo.u32 {base},cta,t1,t3; setp.lt.u32 p,cta,t2; selp.u32 t2,1,0,p; add.u32 t1,t1,t2; shl.b32 {subs},t1,t0;",
                of = place!(flags),
                each = place!(each),
                more = place!(more),
            ),
        );
    }

    /// The matrix of the workgroup's tile `tile` as `m`, the tile's first row as `row0`, where the matrix' tiles end as `t3`; arguments of
    /// eight bytes of the matrix lie at `sm`.
    pub(super) fn matrix(self, o: &mut String, tile: &str, at: &str, [base, subs, flags]: [&str; 3]) {
        put(
            o,
            format_args!(
                "and.b32 t0,{flags},4; setp.ne.u32 q,t0,0; ld.param.u32 t1,[{at}+{s1}]; ld.param.u32 t2,[{at}+{s2}]; shr.u32 t3,{subs},1;
selp.b32 t1,t3,t1,q; selp.b32 t2,-1,t2,q; selp.b32 t0,0,{base},q; add.u32 row0,t0,{tile};
setp.ge.u32 p,row0,t1; setp.ge.u32 q,row0,t2; selp.b32 t3,t2,t1,p; selp.b32 t3,-1,t3,q; sub.u32 t3,t3,t0; min.u32 t3,t3,{subs};
selp.b32 t1,t1,0,p; selp.b32 t1,t2,t1,q; add.u32 row0,{base},{tile}; sub.u32 row0,row0,t1; shl.b32 row0,row0,{tile_log2};
selp.b32 m,1,0,p; selp.b32 m,2,m,q; shl.b32 t1,m,3; cvt.u64.u32 wide,t1; add.u64 sm,{at},wide;",
                s1 = place!(starts) + 4,
                s2 = place!(starts) + 8,
                tile_log2 = TILE.ilog2(),
            ),
        );
    }

    /// Whether spans of four rows follow each other, as they do in memory; else tiles of a span, as those that are picked lie anywhere.
    pub(super) fn by_rows(self) -> bool {
        self.picks.is_none()
    }

    /// Goes on to the next unit of the warp. Units are one behind the other while the matrix is the same: a run.
    fn step(self, o: &mut String) {
        put(o, format_args!("setp.eq.and.u32 p,run,0,live;\n@p bra RUN;"));
        if self.by_rows() {
            put(o, format_args!("add.u32 t1,cquad,1; setp.eq.u32 p,t1,cspans;"));
            self.forward(o, "cpitch", self.span_bytes(), &["nc"]);
            if !self.values() {
                self.forward(o, "cspitch", self.factors(), &["ns", "nz"]);
            }
            put(o, format_args!("selp.b32 cquad,0,t1,p;"));
            self.room(o);
        } else {
            put(
                o,
                format_args!(
                    "mad.wide.u32 nc,cpitch,four,nc; mad.wide.u32 ns,cspitch,four,ns; mad.wide.u32 nz,cspitch,four,nz;"
                ),
            );
        }
        put(o, format_args!("RAN:\nsub.u32 run,run,1;"));
        self.second(o);
    }

    /// Moves addresses on by the bytes of a span, behind a row's last one (`p`) to the first one of the next four rows.
    fn forward(self, o: &mut String, pitch: &str, bytes: u32, addresses: &[&str]) {
        put(
            o,
            format_args!(
                "mul.lo.u32 t0,cquad,{bytes}; shl.b32 t2,{pitch},{}; sub.u32 t2,t2,t0; selp.b32 t0,t2,{bytes},p;",
                TILE.ilog2()
            ),
        );
        addresses.iter().for_each(|a| put(o, format_args!("mad.wide.u32 {a},t0,one,{a};")));
    }

    /// Where rows end inside a span, the bytes of them that are left where the lane's begin.
    fn room(self, o: &mut String) {
        if !self.ragged {
            return;
        }
        // The pitch of what is picked may be a part's.
        let whole = match self.picks {
            Some(_) if !self.values() => format!("{} sub.u32 room,t0,room;", self.bytes_of(["t0", "ck"])),
            _ => "sub.u32 room,cpitch,room;".to_string(),
        };
        put(
            o,
            format_args!(
                "mul.lo.u32 room,cquad,{}; {whole} mul.lo.u32 t0,lane,{}; sub.s32 room,room,t0;",
                self.span_bytes(),
                self.lane_bytes()
            ),
        );
    }

    /// Where the unit's other rows are.
    fn second(self, o: &mut String) {
        put(
            o,
            format_args!(
                "mad.wide.u32 nc1,cpitch,one,nc; mad.wide.u32 nc2,cpitch,one,nc1; mad.wide.u32 nc3,cpitch,one,nc2;"
            ),
        );
    }

    /// The next run of units, of this stage or of a later one.
    pub(super) fn next_run(self, o: &mut String) {
        put(o, format_args!("RUN:"));
        self.run(o, "LATER");
        put(o, format_args!("add.u32 run,run,1;\nbra RAN;"));
    }

    /// Finds the next run; `run` is how many units come after its first.
    fn run(self, o: &mut String, label: &str) {
        put(
            o,
            format_args!(
                "{label}:
setp.lt.u32 p,cu,cend;
@p bra {label}PLACE;
add.u32 t0,cstage,1; setp.lt.u32 live,t0,{upto};
{same}@!live bra {label}BACK;
mov.u32 cstage,t0; add.u64 ca,ca,{size}; ld.param.u32 ck,[ca+{k}];",
                size = size_of::<Stage>(),
                k = place!(k),
                upto = self.upto(),
                same = self.of_same_kind(),
            ),
        );
        self.share(o, "ca", ["cbase", "n", "tmp0"]);
        put(
            o,
            format_args!(
                "add.u32 t0,ck,{more}; shr.u32 cspans,t0,{span}; mul.lo.u32 t0,cspans,n; mul.lo.u32 cu,t0,warp; add.u32 cend,cu,t0; shr.u32 cu,cu,{wlog}; shr.u32 cend,cend,{wlog};
{pitch} shr.u32 cspitch,ck,{half};
{parts}setp.ge.u32 p,cu,cend;
@p bra {label};
{label}PLACE:",
                more = self.span() - 1,
                span = self.span().ilog2(),
                wlog = WARPS.ilog2(),
                pitch = match self.holds.bits {
                    8 => "mov.u32 cpitch,ck;".to_string(),
                    16 => "shl.b32 cpitch,ck,1;".to_string(),
                    _ => self.bytes_of(["cpitch", "ck"]),
                },
                half = self.of_factor_byte(),
                parts = self.part_pitches(),
            ),
        );
        self.share(o, "ca", ["cbase", "n", "tmp0"]);
        match self.by_rows() {
            true => {
                put(o, format_args!("div.u32 cat,cu,cspans; mul.lo.u32 t0,cat,cspans; sub.u32 cquad,cu,t0;"))
            }
            false => put(
                o,
                format_args!(
                    "mov.u32 cat,cu; mov.u32 cquad,0;\n{label}SPAN:\nsetp.ge.u32 p,cat,n;\n@!p bra {label}SPANNED;\nsub.u32 cat,cat,n; add.u32 cquad,cquad,1;\nbra {label}SPAN;\n{label}SPANNED:"
                ),
            ),
        }
        self.matrix(o, "cat", "ca", ["cbase", "n", "tmp0"]);
        put(
            o,
            format_args!(
                "sub.u32 t3,t3,cat; {units}sub.u32 t0,cend,cu; min.u32 run,t3,t0; {row}add.u32 cu,cu,run; sub.u32 run,run,1;
ld.param.u64 nc,[sm+{codes}]; mad.wide.u32 nc,row0,cpitch,nc; {lane} cvt.u64.u32 wide,t0; add.u64 nc,nc,wide;
ld.param.u64 ns,[sm+{scales}]; mad.wide.u32 ns,row0,cspitch,ns; mul.lo.u32 t0,cquad,{factors}; cvt.u64.u32 wide,t0; add.u64 ns,ns,wide;
ld.param.u64 nz,[sm+{biases}]; mad.wide.u32 nz,row0,cspitch,nz; add.u64 nz,nz,wide;
cvt.u64.u32 wide,lanescale; add.u64 ns,ns,wide; add.u64 nz,nz,wide;",
                units = if self.by_rows() { "mul.lo.u32 t3,t3,cspans; sub.u32 t3,t3,cquad; " } else { "" },
                row = self.picked_row(label),
                codes = place!(codes),
                scales = place!(scales),
                biases = place!(biases),
                lane = self.lane_place(self.span_bytes()),
                factors = self.factors(),
            ),
        );
        self.picked_columns(o, label);
        self.room(o);
        put(o, format_args!("{label}BACK:"));
    }

    /// Asks for batch j of the next unit, if there is one.
    pub(super) fn fetch(self, o: &mut String, j: u32) {
        let w = self.words();
        let at = 32 * self.lane_bytes() * j;
        let guard = if self.ragged {
            put(o, format_args!("setp.gt.and.s32 q,room,{at},live;"));
            "q"
        } else {
            "live"
        };
        for (side, from) in ["nc", "nc1", "nc2", "nc3"].into_iter().enumerate() {
            let c = (TILE * j + side as u32) * w;
            let (from, at) = match self.picks {
                Some(_) if j > 0 => {
                    put(o, format_args!("add.u64 na,{from},nj{j};"));
                    ("na", 0)
                }
                _ => (from, at),
            };
            if self.slips() {
                // Lanes read some of a word that others read too, from the first-level cache.
                for word in 0..w {
                    put(
                        o,
                        format_args!(
                            "@{guard} ld.global.nc.L1::evict_first.b32 c{},[{from}+{}];",
                            c + word,
                            at + 4 * word
                        ),
                    );
                }
                continue;
            }
            let to = if w == 2 { format!("v2.b32 {{c{c},c{}}}", c + 1) } else { format!("b32 c{c}") };
            put(o, format_args!("@{guard} ld.global.nc.L1::no_allocate.{to},[{from}+{at}];"));
        }
    }

    /// Asks for the lane's scales and biases of the next unit.
    pub(super) fn fetch_factors(self, o: &mut String) {
        let guard = if self.ragged {
            put(
                o,
                format_args!(
                    "mad.lo.u32 t0,cquad,{},lanescale; setp.lt.and.u32 q,t0,{},live;",
                    self.factors(),
                    if self.picks.is_some() { "cfull" } else { "cspitch" }
                ),
            );
            "q"
        } else {
            "live"
        };
        put(o, format_args!("mov.b64 ns1,ns; mov.b64 nz1,nz;"));
        for r in 0..TILE {
            if r > 0 {
                put(o, format_args!("mad.wide.u32 ns1,cspitch,one,ns1; mad.wide.u32 nz1,cspitch,one,nz1;"));
            }
            if self.floats() {
                put(o, format_args!("@{guard} ld.global.nc.L2::128B.u8 ss{r},[ns1];"));
                continue;
            }
            for (to, from) in [("ss", "ns1"), ("zz", "nz1")] {
                put(o, format_args!("@{guard} ld.global.nc.L2::128B.b16 {to}{r},[{from}];"));
            }
        }
    }

    /// What the workgroup and the warp do of the stage at `sa`.
    fn open(self, o: &mut String) {
        self.share(o, "sa", ["base", "subs", "flags"]);
        self.kind_of_stage(o);
        put(
            o,
            format_args!(
                "ld.param.u32 k,[sa+{k}]; {spans} mul.lo.u32 t0,spans,subs; mul.lo.u32 t1,t0,warp; add.u32 left,t1,t0; shr.u32 t1,t1,{wlog}; shr.u32 left,left,{wlog}; sub.u32 left,left,t1;
shl.b32 t1,t1,{tile}; shl.b32 t1,t1,2; mov.u32 slot,slots; add.u32 slot,slot,t1; shr.u32 t1,lane,4; shl.b32 t1,t1,2; add.u32 slot,slot,t1; and.b32 t1,lane,8; add.u32 slot,slot,t1;",
                k = place!(k),
                spans = self.spans("OPENED"),
                wlog = WARPS.ilog2(),
                tile = TILE.ilog2(),
            ),
        );
        if self.picks.is_some() {
            put(o, format_args!("and.b32 t0,flags,{}; setp.ne.u32 columns,t0,0;", COLUMNS));
        }
    }

    /// All units of the warp.
    pub(super) fn walk(self, o: &mut String) {
        put(o, format_args!("setp.eq.u32 p,left,0;\n@p bra WALKED;\nWALK:\nmov.u32 quad,cquad;"));
        self.step(o);
        put(
            o,
            format_args!(
                "mov.u32 xl,row; mad.lo.u32 xl,quad,{},xl; mad.lo.u32 xl,lane,16,xl;",
                2 * self.span()
            ),
        );
        if self.values() {
            self.multiply_values(o)
        } else {
            self.multiply_codes(o)
        }
        put(o, format_args!("sub.u32 left,left,1; setp.ne.u32 p,left,0;\n@p bra WALK;\nWALKED:"));
    }
}
