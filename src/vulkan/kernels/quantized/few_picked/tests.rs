//! Tests of the texts: they are whole, and give what products with picked matrices are.

use super::program::Program;
use super::{Push, Rows};
use crate::core::Dtype;
use crate::kernels::matmul::epilogue::KeptAfter;
use crate::kernels::quantized::quant::{Format, Mode};
use crate::kernels::sort::{Followed, Selection};
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::kernels::quantized::qmm_joined::Picks;
use crate::vulkan::kernels::quantized::trial::{
    Chance, Quantised, elements, gated, gated_biased, on, read_as, rounded_as, same, whole,
};
use crate::vulkan::kernels::sort::choice::Choice;
use crate::vulkan::kernels::tests::ptx::{Memory, Program as Reader};
use crate::vulkan::tune::fusion::row_product;
use crate::vulkan::tune::quantized::Shape;
use crate::vulkan::tune::quantized::few_picked::{items, layout};
use crate::vulkan::tune::tests::devices;

const FORMAT: Format = Format { mode: Mode::Affine, group: 64, bits: 4 };

/// The program for so many picks of so many matrices of `n` rows of length `k`, of which `sides` are multiplied by at once or behind each
/// other.
fn program(
    format: Format,
    [k, n, matrices, picks, share]: [i64; 5],
    sides: usize,
    after: Option<KeptAfter>,
    dtype: Dtype,
) -> Option<Program> {
    let mut p = devices::h200();
    p.features.ptx = true;
    let product = row_product(format, dtype, [1, k, sides as i64 * n]);
    let s = Shape { batch: picks, matrices, ..product };
    let laid = layout(&p, &s, after.is_some(), false)?;
    let mut lengths = [0; 3];
    lengths[..sides].fill(n as u32);
    let rows = Rows { form: laid.form, format, dtype, k: k as u32, lengths, norm: None, after, picked: true };
    Some(Program { rows, slots: laid.slots, matrices: matrices as u32, share: share as u32, choice: None })
}

#[test]
fn texts_are_whole() {
    for k in [256, 512, 768, 1024, 1792, 2048] {
        for matrices in [2, 4, 60, 128, 256, 496, 512, 900] {
            for (sides, after) in [(1, None), (2, None), (2, Some(gated()))] {
                // Very many leave no room for long rows.
                let Some(program) = program(FORMAT, [k, 48, matrices, 16, 8], sides, after, Dtype::BF16)
                else {
                    assert!(matrices > 256, "{k}");
                    continue;
                };
                whole(&program.text(), &program);
            }
        }
    }
}

/// The matrix that an index picks.
fn clamped(pick: i32, matrices: usize) -> usize {
    let from_end = if pick < 0 { pick + matrices as i32 } else { pick };
    from_end.clamp(0, matrices as i32 - 1) as usize
}

/// Runs the text for such picks by so many workgroups, and holds what it gives against float64. An element of x may be set.
fn compare(
    [k, n, matrices, share]: [usize; 4],
    picks: &[i32],
    groups: usize,
    odd: Option<(usize, f64)>,
    (sides, after): (usize, Option<KeptAfter>),
    dtype: Dtype,
) {
    compare_coded([k, n, matrices, share], picks, groups, odd, (sides, after), (FORMAT, dtype, None));
}

