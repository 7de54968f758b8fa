//! Matrices of elements in the text of `text`: a unit has four rows by a span of two batches, of which a lane has eight elements each;
//! the row lies in shared memory as it does in memory.

use super::text::Chain;
use crate::vulkan::kernels::matmul::warpgroup::text::{pair, put};
use crate::vulkan::tune::quantized::chain::{LANES, THREADS, TILE};

impl Chain {
    fn batches(self) -> u32 {
        self.span() / LANES
    }

    /// Asks for all of the next unit, if there is one.
    pub(super) fn fetch_values(self, o: &mut String) {
        (0..self.batches()).for_each(|j| self.fetch_batch(o, j));
    }

    fn fetch_batch(self, o: &mut String, j: u32) {
        let at = 2 * LANES * j;
        let guard = if self.ragged {
            put(o, format_args!("setp.gt.and.s32 q,room,{at},live;"));
            "q"
        } else {
            "live"
        };
        for (row, from) in ["nc", "nc1", "nc2", "nc3"].into_iter().enumerate() {
            let c = 4 * (TILE * j + row as u32);
            let all = [c, c + 1, c + 2, c + 3].map(|c| format!("c{c}"));
            put(
                o,
                format_args!(
                    "@{guard} ld.global.nc.L1::no_allocate.v4.b32 {{{}}},[{from}+{at}];",
                    all.join(",")
                ),
            );
            if self.ragged {
                // What was there last may be no number.
                all.iter().for_each(|c| put(o, format_args!("@!q mov.b32 {c},zero;")));
            }
        }
    }

    /// Brings piece i of the row, from register x on, to shared memory.
    pub(super) fn stage_values(self, o: &mut String, i: u32, x: u32) {
        put(
            o,
            format_args!(
                "setp.gt.u32 p,at,{from};
@!p bra STAGED;
add.u32 t3,tid,{from}; setp.lt.u32 q,t3,at; shl.b32 t0,t3,4; mov.u32 t1,row; add.u32 t0,t0,t1;
@q st.shared.v4.b32 [t0],{{x{},x{},x{},x{}}};",
                x,
                x + 1,
                x + 2,
                x + 3,
                from = THREADS * i,
            ),
        );
    }

    /// Multiplies a unit, in place of which comes the next one.
    pub(super) fn multiply_values(self, o: &mut String) {
        for j in 0..self.batches() {
            let b = [0, 1, 2, 3].map(|e| format!("b{}", 4 * j + e)).join(",");
            put(o, format_args!("ld.shared.v4.b32 {{{b}}},[xl+{}];", 2 * LANES * j));
        }
        for row in 0..TILE {
            put(o, format_args!("mov.f32 q{row},zf; mov.f32 d{},zf;", 8 + row));
        }
        for j in 0..self.batches() {
            for e in 0..4 {
                let to = [format!("d{}", 2 * e), format!("d{}", 2 * e + 1)];
                pair(o, self.dtype, [&to[0], &to[1]], &format!("b{}", 4 * j + e), "t0");
            }
            for (e, row) in (0..4).flat_map(|e| (0..TILE).map(move |r| (e, r))) {
                pair(o, self.dtype, ["v0", "v1"], &format!("c{}", 4 * (TILE * j + row) + e), "t0");
                put(
                    o,
                    format_args!(
                        "fma.rn.f32 q{row},v0,d{},q{row}; fma.rn.f32 d{sum},v1,d{},d{sum};",
                        2 * e,
                        2 * e + 1,
                        sum = 8 + row
                    ),
                );
            }
            self.fetch_batch(o, j);
            // A block ends here, so that the compiler leaves the loads where they are.
            put(o, format_args!("@never bra WALK;"));
        }
        (0..TILE).for_each(|row| put(o, format_args!("add.f32 q{row},q{row},d{};", 8 + row)));
        self.add_up(o);
    }
}
