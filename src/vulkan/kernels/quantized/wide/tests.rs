//! Tests of the text: its values against float64.

use super::text::Program;
use crate::core::Dtype;
use crate::kernels::matmul::epilogue::KeptAfter;
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::kernels::quantized::trial::{FewRows, added, gated, long, on, whole};
use crate::vulkan::kernels::tests::ptx::Program as Reader;
use crate::vulkan::tune::gemv::wide::Form;

/// Rows by one matrix with what is added, by three, and by two at once with a gated unit: rows and matrices that end inside what a
/// warp has of them, spans that end inside a turn of the loop.
#[test]
fn texts_compute_what_products_are() {
    let ways: [([u32; 3], Option<KeptAfter>); 4] =
        [([70, 0, 0], Some(added())), ([66, 18, 30], None), ([44, 44, 0], Some(gated())), ([70, 0, 0], None)];
    let form = |blocks, teams, splits, columns, ring, window| Form {
        blocks,
        teams,
        splits,
        columns,
        ring,
        window,
        together: 1,
    };
    for (dtype, m, k, form) in [
        (Dtype::BF16, 19, 64, form(4, 1, 1, 32, 4, 2)),
        (Dtype::BF16, 32, 320, form(4, 1, 1, 32, 4, 2)),
        (Dtype::BF16, 17, 512, form(2, 4, 1, 32, 3, 2)),
        (Dtype::BF16, 32, 704, form(4, 2, 2, 32, 3, 3)),
        (Dtype::BF16, 8, 320, form(2, 8, 1, 8, 4, 4)),
        (Dtype::BF16, 5, 1216, form(3, 5, 1, 8, 4, 4)),
        (Dtype::BF16, 2, 64, form(1, 2, 3, 8, 2, 2)),
        (Dtype::BF16, 16, 640, form(6, 2, 2, 16, 4, 2)),
        (Dtype::F16, 32, 704, form(4, 2, 2, 32, 3, 3)),
        (Dtype::F16, 5, 1216, form(3, 5, 1, 8, 4, 4)),
        (Dtype::F16, 16, 640, form(6, 2, 2, 16, 4, 2)),
    ] {
        for (lengths, after) in ways {
            let mut t = FewRows::of(dtype, 11, [m, k, 0], lengths);
            let after = after.map(|a| on(dtype, a));
            let program = Program { form, dtype, k: k as u32, lengths, after };
            whole(&program.text(), &program);
            let pair = Program { lengths: [44, 44, 0], after: Some(on(dtype, long())), ..program };
            whole(&pair.text(), &pair);
            let units = (program.rows().all() * form.splits) as usize;
            t.push.sums = t.memory.place(vec![0; program.left()]);
            t.push.norm = t.memory.place(vec![0; 4 * units]);
            Reader::read(&program.text()).run(&mut t.memory, t.push.bytes(), units);
            t.compare(after.is_some());
            // The kernel that is told the sizes gives the same bits.
            if after.is_none() && lengths[1] == 0 {
                let results = |t: &FewRows| t.memory.bytes(t.push.parts[3][0]).to_vec();
                let was = results(&t);
                t.push.parts[1][0] = u64::from(program.k) | u64::from(lengths[0]) << 32;
                let text = program.of_any_size().text();
                whole(&text, &program);
                Reader::read(&text).run(&mut t.memory, t.push.bytes(), units);
                assert_eq!(was, results(&t));
            }
        }
    }
}
