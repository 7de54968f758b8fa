//! What is added to products of picked matrices, a row of a table for each matrix, in the text of a chain.

use super::super::text::Chain;
use super::super::{Stage, place};
use super::text::{COLUMNS, TABLES};
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::quantized::stream::widen;

impl Chain {
    /// Where array `k` is a table, has `t2`, the place of the thread's result, be that of its matrix' row there.
    pub(in crate::vulkan::kernels::quantized::chain) fn of_table(self, k: usize) -> String {
        if self.picks.is_none() {
            return String::new();
        }
        format!(
            "and.b32 t0,flags,{}; setp.eq.u32 q,t0,0;
@q bra ROW{k};
ld.param.u32 tag,[sa+{rows}]; div.u32 t0,res,tag; mul.lo.u32 t2,t0,tag; sub.u32 t2,res,t2; mov.u32 lim,ids; mad.lo.u32 lim,t0,4,lim; ld.shared.b32 t0,[lim]; mad.lo.u32 t2,t0,tag,t2;
ROW{k}:
",
            TABLES[k],
            rows = place!(rows),
        )
    }

    /// Adds what belongs to each of the matrices whose columns were summed up, weighed, to the thread's result.
    pub(in crate::vulkan::kernels::quantized::chain) fn add_picked(self, o: &mut String) {
        if self.picks.is_none() {
            return;
        }
        put(
            o,
            format_args!(
                "and.b32 t0,flags,{COLUMNS}; setp.ne.u32 p,t0,0; ld.param.u64 o4,[sa+{}]; setp.ne.u64 q,o4,0; and.pred p,p,q;
@!p bra UNBIASED;
ld.param.u32 t1,[sa+{}];",
                self.table(),
                place!(rows),
            ),
        );
        for pick in 0..self.count_picks() {
            put(
                o,
                format_args!(
                    "mov.u32 t0,ids; ld.shared.b32 t0,[t0+{at}]; mad.lo.u32 t0,t0,t1,res; mad.wide.u32 o5,t0,2,o4; ld.global.nc.b16 h0,[o5]; mov.u32 t2,weights; ld.shared.f32 weight,[t2+{at}];",
                    at = 4 * pick
                ),
            );
            widen(self.dtype, o, "v0", "h0");
            put(o, format_args!("fma.rn.f32 y0,v0,weight,y0;"));
        }
        put(o, format_args!("UNBIASED:"));
    }

    /// Where a stage that sums up is told of the table: in the place of what is added to a second matrix, which it has not.
    fn table(self) -> usize {
        place!(added) + 8
    }
}
