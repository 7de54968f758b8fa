//! What becomes of the sums of a unit, 16 rows of codes by all of x: those of subgroups are added up in shared memory, those of
//! workgroups that share K by the last of them, in order; results that are not finite are computed one by one, as
//! shaders/quantized/one_by_one.glsl does; programs on results are followed with the roundings of separate kernels.

use std::mem::offset_of;

use super::program::Program;
use super::steps;
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::quantized::push::Push;
use crate::vulkan::kernels::quantized::steps::{arrays, follow, lay_sums};
use crate::vulkan::kernels::quantized::units::{last_goes_on, place};
use crate::vulkan::tune::quantized::few_rows::{COLUMN, UNIT};

impl Program {
    /// Turns in which threads take two results of neighbouring rows of codes each.
    pub fn rounds(&self) -> u32 {
        self.unit_threads().div_ceil(32 * self.form.warps)
    }

    /// Adds up what subgroups have: `y` from 4 * round + 2 * side on.
    pub fn sum_up(&self, o: &mut String, side: u32) {
        let form = self.form;
        let all = form.sums();
        if form.buffers == 1 {
            put(o, format_args!("bar.sync 0;"));
        }
        put(o, format_args!("add.u32 tmp,ss,buffer;"));
        lay_sums(o, form.tiles, COLUMN);
        put(o, format_args!("bar.sync 0;"));
        for r in 0..self.rounds() {
            let (a, b) = (4 * r + 2 * side, 4 * r + 2 * side + 1);
            put(
                o,
                format_args!(
                    "@!mine{r} bra ADDED{side}_{r};\nadd.u32 tmp,at{r},buffer; ld.shared.v2.f32 {{y{a},y{b}}},[tmp];"
                ),
            );
            for w in 1..form.warps {
                put(
                    o,
                    format_args!(
                        "ld.shared.v2.f32 {{w0,w1}},[tmp+{}]; add.f32 y{a},y{a},w0; add.f32 y{b},y{b},w1;",
                        w * all / form.warps
                    ),
                );
            }
            if form.splits > 1 {
                self.part_at(o, r, side, "split");
                put(o, format_args!("st.global.v2.f32 [da],{{y{a},y{b}}};"));
            }
            put(o, format_args!("ADDED{side}_{r}:"));
        }
        if form.buffers > 1 {
            put(o, format_args!("sub.u32 buffer,{all},buffer;"));
        }
    }

    /// Where the sums of a part of K lie that a thread has, in `da`.
    pub fn part_at(&self, o: &mut String, round: u32, side: u32, part: &str) {
        let bytes = 8 * self.form.tiles * UNIT * 4;
        let unit = if self.picked { "tmp2" } else { "unit" };
        if self.picked {
            put(o, format_args!("mad.lo.u32 tmp2,item,{},unit;", self.units()));
        }
        put(
            o,
            format_args!(
                "ld.param.u64 da,[args+{}]; mad.lo.u32 tmp2,{unit},{},{part}; mad.lo.u32 tmp2,tmp2,{},{side}; mul.wide.u32 l,tmp2,{bytes}; add.u64 da,da,l;
mad.lo.u32 tmp2,v{round},{UNIT},r{round}; mul.wide.u32 l,tmp2,4; add.u64 da,da,l;",
                offset_of!(Push, sums),
                self.form.splits,
                self.sides(),
            ),
        );
    }

    /// The workgroup that comes last of those that share K adds up what they left, and leaves the counter zero.
    pub(super) fn join(&self, o: &mut String) {
        let splits = self.form.splits;
        put(o, format_args!("JOIN:"));
        last_goes_on(o, splits, "list", ["tmp2", "flag"], "bar.sync 0;");
        let (groups, threads) = (self.joiners(), self.unit_threads());
        match groups {
            1 => put(o, format_args!("mov.u32 unit,list;")),
            // Each unit has threads of its own, as results of one after the other would be awaited one by one.
            _ => put(
                o,
                format_args!(
                    "and.b32 tmp,tid,{}; shr.u32 v0,tmp,3; and.b32 r0,tmp,7; shl.b32 r0,r0,1; setp.lt.u32 mine0,v0,rows; shr.u32 tmp,tid,{}; mad.lo.u32 unit,tmp,lists,list; setp.ge.u32 p,tmp,{groups};\n@p bra DONE;",
                    threads - 1,
                    threads.ilog2()
                ),
            ),
        }
        put(o, format_args!("setp.ge.u32 p,unit,{};\n@p bra DONE;\nJOINS:", self.units()));
        self.read_arrays(o);
        for r in 0..self.rounds() {
            put(o, format_args!("@!mine{r} bra JOINED{r};"));
            for side in 0..self.sides() {
                let (a, b) = (4 * r + 2 * side, 4 * r + 2 * side + 1);
                put(o, format_args!("mov.u32 tmp,0;"));
                self.part_at(o, r, side, "tmp");
                put(o, format_args!("ld.relaxed.gpu.global.v2.f32 {{y{a},y{b}}},[da];"));
                let step = self.sides() * 8 * self.form.tiles * UNIT * 4;
                for part in 1..splits {
                    put(
                        o,
                        format_args!(
                            "ld.relaxed.gpu.global.v2.f32 {{w0,w1}},[da+{}]; add.f32 y{a},y{a},w0; add.f32 y{b},y{b},w1;",
                            part * step
                        ),
                    );
                }
            }
            put(o, format_args!("JOINED{r}:"));
        }
        self.results(o, "B");
        put(
            o,
            format_args!(
                "mad.lo.u32 unit,lists,{groups},unit; setp.lt.u32 p,unit,{};\n@p bra JOINS;",
                self.units()
            ),
        );
    }

