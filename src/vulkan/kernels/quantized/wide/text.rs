//! The text of few rows by long dense matrices (mma of PTX): a workgroup has a unit of rows of weights, a warp sixteen of them. A lane
//! reads sixteen bytes of its rows of weights at a time, which are left sides as they lie; rows of x come to shared memory ahead, of
//! which it reads the same elements as right sides.

use std::mem::offset_of;

use crate::kernels::matmul::epilogue::KeptAfter;
use crate::vulkan::kernels::matmul::warpgroup::text::{head, put};
use crate::vulkan::kernels::progress;
use crate::vulkan::kernels::quantized::few_rows::steps;
use crate::vulkan::kernels::quantized::push::Push;
use crate::vulkan::kernels::quantized::steps::{arrays, lay_sums, store_pair};
use crate::vulkan::kernels::quantized::units::Units;
use crate::vulkan::tune::gemv::wide::{COLUMN, COLUMNS, RING, SPAN, THREADS, TOGETHER, UNIT, WINDOW};

/// What the kernel does; bfloat16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Program {
    /// Length of a row.
    pub k: u32,
    /// Rows of each matrix.
    pub lengths: [u32; 3],
    /// What becomes of the results of one matrix, or of two at once.
    pub after: Option<KeptAfter>,
}

/// Bytes of a row of x in a span, and of all.
const ROW: u32 = 2 * SPAN;
/// See [`ROW`].
const STAGE: u32 = ROW * COLUMNS;
/// Sixteen bytes of a span that a thread brings.
const TURNS: u32 = STAGE / 16 / THREADS;
/// Registers of a span of a lane's two rows of weights.
const HELD: u32 = 16;
/// Bytes of a warp's sums.
const SUMS: u32 = 4 * COLUMN * COLUMNS;

impl Program {
    /// How it goes over rows: of two matrices at once a warp has eight rows each.
    pub(super) fn rows(&self) -> Units {
        let pair = self.after.is_some() && self.lengths[1] > 0;
        Units { lengths: self.lengths, after: self.after.is_some(), unit: if pair { UNIT / 2 } else { UNIT } }
    }

    /// Spans of K.
    fn spans(&self) -> u32 {
        self.k / SPAN
    }

    /// The whole text.
    pub fn text(&self) -> String {
        let mut o = String::with_capacity(16 << 10);
        self.head(&mut o);
        self.places(&mut o);
        (0..WINDOW).for_each(|i| self.load_weights(&mut o, i, i));
        progress::workgroup_waits(&mut o, size_of::<Push>());
        (0..RING - 1).for_each(|s| self.copy_x(&mut o, s));
        put(&mut o, format_args!("BODY:"));
        for s in 0..RING {
            put(&mut o, format_args!("cp.async.wait_group {};\nbar.sync 0;", RING - 2));
            self.copy_x(&mut o, s + RING - 1);
            self.multiply(&mut o, s);
            self.load_weights(&mut o, s % WINDOW, s + WINDOW);
        }
        put(
            &mut o,
            format_args!(
                "add.u64 wa,wa,{all}; add.u64 wb,wb,{all}; add.u64 xa,xa,{all}; setp.gt.u32 p,left,{RING}; sub.u32 left,left,{RING};\n@p bra BODY;",
                all = RING * ROW
            ),
        );
        self.finish(&mut o);
        progress::ends(&mut o, size_of::<Push>());
        o += "ret;\n}\n";
        o
    }

