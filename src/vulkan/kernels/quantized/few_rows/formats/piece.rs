//! Products of a piece of another format, read from shared memory.

use super::CHUNKS;
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::quantized::few_rows::program::Program;
use crate::vulkan::tune::quantized::few_rows::UNIT;
use crate::vulkan::tune::quantized::pieces::BYTES;

impl Program {
    /// Multiplies a piece, in place of which comes that of the next rows.
    pub(in super::super) fn other_piece(&self, o: &mut String, p: u32) {
        let piece = self.piece_of();
        let at = p * piece.bytes();
        self.read_factors(o, p, 0, "sc");
        if piece.kinds == 2 {
            self.read_factors(o, p, 1, "bw");
        }
        for set in 0..self.sets() {
            self.choose_biases(o, set);
            self.biased(o, p * self.sets() + set);
        }
        let (steps, of_group) = (piece.span / 16 / CHUNKS, self.format.group / 16);
        for n in 0..piece.span / 16 {
            if n % steps == 0 {
                self.read_words(o, n / steps, at);
            }
            if self.scaled() {
                // Codes times their own scales: sums are those of all groups.
                if n % 2 == 0 {
                    self.lane_scales(o, n / 2);
                }
                self.left(o, n % steps);
                (0..4).for_each(|i| {
                    put(o, format_args!("mul.rn.{kind}x2 a{i},a{i},bw{};", i % 2, kind = self.kind()))
                });
                self.multiply_left(o, p, n, ["tot", "tot"]);
                continue;
            }
            self.left(o, n % steps);
            self.multiply_left(o, p, n, ["acc", if n % of_group == 0 { "" } else { "acc" }]);
            if (n + 1) % of_group == 0 {
                self.scale(o, n / of_group);
            }
        }
        put(o, format_args!("bar.warp.sync -1;"));
        self.copy(o, p);
    }

    /// Reads what a lane has of a chunk of both of its rows.
    fn read_words(&self, o: &mut String, chunk: u32, at: u32) {
        let below = at + UNIT / 2 * BYTES;
        match self.apart() {
            true => put(
                o,
                format_args!(
                    "ld.shared.b32 c0,[rx{chunk}+{at}]; ld.shared.b32 c1,[rx{chunk}+{}]; ld.shared.b32 c2,[rx{chunk}+{below}]; ld.shared.b32 c3,[rx{chunk}+{}];",
                    at + 16,
                    below + 16
                ),
            ),
            false => put(
                o,
                format_args!(
                    "ld.shared.v2.b32 {{c0,c1}},[rx{chunk}+{at}]; ld.shared.v2.b32 {{c2,c3}},[rx{chunk}+{below}];"
                ),
            ),
        }
    }

    /// Reads the scales, or the biases, of a piece's row of each half of a unit: its own words in `to`.
    fn read_factors(&self, o: &mut String, p: u32, kind: u32, to: &str) {
        let (piece, words) = (self.piece_of(), self.piece_of().words());
        for row in 0..2 {
            let at = p * piece.bytes() + kind * UNIT * piece.room() + row * UNIT / 2 * piece.room();
            let name =
                |j: u32| if piece.whole { format!("{to}{}", row * words + j) } else { format!("raw{j}") };
            let all =
                if piece.whole { words } else { piece.copies().next_power_of_two().min(piece.room() / 4) };
            for first in (0..all.min(piece.copies().max(words))).step_by(4) {
                let some: Vec<String> = (first..all.min(first + 4)).map(name).collect();
                let some = match some.len() {
                    // Of what has room for four words more, one is there.
                    4 if first > 0 => vec![some[0].clone()],
                    _ => some,
                };
                let load = match some.len() {
                    1 => "b32".to_string(),
                    n => format!("v{n}.b32"),
                };
                let names = if some.len() == 1 { some[0].clone() } else { format!("{{{}}}", some.join(",")) };
                put(o, format_args!("ld.shared.{load} {names},[rs+{}];", at + 4 * first));
            }
            if !piece.whole {
                for j in 0..words {
                    let next = (j + 1).min(piece.copies() - 1);
                    put(
                        o,
                        format_args!(
                            "prmt.b32 {to}{i},raw{j},raw{next},sel{}; and.b32 {to}{i},{to}{i},fm{};",
                            p % 2,
                            p * words + j,
                            i = row * words + j,
                        ),
                    );
                }
            }
        }
    }

    /// The biases of both rows that a lane multiplies of a set of four blocks: two of them, or of float16 one, as the first of `bi`.
    fn choose_biases(&self, o: &mut String, set: u32) {
        let (piece, words) = (self.piece_of(), self.piece_of().words());
        for row in 0..2 {
            let [a, b] = [0, 1].map(|j| format!("bw{}", row * words + (2 * set + j).min(words - 1)));
            match (piece.factors, self.half()) {
                (2, _) => put(o, format_args!("prmt.b32 bi{row},{a},{a},0x1010;")),
                (4, true) => put(o, format_args!("prmt.b32 bi{row},{a},{a},hsel;")),
                (4, false) => put(o, format_args!("prmt.b32 bi{row},{a},{a},osel;")),
                (_, true) => put(
                    o,
                    format_args!("selp.b32 bi{row},{b},{a},high; prmt.b32 bi{row},bi{row},bi{row},osel;"),
                ),
                (_, false) => put(o, format_args!("selp.b32 bi{row},{b},{a},odd;")),
            }
        }
    }
}
