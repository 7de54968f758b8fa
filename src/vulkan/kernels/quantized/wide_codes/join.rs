//! How workgroups that share K add up their sums: each leaves its own, and the last of them takes all, in order.

use std::mem::offset_of;

use super::text::{Program, four};
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::quantized::push::Push;
use crate::vulkan::kernels::quantized::units::last_goes_on;
use crate::vulkan::tune::quantized::wide_codes::ACROSS;

/// Loads of four sums that are on their way at a time.
const AHEAD: usize = 12;

impl Program {
    /// Bytes of sums of a block as lanes have them: 16 of a lane for each eight rows of x.
    fn of_block(&self) -> u32 {
        self.tiles() * 32 * 16
    }

    /// Bytes that a workgroup leaves.
    pub fn left(&self) -> u32 {
        ACROSS * self.of_block()
    }

    /// Leaves the sums of a part of K.
    pub(super) fn leave(&self, o: &mut String) {
        put(
            o,
            format_args!(
                "ld.param.u64 da,[args+{}]; mul.lo.u32 tmp,unit,{}; mul.wide.u32 l,tmp,{left}; add.u64 da,da,l; mul.wide.u32 l,warp,{block}; add.u64 da,da,l; mul.wide.u32 l,lane,16; add.u64 da,da,l;
mul.wide.u32 l,split,{left}; add.u64 m,da,l;",
                offset_of!(Push, sums),
                self.splits,
                left = self.left(),
                block = self.of_block(),
            ),
        );
        for n in 0..self.tiles() {
            put(o, format_args!("st.global.v4.f32 [m+{}],{{{}}};", 512 * n, four("tot", 4 * n).join(",")));
        }
    }

    /// The workgroup that comes last of those that share K adds up what they left, and leaves the counter zero.
    pub(super) fn join(&self, o: &mut String) {
        let last = self.splits - 1;
        last_goes_on(o, self.splits, "unit", ["tmp2", "flag"], &Self::meeting());
        let all: Vec<(u32, u32)> = (0..=last).flat_map(|s| (0..self.tiles()).map(move |n| (s, n))).collect();
        for some in all.chunks(AHEAD) {
            for (i, (s, n)) in (0..).zip(some) {
                let at = s * self.left() + 512 * n;
                let to = four("w", 4 * i).join(",");
                put(o, format_args!("ld.relaxed.gpu.global.v4.f32 {{{to}}},[da+{at}];"));
            }
            for (i, (s, n)) in (0..).zip(some) {
                for (tot, w) in four("tot", 4 * n).iter().zip(four("w", 4 * i)) {
                    match s {
                        0 => put(o, format_args!("mov.f32 {tot},{w};")),
                        _ => put(o, format_args!("add.f32 {tot},{tot},{w};")),
                    }
                }
            }
        }
    }
}
