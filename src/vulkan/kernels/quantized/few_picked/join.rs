//! How workgroups that share K add up their sums: the one that comes last goes over the units of all of them again, two subgroups for each
//! unit, and takes what every one left, in order.

use super::program::Program;
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::quantized::units::last_goes_on;
use crate::vulkan::tune::quantized::few_picked::EIGHT;
use crate::vulkan::tune::quantized::few_rows::UNIT;

/// Threads that take a unit's results, two each.
const THREADS: u32 = EIGHT * UNIT / 2;

impl Program {
    /// Keeps where this workgroup begins.
    pub(super) fn keep_beginning(&self, o: &mut String) {
        put(
            o,
            format_args!(
                "mov.u32 tmp,begins; st.shared.b32 [tmp],item; st.shared.b32 [tmp+4],unit; st.shared.b32 [tmp+8],left;"
            ),
        );
    }

    /// What the last workgroup does.
    pub(super) fn join(&self, o: &mut String) {
        let form = self.rows.form;
        // INVARIANT: `tune` has K shared by workgroups of at least two subgroups.
        let beside = 32 * form.warps / THREADS;
        put(o, format_args!("LEFT:"));
        last_goes_on(o, form.splits, "list", ["tmp2", "flag"], "bar.sync 0;");
        put(
            o,
            format_args!(
                ".reg .f32 left<{lefts}>;
mov.u32 tmp,begins; ld.shared.b32 item,[tmp]; ld.shared.b32 next,[tmp+4]; ld.shared.b32 left,[tmp+8];
and.b32 v0,tid,{last}; shr.u32 v0,v0,3;
JOIN:
bar.sync 0;",
                lefts = 2 * form.splits,
                last = THREADS - 1,
            ),
        );
        self.find(o, "JOINED");
        self.own_picks(o);
        // Units of this item, and this thread's first.
        put(
            o,
            format_args!(
                "setp.lt.and.u32 first,tid,{},mine0; add.u32 fleft,next,left; min.u32 fleft,fleft,{}; sub.u32 next,fleft,next; sub.u32 left,left,next; sub.u32 next,fleft,next; shr.u32 unit,tid,{}; add.u32 unit,unit,next;
SUMS:
setp.lt.and.u32 mine0,unit,fleft,first;",
                beside * THREADS,
                self.rows.units(),
                THREADS.ilog2(),
            ),
        );
        self.take_parts(o);
        self.rows.results(o, "B");
        put(
            o,
            format_args!(
                "add.u32 unit,unit,{beside}; setp.lt.u32 p,unit,fleft;
@p bra SUMS;
mov.u32 next,0; add.u32 item,item,1; setp.ne.u32 p,left,0;
@p bra JOIN;"
            ),
        );
    }

    /// Adds up what workgroups have left of a unit: all of it is asked for at once.
    fn take_parts(&self, o: &mut String) {
        let (splits, sides) = (self.rows.form.splits, self.rows.sides());
        put(o, format_args!("@!mine0 bra TAKEN;"));
        for side in 0..sides {
            let (a, b) = (2 * side, 2 * side + 1);
            put(o, format_args!("mov.u32 tmp,0;"));
            self.rows.part_at(o, 0, side, "tmp");
            for part in 0..splits {
                let at = part * sides * EIGHT * UNIT * 4;
                put(
                    o,
                    format_args!(
                        "ld.relaxed.gpu.global.v2.f32 {{left{},left{}}},[da+{at}];",
                        2 * part,
                        2 * part + 1
                    ),
                );
            }
            put(o, format_args!("mov.f32 y{a},left0; mov.f32 y{b},left1;"));
            for part in 1..splits {
                put(
                    o,
                    format_args!(
                        "add.f32 y{a},y{a},left{}; add.f32 y{b},y{b},left{};",
                        2 * part,
                        2 * part + 1
                    ),
                );
            }
        }
        put(o, format_args!("TAKEN:"));
    }
}
