//! What becomes of the sums of `text`: those of warps that share K are added up in order, and results stored.

use super::text::Program;
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::quantized::few_rows::steps;
use crate::vulkan::kernels::quantized::steps::{arrays, lay_sums, store_pair};
use crate::vulkan::kernels::quantized::units::last_goes_on;
use crate::vulkan::tune::gemv::wide::COLUMN;

impl Program {
    /// Warps' sums go through shared memory, so that a lane has two rows beside each other.
    pub(super) fn finish(&self, o: &mut String) {
        put(
            o,
            format_args!(
                "cp.async.wait_group 0;\nbar.sync 0;
mov.u32 at,ring; mad.lo.u32 at,warp,{sums},at; mad.lo.u32 tmp,t,{two},at; mad.lo.u32 tmp,g,4,tmp;",
                sums = self.sums(),
                two = 2 * COLUMN * 4
            ),
        );
        lay_sums(o, self.form.columns / 8, COLUMN);
        put(o, format_args!("bar.sync 0;"));
        if self.form.teams > 1 {
            self.turns_of(o, "ADDED", |p, o, i| p.add_teams(o, i));
        }
        if self.form.splits > 1 {
            self.turns_of(o, "LEFT", |p, o, i| p.leave(o, i));
            let flag = format!("ring+{}", self.flag());
            last_goes_on(o, self.form.splits, "unit", ["at", &flag], "bar.sync 0;");
        }
        self.turns_of(o, "STORED", |p, o, i| p.store(o, i));
    }

    /// Goes over the pairs of results, of which a thread has one at a time: at `at` in shared memory, number `r` of a workgroup.
    fn turns_of(&self, o: &mut String, label: &str, each: impl Fn(&Self, &mut String, u32)) {
        let (all, threads) = (self.results(), self.form.threads());
        for i in 0..all.div_ceil(threads) {
            put(o, format_args!("add.u32 r,tid,{};", threads * i));
            if threads * (i + 1) > all {
                put(o, format_args!("setp.ge.u32 p,r,{all};\n@p bra {label}{i};"));
            }
            self.place_of(o);
            put(o, format_args!("setp.ge.u32 p,v,rows;\n@p bra {label}{i};"));
            each(self, o, i);
            put(o, format_args!("{label}{i}:"));
        }
    }

    /// The row of x `v`, the block `block`, the first of two rows of it `row0` and where in shared memory of the pair `r`.
    fn place_of(&self, o: &mut String) {
        put(
            o,
            format_args!(
                "div.u32 v,r,{pairs}; rem.u32 row0,r,{pairs}; shl.b32 row0,row0,1; div.u32 block,v,{columns}; rem.u32 v,v,{columns};
mov.u32 at,ring; mad.lo.u32 at,block,{sums},at; mad.lo.u32 at,v,{column},at; mad.lo.u32 at,row0,4,at;",
                pairs = self.pairs(),
                columns = self.form.columns,
                sums = self.sums(),
                column = 4 * COLUMN
            ),
        );
    }

    /// Adds up what teams have of a pair, in place of the first one's.
    fn add_teams(&self, o: &mut String, _: u32) {
        for side in 0..self.rows().sides() {
            put(o, format_args!("ld.shared.v2.f32 {{y0,y1}},[at+{}];", 32 * side));
            for team in 1..self.form.teams {
                let from = team * self.form.blocks * self.sums() + 32 * side;
                put(
                    o,
                    format_args!(
                        "ld.shared.v2.f32 {{w0,w1}},[at+{from}]; add.f32 y0,y0,w0; add.f32 y1,y1,w1;"
                    ),
                );
            }
            put(o, format_args!("st.shared.v2.f32 [at+{}],{{y0,y1}};", 32 * side));
        }
    }

    /// Stores a pair of results.
    fn store(&self, o: &mut String, i: u32) {
        let rows = self.rows();
        if self.form.splits > 1 {
            self.join(o);
        }
        put(
            o,
            format_args!(
                "mad.lo.u32 row0,block,{},row0; add.u32 row0,row0,local; setp.ge.u32 p,row0,len;\n@p bra STORED{i};
mul.wide.u32 m,v,len; cvt.u64.u32 l,row0; add.u64 m,m,l; shl.b64 m,m,1;",
                self.of_warp()
            ),
        );
        rows.told(o, "da", 3, 0);
        // INVARIANT: `fits` asked whether there are steps.
        let steps = self.after.and_then(|a| steps(self.dtype, &a)).unwrap_or_default();
        let sides: Vec<u32> = (0..rows.sides()).map(|side| 32 * side).collect();
        store_pair(o, self.dtype, &steps, self.after.map_or(0, |a| arrays(&a)), &sides);
    }
}
