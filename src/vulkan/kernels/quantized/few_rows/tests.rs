//! Tests of the texts: all of them are whole, and programs become the steps that they say.

use smallvec::smallvec;

use super::program::Program;
use super::steps;
use crate::core::Dtype;
use crate::kernels::Src;
use crate::kernels::matmul::epilogue::{KeptAfter, Origin};
use crate::kernels::quantized::quant::{Format, Mode};
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::kernels::quantized::push::Push;
use crate::vulkan::kernels::quantized::qmm_joined::{Joined, Matrix};
use crate::vulkan::kernels::quantized::steps::{From, Function, Step};
use crate::vulkan::kernels::quantized::trial::{
    FewRows, added, after, elements, gated, instr, long, normalised_as, on, rounded, rounded_as, whole,
};
use crate::vulkan::kernels::tests::ptx::Program as Reader;
use crate::vulkan::tune::fusion::row_product;
use crate::vulkan::tune::quantized::few_rows::{held, possible};
use crate::vulkan::tune::tests::devices;

const FORMAT: Format = Format { mode: Mode::Affine, group: 64, bits: 4 };

#[test]
fn programs_become_steps() {
    let (a, b) = (From::Product(0), From::Product(1));
    let step = |function, args: &[From]| Step { function, args: args.into() };
    let unit = [
        step(Function::Sigmoid, &[a]),
        step(Function::Multiply, &[a, From::Step(0)]),
        step(Function::Multiply, &[From::Step(1), b]),
    ];
    assert_eq!(steps(Dtype::BF16, &gated()).unwrap()[..], unit);
    assert_eq!(steps(Dtype::F16, &on(Dtype::F16, gated())).unwrap()[..], unit);
    assert!(steps(Dtype::F16, &gated()).is_none());
    assert_eq!(steps(Dtype::BF16, &added()).unwrap()[..], [step(Function::Add, &[From::Array(0), a])]);
    let other = smallvec![instr("power", &[Src::Input(1), Src::Input(0)])];
    assert!(steps(Dtype::BF16, &after(other, smallvec![Origin::Product(0), Origin::Array(0)])).is_none());
}

#[test]
fn texts_are_whole() {
    let ways = [
        ([4096, 1024, 1024], None),
        ([64, 0, 0], Some(added())),
        ([48, 48, 0], Some(gated())),
        ([48, 48, 0], Some(long())),
        ([16, 32, 0], None),
    ];
    for (m, dtype) in [8, 16, 32].into_iter().flat_map(|m| [(m, Dtype::BF16), (m, Dtype::F16)]) {
        for k in [256, 1024, 3072, 4096, 5120, 12288] {
            for (lengths, after) in ways {
                let after = after.map(|a| on(dtype, a));
                let s = row_product(FORMAT, dtype, [m, k, 64]);
                let mut p = devices::h200();
                p.features.ptx = true;
                let form = possible(&p, &s).unwrap();
                for norm in
                    [None, Some(1e-6_f32.to_bits())].into_iter().filter(|n| n.is_none() || form.splits == 1)
                {
                    let program = Program {
                        form,
                        format: FORMAT,
                        dtype,
                        k: k as u32,
                        lengths,
                        norm,
                        after,
                        picked: false,
                    };
                    whole(&program.text(), &form);
                }
            }
        }
    }
}

