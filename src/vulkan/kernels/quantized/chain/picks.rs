//! Matrices that a row picks, in the text of `text`: which ones is chosen first, by one warp of each workgroup. Then the rows of all that are
//! picked follow each other, or their columns do, weighed, as those of one matrix.

use std::mem::offset_of;

use super::text::Chain;
use super::{PickArgs, Stage, place};
use crate::vulkan::kernels::matmul::warpgroup::text::{pair, put};
use crate::vulkan::kernels::progress;
use crate::vulkan::kernels::quantized::stream::widen;
use crate::vulkan::kernels::sort::choice::Choice;
use crate::vulkan::tune::quantized::chain::{BATCHES, TILE};

/// Of a stage's flags: rows of picked matrices follow each other, or columns.
pub(super) const ROWS: u32 = 8;
pub(super) const COLUMNS: u32 = 16;
/// The row is the one of the stage before, as it lies there.
pub(super) const SAME: u32 = 32;
const ANY: u32 = ROWS | COLUMNS;

/// Where it is said which matrices are picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Picked {
    /// It is chosen first.
    Chosen(Choice),
    /// It is chosen of what one of the products makes.
    Within(Choice),
    /// It stands in memory: so many indices, and numbers beside them, which may be float32 (`wide`).
    Stored { count: u32, wide: bool },
}

impl Picked {
    pub fn count(&self) -> u32 {
        match self {
            Picked::Chosen(choice) | Picked::Within(choice) => choice.how.count,
            Picked::Stored { count, .. } => *count,
        }
    }
}

impl Chain {
    /// How many matrices are picked.
    fn count_picks(self) -> u32 {
        self.picks.map_or(1, |p| p.count())
    }

    /// Shared memory and registers.
    pub(super) fn picking(self, o: &mut String) {
        if self.picks.is_none() {
            return;
        }
        put(
            o,
            format_args!(
                ".shared .align 4 .b8 ids[{bytes}];
.shared .align 4 .b8 weights[{bytes}];
.reg .pred columns,mid;
.reg .b32 place,number,cfull,part,lim,upto,turns;
.reg .f32 weight;
.reg .b64 from,na,cm,nj<{BATCHES}>;",
                bytes = 4 * self.count_picks(),
            ),
        );
    }

    /// Waits for what others make, and has the first warp find what is picked. `at` is where it is told of that.
    pub(super) fn find_picks(self, o: &mut String, picked: Picked, at: usize) {
        progress::workgroup_waits(o, at + size_of::<PickArgs>());
        put(o, format_args!("setp.ne.u32 p,warp,0;\n@p bra CHOSEN;"));
        match picked {
            Picked::Chosen(choice) | Picked::Within(choice) => {
                put(o, format_args!("ld.param.u64 from,[args+{}];", at + offset_of!(PickArgs, keys)));
                choice.choose(o);
                self.keep_picks(o, choice, at);
            }
            Picked::Stored { wide, .. } => self.read_picks(o, at, wide),
        }
        put(o, format_args!("CHOSEN:\nbar.sync 0;"));
    }

    /// What was chosen is kept for the workgroup; the first one stores it.
    fn keep_picks(self, o: &mut String, choice: Choice, at: usize) {
        put(
            o,
            format_args!(
                "setp.lt.u32 q,lane,{}; mov.u32 t0,ids; mad.lo.u32 t0,lane,4,t0;\n@q st.shared.b32 [t0],place;",
                self.count_picks()
            ),
        );
        choice.follow(o);
        put(o, format_args!("cvt.u16.u32 h0,number;"));
        widen(self.dtype, o, "weight", "h0");
        self.put_weight(o);
        put(o, format_args!("setp.ne.u32 p,cta,0;\n@p bra CHOSEN;\nmov.u32 t0,0;"));
        choice.store(o, "t0", [at + offset_of!(PickArgs, places), at + offset_of!(PickArgs, chosen)]);
    }

    /// Begins with the products before the choice: units behind it are not known yet.
    pub(super) fn start(self, o: &mut String, at: usize) {
        put(
            o,
            format_args!(
                "ld.param.u32 upto,[args+{}]; add.u32 turns,upto,1; max.u32 turns,turns,stages; setp.ne.u32 mid,zero,0;\nbra START;\nBEGUN:",
                at + offset_of!(PickArgs, stage)
            ),
        );
    }

