//! The text of few rows by short matrices: a workgroup asks for the codes of all of its units before it waits for who makes x, and keeps them in
//! registers, scales and biases in shared memory. Workgroups share the rows of x: all of x for each is more than the codes are.

use super::program::Program;
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::progress;
use crate::vulkan::kernels::quantized::push::Push;
use crate::vulkan::tune::quantized::few_rows::{Form, UNIT};

impl Program {
    /// The whole text.
    pub(super) fn held(&self, o: &mut String) {
        let Form { held, groups, .. } = self.form;
        let sides = self.sides();
        self.head(o, 0);
        self.held_places(o);
        self.own_results(o);
        for turn in 0..held / sides {
            put(o, format_args!("mad.lo.u32 unit,lists,{turn},list;"));
            (0..sides).for_each(|side| self.ask(o, turn * sides + side, side));
        }
        put(o, format_args!("cp.async.commit_group;"));
        progress::workgroup_waits(o, size_of::<Push>());
        self.load_x(o);
        put(
            o,
            format_args!("cp.async.wait_group 0;\nbar.sync 0;\nmov.u32 unit,list; mov.u32 fu,ring;\nUNIT:"),
        );
        self.read_arrays(o);
        for side in 0..sides {
            self.held_step(o, side);
        }
        self.results(o, "A");
        put(o, format_args!("add.u32 unit,unit,lists; setp.lt.u32 p,unit,{};", self.units()));
        if held > sides {
            // The next unit's codes take the place of this one's.
            let [own, all] = [4 * groups * sides, 4 * groups * held];
            (own..all).for_each(|w| put(o, format_args!("mov.b32 ws{},ws{w};", w - own)));
            put(o, format_args!("add.u32 fu,fu,{};\n@p bra UNIT;", sides * self.k));
        }
        *o += "DONE:\n";
        progress::ends(o, size_of::<Push>());
        *o += "ret;\n}\n";
    }

    /// Which units, rows and codes are whose.
    fn held_places(&self, o: &mut String) {
        let Form { parts, tiles, .. } = self.form;
        let [codes, factors] = self.row_bytes();
        put(
            o,
            format_args!(
                "mov.u32 tmp,%ctaid.x; div.u32 list,tmp,{parts}; rem.u32 part,tmp,{parts}; mov.u32 tmp,%nctaid.x; div.u32 lists,tmp,{parts}; mul.lo.u32 above,part,{of_part};
mul.lo.u32 k0,warp,{span}; shr.u32 co,k0,1; mad.lo.u32 co,g,{codes},co; mad.lo.u32 co,t,8,co;
setp.ge.u32 second,tid,{scales}; rem.u32 fo,tid,{scales}; shl.b32 fo,fo,3; mov.u32 fs,ring; mad.lo.u32 fs,tid,8,fs;
and.b32 tmp,t,1; setp.ne.u32 odd,tmp,0; setp.ge.u32 high,t,2;",
                of_part = 8 * tiles,
                span = self.form.span(),
                scales = UNIT * factors / 8,
            ),
        );
        self.sums_places(o);
        if parts > 1 {
            (0..self.rounds()).for_each(|r| put(o, format_args!("add.u32 v{r},v{r},above;")));
        }
    }

    /// Asks for the codes of a side of unit `unit`, the workgroup's `place`, and has its scales and biases copied.
    fn ask(&self, o: &mut String, place: u32, side: u32) {
        let groups = self.form.groups;
        let [codes, factors] = self.row_bytes();
        self.seek(o, "unit", side);
        for i in 0..groups {
            for half in 0..2 {
                let to = 4 * (place * groups + i) + 2 * half;
                put(
                    o,
                    format_args!(
                        "@have ld.global.nc.L1::no_allocate.v2.b32 {{ws{to},ws{}}},[wp+{}];",
                        to + 1,
                        32 * i + half * UNIT / 2 * codes
                    ),
                );
            }
        }
        put(
            o,
            format_args!(
                "setp.lt.and.u32 p,tid,{},have;\n@p cp.async.ca.shared.global [fs+{}],[fp],8;",
                2 * UNIT * factors / 8,
                place * self.k
            ),
        );
    }

    /// Multiplies 16 rows of codes of one side of a unit.
    fn held_step(&self, o: &mut String, side: u32) {
        let Form { tiles, groups, .. } = self.form;
        self.factors(o, side);
        (0..4 * tiles).for_each(|i| put(o, format_args!("mov.f32 tot{i},0f00000000;")));
        self.biased(o, 0);
        for i in 0..groups {
            let first = 4 * (side * groups + i);
            (0..4).for_each(|e| put(o, format_args!("mov.b32 c{e},ws{};", first + e)));
            (0..4).for_each(|h| self.multiply_group(o, 0, i, h));
            self.scale_group(o, i);
        }
        self.sum_up(o, side);
    }

    /// A thread's scales of both of its rows, and biases of two groups of each, those that it multiplies; of float16 of one.
    fn factors(&self, o: &mut String, side: u32) {
        let groups = self.form.groups;
        let [_, factors] = self.row_bytes();
        put(
            o,
            format_args!(
                "mad.lo.u32 rs,g,{factors},fu; mad.lo.u32 rs,warp,{},rs; add.u32 rs,rs,{};",
                2 * groups,
                side * self.k
            ),
        );
        let word = |o: &mut String, to: &str, at: &str, off: u32, count: u32| match (count, groups % 2) {
            (0, _) => put(o, format_args!("mov.b32 {to},0;")),
            (1, _) => put(o, format_args!("ld.shared.u16 {to},[{at}+{off}];")),
            (_, 0) => put(o, format_args!("ld.shared.b32 {to},[{at}+{off}];")),
            _ => put(
                o,
                format_args!(
                    "ld.shared.u16 {to},[{at}+{off}]; ld.shared.u16 tmp,[{at}+{}]; shl.b32 tmp,tmp,16; or.b32 {to},{to},tmp;",
                    off + 2
                ),
            ),
        };
        for row in 0..2 {
            let below = row * UNIT / 2 * factors;
            word(o, &format!("sc{}", 2 * row), "rs", below, groups.min(2));
            word(o, &format!("sc{}", 2 * row + 1), "rs", below + 4, groups.saturating_sub(2));
            if self.half() {
                put(
                    o,
                    format_args!(
                        "mov.b32 bi{row},0; setp.lt.u32 p,t,{groups}; mad.lo.u32 tmp,t,2,rs;\n@p ld.shared.u16 bi{row},[tmp+{}];",
                        UNIT * factors + below
                    ),
                );
                continue;
            }
            word(o, &format!("bi{row}"), "rs", UNIT * factors + below, groups.min(2));
            if groups > 2 {
                word(o, "len", "rs", UNIT * factors + below + 4, groups - 2);
                put(o, format_args!("selp.b32 bi{row},len,bi{row},odd;"));
            }
        }
    }
}
