//! Rows whose products are normalised: rows times weights are multiplied, and sums by what rows would have been.

use super::program::Program;
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::tune::quantized::few_rows::Form;

impl Program {
    /// Multiplies the rows that were asked for by the weights that normalise them, and leaves what subgroups have of their squares: sums of
    /// products are multiplied by what rows would be (`roots`).
    pub(super) fn weigh(&self, o: &mut String) {
        let tiles = self.form.tiles;
        (0..tiles).for_each(|j| put(o, format_args!("mov.f32 root{j},0f00000000;")));
        self.each_weight(o, |o, x, j| {
            self.pair(o, ["f0", "f1"], &format!("x{x}"));
            put(
                o,
                format_args!(
                    "fma.rn.f32 root{j},f0,f0,root{j}; fma.rn.f32 root{j},f1,f1,root{j}; mul.rn.f32 f0,f0,f2; mul.rn.f32 f1,f1,f3; cvt.rn.bf16x2.f32 x{x},f1,f0;"
                ),
            );
        });
        self.leave_squares(o);
    }

    /// What the rows of a thread's results are multiplied by: squares are summed up over subgroups.
    pub(super) fn roots(&self, o: &mut String, eps: u32) {
        let Form { tiles, warps, parts, .. } = self.form;
        put(o, format_args!("bar.sync 0;"));
        for r in 0..self.rounds() {
            put(o, format_args!("mov.f32 root{r},0f00000000; mov.u32 tmp2,squares;"));
            let row = if parts > 1 {
                put(o, format_args!("sub.u32 tmp,v{r},above;"));
                "tmp".to_string()
            } else {
                format!("v{r}")
            };
            put(o, format_args!("mad.lo.u32 tmp2,{row},4,tmp2;"));
            for w in 0..warps {
                put(
                    o,
                    format_args!(
                        "@mine{r} ld.shared.f32 f5,[tmp2+{}];\n@mine{r} add.f32 root{r},root{r},f5;",
                        4 * 8 * tiles * w
                    ),
                );
            }
            self.root(o, &format!("root{r}"), &format!("root{r}"), eps);
        }
    }
}