    /// Threads that have two results of a unit each.
    fn unit_threads(&self) -> u32 {
        8 * self.form.tiles * UNIT / 2
    }

    /// How many units the last workgroup adds up at a time.
    fn joiners(&self) -> u32 {
        match self.norm {
            None if self.rounds() == 1 => (32 * self.form.warps / self.unit_threads()).max(1),
            // A thread has the roots of its own rows.
            _ => 1,
        }
    }

    /// Where a thread's results lie of a unit, as bytes from the beginning, in `m`; `local` and the predicates tell the matrix.
    fn result_at(&self, o: &mut String, r: u32) {
        self.rows().length(o);
        put(
            o,
            format_args!(
                "mul.wide.u32 m,{}{r},len; mad.lo.u32 tmp,local,{UNIT},r{r}; cvt.u64.u32 l,tmp; add.u64 m,m,l; shl.b64 m,m,1;",
                if self.picked { "pick" } else { "v" }
            ),
        );
    }

    /// Reads what the program reads besides products, ahead of the results.
    pub(super) fn read_arrays(&self, o: &mut String) {
        let arrays = self.arrays();
        if arrays == 0 {
            return;
        }
        put(o, format_args!("mov.u32 local,unit;"));
        for r in 0..self.rounds() {
            self.result_at(o, r);
            for i in 0..arrays {
                put(
                    o,
                    format_args!(
                        "ld.param.u64 da,[args+{}]; add.u64 da,da,m;\n@mine{r} ld.global.cg.b32 ar{},[da];",
                        place(3, i + 1),
                        4 * r + i
                    ),
                );
            }
        }
    }

    /// Reads what the program reads of the matrix that is picked, a row of a table: results of all that pick it take the same.
    fn read_tables(&self, o: &mut String, r: u32) {
        let tables = if self.picked { self.arrays() } else { 0 };
        for i in 0..tables {
            put(
                o,
                format_args!(
                    "ld.param.u64 da,[args+{}]; mul.lo.u32 tmp,expert,{}; mad.lo.u32 tmp2,local,{UNIT},r{r}; add.u32 tmp,tmp,tmp2; mul.wide.u32 l,tmp,2; add.u64 da,da,l; ld.global.nc.b32 ar{},[da];",
                    place(3, i + 1),
                    self.lengths[0],
                    4 * r + i
                ),
            );
        }
    }

    /// Arrays of the program.
    fn arrays(&self) -> u32 {
        self.after.map_or(0, |a| arrays(&a))
    }

    /// Stores the results of a unit; `label` is this place's alone.
    pub fn results(&self, o: &mut String, label: &str) {
        self.rows().matrix_of(o, "unit");
        for r in 0..self.rounds() {
            put(o, format_args!("@!mine{r} bra STORED{label}{r};"));
            for side in 0..self.sides() {
                for e in 0..2 {
                    self.check(o, r, side, e, &format!("{label}{r}{side}{e}"));
                }
                let first = 4 * r + 2 * side;
                put(o, format_args!("cvt.rn.{}x2.f32 h{side},y{},y{first};", self.kind(), first + 1));
            }
            self.read_tables(o, r);
            self.follow(o, r);
            self.result_at(o, r);
            self.told(o, "da", [3, 0], "expert");
            put(o, format_args!("add.u64 da,da,m; st.global.b32 [da],pk;\nSTORED{label}{r}:"));
        }
        put(o, format_args!("bar.warp.sync -1;"));
    }