    /// Chooses where the row of the choice was made by the stage before, and asks for the first units behind that.
    pub(super) fn choose_within(self, o: &mut String, choice: Choice, at: usize) {
        put(
            o,
            format_args!(
                "ld.param.u32 t0,[args+{}]; setp.ne.u32 p,t0,stage;
@p bra UNCHOSEN;
setp.ne.u32 p,warp,0;
@p bra CHOSEN;
ld.param.u64 from,[args+{}]; ld.param.u32 tag,[args+{}];",
                at + offset_of!(PickArgs, stage),
                at + offset_of!(PickArgs, keys),
                at + offset_of!(PickArgs, key_tag),
            ),
        );
        choice.choose_from(o, Some("tag"));
        self.keep_picks(o, choice, at);
        put(
            o,
            format_args!(
                "CHOSEN:
bar.sync 0;
setp.ge.u32 p,stage,stages;
@p bra ENDED;
mov.u32 upto,stages; setp.eq.u32 mid,zero,0;
bra START;
RESTARTED:
UNCHOSEN:"
            ),
        );
    }

    /// They are read, and held inside as `picked` of shaders/quantized/qmm.glsl does; numbers beside them where there are some.
    fn read_picks(self, o: &mut String, at: usize, wide: bool) {
        put(
            o,
            format_args!(
                "setp.lt.u32 q,lane,{count}; mov.u32 t0,ids; mad.lo.u32 t0,lane,4,t0; ld.param.u64 from,[args+{places}]; mad.wide.u32 from,lane,4,from;
@q ld.global.cg.b32 place,[from];
ld.param.u64 from,[args+{chosen}]; setp.ne.u64 p,from,0; and.pred p,p,q; mad.wide.u32 from,lane,{bytes},from; mov.b16 h0,0; mov.f32 weight,zf;
@p ld.global.cg.{kind},[from];
ld.param.u32 number,[args+{matrices}]; ld.param.u32 t1,[args+{signed}];
shr.u32 t2,place,31; and.b32 t2,t2,t1; setp.ne.u32 p,t2,0;
@p add.u32 place,place,number;
shr.u32 t2,place,31; and.b32 t2,t2,t1; setp.ne.u32 p,t2,0;
@p mov.u32 place,0;
sub.u32 number,number,1; min.u32 place,place,number;
@q st.shared.b32 [t0],place;",
                bytes = if wide { 4 } else { 2 },
                kind = if wide { "f32 weight" } else { "b16 h0" },
                count = self.count_picks(),
                places = at + offset_of!(PickArgs, places),
                chosen = at + offset_of!(PickArgs, chosen),
                matrices = at + offset_of!(PickArgs, matrices),
                signed = at + offset_of!(PickArgs, signed),
            ),
        );
        if !wide {
            widen(self.dtype, o, "weight", "h0");
        }
        self.put_weight(o);
    }

    /// `weight` weighs what the lane picks.
    fn put_weight(self, o: &mut String) {
        put(o, format_args!("mov.u32 t0,weights; mad.lo.u32 t0,lane,4,t0;\n@q st.shared.f32 [t0],weight;"));
    }

    /// Pitches of a run's rows: those of a part of the columns where there are parts.
    pub(super) fn part_pitches(self) -> String {
        if self.picks.is_none() {
            return String::new();
        }
        format!(
            "mov.u32 cfull,cspitch; ld.param.u32 tmp0,[ca+{}]; and.b32 t0,tmp0,{COLUMNS}; setp.ne.u32 q,t0,0; ld.param.u32 part,[ca+{}];
@q shr.u32 cpitch,part,1;
@q shr.u32 cspitch,part,{};
",
            place!(flags),
            place!(part),
            (self.group / 2).ilog2(),
        )
    }

