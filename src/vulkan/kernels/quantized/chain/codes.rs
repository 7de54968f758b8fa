//! Units of codes in the text of `text`: on the left side of products each row is a group of codes as they lie, on the right side each column
//! is one of x, and the diagonal is what counts.

use super::text::{Chain, PARTS};
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::quantized::small_floats;
use crate::vulkan::tune::quantized::chain::{BATCHES, TILE};

/// Codes that are elements as they stand: two of a word, as multiples of 2^-133 of bfloat16 and of 2^-24 of float16, and two of 2^-129. The
/// range of x in float16 is too short to make up for two places, so that codes are shifted there.
const LOW: u32 = 0x000f_000f;
const HIGH: u32 = 0x00f0_00f0;
/// Codes of eight bits: beyond 127 they are normal numbers of bfloat16, and still as large as they are.
const OCTETS: u32 = 0x00ff_00ff;
/// What x is multiplied by for those of bfloat16: 2^100 and 2^96.
pub(super) const UP: [u32; 2] = [0x7180_7180, 0x6f80_6f80];

impl Chain {
    /// What x is multiplied by for each mask of codes of bfloat16.
    pub(super) fn up(self) -> [u32; 2] {
        if self.holds.bits == 4 && !self.floats() { [0, 1] } else { [0, 0] }
    }

    /// Bits of what undoes that, and the power of two that codes are too small by.
    pub(super) fn down(self) -> u32 {
        let places = match (self.floats(), self.half()) {
            (false, false) => 33,
            (false, true) => 24,
            (true, false) => 26,
            (true, true) => 14,
        };
        (127 + places) << 23
    }

    /// A unit of codes.
    pub(super) fn multiply_codes(self, o: &mut String) {
        put(
            o,
            format_args!(
                "mad.lo.u32 t1,quad,{PARTS},total; mov.u32 t2,totals; mad.lo.u32 t0,t1,4,t2; ld.shared.f32 sum,[t0];"
            ),
        );
        if self.ragged {
            put(o, format_args!("mul.lo.u32 t1,t1,{}; setp.lt.u32 valid,t1,k;", self.holds.part()));
        }
        self.selectors(o);
        self.right(o, 0);
        for j in 0..BATCHES {
            if j + 1 < BATCHES {
                self.right(o, j + 1);
            }
            (0..TILE / 2).for_each(|pair| self.batch(o, j, pair));
            if j > 0 {
                self.choose(o, j - 1);
            }
            self.fetch(o, j);
            // A block ends here, so that the compiler leaves the loads where they are.
            put(o, format_args!("@never bra WALK;"));
        }
        self.count(o);
    }

    /// Batch j of x as the right side of products: column n has the group n of the batch, but for two bits of n that are another in each
    /// batch, so that each batch's diagonal is in lanes of its own.
    fn right(self, o: &mut String, j: u32) {
        let w = self.eights();
        put(o, format_args!("xor.b32 t1,xl,{};", 128 * j));
        for word in 0..w {
            let b = 4 * (w * j + word);
            put(
                o,
                format_args!(
                    "ld.shared.v4.b32 {{b{b},b{},b{},b{}}},[t1+{}];",
                    b + 1,
                    b + 2,
                    b + 3,
                    512 * (w * j + word)
                ),
            );
        }
    }

    /// Multiplies two rows' batch j by x.
    fn batch(self, o: &mut String, j: u32, pair: u32) {
        let (w, eights) = (self.words(), self.eights());
        let d = |i: u32| 16 * pair + 4 * j + i;
        for eight in 0..eights {
            let register = |side: u32, word: u32| (TILE * j + 2 * pair + side) * w + word;
            match self.holds.bits {
                8 => {}
                4 => (0..2).for_each(|side| self.codes(o, register(side, eight), side)),
                _ => (0..2).for_each(|side| self.odd_codes(o, register(side, 0), eight, side)),
            }
            for half in 0..2 {
                if self.holds.bits == 8 {
                    (0..2).for_each(|side| self.octets(o, register(side, 2 * eight + half), [side, half]));
                }
                let [b, f] = [4 * (eights * j + eight) + 2 * half, 4 * half];
                let from = |i: u32| if eight + half == 0 { "zf".to_string() } else { format!("d{}", d(i)) };
                put(
                    o,
                    format_args!(
                        "mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{d{},d{},d{},d{}}},{{f{f},f{},f{},f{}}},{{b{b},b{}}},{{{},{},{},{}}};",
                        d(0),
                        d(1),
                        d(2),
                        d(3),
                        f + 1,
                        f + 2,
                        f + 3,
                        b + 1,
                        from(0),
                        from(1),
                        from(2),
                        from(3),
                        kind = self.kind(),
                    ),
                );
            }
        }
    }

