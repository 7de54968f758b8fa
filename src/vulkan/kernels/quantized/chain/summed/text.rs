//! A row that is a sum, in the text of a chain.

use super::super::row::FEW;
use super::super::text::Chain;
use super::super::{Stage, place};
use super::{AGAIN, SUMMED};
use crate::vulkan::kernels::matmul::warpgroup::text::{pair, put};
use crate::vulkan::tune::quantized::chain::THREADS;

impl Chain {
    /// Asks for the weights of a sum, and for what is added to if threads do not have that.
    pub(in crate::vulkan::kernels::quantized::chain) fn ask_for_sum(self, o: &mut String) {
        if !self.summed {
            return;
        }
        put(
            o,
            format_args!(
                "and.b32 t0,flags,{SUMMED}; setp.ne.u32 summed,t0,0; and.b32 t0,flags,{AGAIN}; setp.eq.and.u32 p,t0,0,summed; ld.param.u64 d,[sa+{}]; ld.param.u64 o0,[sa+{}];",
                place!(post),
                place!(other)
            ),
        );
        for i in 0..FEW {
            let regs = |name: &str| [0, 1, 2, 3].map(|q| format!("{name}{}", 4 * i + q)).join(",");
            put(
                o,
                format_args!(
                    "add.u32 t1,tid,{}; shl.b32 t2,t1,3; mul.wide.u32 o1,t1,16; add.u64 o2,o0,o1; add.u64 o1,o1,d; setp.lt.and.u32 q,t2,k,summed; setp.lt.and.u32 valid,t2,k,p;
@q ld.global.cg.v4.b32 {{{}}},[o1];
@valid ld.global.cg.v4.b32 {{{}}},[o2];",
                    THREADS * i,
                    regs("pw"),
                    regs("hs"),
                ),
            );
        }
    }

    /// Normalises the row that is awaited and adds it to another, where it is a sum; the first workgroup stores that.
    pub(in crate::vulkan::kernels::quantized::chain) fn sum(self, o: &mut String) {
        if !self.summed {
            return;
        }
        put(o, format_args!("@!summed bra SUMMED;"));
        self.root(o, "POST", place!(post_eps));
        // The sums of squares are read before they are those of the sum.
        put(o, format_args!("bar.sync 0;\nld.param.u64 d,[sa+{}];", place!(sum)));
        for i in 0..FEW {
            put(o, format_args!("setp.gt.u32 p,at,{};\n@!p bra SUMMED;", THREADS * i));
            for r in 4 * i..4 * i + 4 {
                self.normed(o, &format!("x{r}"), &format!("pw{r}"), "t1");
                pair(o, self.dtype, ["v0", "v1"], "t1", "t0");
                pair(o, self.dtype, ["v2", "v3"], &format!("hs{r}"), "t0");
                put(
                    o,
                    format_args!(
                        "add.rn.f32 v0,v0,v2; add.rn.f32 v1,v1,v3; cvt.rn.{}x2.f32 t1,v1,v0; selp.b32 x{r},t1,zero,l{i}; mov.u32 hs{r},x{r};",
                        self.kind()
                    ),
                );
            }
            self.store_piece(o, i, "first");
        }
        put(o, format_args!("SUMMED:"));
    }
}