#[test]
fn rows_beyond_the_first_have_their_places() {
    let all =
        Push { x: 1 << 20, parts: [[0; 3], [0; 3], [0; 3], [1 << 24, 1 << 25, 1 << 26]], ..Push::default() };
    for (lengths, after, steps) in
        [([64, 16, 32], None, [64, 16, 32]), ([64, 0, 0], Some(added()), [64, 64, 64])]
    {
        let matrices: Vec<Matrix> =
            lengths.into_iter().filter(|&n| n > 0).map(|rows| Matrix { rows, parts: [0; 3] }).collect();
        let j =
            Joined { after, ..Joined::alone(Some(FORMAT), Dtype::BF16, [64, 1024], all.x, &matrices, &[]) };
        let (told, own) = all.of_rows(&j, [32, 7]);
        assert_eq!(own[0], (told.parts[3][0], 2 * 7 * 64));
        assert_eq!(own.len(), matrices.len());
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
    let mut p = devices::h200();
    p.features.ptx = true;
    let sizes = [(3, 256, 2), (8, 768, 2), (13, 1280, 1), (20, 512, 2), (5, 4608, 2)];
    for ((m, k, groups), dtype) in sizes.into_iter().flat_map(|s| [(s, Dtype::BF16), (s, Dtype::F16)]) {
        let form = possible(&p, &row_product(FORMAT, dtype, [m, k, 64])).unwrap();
        let (m, k) = (m as usize, k as usize);
        for (lengths, after) in
            [([48, 0, 0], Some(added())), ([16, 32, 16], None), ([32, 32, 0], Some(gated()))]
        {
            let after = after.map(|a| on(dtype, a));
            let mut t = FewRows::of(dtype, 9, [m, k, 64], lengths);
            // Rows are normalised but before a residual; once by weights that leave the range of codes, or whose products with rows do.
            let norm = (form.splits == 1 && lengths[1] > 0).then_some(1e-6_f32.to_bits());
            let beyond = dtype == Dtype::F16 && after.is_none();
            let large = if beyond {
                4.0
            } else if k > 256 || dtype == Dtype::F16 {
                1.0
            } else {
                1e30
            };
            if beyond && norm.is_some() {
                t.enlarge(32768.0);
            }
            let weights = rounded(t.chance.numbers(k, 0.5, 1.0).iter().map(|w| w * large).collect());
            let program =
                Program { form, format: FORMAT, dtype, k: k as u32, lengths, norm, after, picked: false };
            let left = 4 * form.left(program.units() * program.sides());
            (t.push.sums, t.push.norm) = (t.memory.place(vec![0; left]), t.memory.place(vec![0; 4 * 64]));
            if norm.is_some() {
                t.push.norm = t.memory.place(elements(dtype, &weights));
                t.rows.iter_mut().for_each(|row| *row = normalised_as(dtype, row, &weights));
            }
            let workgroups = groups * form.splits as usize;
            Reader::read(&program.text()).run(&mut t.memory, t.push.bytes(), workgroups);
            t.compare(after.is_some());
        }
    }
}

/// The same with codes in registers: each count of groups of a subgroup, rows that workgroups share, several units of a workgroup, one or two
/// sides; rows that are none of the last.
#[test]
fn texts_that_hold_codes_compute_what_products_are() {
    let mut p = devices::h200();
    p.features.ptx = true;
    for (m, k) in [(20, 1024), (32, 2560), (17, 3072), (30, 1536)] {
        let ways: [([u32; 3], Option<KeptAfter>); 3] =
            [([48, 0, 0], Some(added())), ([16, 32, 16], None), ([32, 32, 0], Some(gated()))];
        for (dtype, (lengths, after)) in
            [Dtype::BF16, Dtype::F16].into_iter().flat_map(|d| ways.map(|w| (d, w)))
        {
            let after = after.map(|a| on(dtype, a));
            let program = |form| Program {
                form,
                format: FORMAT,
                dtype,
                k: k as u32,
                lengths,
                norm: None,
                after,
                picked: false,
            };
            let sides = program(possible(&p, &row_product(FORMAT, dtype, [8, 256, 64])).unwrap()).sides();
            let mut form = held(&p, dtype, [m as i64, k as i64], [2, sides]).unwrap();
            let units = program(form).units();
            let lists = units.div_ceil(2);
            form.held = units.div_ceil(lists) * sides;
            form.buffers = 1;
            let mut t = FewRows::of(dtype, 9, [m, k, 64], lengths);
            let weights = rounded_as(dtype, t.chance.numbers(k, 0.5, 1.0));
            let norm = (lengths[1] > 0).then_some(1e-6_f32.to_bits());
            if norm.is_some() {
                t.push.norm = t.memory.place(elements(dtype, &weights));
                t.rows.iter_mut().for_each(|row| *row = normalised_as(dtype, row, &weights));
            }
            let text = Program { norm, ..program(form) }.text();
            whole(&text, &form);
            Reader::read(&text).run(&mut t.memory, t.push.bytes(), (lists * form.parts) as usize);
            t.compare(after.is_some());
        }
    }
}