    /// The codes of eight bits of register c as elements, of the rows of one side: multiples of the smallest number of either dtype.
    fn octets(self, o: &mut String, c: u32, [side, half]: [u32; 2]) {
        let [a, b] = [0, 2].map(|f| 4 * half + side + f);
        put(o, format_args!("and.b32 f{a},c{c},{OCTETS}; shr.u32 t0,c{c},8; and.b32 f{b},t0,{OCTETS};"));
    }

    /// The codes of register c as elements, of the rows of one side.
    fn codes(self, o: &mut String, c: u32, side: u32) {
        let [a, b, d, e] = [0, 2, 4, 6].map(|f| side + f);
        if self.floats() {
            let from = format!("c{c}");
            return [a, b, d, e].into_iter().zip([0, 4, 8, 12]).for_each(|(f, at)| {
                small_floats::four(o, self.dtype, [&format!("f{f}"), &from], at, ["t0", "t1"]);
            });
        }
        put(o, format_args!("and.b32 f{a},c{c},{LOW}; shr.u32 t0,c{c},8; and.b32 f{d},t0,{LOW};"));
        match self.half() {
            true => put(
                o,
                format_args!(
                    "shr.u32 t0,c{c},4; and.b32 f{b},t0,{LOW}; shr.u32 t0,c{c},12; and.b32 f{e},t0,{LOW};"
                ),
            ),
            false => put(o, format_args!("and.b32 f{b},c{c},{HIGH}; and.b32 f{e},t0,{HIGH};")),
        }
    }

    /// Of batch j what counts, if it is the lane's batch.
    fn choose(self, o: &mut String, j: u32) {
        for row in 0..TILE {
            let d = 8 * (row / 2 * 2) + 4 * j + 2 * (row % 2);
            put(o, format_args!("selp.f32 d{d},d{},d{d},odd;", d + 1));
            match j {
                1 | 3 => put(o, format_args!("selp.f32 d{d},d{d},d{},j0;", d - 4)),
                _ => {}
            }
            if j == 3 {
                put(o, format_args!("selp.f32 q{row},d{d},d{},j1;", d - 8));
            }
        }
    }

    /// Adds up the unit's rows: each lane's numbers, with their scales and biases, over the lanes.
    fn count(self, o: &mut String) {
        self.choose(o, BATCHES - 1);
        if self.picks.is_some() {
            self.weigh(o);
        }
        for row in 0..TILE {
            let (v, down) = (format!("q{row}"), self.down());
            if self.floats() {
                put(o, format_args!("cvt.u32.u16 t0,ss{row};"));
                small_floats::power(o, "v2", "t0");
                put(o, format_args!("mul.f32 {v},{v},0f{down:08X}; mul.f32 {v},{v},v2;"));
                self.weigh_row(o, &v);
                continue;
            }
            for (to, from) in [("v2", "ss"), ("v3", "zz")] {
                match self.half() {
                    true => put(o, format_args!("cvt.f32.f16 {to},{from}{row};")),
                    false => put(o, format_args!("mov.b32 t0,{{hz,{from}{row}}}; mov.b32 {to},t0;")),
                }
            }
            put(
                o,
                format_args!("mul.f32 {v},{v},0f{down:08X}; mul.f32 v3,v3,sum; fma.rn.f32 {v},v2,{v},v3;"),
            );
            self.weigh_row(o, &v);
        }
        self.fetch_factors(o);
        put(o, format_args!("@never bra WALK;"));
        self.add_up(o);
    }

    /// A number of a row that counts, with the weight of what is picked.
    fn weigh_row(self, o: &mut String, v: &str) {
        if self.picks.is_some() {
            put(o, format_args!("mul.f32 {v},{v},weight;"));
        }
        if self.ragged {
            put(o, format_args!("selp.f32 {v},{v},zf,valid;"));
        }
    }

    /// Adds up numbers of four rows, `q0` to `q3`, over the lanes.
    pub(super) fn add_up(self, o: &mut String) {
        put(
            o,
            format_args!(
                "selp.f32 v2,q0,q1,upper; selp.f32 v0,q1,q0,upper; selp.f32 v3,q2,q3,upper; selp.f32 v1,q3,q2,upper; shfl.sync.bfly.b32 v2,v2,16,31,-1; shfl.sync.bfly.b32 v3,v3,16,31,-1; add.f32 v0,v0,v2; add.f32 v1,v1,v3;
selp.f32 v2,v0,v1,second; selp.f32 v0,v1,v0,second; shfl.sync.bfly.b32 v2,v2,8,31,-1; add.f32 v0,v0,v2;"
            ),
        );
        for lane in [4, 2, 1] {
            put(o, format_args!("shfl.sync.bfly.b32 v1,v0,{lane},31,-1; add.f32 v0,v0,v1;"));
        }
        put(o, format_args!("@edge st.shared.f32 [slot],v0;\nadd.u32 slot,slot,{};", 4 * TILE));
    }
}
