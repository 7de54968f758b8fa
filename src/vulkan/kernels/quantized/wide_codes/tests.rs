//! Tests of the text: its values against float64.

use super::text::Program;
use crate::core::Dtype;
use crate::kernels::matmul::epilogue::KeptAfter;
use crate::kernels::quantized::quant::{Format, Mode};
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::kernels::quantized::push::Push;
use crate::vulkan::kernels::quantized::trial::{
    Chance, FewRows, Quantised, added, elements, gated, long, on, read_as, whole,
};
use crate::vulkan::kernels::tests::ptx::{Memory, Program as Reader};

/// One matrix with what is added, three, and two at once with a gated unit.
fn ways() -> [([u32; 3], Option<KeptAfter>); 3] {
    [([230, 0, 0], Some(added())), ([66, 18, 130], None), ([124, 124, 0], Some(gated()))]
}

fn affine(bits: u32, group: u32) -> Format {
    Format { mode: Mode::Affine, group, bits }
}

/// E2M1 and E4M3 with powers of two, and E2M1 with scales of E4M3.
const FLOATS: [Format; 3] = [
    Format { mode: Mode::Mxfp4, group: 32, bits: 4 },
    Format { mode: Mode::Mxfp8, group: 32, bits: 8 },
    Format { mode: Mode::Nvfp4, group: 16, bits: 4 },
];

fn program(dtype: Dtype, format: Format, [columns, k, splits]: [u32; 3], lengths: [u32; 3]) -> Program {
    Program { splits, format, columns, dtype, k, lengths, after: None }
}

/// Where workgroups that share K leave their sums.
fn share(program: &Program, memory: &mut Memory, push: &mut Push) {
    let units = program.units();
    if program.splits > 1 {
        push.sums = memory.place(vec![0xff; (units * program.splits * program.left()) as usize]);
        push.norm = memory.place(vec![0; 4 * units as usize]);
    }
}

/// Rows and matrices that end inside what a warp and a workgroup have of them, and parts of K of which the last is shorter.
fn compare(dtype: Dtype, format: Format, [m, k, splits]: [u32; 3]) {
    for (lengths, after) in ways() {
        let after = after.map(|a| on(dtype, a));
        let columns = m.next_multiple_of(8).next_power_of_two();
        let program = Program { after, ..program(dtype, format, [columns, k, splits], lengths) };
        let mut t = FewRows::coded(dtype, format, [m as usize, k as usize], lengths);
        share(&program, &mut t.memory, &mut t.push);
        whole(&program.text(), &program);
        let pair = Program { lengths: [124, 124, 0], after: Some(on(dtype, long())), ..program };
        whole(&pair.text(), &pair);
        let groups = (program.units() * splits) as usize;
        Reader::read(&program.text()).run(&mut t.memory, t.push.bytes(), groups);
        t.compare(after.is_some());
    }
}

#[test]
fn texts_compute_what_products_are() {
    compare(Dtype::BF16, affine(4, 64), [19, 256, 1]);
    compare(Dtype::BF16, affine(4, 64), [32, 1280, 2]);
    compare(Dtype::BF16, affine(4, 32), [29, 768, 1]);
    compare(Dtype::BF16, affine(4, 128), [24, 768, 3]);
    compare(Dtype::F16, affine(4, 64), [32, 1280, 2]);
    compare(Dtype::F16, affine(4, 32), [29, 768, 1]);
    compare(Dtype::F16, affine(4, 128), [24, 768, 3]);
}

#[test]
fn texts_of_eight_bits_and_fewer_rows_compute_what_products_are() {
    for dtype in [Dtype::BF16, Dtype::F16] {
        for (format, sizes) in [
            (affine(4, 64), [7, 512, 2]),
            (affine(4, 32), [2, 768, 1]),
            (affine(4, 128), [16, 768, 3]),
            (affine(8, 32), [8, 640, 1]),
            (affine(8, 32), [17, 384, 2]),
            (affine(8, 64), [3, 640, 2]),
            (affine(8, 64), [32, 128, 1]),
            (affine(8, 128), [9, 896, 3]),
            (affine(8, 128), [31, 384, 1]),
        ] {
            compare(dtype, format, sizes);
        }
    }
}

