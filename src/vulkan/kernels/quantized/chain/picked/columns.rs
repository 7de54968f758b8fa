//! How rows of all matrices that are picked follow each other as those of one, or their columns, weighed, in the text of a chain.

use super::super::text::Chain;
use super::super::{Stage, place};
use super::text::{COLUMNS, ROWS};
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::tune::quantized::chain::{BATCHES, TILE};

impl Chain {
    /// Pitches of a run's rows: those of a part of the columns where there are parts.
    pub(in crate::vulkan::kernels::quantized::chain) fn part_pitches(self) -> String {
        if self.picks.is_none() || self.values() {
            return String::new();
        }
        format!(
            "mov.u32 cfull,cspitch; ld.param.u32 tmp0,[ca+{}]; and.b32 t0,tmp0,{COLUMNS}; setp.ne.u32 q,t0,0; ld.param.u32 part,[ca+{}]; {}
selp.b32 cpitch,t0,cpitch,q;
@q shr.u32 cspitch,part,{};
",
            place!(flags),
            place!(part),
            self.bytes_of(["t0", "part"]),
            self.of_factor_byte(),
        )
    }

    /// The run's first row among all rows of all matrices, where rows of those that are picked follow each other; its units end with the
    /// matrix.
    pub(in crate::vulkan::kernels::quantized::chain) fn picked_row(self, label: &str) -> String {
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
    pub(in crate::vulkan::kernels::quantized::chain) fn picked_columns(self, o: &mut String, label: &str) {
        if self.picks.is_none() || self.values() {
            return;
        }
        for j in 1..BATCHES {
            put(o, format_args!("mov.u64 nj{j},{};", 32 * self.lane_bytes() * j));
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
                    own = 8 * self.eights(),
                    span = self.span(),
                    batch = 8 * self.holds.part() * j,
                ),
            );
            self.matrix_of_part(o, ["t1", "t2"]);
            put(
                o,
                format_args!(
                    "mad.wide.u32 na,t1,cpitch,cm; {}{} cvt.u64.u32 wide,t2; add.u64 na,na,wide;",
                    self.bytes_of(["t2", "t2"]),
                    self.without_slip(["t2", "t0", "t1"]),
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
                "shr.u32 t2,lanescale,{}; mad.lo.u32 t2,cquad,{},t2; shl.b32 t2,t2,{}; div.u32 t1,t2,part;",
                self.factor_log2(),
                self.span() / self.group(),
                self.group().ilog2()
            ),
        );
        self.matrix_of_part(o, ["t1", "t2"]);
        put(
            o,
            format_args!(
                "shr.u32 t2,t2,{}; mul.wide.u32 na,t1,cspitch; cvt.u64.u32 wide,t2; add.u64 wide,wide,na;
ld.param.u64 ns,[sm+{}]; add.u64 ns,ns,wide; ld.param.u64 nz,[sm+{}]; add.u64 nz,nz,wide;
{label}WHOLE:",
                self.of_factor_byte(),
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
    pub(in crate::vulkan::kernels::quantized::chain) fn weigh(self, o: &mut String) {
        put(
            o,
            format_args!(
                "mov.f32 weight,0f3F800000;
@!columns bra WEIGHED;
ld.param.u32 t1,[sa+{}]; shr.u32 t2,lanescale,{}; mad.lo.u32 t2,quad,{},t2; shl.b32 t2,t2,{}; div.u32 t2,t2,t1; min.u32 t2,t2,{};
mov.u32 t1,weights; mad.lo.u32 t2,t2,4,t1; ld.shared.f32 weight,[t2];
WEIGHED:",
                place!(part),
                self.factor_log2(),
                self.span() / self.group(),
                self.group().ilog2(),
                self.count_picks() - 1,
            ),
        );
    }
}
