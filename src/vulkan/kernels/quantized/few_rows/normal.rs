//! Rows that are normalised ahead of their products.

use std::mem::offset_of;

use super::program::Program;
use crate::vulkan::kernels::matmul::warpgroup::text::{inverse_root, put};
use crate::vulkan::kernels::quantized::push::Push;
use crate::vulkan::tune::quantized::few_rows::Form;

impl Program {
    /// Reads the weights of x pair by pair, into `f2` and `f3`, for each register of x and the eight rows that it is of.
    pub(super) fn each_weight(&self, o: &mut String, each: impl Fn(&mut String, u32, u32)) {
        let Form { tiles, pieces, groups, .. } = self.form;
        put(
            o,
            format_args!(
                "ld.param.u64 wa,[args+{}]; mad.lo.u32 tmp,t,16,k0; mul.wide.u32 l,tmp,2; add.u64 wa,wa,l;",
                offset_of!(Push, norm)
            ),
        );
        for (p, i) in (0..pieces).flat_map(|p| (0..2 * groups).map(move |i| (p, i))) {
            let guard = if self.exact() { "" } else { "@p " };
            if !self.exact() {
                put(
                    o,
                    format_args!(
                        "setp.ne.u32 p,size{p},0; mov.b32 nw0,0; mov.b32 nw1,0; mov.b32 nw2,0; mov.b32 nw3,0;"
                    ),
                );
            }
            put(
                o,
                format_args!(
                    "{guard}ld.global.v4.b32 {{nw0,nw1,nw2,nw3}},[wa+{}];",
                    2 * (self.form.span() * p + 64 * (i / 2)) + 16 * (i % 2)
                ),
            );
            for e in 0..4 {
                self.pair(o, ["f2", "f3"], &format!("nw{e}"));
                for j in 0..tiles {
                    each(o, ((j * pieces + p) * groups * 8) + 4 * i + e, j);
                }
            }
        }
    }

    /// Leaves what the subgroup has of the squares of rows, which lanes have in `root`.
    pub(super) fn leave_squares(&self, o: &mut String) {
        let tiles = self.form.tiles;
        put(
            o,
            format_args!(
                "setp.eq.u32 q,t,0; mov.u32 tmp2,squares; mad.lo.u32 tmp2,g,4,tmp2; mad.lo.u32 tmp2,warp,{},tmp2;",
                4 * 8 * tiles
            ),
        );
        for j in 0..tiles {
            put(
                o,
                format_args!(
                    "shfl.sync.bfly.b32 f1,root{j},1,31,-1; add.f32 f0,root{j},f1; shfl.sync.bfly.b32 f1,f0,2,31,-1; add.f32 f0,f0,f1;\n@q st.shared.f32 [tmp2+{}],f0;",
                    32 * j
                ),
            );
        }
    }

    /// Normalises the rows that were asked for, whose products with weights alone may leave the range of float16: squares of subgroups are
    /// summed up over those of the workgroup first.
    pub(super) fn normalise(&self, o: &mut String, eps: u32) {
        let Form { tiles, pieces, groups, warps, .. } = self.form;
        let of_warp = 4 * 8 * tiles;
        for j in 0..tiles {
            put(o, format_args!("mov.f32 root{j},0f00000000;"));
            let first = j * pieces * groups * 8;
            for x in first..first + pieces * groups * 8 {
                self.pair(o, ["f0", "f1"], &format!("x{x}"));
                put(o, format_args!("fma.rn.f32 root{j},f0,f0,root{j}; fma.rn.f32 root{j},f1,f1,root{j};"));
            }
        }
        self.leave_squares(o);
        put(o, format_args!("bar.sync 0;\nmov.u32 tmp2,squares; mad.lo.u32 tmp2,g,4,tmp2;"));
        for j in 0..tiles {
            put(o, format_args!("ld.shared.f32 root{j},[tmp2+{}];", 32 * j));
            for w in 1..warps {
                put(
                    o,
                    format_args!(
                        "ld.shared.f32 f5,[tmp2+{}]; add.f32 root{j},root{j},f5;",
                        of_warp * w + 32 * j
                    ),
                );
            }
            let root = format!("root{j}");
            self.root(o, &root, &root, eps);
        }
        self.each_weight(o, |o, x, j| {
            let x = format!("x{x}");
            self.normalised(o, &x, &format!("root{j}"), ["f0", "f1", "f2", "f3"]);
        });
    }

    /// The pair of elements in register `x` times `root` and two weights, which the last two of four registers have; rounded.
    pub(super) fn normalised(&self, o: &mut String, x: &str, root: &str, [a, b, v, w]: [&str; 4]) {
        self.pair(o, [a, b], x);
        put(
            o,
            format_args!(
                "mul.rn.f32 {a},{a},{root}; mul.rn.f32 {b},{b},{root}; mul.rn.f32 {a},{a},{v}; mul.rn.f32 {b},{b},{w}; cvt.rn.{}x2.f32 {x},{b},{a};",
                self.kind()
            ),
        );
    }

    /// What a row is multiplied by whose squares have this sum.
    pub(super) fn root(&self, o: &mut String, to: &str, sum: &str, eps: u32) {
        let k = (self.k as f32).to_bits();
        put(o, format_args!("div.rn.f32 {to},{sum},0f{k:08X}; add.rn.f32 {to},{to},0f{eps:08X};"));
        inverse_root(o, to, to);
    }
}