/// The same of a format; with a choice the picks are what it makes, of rows by chance.
fn compare_coded(
    [k, n, matrices, share]: [usize; 4],
    picks: &[i32],
    groups: usize,
    odd: Option<(usize, f64)>,
    (sides, after): (usize, Option<KeptAfter>),
    (format, dtype, choice): (Format, Dtype, Option<Choice>),
) {
    let sizes = [k, n, matrices, picks.len(), share].map(|x| x as i64);
    let after = after.map(|a| on(dtype, a));
    let mut program = program(format, sizes, sides, after, dtype).unwrap();
    program.choice = choice;
    let rounded = |v| rounded_as(dtype, v);
    let (mut c, mut memory) = (Chance(7), Memory::default());
    // Values of a few hundredths and less.
    let scales = if format.mode == Mode::Nvfp4 { 0x02..0x18 } else { 116..122 };
    let mut made =
        |_| Quantised::coded((dtype, format), scales.clone(), &mut c, &mut memory, [matrices * n, k]);
    let all: Vec<Quantised> = (0..sides).map(&mut made).collect();
    let mut x = c.numbers(picks.len() / share * k, 1.0, 0.0);
    if let Some((at, value)) = odd {
        x[at] = value;
    }
    let mut push = Push { x: memory.place(elements(dtype, &x)), rows: picks.len() as u32, ..Push::default() };
    let results = if after.is_some() { 1 } else { sides };
    for (i, q) in all.iter().enumerate() {
        (push.parts[0][i], push.parts[1][i], push.parts[2][i]) = q.matrix.parts.into();
        if i < results {
            push.parts[3][i] = memory.place(vec![0xff; 2 * picks.len() * n]);
        }
    }
    // What belongs to each matrix, of each side.
    let biased = after.is_some_and(|a| a.picks());
    let tables = [0, 1].map(|_| rounded(c.numbers(matrices * n, 1.0, 0.0)));
    if biased {
        (0..2).for_each(|i| push.parts[3][i + 1] = memory.place(elements(dtype, &tables[i])));
    }
    let indices = memory.place(picks.iter().flat_map(|p| p.to_le_bytes()).collect());
    let count = picks.len() as i64;
    push.pick(&Picks { indices: (indices, true), count, matrices: matrices as i64, share: share as i64 });
    let mut of_choice = None;
    if let Some(choice) = choice {
        let rows = elements(dtype, &c.numbers(picks.len() / share * choice.n as usize, 2.0, 0.0));
        push.norm = memory.place(rows.clone());
        push.sums = memory.place(vec![0xff; 2 * picks.len()]);
        of_choice = Some(choice.alone(rows));
    }
    let splits = program.rows.form.splits as usize;
    if splits > 1 {
        let most = (items(program.matrices) * program.rows.units() * program.rows.sides()) as usize;
        push.sums = memory.place(vec![0xff; 4 * program.rows.form.left(most as u32)]);
        push.norm = memory.place(vec![0; 4 * groups]);
    }
    if choice.is_none() {
        whole(&program.text(), &program);
    }
    Reader::read(&program.text()).run(&mut memory, push.bytes(), groups * splits);
    let mut picks = picks.to_vec();
    if let Some([places, chosen]) = &of_choice {
        assert_eq!((memory.bytes(indices), memory.bytes(push.sums)), (&places[..], &chosen[..]));
        picks = places.chunks(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect();
    }
    let products = |q: &Quantised| -> Vec<f64> {
        let of_pick = |(i, &pick): (usize, &i32)| {
            let (row, from) = (&x[i / share * k..][..k], clamped(pick, matrices) * n);
            q.times_rows(row, from..from + n)
        };
        picks.iter().enumerate().flat_map(of_pick).collect()
    };
    if after.is_some() {
        let side = |i: usize| {
            let made = products(&all[i]);
            let of = |pick: &i32| &tables[i][clamped(*pick, matrices) * n..][..n];
            let added = picks.iter().flat_map(of).zip(&made).map(|(b, p)| b + p);
            if biased { rounded(added.collect()) } else { made }
        };
        let (gate, up) = (side(0), side(1));
        let sigmoid = rounded(gate.iter().map(|g| 1.0 / (1.0 + (-g).exp())).collect());
        let unit = rounded(sigmoid.iter().zip(&gate).map(|(s, g)| s * g).collect());
        let want = rounded(unit.iter().zip(&up).map(|(g, u)| g * u).collect());
        return same("a gated unit", &read_as(dtype, &memory, push.parts[3][0]), &want);
    }
    for (q, at) in all.iter().zip(push.parts[3]) {
        same("products", &read_as(dtype, &memory, at), &products(q));
    }
}

/// Picks by chance.
fn any(count: usize, matrices: usize) -> Vec<i32> {
    let mut c = Chance(count as u64);
    (0..count).map(|_| (c.word() % matrices as u32) as i32).collect()
}

#[test]
fn texts_compute_what_picked_products_are() {
    for (sizes, picks, groups) in [
        ([256, 48, 4, 1], any(9, 4), 3),
        ([512, 32, 40, 8], any(64, 40), 9),
        ([768, 48, 128, 1], any(256, 128), 100),
        ([768, 16, 5, 2], any(24, 5), 40),
        // More than a subgroup looks at in a turn.
        ([256, 16, 128, 1], any(300, 128), 50),
        ([768, 16, 300, 1], any(512, 300), 7),
        // Shared memory has room for one side of a unit.
        ([4096, 32, 5, 2], any(12, 5), 4),
        ([2304, 48, 3, 1], any(17, 3), 5),
    ] {
        for (sides, after) in [(1, None), (2, None), (2, Some(gated())), (2, Some(gated_biased()))] {
            compare(sizes, &picks, groups, None, (sides, after), Dtype::BF16);
            compare(sizes, &picks, groups, None, (sides, after), Dtype::F16);
        }
    }
}

/// Formats that are known.
fn formats() -> Vec<Format> {
    let affine = |bits| [32, 64, 128].map(|group| Format { mode: Mode::Affine, group, bits });
    let small = [(Mode::Mxfp4, 32, 4), (Mode::Mxfp8, 32, 8), (Mode::Nvfp4, 16, 4)]
        .map(|(mode, group, bits)| Format { mode, group, bits });
    affine(4).into_iter().chain(affine(8)).chain(small).collect()
}

/// Rows that end within a piece, within what its factors are copied with, in whole pieces, and such as several workgroups share.
#[test]
fn texts_of_other_formats_compute_what_picked_products_are() {
    for format in formats() {
        for (k, n, matrices, share, count, groups, pair) in [
            (256, 32, 3, 1, 12, 4, false),
            (288, 48, 4, 2, 8, 3, true),
            (896, 16, 5, 1, 24, 7, false),
            (2880, 16, 4, 1, 10, 2, true),
        ] {
            let k = usize::next_multiple_of(k, format.group as usize);
            let unit = if k == 288 { gated() } else { gated_biased() };
            let way = if pair { (2, Some(unit)) } else { (1, None) };
            let picks = any(count, matrices);
            for dtype in [Dtype::BF16, Dtype::F16] {
                let format = (format, dtype, None);
                compare_coded([k, n, matrices, share], &picks, groups, None, way, format);
            }
        }
    }
}

/// Workgroups share rows that are too long for one; the one that comes last adds up their parts.
#[test]
fn texts_of_long_rows_compute_what_picked_products_are() {
    let all = formats();
    let [g32, four, .., eight, _, mxfp4, mxfp8, nvfp4] = all[..] else { panic!("formats") };
    for (format, k, picks, share, groups) in [
        (four, 14336, any(9, 3), 1, 3),
        (four, 4416, vec![1; 20], 2, 2),
        (g32, 4128, any(12, 3), 3, 1),
        (eight, 2880, any(16, 3), 2, 4),
        (eight, 4096, vec![0, 2, 2, 0, 0, 2, 2, 0, 2, 0], 1, 5),
        (mxfp4, 14336, any(17, 3), 1, 2),
        (mxfp8, 2912, any(10, 3), 2, 3),
        (nvfp4, 4128, any(10, 3), 1, 3),
    ] {
        let program = program(format, [k, 48, 3, picks.len() as i64, share], 1, None, Dtype::BF16);
        assert!(program.unwrap().rows.form.splits > 1);
        for (dtype, sides, after) in
            [(Dtype::BF16, 1, None), (Dtype::F16, 2, Some(gated_biased())), (Dtype::BF16, 2, None)]
        {
            let sizes = [k, 48, 3, share].map(|n| n as usize);
            compare_coded(sizes, &picks, groups, None, (sides, after), (format, dtype, None));
        }
    }
}

/// Numbers that x has no range for besides what codes need.
#[test]
fn large_numbers_are_multiplied_one_by_one() {
    for format in formats() {
        for (k, at) in [(256, 3 * 256 + 5), (384, 77), (2944, 2944 + 2900)] {
            let odd = Some((at, 1e30));
            let (picks, way) = (any(9, 3), (1, None));
            compare_coded([k, 32, 3, 1], &picks, 2, odd, way, (format, Dtype::BF16, None));
        }
    }
}

/// Rows of one one and zeros pick values, which are exact, of small scales and large ones.
#[test]
fn values_of_small_floats_are_exact() {
    const K: usize = 288;
    for (format, dtype) in
        formats().into_iter().filter(|f| !f.affine()).flat_map(|f| [(f, Dtype::BF16), (f, Dtype::F16)])
    {
        let scales = match (format.mode, dtype) {
            (Mode::Nvfp4, _) => 0..0x7f,
            (_, Dtype::F16) => 118..134,
            _ => 40..240,
        };
        let (mut chance, mut memory) = (Chance(5), Memory::default());
        let w = Quantised::coded((dtype, format), scales, &mut chance, &mut memory, [8 * 16, K]);
        let program = program(format, [K as i64, 16, 8, 64, 1], 1, None, dtype).unwrap();
        let places: Vec<usize> = (0..64).map(|i| (i * 37 + 9) % K).collect();
        let one = |&at: &usize| (0..K).map(|i| f64::from(u8::from(i == at))).collect::<Vec<_>>();
        let rows: Vec<Vec<f64>> = places.iter().map(one).collect();
        let mut push = Push { x: memory.place(elements(dtype, &rows.concat())), rows: 64, ..Push::default() };
        (push.parts[0][0], push.parts[1][0]) = (w.matrix.parts[0], w.matrix.parts[1]);
        push.parts[3][0] = memory.place(vec![0; 2 * 64 * 16]);
        let picks = any(64, 8);
        let indices = memory.place(picks.iter().flat_map(|p| p.to_le_bytes()).collect());
        push.pick(&Picks { indices: (indices, false), count: 64, matrices: 8, share: 1 });
        Reader::read(&program.text()).run(&mut memory, push.bytes(), 3);
        let got = read_as(dtype, &memory, push.parts[3][0]);
        for ((row, got), &pick) in rows.iter().zip(got.chunks(16)).zip(&picks) {
            let from = pick as usize * 16;
            assert_eq!(got, w.times_rows(row, from..from + 16), "{format:?} {dtype}");
        }
    }
}

/// A code that is no number makes the results of its row none.
#[test]
fn codes_that_are_no_numbers_stay_so() {
    let format = Format { mode: Mode::Mxfp8, group: 32, bits: 8 };
    let program = program(format, [288, 32, 1, 8, 1], 1, None, Dtype::BF16).unwrap();
    let (mut memory, mut codes) = (Memory::default(), vec![0x38; 32 * 288]);
    codes[3 * 288 + 277] = 0xff;
    let x = memory.place(elements(Dtype::BF16, &vec![1.0; 8 * 288]));
    let mut push = Push { x, rows: 8, ..Push::default() };
    (push.parts[0][0], push.parts[1][0]) = (memory.place(codes), memory.place(vec![0x70; 32 * 9]));
    push.parts[3][0] = memory.place(vec![0; 2 * 8 * 32]);
    let indices = memory.place(vec![0; 4 * 8]);
    push.pick(&Picks { indices: (indices, false), count: 8, matrices: 1, share: 1 });
    Reader::read(&program.text()).run(&mut memory, push.bytes(), 1);
    for (i, y) in read_as(Dtype::BF16, &memory, push.parts[3][0]).iter().enumerate() {
        assert_eq!(y.is_nan(), i % 32 == 3, "{i}: {y}");
    }
}

/// All rows pick a matrix, a row picks one twice, nine do, nobody does, and indices lie outside.
#[test]
fn picks_may_be_alike_and_lie_outside() {
    let same = [vec![2; 24], vec![0, 0, 3, 3, 3, 0, 0, 0], vec![1; 9]];
    for picks in same.iter().chain([&vec![-1, -4, -5, 4, 9, i32::MAX, i32::MIN, 0]]) {
        for groups in [1, 5, 30] {
            compare([256, 32, 4, 1], picks, groups, None, (1, None), Dtype::BF16);
            compare([512, 16, 4, 1], picks, groups, None, (2, Some(gated())), Dtype::BF16);
        }
    }
}

/// Codes and biases are multiplied apart; what infinities give is that of their sums.
#[test]
fn infinities_are_multiplied_one_by_one() {
    let picks = [0, 1, 2, 3, 2, 2, 1, 0];
    for value in [f64::INFINITY, f64::NEG_INFINITY] {
        compare([256, 32, 4, 1], &picks, 3, Some((3 * 256 + 5, value)), (1, None), Dtype::BF16);
        compare([256, 32, 4, 1], &picks, 3, Some((3 * 256 + 5, value)), (1, None), Dtype::F16);
        compare([256, 32, 4, 2], &picks, 3, Some((3 * 256 + 5, value)), (2, None), Dtype::BF16);
        compare([256, 32, 4, 2], &picks, 3, Some((3 * 256 + 5, value)), (2, None), Dtype::F16);
    }
}

/// A kernel that makes the picks by itself stores what the choice alone does, bit by bit.
#[test]
fn picks_may_be_chosen_here() {
    for (sizes, rows, groups) in [
        ([256, 48, 16, 8], 1, 3),
        ([512, 32, 40, 8], 7, 9),
        ([768, 16, 128, 8], 20, 40),
        ([768, 48, 60, 2], 64, 5),
    ] {
        for (dtype, softmax, after) in [
            (Dtype::BF16, true, Followed::Divided),
            (Dtype::F16, true, Followed::Nothing),
            (Dtype::BF16, false, Followed::Softmax),
        ] {
            let (n, count) = (sizes[2] as u32, sizes[3] as u32);
            let how = Selection { from: n - count, count, softmax, negated: false, after };
            let (choice, picks) = (Choice { n, dtype, how }, vec![0; rows * sizes[3]]);
            compare_coded(sizes, &picks, groups, None, (2, Some(gated())), (FORMAT, dtype, Some(choice)));
            compare_coded(sizes, &picks, groups, None, (1, None), (FORMAT, dtype, Some(choice)));
        }
    }
}
