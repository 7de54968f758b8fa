//! The text of few rows by dense matrices (mma of PTX): a workgroup has a unit of rows of weights, a warp sixteen of them and a part of
//! K, a team of warps all rows of the unit and the same part. A lane reads sixteen bytes of its rows of weights at a time, which are left
//! sides as they lie; rows of x come to shared memory ahead, of which it reads the same elements as right sides.

use std::mem::offset_of;

use crate::core::Dtype;
use crate::kernels::matmul::epilogue::KeptAfter;
use crate::vulkan::kernels::matmul::warpgroup::text::{head, kind, put};
use crate::vulkan::kernels::progress;
use crate::vulkan::kernels::quantized::push::Push;
use crate::vulkan::kernels::quantized::units::{Units, place};
use crate::vulkan::tune::gemv::wide::{BLOCK, COLUMN, Form, SPAN};

/// What the kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Program {
    pub form: Form,
    /// bfloat16 or float16.
    pub dtype: Dtype,
    /// Length of a row; 0: the kernel is told it, and the rows of its only matrix.
    pub k: u32,
    /// Rows of each matrix.
    pub lengths: [u32; 3],
    /// What becomes of the results of one matrix, or of two at once.
    pub after: Option<KeptAfter>,
}

/// Bytes of a row of x in a span.
const ROW: u32 = 2 * SPAN;
/// Sixteen bytes of them.
const CHUNKS: u32 = ROW / 16;
/// Registers of a span of a lane's two rows of weights.
const HELD: u32 = 16;

impl Program {
    /// How it goes over rows: of two matrices at once a warp has eight rows each.
    pub(super) fn rows(&self) -> Units {
        let pair = self.after.is_some() && self.lengths[1] > 0;
        let unit = BLOCK * self.form.blocks;
        Units { lengths: self.lengths, after: self.after.is_some(), unit: if pair { unit / 2 } else { unit } }
    }

    /// Rows of a matrix that a warp has.
    pub(super) fn of_warp(&self) -> u32 {
        BLOCK / self.rows().sides()
    }

    /// Bytes of x of a span.
    fn stage(&self) -> u32 {
        ROW * self.form.columns
    }

    /// Bytes of a warp's sums.
    pub(super) fn sums(&self) -> u32 {
        4 * COLUMN * self.form.columns
    }

    /// Where a number lies behind the sums of all warps.
    pub(super) fn flag(&self) -> u32 {
        self.form.blocks * self.form.teams * self.sums()
    }

    /// Threads that have the same part of K.
    fn team(&self) -> u32 {
        32 * self.form.blocks
    }

    /// Sixteen bytes of a span that a thread brings, at most.
    fn turns(&self) -> u32 {
        (self.form.columns * CHUNKS).div_ceil(self.team())
    }

    /// The same kernel for a matrix of any size, for products that nothing is joined with: programs meet many shapes of them.
    pub(super) fn of_any_size(self) -> Program {
        Program { k: 0, lengths: [1, 0, 0], ..self }
    }

    /// The lengths of rows in registers: bytes of a row (`bytes`), its spans (`all`), those of a part of K at most (`spans`) and turns of the
    /// loop (`loops`).
    fn sizes(&self, o: &mut String) {
        let (parts, body) = (self.form.teams * self.form.splits, self.form.body());
        if self.k > 0 {
            let spans = (self.k / SPAN).div_ceil(parts);
            return put(
                o,
                format_args!(
                    "mov.u32 bytes,{}; mov.u32 all,{}; mov.u32 spans,{spans}; mov.u32 loops,{};",
                    2 * self.k,
                    self.k / SPAN,
                    spans.div_ceil(body)
                ),
            );
        }
        put(
            o,
            format_args!(
                "ld.param.u32 all,[args+{}]; shl.b32 bytes,all,1; shr.u32 all,all,{}; add.u32 spans,all,{}; div.u32 spans,spans,{parts}; add.u32 loops,spans,{}; div.u32 loops,loops,{body};",
                place(1, 0),
                SPAN.ilog2(),
                parts - 1,
                body - 1
            ),
        );
    }

    /// The rows of the matrix at hand, in `len`.
    fn length(&self, o: &mut String) {
        match self.k {
            0 => put(o, format_args!("ld.param.u32 len,[args+{}];", place(1, 0) + 4)),
            _ => self.rows().length(o),
        }
    }

    /// Pairs of results that a row of x has of a block.
    pub(super) fn pairs(&self) -> u32 {
        self.of_warp() / 2
    }

    /// Pairs of results of a workgroup.
    pub(super) fn results(&self) -> u32 {
        self.form.blocks * self.form.columns * self.pairs()
    }

