//! Copies of pieces of other formats to shared memory: scales and biases with what lies around them, where rows of them do not begin at
//! whole words.

use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::quantized::few_rows::program::Program;
use crate::vulkan::tune::quantized::few_rows::UNIT;
use crate::vulkan::tune::quantized::pieces::BYTES;

impl Program {
    /// Goes to a unit's factors: to this lane's of the first piece, or to where those of the unit begin.
    pub(in super::super) fn seek_factors(&self, o: &mut String, side: u32) {
        let (piece, [codes, factors]) = (self.piece_of(), self.row_bytes());
        self.told(o, "wp", [0, side], "ahead");
        self.told(o, "fp", [1, side], "ahead");
        if piece.kinds == 2 {
            self.told(o, "bp", [2, side], "ahead");
        }
        if piece.whole && piece.kinds == 2 {
            put(o, format_args!("selp.b64 fp,bp,fp,second;"));
        }
        put(
            o,
            format_args!(
                "mul.wide.u32 l,local,{}; add.u64 wp,wp,l; cvt.u64.u32 l,co; add.u64 wp,wp,l; mul.wide.u32 l,local,{}; add.u64 fp,fp,l;",
                UNIT * codes,
                UNIT * factors
            ),
        );
        if piece.whole {
            put(o, format_args!("cvt.u64.u32 l,fo; add.u64 fp,fp,l;"));
        } else if piece.kinds == 2 {
            put(o, format_args!("add.u64 bp,bp,l;"));
        }
    }

    /// Has a piece of where it went copied.
    pub(in super::super) fn other_copy(&self, o: &mut String, p: u32) {
        let (piece, [codes, _]) = (self.piece_of(), self.row_bytes());
        let to = p * piece.bytes();
        let size = |name: &str| if self.exact() { String::new() } else { format!(",{name}{p}") };
        for i in 0..4 {
            put(
                o,
                format_args!(
                    "@have cp.async.cg.shared.global [cs+{}],[wp+{}],16{};",
                    to + 4 * BYTES * i,
                    4 * i * codes + p * BYTES,
                    size("size")
                ),
            );
        }
        if piece.whole {
            let guard = if piece.kinds == 2 { "have" } else { "p" };
            if piece.kinds == 1 {
                put(o, format_args!("setp.lt.and.u32 p,lane,16,have;"));
            }
            put(
                o,
                format_args!(
                    "@{guard} cp.async.ca.shared.global [fs+{to}],[fp+{}],{}{};",
                    piece.factors * p,
                    piece.factors,
                    size("half")
                ),
            );
        } else {
            self.copy_words(o, p);
        }
        put(o, format_args!("cp.async.commit_group;"));
    }

    /// Has the words copied that have a piece's factors: those of sixteen rows at a time by each half of the lanes. What would begin behind the
    /// last row's is what ends there.
    fn copy_words(&self, o: &mut String, p: u32) {
        let piece = self.piece_of();
        let (copies, all) = (piece.copies(), piece.copies() * piece.kinds);
        let last = UNIT * self.row_bytes()[1] - 4;
        let from = |j: u32| 4 * (j % copies);
        let to = |j: u32| j / copies * UNIT * piece.room() + from(j);
        let kind = |j: u32| if j < copies { "fp" } else { "bp" };
        for j in (0..all).step_by(2) {
            let other = (j + 1).min(all - 1);
            let guard = if other == j {
                put(o, format_args!("setp.lt.and.u32 p,lane,16,have;"));
                "p"
            } else {
                "have"
            };
            put(
                o,
                format_args!(
                    "add.u32 tmp,fo,{}; and.b32 tmp,tmp,0xfffffffc; selp.u32 tmp2,{},{},second; add.u32 tmp,tmp,tmp2; min.u32 tmp,tmp,{last}; cvt.u64.u32 l,tmp; selp.u32 tmp2,{},{},second; add.u32 tmp2,fs,tmp2;",
                    piece.factors * p,
                    from(other),
                    from(j),
                    to(other),
                    to(j),
                ),
            );
            match (kind(j), kind(other)) {
                (a, b) if a == b => put(o, format_args!("add.u64 l,{a},l;")),
                (a, b) => put(o, format_args!("selp.b64 m,{b},{a},second; add.u64 l,m,l;")),
            }
            put(o, format_args!("@{guard} cp.async.ca.shared.global [tmp2+{}],[l],4;", p * piece.bytes()));
        }
    }
}