    fn head(&self, o: &mut String) {
        *o += &head("sm_90", progress::told::<Push>(), [THREADS, TOGETHER]);
        put(
            o,
            format_args!(
                ".shared .align 128 .b8 ring[{ring}];
.reg .pred p,one,two,live,there<{TURNS}>,mine;
.reg .b32 tid,lane,warp,g,t,rows,unit,local,tmp,left,len,row0,row1,low,high,at,v,r,pk,size<{TURNS}>,to<{TURNS}>;
.reg .b32 c<{held}>,b<{right}>,h<8>,ar<2>;
.reg .f32 tot<{sums}>,e<6>,y<4>;
.reg .b64 wa,wb,xa,from<{TURNS}>,l,m,da;
ld.param.u32 rows,[args+{at_rows}];
mov.u32 tid,%tid.x; shr.u32 warp,tid,5; and.b32 lane,tid,31; shr.u32 g,lane,2; and.b32 t,lane,3; mov.u32 unit,%ctaid.x; mov.u32 left,{spans};",
                ring = (RING * STAGE).max(THREADS / 32 * SUMS),
                held = HELD * WINDOW,
                right = COLUMNS,
                sums = COLUMNS / 2,
                at_rows = offset_of!(Push, rows),
                spans = self.spans(),
            ),
        );
    }

    /// Where a lane's rows of weights lie, and what a thread brings of x and reads. Rows beyond the matrix' are its last one.
    fn places(&self, o: &mut String) {
        let rows = self.rows();
        rows.matrix_of(o, "unit");
        rows.length(o);
        put(
            o,
            format_args!(
                "mul.lo.u32 local,local,{unit}; mad.lo.u32 local,warp,{of_warp},local; sub.u32 tmp,len,1; add.u32 row0,local,g; add.u32 row1,row0,{second}; min.u32 row0,row0,tmp; min.u32 row1,row1,tmp;",
                unit = rows.unit,
                of_warp = rows.unit / 4,
                second = if rows.sides() == 2 { 0 } else { 8 },
            ),
        );
        for (to, row, side) in [("wa", "row0", 0), ("wb", "row1", rows.sides() - 1)] {
            rows.told(o, to, 0, side);
            put(
                o,
                format_args!(
                    "mul.wide.u32 l,{row},{}; add.u64 {to},{to},l; mul.wide.u32 l,t,16; add.u64 {to},{to},l;",
                    2 * self.k
                ),
            );
        }
        put(o, format_args!("ld.param.u64 xa,[args];"));
        for i in 0..TURNS {
            // Chunks of a row lie exchanged, so that neighbouring rows' are read at once. Rows that are not there are the first.
            put(
                o,
                format_args!(
                    "add.u32 tmp,tid,{}; shr.u32 v,tmp,3; and.b32 r,tmp,7; setp.lt.u32 there{i},v,rows; selp.u32 row0,v,0,there{i};
mul.wide.u32 from{i},row0,{}; mul.wide.u32 l,r,16; add.u64 from{i},from{i},l;
and.b32 tmp,v,1; shl.b32 tmp,tmp,2; xor.b32 r,r,tmp; mov.u32 to{i},ring; mad.lo.u32 to{i},v,{ROW},to{i}; mad.lo.u32 to{i},r,16,to{i};",
                    THREADS * i,
                    2 * self.k
                ),
            );
        }
        put(
            o,
            format_args!(
                "mov.u32 low,ring; mad.lo.u32 low,g,{ROW},low; mad.lo.u32 low,t,16,low; and.b32 tmp,g,1; shl.b32 tmp,tmp,6; xor.b32 low,low,tmp; xor.b32 high,low,64;"
            ),
        );
        (0..COLUMNS / 2).for_each(|i| put(o, format_args!("mov.f32 tot{i},0f00000000;")));
        (0..HELD * WINDOW).for_each(|i| put(o, format_args!("mov.b32 c{i},0;")));
    }

    /// Asks for x of the span that comes `s` behind the body's first; zeros where there is none.
    fn copy_x(&self, o: &mut String, s: u32) {
        put(o, format_args!("setp.gt.u32 p,left,{s};"));
        for i in 0..TURNS {
            put(
                o,
                format_args!(
                    "and.pred mine,p,there{i}; selp.u32 size{i},16,0,mine; selp.u32 tmp,{},0,p; cvt.u64.u32 l,tmp; add.u64 l,l,from{i}; add.u64 l,l,xa;
cp.async.cg.shared.global [to{i}+{}],[l],16,size{i};",
                    ROW * s,
                    s % RING * STAGE
                ),
            );
        }
        put(o, format_args!("cp.async.commit_group;"));
    }