    /// A sum in its own range; one that is not finite as the product with the values of the codes gives it.
    fn check(&self, o: &mut String, r: u32, side: u32, e: u32, label: &str) {
        let y = 4 * r + 2 * side + e;
        let [codes, factors] = self.row_bytes();
        self.back(o, &format!("y{y}"));
        if self.norm.is_some() && !self.half() {
            put(o, format_args!("mul.f32 y{y},y{y},root{r};"));
        }
        put(
            o,
            format_args!(
                "mov.b32 tmp,y{y}; and.b32 tmp,tmp,0x7f800000; setp.ne.u32 p,tmp,0x7f800000;
@p bra FINITE{label};
ld.param.u64 xa,[args]; mul.wide.u32 l,{}{r},{}; add.u64 xa,xa,l; mad.lo.u32 tmp,local,{UNIT},r{r}; add.u32 tmp,tmp,{e};",
                if self.picked { "row" } else { "v" },
                2 * self.k
            ),
        );
        for (to, part, bytes) in [("wa", 0, codes), ("sa", 1, factors), ("ba", 2, factors)] {
            self.told(o, to, [part, side], "expert");
            put(o, format_args!("mul.wide.u32 l,tmp,{bytes}; add.u64 {to},{to},l;"));
        }
        if let Some(eps) = self.norm {
            self.root_of_row(o, eps, label);
        }
        put(o, format_args!("mov.f32 y{y},0f00000000; mov.u32 count,0;\nONE{label}:"));
        match self.usual() {
            true => self.eight_codes(o, y),
            false => self.eight_values(o, y),
        }
        put(
            o,
            format_args!(
                "add.u32 count,count,1; setp.lt.u32 p,count,{};\n@p bra ONE{label};\nFINITE{label}:",
                self.k / 8
            ),
        );
    }

    /// Adds eight products of values to `y`, those of codes at `wa` and of x at `xa`, with the factors that `count` eights are at.
    fn eight_codes(&self, o: &mut String, y: u32) {
        put(
            o,
            format_args!(
                "ld.global.b32 word,[wa]; add.u64 wa,wa,4; shr.u32 tmp,count,3; mul.wide.u32 l,tmp,2; add.u64 da,sa,l; add.u64 l,ba,l;
ld.global.u16 a0,[da]; ld.global.u16 a1,[l];
ld.global.cg.v4.b32 {{c0,c1,c2,c3}},[xa]; add.u64 xa,xa,16;"
            ),
        );
        self.pair(o, ["w0", "e0"], "a0");
        self.pair(o, ["w1", "e0"], "a1");
        if self.norm.is_some() {
            put(o, format_args!("ld.global.v4.b32 {{nw0,nw1,nw2,nw3}},[na]; add.u64 na,na,16;"));
            for i in 0..4 {
                self.pair(o, ["e2", "e3"], &format!("nw{i}"));
                self.normalised(o, &format!("c{i}"), "e6", ["e0", "e1", "e2", "e3"]);
            }
        }
        for i in 0..8 {
            if i % 2 == 0 {
                self.pair(o, ["e2", "e3"], &format!("c{}", i / 2));
            }
            put(
                o,
                format_args!(
                    "and.b32 tmp,word,15; shr.u32 word,word,4; cvt.rn.f32.u32 e0,tmp; fma.rn.f32 e0,e0,w0,w1; fma.rn.f32 y{y},e{},e0,y{y};",
                    2 + i % 2
                ),
            );
        }
    }

    /// What the row at `xa` is normalised by, in `e6`, where its weights lie, in `na`.
    fn root_of_row(&self, o: &mut String, eps: u32, label: &str) {
        put(
            o,
            format_args!(
                "mov.u64 na,xa; mov.f32 e7,0f00000000; mov.u32 count,0;
ROOT{label}:
ld.global.cg.v4.b32 {{c0,c1,c2,c3}},[na]; add.u64 na,na,16;"
            ),
        );
        for i in 0..4 {
            self.pair(o, ["e0", "e1"], &format!("c{i}"));
            put(o, format_args!("fma.rn.f32 e7,e0,e0,e7; fma.rn.f32 e7,e1,e1,e7;"));
        }
        put(
            o,
            format_args!(
                "add.u32 count,count,1; setp.lt.u32 p,count,{};\n@p bra ROOT{label};\nld.param.u64 na,[args+{}];",
                self.k / 8,
                offset_of!(Push, norm)
            ),
        );
        self.root(o, "e6", "e7", eps);
    }

    /// Follows the program on both results of a thread, which `h0` and `h1` have of each side: the result in `pk`.
    fn follow(&self, o: &mut String, r: u32) {
        // INVARIANT: `fits` of `few_rows` asked whether there are steps.
        let steps = self.after.and_then(|a| steps(self.dtype, &a)).unwrap_or_default();
        follow(o, self.dtype, &steps, |i| format!("ar{}", 4 * r + i));
    }
}
