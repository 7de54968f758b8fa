//! Tests of the texts: all of them are whole, and programs become the steps that they say.

use smallvec::smallvec;

use super::program::Program;
use super::{of_rows, steps};
use crate::core::Dtype;
use crate::kernels::Src;
use crate::kernels::matmul::epilogue::Origin;
use crate::kernels::quantized::quant::{Format, Mode};
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::kernels::quantized::qmm_joined::Push;
use crate::vulkan::kernels::quantized::steps::{From, Function, Step};
use crate::vulkan::kernels::quantized::trial::{
    Chance, Quantised, added, after, bytes, gated, instr, normalised, read, rounded, same, whole,
};
use crate::vulkan::kernels::tests::ptx::{Memory, Program as Reader};
use crate::vulkan::tune::fusion::row_product;
use crate::vulkan::tune::quantized::few_rows::possible;
use crate::vulkan::tune::tests::devices;

#[test]
fn programs_become_steps() {
    let (a, b) = (From::Product(0), From::Product(1));
    let step = |function, args: &[From]| Step { function, args: args.into() };
    let unit = [
        step(Function::Sigmoid, &[a]),
        step(Function::Multiply, &[a, From::Step(0)]),
        step(Function::Multiply, &[From::Step(1), b]),
    ];
    assert_eq!(steps(&gated()).unwrap()[..], unit);
    assert_eq!(steps(&added()).unwrap()[..], [step(Function::Add, &[From::Array(0), a])]);
    let other = smallvec![instr("maximum", &[Src::Input(1), Src::Input(0)])];
    assert!(steps(&after(other, smallvec![Origin::Product(0), Origin::Array(0)])).is_none());
}

#[test]
fn texts_are_whole() {
    let format = Format::new("test", Mode::Affine, 64, 4).unwrap();
    let ways = [
        ([4096, 1024, 1024], None),
        ([64, 0, 0], Some(added())),
        ([48, 48, 0], Some(gated())),
        ([16, 32, 0], None),
    ];
    for m in [8, 16, 32] {
        for k in [256, 1024, 3072, 4096, 5120, 12288] {
            for (lengths, after) in ways {
                let s = row_product(format, Dtype::BF16, [m, k, 64]);
                let mut p = devices::h200();
                p.features.ptx = true;
                let form = possible(&p, &s).unwrap();
                for norm in
                    [None, Some(1e-6_f32.to_bits())].into_iter().filter(|n| n.is_none() || form.splits == 1)
                {
                    let program = Program { form, k: k as u32, lengths, norm, after, picked: false };
                    whole(&program.text(), &form);
                }
            }
        }
    }
}

#[test]
fn rows_beyond_the_first_have_their_places() {
    let format = Format::new("test", Mode::Affine, 64, 4).unwrap();
    let mut p = devices::h200();
    p.features.ptx = true;
    let form = possible(&p, &row_product(format, Dtype::BF16, [64, 1024, 96])).unwrap();
    let all =
        Push { x: 1 << 20, parts: [[0; 3], [0; 3], [0; 3], [1 << 24, 1 << 25, 1 << 26]], ..Push::default() };
    for (lengths, after, steps) in
        [([64, 16, 32], None, [64, 16, 32]), ([64, 0, 0], Some(added()), [64, 64, 64])]
    {
        let program = Program { form, k: 1024, lengths, norm: None, after, picked: false };
        let told = of_rows(&program, all, 32, 7);
        assert_eq!((told.x - all.x, told.rows), (2 * 32 * 1024, 7));
        for i in 0..3 {
            assert_eq!(told.parts[3][i] - all.parts[3][i], 2 * 32 * steps[i]);
        }
    }
}

/// Products of few rows against float64: one matrix with what is added, three, and two at once with a gated unit, in each way that K is cut;
/// rows that are none of the last eight, more workgroups than units.
#[test]
fn texts_compute_what_products_are() {
    let format = Format::new("test", Mode::Affine, 64, 4).unwrap();
    let mut p = devices::h200();
    p.features.ptx = true;
    for (m, k, groups) in [(3, 256, 2), (8, 768, 2), (13, 1280, 1), (20, 512, 2), (5, 4608, 2)] {
        let form = possible(&p, &row_product(format, Dtype::BF16, [m, k, 64])).unwrap();
        let (m, k) = (m as usize, k as usize);
        for (lengths, after) in
            [([48, 0, 0], Some(added())), ([16, 32, 16], None), ([32, 32, 0], Some(gated()))]
        {
            let (mut c, mut memory) = (Chance(9), Memory::default());
            let all: Vec<Quantised> = lengths
                .iter()
                .filter(|&&n| n > 0)
                .map(|&n| Quantised::new(&mut c, &mut memory, [n as usize, k, 64]))
                .collect();
            let n = lengths[0] as usize;
            let (x, res) = (c.numbers(m * k, 1.0, 0.0), c.numbers(m * n, 1.0, 0.0));
            // Rows are normalised but before a residual; once by weights that leave the range of codes.
            let norm = (form.splits == 1 && lengths[1] > 0).then_some(1e-6_f32.to_bits());
            let large = if k == 256 { 1e30 } else { 1.0 };
            let weights: Vec<f64> = rounded(c.numbers(k, 0.5, 1.0).iter().map(|w| w * large).collect());
            let program = Program { form, k: k as u32, lengths, norm, after, picked: false };
            let left = 4 * form.left(program.units() * program.sides());
            let mut push = Push { x: memory.place(bytes(&x)), rows: m as u32, ..Push::default() };
            for (i, q) in all.iter().enumerate() {
                (push.parts[0][i], push.parts[1][i], push.parts[2][i]) = q.matrix.parts.into();
                push.parts[3][i] = memory.place(vec![0; 2 * m * lengths[i] as usize]);
            }
            if lengths[1] == 0 {
                push.parts[3][1] = memory.place(bytes(&res));
            }
            (push.sums, push.norm) = (memory.place(vec![0; left]), memory.place(vec![0; 4 * 64]));
            let mut rows: Vec<Vec<f64>> = x.chunks(k).map(<[f64]>::to_vec).collect();
            if norm.is_some() {
                push.norm = memory.place(bytes(&weights));
                rows.iter_mut().for_each(|row| *row = normalised(row, &weights));
            }
            Reader::read(&program.text()).run(&mut memory, push.bytes(), groups * form.splits as usize);
            let products = |q: &Quantised| -> Vec<f64> { rows.iter().flat_map(|row| q.times(row)).collect() };
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