    /// Asks for the weights of the span that comes `s` behind the body's first, into set `i`. Volatile: the compiler leaves the loads
    /// where they are.
    fn load_weights(&self, o: &mut String, i: u32, s: u32) {
        put(o, format_args!("setp.gt.u32 p,left,{s};"));
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
        for j in 0..COLUMNS / 8 {
            for (k, from) in ["low", "high"].into_iter().enumerate() {
                let b = 8 * j + 4 * k as u32;
                put(
                    o,
                    format_args!(
                        "ld.shared.v4.b32 {{b{b},b{},b{},b{}}},[{from}+{}];",
                        b + 1,
                        b + 2,
                        b + 3,
                        s * STAGE + 8 * ROW * j
                    ),
                );
            }
        }
        for (step, j) in (0..4).flat_map(|step| (0..COLUMNS / 8).map(move |j| (step, j))) {
            let c = HELD * (s % WINDOW) + 2 * step;
            let (b, sums) = (8 * j + 2 * step, [0, 1, 2, 3].map(|e| format!("tot{}", 4 * j + e)).join(","));
            put(
                o,
                format_args!(
                    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{{sums}}},{{c{c},c{},c{},c{}}},{{b{b},b{}}},{{{sums}}};",
                    c + 8,
                    c + 1,
                    c + 9,
                    b + 1
                ),
            );
        }
    }

    /// What becomes of the sums: a warp's go through shared memory, so that a lane has two rows beside each other.
    fn finish(&self, o: &mut String) {
        let rows = self.rows();
        let pairs = 8 / rows.sides();
        put(
            o,
            format_args!(
                "cp.async.wait_group 0;\nbar.sync 0;
mov.u32 at,ring; mad.lo.u32 at,warp,{SUMS},at; mad.lo.u32 tmp,t,{two},at; mad.lo.u32 tmp,g,4,tmp;",
                two = 2 * COLUMN * 4
            ),
        );
        lay_sums(o, COLUMNS / 8, COLUMN);
        put(
            o,
            format_args!(
                "bar.warp.sync -1;
div.u32 v,lane,{pairs}; rem.u32 r,lane,{pairs}; shl.b32 r,r,1; mad.lo.u32 at,v,{column},at; mad.lo.u32 at,r,4,at; add.u32 row0,local,r;
mul.wide.u32 m,v,len; cvt.u64.u32 l,row0; add.u64 m,m,l; shl.b64 m,m,1; setp.lt.u32 live,row0,len;",
                column = 4 * COLUMN
            ),
        );
        rows.told(o, "da", 3, 0);
        (0..COLUMNS * pairs / 32).for_each(|i| self.store(o, i));
    }

    /// Stores a turn of results, at `m` from their first.
    fn store(&self, o: &mut String, i: u32) {
        let rows = self.rows();
        let of_turn = 32 * rows.sides() / 8;
        put(
            o,
            format_args!(
                "add.u32 tmp,v,{}; setp.lt.u32 mine,tmp,rows; and.pred mine,mine,live;\n@!mine bra STORED{i};",
                of_turn * i
            ),
        );
        // INVARIANT: `fits` asked whether there are steps.
        let steps = self.after.and_then(|a| steps(&a)).unwrap_or_default();
        let sides: Vec<u32> = (0..rows.sides()).map(|side| 4 * (of_turn * i * COLUMN + 8 * side)).collect();
        store_pair(o, &steps, self.after.map_or(0, |a| arrays(&a)), &sides);
        put(o, format_args!("STORED{i}:\nmul.wide.u32 l,len,{}; add.u64 m,m,l;", 2 * of_turn));
    }
}