    /// A barrier of a team.
    fn meet(&self) -> String {
        match self.form.teams {
            1 => "bar.sync 0;".into(),
            _ => format!("bar.sync meeting,{};", self.team()),
        }
    }

    /// The whole text.
    pub fn text(&self) -> String {
        let Form { ring, window, .. } = self.form;
        let (body, mut o) = (self.form.body(), String::with_capacity(32 << 10));
        self.head(&mut o);
        self.places(&mut o);
        (0..window).for_each(|i| self.load_weights(&mut o, i, i));
        progress::workgroup_waits(&mut o, size_of::<Push>());
        (0..ring - 1).for_each(|s| self.copy_x(&mut o, s));
        put(&mut o, format_args!("BODY:"));
        for s in 0..body {
            put(&mut o, format_args!("cp.async.wait_group {};\n{}", ring - 2, self.meet()));
            self.copy_x(&mut o, s + ring - 1);
            self.multiply(&mut o, s);
            self.load_weights(&mut o, s % window, s + window);
        }
        put(
            &mut o,
            format_args!(
                "add.u64 wa,wa,{all}; add.u64 wb,wb,{all}; add.u64 xa,xa,{all}; sub.u32 left,left,{body}; sub.u32 loops,loops,1; setp.ne.u32 p,loops,0;\n@p bra BODY;",
                all = body * ROW
            ),
        );
        self.finish(&mut o);
        put(&mut o, format_args!("DONE:"));
        progress::ends(&mut o, size_of::<Push>());
        o += "ret;\n}\n";
        o
    }

    fn head(&self, o: &mut String) {
        let Form { columns, window, ring, splits, teams, .. } = self.form;
        *o += &head("sm_90", progress::told::<Push>(), [self.form.threads(), self.form.together]);
        put(
            o,
            format_args!(
                ".shared .align 128 .b8 ring[{bytes}];
.reg .pred p,q,one,two,live,there<{turns}>,has<{turns}>,mine;
.reg .b32 tid,lane,warp,g,t,rows,unit,local,tmp,left,loops,len,row0,row1,low,high,at,v,r,pk,team,block,split,part,meeting,bytes,all,spans,size<{turns}>,to<{turns}>;
.reg .b32 c<{held}>,b<{columns}>,h<14>,ar<2>;
.reg .b16 hl,hh;
.reg .f32 tot<{sums}>,e<6>,y<4>,w<2>;
.reg .b64 wa,wb,xa,from<{turns}>,l,m,da;
ld.param.u32 rows,[args+{at_rows}];
mov.u32 tid,%tid.x; shr.u32 warp,tid,5; and.b32 lane,tid,31; shr.u32 g,lane,2; and.b32 t,lane,3; mov.u32 tmp,%ctaid.x; div.u32 unit,tmp,{splits}; rem.u32 split,tmp,{splits};
div.u32 team,warp,{blocks}; rem.u32 block,warp,{blocks}; add.u32 meeting,team,1; mad.lo.u32 part,split,{teams},team;",
                bytes = (teams * ring * self.stage()).max(self.flag() + 4),
                turns = self.turns(),
                held = HELD * window,
                sums = columns / 2,
                at_rows = offset_of!(Push, rows),
                blocks = self.form.blocks,
            ),
        );
        self.sizes(o);
        put(o, format_args!("mul.lo.u32 part,part,spans; sub.u32 left,all,part; min.s32 left,left,spans;"));
    }

