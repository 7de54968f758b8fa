//! Tests of the text: its values against float64.

use super::join::LEFT;
use super::text::Program;
use crate::core::Dtype;
use crate::kernels::matmul::epilogue::KeptAfter;
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::kernels::quantized::trial::{FewRows, added, gated, long, on, whole};
use crate::vulkan::kernels::tests::ptx::Program as Reader;

/// One matrix with what is added, three, and two at once with a gated unit.
fn ways() -> [([u32; 3], Option<KeptAfter>); 3] {
    [([230, 0, 0], Some(added())), ([66, 18, 130], None), ([124, 124, 0], Some(gated()))]
}

/// Rows and matrices that end inside what a warp and a workgroup have of them, and parts of K of which the last is shorter.
fn compare(dtype: Dtype, group: u32, m: usize, k: usize, splits: u32) {
    for (lengths, after) in ways() {
        let after = after.map(|a| on(dtype, a));
        let program = Program { splits, group, dtype, k: k as u32, lengths, after };
        let mut t = FewRows::of(dtype, 11, [m, k, group as usize], lengths);
        let units = program.units();
        if splits > 1 {
            let floats = (units * splits * LEFT) as usize;
            t.push.sums = t.memory.place(vec![0xff; floats]);
            t.push.norm = t.memory.place(vec![0; 4 * units as usize]);
        }
        whole(&program.text(), &program);
        let pair = Program { lengths: [124, 124, 0], after: Some(on(dtype, long())), ..program };
        whole(&pair.text(), &pair);
        Reader::read(&program.text()).run(&mut t.memory, t.push.bytes(), (units * splits) as usize);
        t.compare(after.is_some());
    }
}

#[test]
fn texts_compute_what_products_are() {
    compare(Dtype::BF16, 64, 19, 256, 1);
    compare(Dtype::BF16, 64, 32, 1280, 2);
    compare(Dtype::BF16, 32, 29, 768, 1);
    compare(Dtype::BF16, 128, 24, 768, 3);
    compare(Dtype::BF16, 64, 7, 512, 2);
    compare(Dtype::F16, 64, 32, 1280, 2);
    compare(Dtype::F16, 32, 29, 768, 1);
    compare(Dtype::F16, 128, 24, 768, 3);
}