/// Codes across words: of every group, lanes whose codes have one scale and several batches.
#[test]
fn texts_of_odd_codes_compute_what_products_are() {
    for dtype in [Dtype::BF16, Dtype::F16] {
        for bits in [2, 3, 5, 6] {
            compare(dtype, affine(bits, 64), [7, 1280, 2]);
            compare(dtype, affine(bits, 32), [19, 768, 1]);
            compare(dtype, affine(bits, 128), [32, 768, 3]);
        }
    }
}

#[test]
fn texts_of_small_floats_compute_what_products_are() {
    for format in FLOATS {
        for sizes in [[8, 1280, 1], [13, 768, 2], [30, 1280, 3], [2, 256, 1]] {
            compare(Dtype::BF16, format, sizes);
        }
    }
    compare(Dtype::F16, FLOATS[2], [8, 1280, 1]);
    compare(Dtype::F16, FLOATS[2], [27, 768, 2]);
}

/// Rows of one one and zeros pick values, which are exact, of scales from the smallest to large ones.
#[test]
fn values_of_small_floats_are_exact() {
    const ROWS: usize = 208;
    const K: usize = 256;
    let ways = FLOATS.map(|f| (Dtype::BF16, f)).into_iter().chain([(Dtype::F16, FLOATS[2])]);
    for (dtype, format) in ways {
        let scales = match format.mode {
            Mode::Nvfp4 => 0..0x7f,
            // Products with the smallest codes keep all their digits.
            Mode::Mxfp8 => 6..246,
            _ => 0..252,
        };
        let (mut chance, mut memory) = (Chance(5), Memory::default());
        let w = Quantised::coded((dtype, format), scales, &mut chance, &mut memory, [ROWS, K]);
        let program = program(dtype, format, [32, K as u32, 1], [ROWS as u32, 0, 0]);
        let places: Vec<usize> = (0..32).map(|_| chance.word() as usize % K).collect();
        let one = |&at: &usize| (0..K).map(|i| f64::from(u8::from(i == at))).collect::<Vec<_>>();
        let rows: Vec<Vec<f64>> = places.iter().map(one).collect();
        let mut push = Push { x: memory.place(elements(dtype, &rows.concat())), rows: 32, ..Push::default() };
        (push.parts[0][0], push.parts[1][0]) = (w.matrix.parts[0], w.matrix.parts[1]);
        push.parts[3][0] = memory.place(vec![0; 2 * 32 * ROWS]);
        Reader::read(&program.text()).run(&mut memory, push.bytes(), program.units() as usize);
        let got = read_as(dtype, &memory, push.parts[3][0]);
        for (row, got) in rows.iter().zip(got.chunks(ROWS)) {
            assert_eq!(got, w.times(row), "{format:?} {dtype}");
        }
    }
}

/// A code that is no number makes the results of its row none.
#[test]
fn codes_that_are_no_numbers_stay_so() {
    for format in [FLOATS[1], FLOATS[2]] {
        let (mut memory, row) = (Memory::default(), 256);
        let (mut codes, mut scales) =
            (vec![0x38; 32 * row * format.bits as usize / 8], vec![0x38; 32 * row / 16]);
        match format.mode {
            Mode::Mxfp8 => codes[3 * row + 77] = 0xff,
            _ => scales[3 * row / 16 + 5] = 0x7f,
        }
        let program = program(Dtype::BF16, format, [8, row as u32, 1], [32, 0, 0]);
        let x = memory.place(elements(Dtype::BF16, &vec![1.0; 8 * row]));
        let mut push = Push { x, rows: 8, ..Push::default() };
        (push.parts[0][0], push.parts[1][0]) = (memory.place(codes), memory.place(scales));
        push.parts[3][0] = memory.place(vec![0; 2 * 8 * 32]);
        Reader::read(&program.text()).run(&mut memory, push.bytes(), 1);
        for (i, y) in read_as(Dtype::BF16, &memory, push.parts[3][0]).iter().enumerate() {
            assert_eq!(y.is_nan(), i % 32 == 3, "{format:?} {i}: {y}");
        }
    }
}
