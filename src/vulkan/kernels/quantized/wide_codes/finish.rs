//! What becomes of the sums of a block, 16 rows of weights by all of x: lanes take results beside each other from shared memory, and
//! follow programs with the roundings of separate kernels.

use super::text::Program;
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::quantized::few_rows::steps;
use crate::vulkan::kernels::quantized::steps::{arrays, lay_sums, store_pair};
use crate::vulkan::tune::quantized::wide_codes::{ACROSS, BLOCK, COLUMN};

impl Program {
    pub(super) fn finish(&self, o: &mut String) {
        if self.splits > 1 {
            self.leave(o);
            self.join(o);
        }
        self.own_sums(o);
        self.results(o);
    }

    /// All warps that multiply meet here.
    pub(super) fn meet(o: &mut String) {
        put(o, format_args!("{}", Self::meeting()));
    }

    /// See `meet`.
    pub(super) fn meeting() -> String {
        format!("bar.sync 1,{};", 32 * ACROSS)
    }

    /// Sums of warps in shared memory, column by column. A warp goes on with its share of the columns of its block.
    fn own_sums(&self, o: &mut String) {
        let sides = self.rows().sides();
        Self::meet(o);
        put(
            o,
            format_args!(
                "mov.u32 at,ring; mad.lo.u32 tmp,warp,{sums},at; mad.lo.u32 tmp,t,{two},tmp; mad.lo.u32 tmp,g,4,tmp;",
                sums = self.sums(),
                two = 2 * COLUMN * 4
            ),
        );
        lay_sums(o, self.tiles(), COLUMN);
        match sides {
            2 => Self::meet(o),
            _ => put(o, format_args!("bar.warp.sync -1;")),
        }
        put(
            o,
            format_args!(
                "div.u32 tmp,warp,{sides}; mad.lo.u32 at,tmp,{both},at; rem.u32 tmp2,warp,{sides};
shr.u32 v,lane,3; and.b32 r,lane,7; shl.b32 r,r,1; mad.lo.u32 v,tmp2,{share},v; mad.lo.u32 at,v,{column},at; mad.lo.u32 at,r,4,at;",
                both = sides * self.sums(),
                share = 4 * self.shares(),
                column = 4 * COLUMN
            ),
        );
    }

    /// Fours of columns that a warp goes on with.
    fn shares(&self) -> u32 {
        self.columns / 4 / self.rows().sides()
    }

    /// Results of a warp.
    fn results(&self, o: &mut String) {
        let rows = self.rows();
        self.block(o);
        rows.matrix_of(o, "block");
        rows.length(o);
        rows.told(o, "da", 3, 0);
        put(
            o,
            format_args!(
                "@!live bra DONE;\nmad.lo.u32 tmp,local,{BLOCK},r; setp.ge.u32 p,tmp,len;\n@p bra DONE;
mul.wide.u32 m,v,len; cvt.u64.u32 l,tmp; add.u64 m,m,l; shl.b64 m,m,1;"
            ),
        );
        // INVARIANT: `fits` asked whether there are steps.
        let steps = self.after.and_then(|a| steps(self.dtype, &a)).unwrap_or_default();
        for share in 0..self.shares() {
            put(o, format_args!("add.u32 tmp,v,{}; setp.lt.u32 mine,tmp,rows;\n@!mine bra DONE;", 4 * share));
            let at: Vec<u32> =
                (0..rows.sides()).map(|side| side * self.sums() + 4 * COLUMN * 4 * share).collect();
            store_pair(o, self.dtype, &steps, self.after.map_or(0, |a| arrays(&a)), &at);
            put(o, format_args!("mul.wide.u32 l,len,8; add.u64 m,m,l;"));
        }
    }
}
