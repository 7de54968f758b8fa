//! How workgroups that share K add up their sums: each leaves its own, and the last of them takes all, in order.

use std::mem::offset_of;

use super::text::Program;
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::quantized::push::Push;
use crate::vulkan::tune::gemv::wide::Form;

impl Program {
    /// Bytes that a workgroup leaves of one matrix, and of all that it has rows of.
    fn left_of_side(&self) -> u32 {
        self.results() * 8
    }

    /// See `left_of_side`.
    fn left_by(&self) -> u32 {
        self.left_of_side() * self.rows().sides()
    }

    /// Bytes that workgroups which share K leave, of all units.
    pub(super) fn left(&self) -> usize {
        let Form { splits, .. } = self.form;
        (self.rows().all() * splits * self.left_by()) as usize
    }

    /// Where the workgroup `split` of those that share K leaves the pair `r`.
    fn place_left(&self, o: &mut String, split: &str) {
        put(
            o,
            format_args!(
                "ld.param.u64 da,[args+{}]; mad.lo.u32 tmp,unit,{},{split}; mul.wide.u32 l,tmp,{}; add.u64 da,da,l; mul.wide.u32 l,r,8; add.u64 da,da,l;",
                offset_of!(Push, sums),
                self.form.splits,
                self.left_by()
            ),
        );
    }

    /// Leaves a pair for the workgroup that comes last.
    pub(super) fn leave(&self, o: &mut String, _: u32) {
        self.place_left(o, "split");
        for side in 0..self.rows().sides() {
            let to = side * self.left_of_side();
            put(
                o,
                format_args!(
                    "ld.shared.v2.f32 {{y0,y1}},[at+{}]; st.global.v2.f32 [da+{to}],{{y0,y1}};",
                    32 * side
                ),
            );
        }
    }

    /// Adds up what workgroups left of the pair `r`, in order.
    pub(super) fn join(&self, o: &mut String) {
        self.place_left(o, "0");
        for side in 0..self.rows().sides() {
            for split in 0..self.form.splits {
                let from = split * self.left_by() + side * self.left_of_side();
                let to = if split == 0 { "y0,y1" } else { "w0,w1" };
                put(o, format_args!("ld.relaxed.gpu.global.v2.f32 {{{to}}},[da+{from}];"));
                if split > 0 {
                    put(o, format_args!("add.f32 y0,y0,w0; add.f32 y1,y1,w1;"));
                }
            }
            put(o, format_args!("st.shared.v2.f32 [at+{}],{{y0,y1}};", 32 * side));
        }
    }
}
