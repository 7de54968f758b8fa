//! The row of a product in the text of `text`: awaited, normalised where it is to be, and brought to shared memory.

use std::ops::Range;

use super::Stage;
use super::picked::text::SAME;
use super::place;
use super::text::Chain;
use crate::vulkan::kernels::matmul::warpgroup::text::{inverse_root, pair, put};
use crate::vulkan::tune::quantized::chain::{LONGEST, MORE_PIECES, NORMED, PIECES, THREADS, WARPS};

/// Pieces of a row that is normalised.
pub(super) const FEW: u32 = NORMED / (8 * THREADS);

impl Chain {
    /// Weights that the row is normalised by.
    pub(super) fn weights(self, o: &mut String) {
        put(
            o,
            format_args!(
                "and.b32 t0,flags,{}; setp.eq.u32 isnorm,t0,1; ld.param.u64 d,[sa+{}];",
                if self.within() { SAME | 1 } else { 1 },
                place!(norm)
            ),
        );
        for i in 0..FEW {
            let [a, b, c, e] = [0, 1, 2, 3].map(|q| 4 * i + q);
            put(
                o,
                format_args!(
                    "add.u32 t1,tid,{}; shl.b32 t2,t1,3; setp.lt.and.u32 l{i},t2,k,isnorm; mad.wide.u32 wide,t1,16,d;
@l{i} ld.global.nc.v4.b32 {{w{a},w{b},w{c},w{e}}},[wide];",
                    THREADS * i
                ),
            );
        }
        self.ask_for_sum(o);
    }

    /// Brings the row of x to shared memory, normalised where it is to be, and the sums of its groups; finds the thread's result.
    pub(super) fn stage_x(self, o: &mut String) {
        self.arrays(o);
        put(o, format_args!("mov.b32 rr,{{r0,r1}};"));
        if self.within() {
            put(o, format_args!("and.b32 t0,flags,{SAME}; setp.ne.u32 p,t0,0;\n@p bra STAGED;"));
        }
        put(
            o,
            format_args!(
                "ld.param.u64 d,[sa+{}]; ld.param.u32 tag,[sa+{}]; {}",
                place!(x),
                place!(x_tag),
                self.pieces()
            ),
        );
        self.await_x(o, 0..PIECES, "");
        self.sum(o);
        put(o, format_args!("@!isnorm bra NORMED;"));
        self.normalise(o);
        put(o, format_args!("NORMED:"));
        o.push_str(&self.each("STAGED", "kind", Chain::stage_row));
        put(o, format_args!("STAGED:\nbar.sync 0;"));
    }

    /// Brings all pieces of the row to shared memory, those that registers have no room for behind the others.
    fn stage_row(self, o: &mut String) {
        self.stage_pieces(o, 0..PIECES);
        if self.row > LONGEST {
            put(o, format_args!("setp.gt.u32 p,at,{};\n@!p bra STAGED;", THREADS * PIECES));
            let more = PIECES..PIECES + MORE_PIECES;
            self.await_x(o, more.clone(), "_MORE");
            self.stage_pieces(o, more);
        }
    }

    /// Brings pieces of the row to shared memory, which registers have from the first one on.
    fn stage_pieces(self, o: &mut String, pieces: Range<u32>) {
        for (n, i) in pieces.enumerate() {
            // FITS: a few pieces.
            let x = 4 * n as u32;
            if self.values() { self.stage_values(o, i, x) } else { self.stage_codes(o, i, x) }
        }
    }