    /// The run's first row among all rows of all matrices, where rows of those that are picked follow each other; its units end with the
    /// matrix.
    pub(super) fn picked_row(self, label: &str) -> String {
        if self.picks.is_none() {
            return String::new();
        }
        format!(
            "and.b32 t0,tmp0,{ROWS}; setp.eq.u32 p,t0,0;
@p bra {label}SAME;
ld.param.u32 t1,[ca+{rows}]; div.u32 t0,row0,t1; mul.lo.u32 t2,t0,t1; sub.u32 t2,row0,t2; sub.u32 lim,t1,t2; shr.u32 lim,lim,{tile}; min.u32 run,run,lim;
mov.u32 lim,ids; mad.lo.u32 t0,t0,4,lim; ld.shared.b32 t0,[t0]; mad.lo.u32 row0,t0,t1,t2;
{label}SAME:
",
            rows = place!(rows),
            tile = TILE.ilog2(),
        )
    }

    /// Where the lane's codes of each batch of the run's first row are, and its scales and biases: as they follow each other, or of the matrix
    /// that the columns belong to.
    pub(super) fn picked_columns(self, o: &mut String, label: &str) {
        let w = self.words();
        for j in 1..BATCHES {
            put(o, format_args!("mov.u64 nj{j},{};", 128 * w * j));
        }
        put(
            o,
            format_args!(
                "ld.param.u32 tmp0,[ca+{}]; and.b32 t0,tmp0,{COLUMNS}; setp.eq.u32 p,t0,0;\n@p bra {label}WHOLE;\nld.param.u64 cm,[sm+{}];",
                place!(flags),
                place!(codes)
            ),
        );
        for j in 0..BATCHES {
            put(
                o,
                format_args!(
                    "mul.lo.u32 t2,lane,{own}; mad.lo.u32 t2,cquad,{span},t2; add.u32 t2,t2,{batch}; div.u32 t1,t2,part;",
                    own = 8 * w,
                    span = self.span(),
                    batch = 256 * w * j,
                ),
            );
            self.matrix_of_part(o, ["t1", "t2"]);
            put(
                o,
                format_args!(
                    "mad.wide.u32 na,t1,cpitch,cm; shr.u32 t2,t2,1; cvt.u64.u32 wide,t2; add.u64 na,na,wide;"
                ),
            );
            put(
                o,
                format_args!(
                    "{}",
                    if j == 0 { "mov.b64 nc,na;".into() } else { format!("sub.u64 nj{j},na,nc;") }
                ),
            );
        }
        put(
            o,
            format_args!(
                "shr.u32 t2,lanescale,1; mad.lo.u32 t2,cquad,{},t2; shl.b32 t2,t2,{}; div.u32 t1,t2,part;",
                self.span() / self.group,
                self.group.ilog2()
            ),
        );
        self.matrix_of_part(o, ["t1", "t2"]);
        put(
            o,
            format_args!(
                "shr.u32 t2,t2,{}; mul.wide.u32 na,t1,cspitch; cvt.u64.u32 wide,t2; add.u64 wide,wide,na;
ld.param.u64 ns,[sm+{}]; add.u64 ns,ns,wide; ld.param.u64 nz,[sm+{}]; add.u64 nz,nz,wide;
{label}WHOLE:",
                (self.group / 2).ilog2(),
                place!(scales),
                place!(biases),
            ),
        );
    }

    /// Of part `e` of the columns and column `k`: the row among all rows of all matrices, and the column of that matrix.
    fn matrix_of_part(self, o: &mut String, [e, k]: [&str; 2]) {
        put(
            o,
            format_args!(
                "mul.lo.u32 t0,{e},part; sub.u32 {k},{k},t0; min.u32 {e},{e},{}; mov.u32 t0,ids; mad.lo.u32 {e},{e},4,t0; ld.shared.b32 {e},[{e}];
ld.param.u32 t0,[ca+{}]; mad.lo.u32 {e},{e},t0,row0;",
                self.count_picks() - 1,
                place!(rows),
            ),
        );
    }

    /// What the lane's numbers of a unit are weighed with, by the matrix whose columns they are of.
    pub(super) fn weigh(self, o: &mut String) {
        put(
            o,
            format_args!(
                "mov.f32 weight,0f3F800000;
@!columns bra WEIGHED;
ld.param.u32 t1,[sa+{}]; shr.u32 t2,lanescale,1; mad.lo.u32 t2,quad,{},t2; shl.b32 t2,t2,{}; div.u32 t2,t2,t1; min.u32 t2,t2,{};
mov.u32 t1,weights; mad.lo.u32 t2,t2,4,t1; ld.shared.f32 weight,[t2];
WEIGHED:",
                place!(part),
                self.span() / self.group,
                self.group.ilog2(),
                self.count_picks() - 1,
            ),
        );
    }

