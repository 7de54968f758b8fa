//! Rows of x in registers as the right sides of products with codes.

use super::program::Program;
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::tune::quantized::few_rows::{Form, GROUPS};

impl Program {
    /// Rows of x as right sides, each eight of them by their number.
    pub(super) fn load_x(&self, o: &mut String) {
        for j in 0..self.form.tiles {
            put(o, format_args!("add.u32 tmp,g,{};", 8 * j));
            if self.form.parts > 1 {
                put(o, format_args!("add.u32 tmp,tmp,above;"));
            }
            put(o, format_args!("setp.lt.u32 there{j},tmp,rows;"));
            self.load_eight(o, j);
        }
        match self.norm {
            Some(eps) if self.half() => {
                self.normalise(o, eps);
                self.deal(o);
            }
            Some(eps) => {
                self.weigh(o);
                self.deal(o);
                self.roots(o, eps);
            }
            None => self.deal(o),
        }
    }

    /// Loads the eight rows `j` as right sides: of each group a thread has 16 elements of the row in `tmp`, those of the codes that it will
    /// read; zeros where `there` says that there is none.
    pub fn load_eight(&self, o: &mut String, j: u32) {
        if !self.usual() {
            return self.load_other(o, j);
        }
        let Form { pieces, groups, .. } = self.form;
        put(
            o,
            format_args!(
                "mul.wide.u32 l,tmp,{}; ld.param.u64 xa,[args]; add.u64 xa,xa,l;
mad.lo.u32 tmp,t,16,k0; mul.wide.u32 l,tmp,2; add.u64 xa,xa,l;",
                2 * self.k
            ),
        );
        for p in 0..pieces {
            if !self.exact() {
                put(o, format_args!("setp.ne.u32 p,size{p},0; and.pred p,p,there{j};"));
            }
            let guard = if self.exact() { format!("there{j}") } else { "p".into() };
            let first = (j * pieces + p) * groups * 8;
            for i in 0..2 * groups {
                let [a, b, c, d] = [0, 1, 2, 3].map(|e| first + 4 * i + e);
                put(
                    o,
                    format_args!(
                        "mov.b32 x{a},0; mov.b32 x{b},0; mov.b32 x{c},0; mov.b32 x{d},0;
@{guard} ld.global.cg.v4.b32 {{x{a},x{b},x{c},x{d}}},[xa+{}];",
                        2 * (self.form.span() * p + 64 * (i / 2)) + 16 * (i % 2)
                    ),
                );
            }
        }
    }

    /// Makes right sides of what was loaded.
    pub fn deal(&self, o: &mut String) {
        if !self.usual() {
            return self.deal_other(o);
        }
        self.range(o);
        let groups = self.form.groups;
        (groups..GROUPS).for_each(|i| put(o, format_args!("mov.f32 sum{i},0f00000000;")));
        for part in 0..self.form.tiles * self.form.pieces {
            for i in 0..groups {
                self.deal_x(o, (part * groups + i) * 8, i);
            }
            self.deal_sums(o, self.parts() * part);
        }
    }

    /// Sums the 16 elements of a group from register `first` on, over four lanes too, into `sum{i}`; and orders them as codes lie
    /// in words, in the range that codes need.
    fn deal_x(&self, o: &mut String, first: u32, i: u32) {
        for k in 0..8 {
            let to = [2 * k, 2 * k + 1].map(|e| format!("f{e}"));
            self.pair(o, [&to[0], &to[1]], &format!("x{}", first + k));
        }
        for step in [8, 4, 2, 1] {
            (0..step).for_each(|k| put(o, format_args!("add.f32 f{k},f{k},f{};", k + step)));
        }
        put(
            o,
            format_args!(
                "shfl.sync.bfly.b32 f1,f0,1,31,-1; add.f32 f0,f0,f1; shfl.sync.bfly.b32 f1,f0,2,31,-1; add.f32 sum{i},f0,f1;"
            ),
        );
        for h in [0, 4] {
            for (to, from, selected) in [(0, 0, 0x5410), (1, 0, 0x7632), (2, 1, 0x5410), (3, 1, 0x7632)] {
                put(
                    o,
                    format_args!(
                        "prmt.b32 h{},x{},x{},{selected:#x};",
                        h + to,
                        first + h + from,
                        first + h + from + 2
                    ),
                );
            }
        }
        self.ranged(o, first);
    }
}