    /// Where a lane's rows of weights lie, and what a thread brings of x and reads. Rows beyond the matrix' are its last one.
    fn places(&self, o: &mut String) {
        let rows = self.rows();
        rows.matrix_of(o, "unit");
        self.length(o);
        put(
            o,
            format_args!(
                "mul.lo.u32 local,local,{unit}; mad.lo.u32 row0,block,{of_warp},local; add.u32 row0,row0,g; sub.u32 tmp,len,1; add.u32 row1,row0,{second}; min.u32 row0,row0,tmp; min.u32 row1,row1,tmp;",
                unit = rows.unit,
                of_warp = self.of_warp(),
                second = if rows.sides() == 2 { 0 } else { 8 },
            ),
        );
        for (to, row, side) in [("wa", "row0", 0), ("wb", "row1", rows.sides() - 1)] {
            rows.told(o, to, 0, side);
            put(
                o,
                format_args!(
                    "mul.wide.u32 l,{row},bytes; add.u64 {to},{to},l; mul.wide.u32 l,t,16; add.u64 {to},{to},l; mul.wide.u32 l,part,{ROW}; add.u64 {to},{to},l;"
                ),
            );
        }
        put(
            o,
            format_args!(
                "ld.param.u64 xa,[args]; mul.wide.u32 l,part,{ROW}; add.u64 xa,xa,l; mov.u32 at,ring; mad.lo.u32 at,team,{},at; mul.lo.u32 row1,team,{}; sub.u32 row1,tid,row1;",
                self.form.ring * self.stage(),
                self.team()
            ),
        );
        for i in 0..self.turns() {
            // Chunks of a row lie exchanged, so that neighbouring rows' are read at once. Rows that are not there are the first.
            put(
                o,
                format_args!(
                    "add.u32 tmp,row1,{}; setp.lt.u32 has{i},tmp,{}; shr.u32 v,tmp,3; and.b32 r,tmp,7; setp.lt.u32 there{i},v,rows; selp.u32 row0,v,0,there{i};
mul.wide.u32 from{i},row0,bytes; mul.wide.u32 l,r,16; add.u64 from{i},from{i},l;
and.b32 tmp,v,1; shl.b32 tmp,tmp,2; xor.b32 r,r,tmp; mad.lo.u32 to{i},v,{ROW},at; mad.lo.u32 to{i},r,16,to{i};",
                    self.team() * i,
                    self.form.columns * CHUNKS
                ),
            );
        }
        put(
            o,
            format_args!(
                "mad.lo.u32 low,g,{ROW},at; mad.lo.u32 low,t,16,low; and.b32 tmp,g,1; shl.b32 tmp,tmp,6; xor.b32 low,low,tmp; xor.b32 high,low,64;"
            ),
        );
        (0..self.form.columns / 2).for_each(|i| put(o, format_args!("mov.f32 tot{i},0f00000000;")));
        (0..HELD * self.form.window).for_each(|i| put(o, format_args!("mov.b32 c{i},0;")));
    }

    /// Asks for x of the span that comes `s` behind the body's first; zeros where there is none.
    fn copy_x(&self, o: &mut String, s: u32) {
        put(o, format_args!("setp.gt.s32 p,left,{s};"));
        for i in 0..self.turns() {
            put(
                o,
                format_args!(
                    "and.pred mine,p,there{i}; selp.u32 size{i},16,0,mine; selp.u32 tmp,{},0,p; cvt.u64.u32 l,tmp; add.u64 l,l,from{i}; add.u64 l,l,xa;
@has{i} cp.async.cg.shared.global [to{i}+{}],[l],16,size{i};",
                    ROW * s,
                    s % self.form.ring * self.stage()
                ),
            );
        }
        put(o, format_args!("cp.async.commit_group;"));
    }

    /// Asks for the weights of the span that comes `s` behind the body's first, into set `i`. Volatile: the compiler leaves the loads
    /// where they are.
    fn load_weights(&self, o: &mut String, i: u32, s: u32) {
        put(o, format_args!("setp.gt.s32 p,left,{s};"));
        for (k, (from, half)) in [("wa", 0), ("wa", 1), ("wb", 0), ("wb", 1)].into_iter().enumerate() {
            let c = HELD * i + 4 * k as u32;
            let all = [c, c + 1, c + 2, c + 3].map(|c| format!("c{c}"));
            put(
                o,
                format_args!(
                    "@p ld.volatile.global.v4.b32 {{{}}},[{from}+{}];",
                    all.join(","),
                    ROW * s + ROW / 2 * half
                ),
            );
            // What was there last may be no number.
            all.iter().for_each(|c| put(o, format_args!("@!p mov.b32 {c},0;")));
        }
    }

    /// Multiplies a span.
    fn multiply(&self, o: &mut String, s: u32) {
        let (tiles, at) = (self.form.columns / 8, s % self.form.ring * self.stage());
        for j in 0..tiles {
            for (k, from) in ["low", "high"].into_iter().enumerate() {
                let b = 8 * j + 4 * k as u32;
                put(
                    o,
                    format_args!(
                        "ld.shared.v4.b32 {{b{b},b{},b{},b{}}},[{from}+{}];",
                        b + 1,
                        b + 2,
                        b + 3,
                        at + 8 * ROW * j
                    ),
                );
            }
        }
        for (step, j) in (0..4).flat_map(|step| (0..tiles).map(move |j| (step, j))) {
            let c = HELD * (s % self.form.window) + 2 * step;
            let (b, sums) = (8 * j + 2 * step, [0, 1, 2, 3].map(|e| format!("tot{}", 4 * j + e)).join(","));
            put(
                o,
                format_args!(
                    "mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{{sums}}},{{c{c},c{},c{},c{}}},{{b{b},b{}}},{{{sums}}};",
                    c + 8,
                    c + 1,
                    c + 9,
                    b + 1,
                    kind = kind(self.dtype),
                ),
            );
        }
    }
}
