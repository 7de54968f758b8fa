//! Tests of the text: its values against float64.

use super::text::Program;
use crate::kernels::matmul::epilogue::KeptAfter;
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::kernels::quantized::trial::{FewRows, added, gated, whole};
use crate::vulkan::kernels::tests::ptx::Program as Reader;

/// Rows by one matrix with what is added, by three, and by two at once with a gated unit: rows and matrices that end inside what a
/// warp has of them, spans that end inside a turn of the loop.
#[test]
fn texts_compute_what_products_are() {
    let ways: [([u32; 3], Option<KeptAfter>); 3] =
        [([70, 0, 0], Some(added())), ([66, 18, 30], None), ([44, 44, 0], Some(gated()))];
    for (m, k) in [(19, 64), (32, 320), (17, 512)] {
        for (lengths, after) in ways {
            let mut t = FewRows::new(11, [m, k, 0], lengths);
            let program = Program { k: k as u32, lengths, after };
            whole(&program.text(), &program);
            let units = program.rows().all() as usize;
            Reader::read(&program.text()).run(&mut t.memory, t.push.bytes(), units);
            t.compare(after.is_some());
        }
    }
}
