//! Rows of x as the right sides of codes of other formats.

use crate::kernels::quantized::quant::Mode;
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::quantized::few_rows::program::{Program, four};

impl Program {
    /// Eights of elements of a row of x that a lane has of a piece: their places there, without the lane's own.
    fn eights(&self) -> impl Iterator<Item = u32> {
        let beside = self.beside();
        (0..self.span() / 32).map(move |v| match beside {
            16 => 64 * (v / 2) + 8 * (v % 2),
            _ => 32 * v,
        })
    }

    /// Loads the eight rows `j` as right sides; zeros where there are none, and where a row has ended.
    pub(in super::super) fn load_other(&self, o: &mut String, j: u32) {
        put(
            o,
            format_args!(
                "mul.wide.u32 l,tmp,{}; ld.param.u64 xa,[args]; add.u64 xa,xa,l; mul.wide.u32 l,kx,2; add.u64 xa,xa,l;",
                2 * self.k
            ),
        );
        let mut x = j * self.form.pieces * self.span() / 8;
        for (p, v) in (0..self.form.pieces).flat_map(|p| self.eights().map(move |v| (p, v))) {
            let (to, at) = (four("x", x), self.span() * p + v);
            let guard = if self.exact() { format!("there{j}") } else { "p".into() };
            if !self.exact() {
                put(o, format_args!("add.u32 tmp,kx,{at}; setp.lt.and.u32 p,tmp,{},there{j};", self.k));
            }
            let zeros = to.each_ref().map(|x| format!("mov.b32 {x},0;")).join(" ");
            put(
                o,
                format_args!("{zeros}\n@{guard} ld.global.cg.v4.b32 {{{}}},[xa+{}];", to.join(","), 2 * at),
            );
            x += 4;
        }
    }

    /// Makes right sides of what was loaded.
    pub(in super::super) fn deal_other(&self, o: &mut String) {
        self.range(o);
        let (of_piece, sets) = (self.span() / 8, self.sets());
        for part in 0..self.form.tiles * self.form.pieces {
            let first = part * of_piece;
            for set in 0..sets {
                let each = of_piece / (4 * sets);
                for i in 0..4 {
                    self.sum_x(o, [first + (4 * set + i) * each, each], i);
                }
                self.deal_sums(o, self.parts() * (part * sets + set));
            }
            for eight in (first..first + of_piece).step_by(4) {
                self.order(o, eight);
            }
        }
    }

    /// Sums the elements of so many registers, over four lanes too, into `sum{i}`.
    fn sum_x(&self, o: &mut String, [first, count]: [u32; 2], i: u32) {
        for k in 0..count {
            let to = [2 * k, 2 * k + 1].map(|e| format!("f{e}"));
            self.pair(o, [&to[0], &to[1]], &format!("x{}", first + k));
        }
        for step in [8, 4, 2, 1].into_iter().filter(|&s| s <= count) {
            (0..step).for_each(|k| put(o, format_args!("add.f32 f{k},f{k},f{};", k + step)));
        }
        put(
            o,
            format_args!(
                "shfl.sync.bfly.b32 f1,f0,1,31,-1; add.f32 f0,f0,f1; shfl.sync.bfly.b32 f1,f0,2,31,-1; add.f32 sum{i},f0,f1;"
            ),
        );
    }

    /// Eight elements as their codes lie in words, in the range that codes need.
    fn order(&self, o: &mut String, first: u32) {
        let [a, b, c, d] = four("x", first);
        if self.format.bits == 4 {
            put(
                o,
                format_args!(
                    "prmt.b32 h0,{a},{c},0x5410; prmt.b32 h1,{a},{c},0x7632; prmt.b32 h2,{b},{d},0x5410; prmt.b32 h3,{b},{d},0x7632;"
                ),
            );
        } else {
            put(o, format_args!("mov.b32 h0,{a}; mov.b32 h1,{b}; mov.b32 h2,{c}; mov.b32 h3,{d};"));
        }
        let ups = match (self.format.mode, self.format.bits) {
            _ if self.half() => None,
            (Mode::Affine, 4) => Some(["up0", "up1", "up0", "up1"]),
            (Mode::Mxfp8 | Mode::Nvfp4, _) => None,
            _ => Some(["up0"; 4]),
        };
        for k in 0..4 {
            match ups {
                Some(ups) => put(o, format_args!("fma.rn.bf16x2 x{},h{k},{},up2;", first + k as u32, ups[k])),
                None => put(o, format_args!("mov.b32 x{},h{k};", first + k as u32)),
            }
        }
    }
}
