//! Tests of the text: its values against float64.

use super::text::Program;
use crate::kernels::matmul::epilogue::KeptAfter;
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::kernels::quantized::qmm_joined::Push;
use crate::vulkan::kernels::quantized::trial::{
    Chance, Quantised, added, bytes, gated, read, rounded, same, whole,
};
use crate::vulkan::kernels::tests::ptx::{Memory, Program as Reader};

/// Rows by one matrix with what is added, by three, and by two at once with a gated unit: rows and matrices that end inside what a
/// warp has of them, spans that end inside a turn of the loop.
#[test]
fn texts_compute_what_products_are() {
    let ways: [([u32; 3], Option<KeptAfter>); 3] =
        [([70, 0, 0], Some(added())), ([66, 18, 30], None), ([44, 44, 0], Some(gated()))];
    for (m, k) in [(19, 64), (32, 320), (17, 512)] {
        for (lengths, after) in ways {
            let (mut c, mut memory) = (Chance(11), Memory::default());
            let all: Vec<Quantised> = lengths
                .iter()
                .filter(|&&n| n > 0)
                .map(|&n| Quantised::new(&mut c, &mut memory, [n as usize, k, 0]))
                .collect();
            let n = lengths[0] as usize;
            let (x, res) = (c.numbers(m * k, 1.0, 0.0), c.numbers(m * n, 1.0, 0.0));
            let program = Program { k: k as u32, lengths, after };
            let mut push = Push { x: memory.place(bytes(&x)), rows: m as u32, ..Push::default() };
            for (i, q) in all.iter().enumerate() {
                push.parts[0][i] = q.matrix.parts[0];
                push.parts[3][i] = memory.place(vec![0; 2 * m * lengths[i] as usize]);
            }
            if lengths[1] == 0 {
                push.parts[3][1] = memory.place(bytes(&res));
            }
            let units = program.rows().all() as usize;
            whole(&program.text(), &program);
            Reader::read(&program.text()).run(&mut memory, push.bytes(), units);
            let products = |q: &Quantised| -> Vec<f64> { x.chunks(k).flat_map(|row| q.times(row)).collect() };
            let first = products(&all[0]);
            match (after, lengths[1]) {
                (Some(_), 0) => {
                    let sum = first.iter().zip(&res).map(|(a, b)| a + b).collect();
                    same("a residual", &read(&memory, push.parts[3][0]), &rounded(sum));
                }
                (Some(_), _) => {
                    let gates = rounded(first.iter().map(|g| 1.0 / (1.0 + (-g).exp())).collect());
                    let unit = rounded(gates.iter().zip(&first).map(|(s, g)| s * g).collect());
                    let gated = unit.iter().zip(products(&all[1])).map(|(g, u)| g * u).collect();
                    same("a gated unit", &read(&memory, push.parts[3][0]), &rounded(gated));
                }
                _ => {
                    for (q, at) in all.iter().zip(push.parts[3]) {
                        same("several", &read(&memory, at), &products(q));
                    }
                }
            }
        }
    }
}