    /// Piece i of a row that meets codes, from register x on, and the sums of its groups.
    fn stage_codes(self, o: &mut String, i: u32, x: u32) {
        let all = [0, 1, 2, 3].map(|q| x + q);
        put(
            o,
            format_args!(
                "setp.gt.u32 p,at,{from};
@!p bra STAGED;
mov.f32 v2,0f00000000;
{pairs}
add.u32 t3,tid,{from}; setp.lt.u32 q,t3,at; {at} mov.u32 t1,row; add.u32 t0,t0,t1;
@q st.shared.v4.b32 [t0],{{fa0,fa1,fa2,fa3}};",
                at = if self.eights() == 2 {
                    "and.b32 t0,t3,-64; bfe.u32 t1,t3,1,5; or.b32 t0,t0,t1; and.b32 t1,t3,1; shl.b32 t1,t1,5; or.b32 t0,t0,t1; shl.b32 t0,t0,4;"
                } else {
                    "shl.b32 t0,t3,4;"
                },
                from = THREADS * i,
                pairs = if self.odd() { self.odd_pairs(x) } else { self.even_pairs(all) },
            ),
        );
        for r in all {
            pair(o, self.dtype, ["v0", "v1"], &format!("x{r}"), "t0");
            put(o, format_args!("add.f32 v0,v0,v1; add.f32 v2,v2,v0;"));
        }
        let mut lane = 1;
        while lane < 4 * self.eights() {
            put(o, format_args!("shfl.sync.bfly.b32 v0,v2,{lane},31,-1; add.f32 v2,v2,v0;"));
            lane *= 2;
        }
        put(
            o,
            format_args!(
                "and.b32 t0,t3,{}; setp.eq.and.u32 q,t0,0,q; shr.u32 t0,t3,{}; shl.b32 t0,t0,2; mov.u32 t1,totals; add.u32 t0,t0,t1;
@q st.shared.f32 [t0],v2;",
                4 * self.eights() - 1,
                (4 * self.eights()).ilog2()
            ),
        );
    }

    /// Pairs of an eight of the row, as codes of four and eight bits become pairs.
    fn even_pairs(self, [a, b, c, e]: [u32; 4]) -> String {
        // Elements k and k + 4 are a pair, as the codes that one mask takes; of eight bits k and k + 2.
        let pairs = if self.holds.bits == 8 { [[a, b], [c, e]] } else { [[a, c], [b, e]] };
        let [[p, q], [r, s]] = pairs;
        // Whole codes of the second mask are four places up.
        let up = self.up();
        let scaled = |i: usize| format!("mul.rn.bf16x2 fa{i},fa{i},up{};", up[i % 2]);
        format!(
            "prmt.b32 fa0,x{p},x{q},0x5410; prmt.b32 fa1,x{p},x{q},0x7632; prmt.b32 fa2,x{r},x{s},0x5410; prmt.b32 fa3,x{r},x{s},0x7632;\n{}",
            if self.half() { String::new() } else { (0..4).map(scaled).collect() }
        )
    }

    /// Loads such pieces of the row, of which the thread has one each: all at once, and again until all have their tags.
    fn await_x(self, o: &mut String, pieces: Range<u32>, label: &str) {
        // FITS: a few pieces.
        let n = pieces.len() as u32;
        put(o, format_args!("setp.ne.u32 q,tag,0;"));
        for i in 0..n {
            put(
                o,
                format_args!(
                    "add.u32 t1,tid,{}; shl.b32 t2,t1,3; setp.lt.u32 l{i},t2,k;",
                    THREADS * (pieces.start + i)
                ),
            );
        }
        put(o, format_args!("mov.b64 wide,{{zero,tag}};"));
        (0..4 * n).for_each(|r| put(o, format_args!("mov.b64 o{r},wide;")));
        put(o, format_args!("@q bra TAGGED{label};\nmad.wide.u32 wide,tid,16,d;"));
        for i in 0..n {
            let [a, b, c, e] = [0, 1, 2, 3].map(|q| 4 * i + q);
            (4 * i..4 * i + 4).for_each(|r| put(o, format_args!("mov.u32 x{r},zero;")));
            put(
                o,
                format_args!(
                    "@l{i} ld.global.cg.v4.b32 {{x{a},x{b},x{c},x{e}}},[wide+{}];",
                    16 * THREADS * (pieces.start + i)
                ),
            );
        }
        put(o, format_args!("bra LOADED{label};\nTAGGED{label}:\nmad.wide.u32 wide,tid,32,d;\nPOLL{label}:"));
        for i in 0..n {
            let [a, b, c, e] = [0, 1, 2, 3].map(|q| 4 * i + q);
            let at = 32 * THREADS * (pieces.start + i);
            put(
                o,
                format_args!(
                    "@l{i} ld.relaxed.gpu.global.v2.b64 {{o{a},o{b}}},[wide+{at}];\n@l{i} ld.relaxed.gpu.global.v2.b64 {{o{c},o{e}}},[wide+{}];",
                    at + 16
                ),
            );
        }
        put(o, format_args!("setp.ne.u32 p,zero,0;"));
        for r in 0..4 * n {
            put(o, format_args!("mov.b64 {{x{r},t0}},o{r}; setp.ne.or.u32 p,t0,tag,p;"));
        }
        put(o, format_args!("@p bra POLL{label};\nLOADED{label}:"));
    }