    /// As `check`, of what is picked.
    pub(super) fn check_picked(self, o: &mut String, side: u32) {
        put(
            o,
            format_args!(
                "mov.b32 t0,y{side}; and.b32 t0,t0,0x7f800000; setp.ne.u32 p,t0,0x7f800000;
@p bra NUMBER{side};
and.b32 t0,flags,1; setp.ne.u32 p,t0,0;
@p bra NUMBER{side};
shr.u32 t1,mm,30; add.u32 t1,t1,{side}; shl.b32 t1,t1,3; cvt.u64.u32 wide,t1; add.u64 sm,sa,wide;
ld.param.u64 o4,[sm+{codes}]; ld.param.u64 o5,[sm+{scales}]; ld.param.u64 o6,[sm+{biases}]; ld.param.u64 d,[sa+{x}]; ld.param.u32 tag,[sa+{tag}];
setp.eq.u32 p,tag,0; selp.u32 t3,4,8,p; cvt.u64.u32 o7,t3; ld.param.u32 at,[sa+{part}]; selp.b32 at,at,k,columns;
mov.f32 y{side},0f00000000; mov.u32 t2,0;
CODES{side}:
div.u32 x2,t2,at; mul.lo.u32 x3,x2,at; sub.u32 x3,t2,x3; mov.f32 weight,0f3F800000; mov.u32 x4,res; ld.param.u32 x5,[sa+{rows}]; and.b32 t0,flags,{ROWS}; setp.eq.u32 p,t0,0;
@p bra COLUMN{side};
div.u32 x2,res,x5; mul.lo.u32 x6,x2,x5; sub.u32 x4,res,x6;
COLUMN{side}:
mov.u32 t0,ids; mad.lo.u32 t0,x2,4,t0; ld.shared.b32 x7,[t0]; mov.u32 t0,weights; mad.lo.u32 t0,x2,4,t0;
@columns ld.shared.f32 weight,[t0];
and.b32 t0,flags,{ANY}; setp.ne.u32 q,t0,0; selp.b32 x7,x7,0,q; mad.lo.u32 x4,x7,x5,x4;
shr.u32 t0,at,1; mad.wide.u32 o8,x4,t0,o4; shr.u32 t0,x3,1; cvt.u64.u32 wide,t0; add.u64 o8,o8,wide; ld.global.b32 x0,[o8];
shr.u32 t0,at,{half}; mul.wide.u32 o8,x4,t0; shr.u32 t0,x3,{group}; shl.b32 t0,t0,1; cvt.u64.u32 wide,t0; add.u64 wide,wide,o8; add.u64 o8,o5,wide; add.u64 o9,o6,wide;",
                codes = place!(codes),
                scales = place!(scales),
                biases = place!(biases),
                x = place!(x),
                tag = place!(x_tag),
                part = place!(part),
                rows = place!(rows),
                half = (self.group / 2).ilog2(),
                group = self.group.ilog2(),
            ),
        );
        for (to, from) in [("v2", "o8"), ("v3", "o9")] {
            put(o, format_args!("ld.global.b16 h0,[{from}];"));
            widen(self.dtype, o, to, "h0");
        }
        put(o, format_args!("mul.f32 v2,v2,weight; mul.f32 v3,v3,weight;"));
        for i in 0..4 {
            put(o, format_args!("ld.global.cg.b32 x1,[d]; add.u64 d,d,o7;"));
            pair(o, self.dtype, ["v0", "v1"], "x1", "t0");
            for (e, x) in [(2 * i, "v0"), (2 * i + 1, "v1")] {
                put(
                    o,
                    format_args!(
                        "shr.u32 t0,x0,{}; and.b32 t0,t0,15; cvt.rn.f32.u32 q0,t0; fma.rn.f32 q0,v2,q0,v3; fma.rn.f32 y{side},{x},q0,y{side};",
                        4 * e
                    ),
                );
            }
        }
        put(o, format_args!("add.u32 t2,t2,8; setp.lt.u32 p,t2,k;\n@p bra CODES{side};\nNUMBER{side}:"));
    }
}