    /// What the pieces of the row are multiplied by where they are normalised, `root`, with the epsilon at `eps`.
    pub(super) fn root(self, o: &mut String, name: &str, eps: usize) {
        put(o, format_args!("mov.f32 v2,0f00000000; mov.f32 v3,v2;"));
        for i in 0..FEW {
            put(o, format_args!("setp.gt.u32 p,at,{};\n@!p bra {name}SQUARED;", THREADS * i));
            for r in 4 * i..4 * i + 4 {
                pair(o, self.dtype, ["v0", "v1"], &format!("x{r}"), "t0");
                put(o, format_args!("fma.rn.f32 v2,v0,v0,v2; fma.rn.f32 v3,v1,v1,v3;"));
            }
        }
        put(o, format_args!("{name}SQUARED:\nadd.f32 v2,v2,v3;"));
        for lane in [16, 8, 4, 2, 1] {
            put(o, format_args!("shfl.sync.bfly.b32 v0,v2,{lane},31,-1; add.f32 v2,v2,v0;"));
        }
        put(
            o,
            format_args!(
                "mov.u32 t0,squares; shl.b32 t1,warp,2; add.u32 t1,t1,t0; setp.eq.u32 q,lane,0;
@q st.shared.f32 [t1],v2;
bar.sync 0;
mov.f32 root,0f00000000;"
            ),
        );
        for part in 0..WARPS / 4 {
            put(
                o,
                format_args!(
                    "ld.shared.v4.f32 {{v0,v1,v2,v3}},[t0+{}]; add.f32 v0,v0,v1; add.f32 v2,v2,v3; add.f32 v0,v0,v2; add.f32 root,root,v0;",
                    16 * part
                ),
            );
        }
        put(
            o,
            format_args!(
                "ld.param.f32 eps,[sa+{eps}]; cvt.rn.f32.u32 v0,k; div.rn.f32 root,root,v0; add.f32 root,root,eps;"
            ),
        );
        inverse_root(o, "root", "root");
    }

    /// Elements of a word, normalised by weights.
    pub(super) fn normed(self, o: &mut String, x: &str, weights: &str, to: &str) {
        pair(o, self.dtype, ["v0", "v1"], x, "t0");
        pair(o, self.dtype, ["v2", "v3"], weights, "t0");
        put(
            o,
            format_args!(
                "mul.f32 v0,v0,root; mul.f32 v0,v0,v2; mul.f32 v1,v1,root; mul.f32 v1,v1,v3; cvt.rn.{}x2.f32 {to},v1,v0;",
                self.kind()
            ),
        );
    }

    /// Stores piece i of the row at `d` if `stores` says so.
    pub(super) fn store_piece(self, o: &mut String, i: u32, stores: &str) {
        put(
            o,
            format_args!(
                "add.u32 t1,tid,{}; mad.wide.u32 wide,t1,16,d; and.pred q,{stores},l{i};
@q st.global.v4.b32 [wide],{{x{},x{},x{},x{}}};",
                THREADS * i,
                4 * i,
                4 * i + 1,
                4 * i + 2,
                4 * i + 3
            ),
        );
    }

    /// Normalises the pieces of the row; the first workgroup stores them where they are kept.
    fn normalise(self, o: &mut String) {
        self.root(o, "", place!(eps));
        put(
            o,
            format_args!(
                "and.b32 t0,flags,2; setp.ne.and.u32 keeps,t0,0,first; ld.param.u64 d,[sa+{}];",
                place!(kept)
            ),
        );
        for i in 0..FEW {
            put(o, format_args!("setp.gt.u32 p,at,{};\n@!p bra KEPT;", THREADS * i));
            for r in 4 * i..4 * i + 4 {
                self.normed(o, &format!("x{r}"), &format!("w{r}"), "t1");
                put(o, format_args!("selp.b32 x{r},t1,zero,l{i};"));
            }
            self.store_piece(o, i, "keeps");
        }
        put(o, format_args!("KEPT:"));
    }
}
