use super::*;
use crate::kernels::quantized::quant::{Format, Mode};
use crate::vulkan::kernels::attention::several::tests::Case;
use crate::vulkan::kernels::quantized::qmm_joined::Matrix;
use crate::vulkan::kernels::quantized::trial::{
    Chance, Quantised, added, elements, normalised_as, on, read_as, rounded_as, same_as, shared, whole,
};
use crate::vulkan::kernels::tests::ptx::{Memory, Program as Reader};
use smallvec::smallvec;

/// Codes of four bits.
const FOUR: Kind = Kind::codes(64, 4);
/// The format of what matrices hold, if that is codes.
pub(super) fn format_of(holds: Kind) -> Option<Format> {
    let mode = if holds.floats { Mode::Mxfp4 } else { Mode::Affine };
    (!holds.values()).then(|| Format::new("test", mode, holds.group.into(), holds.bits.into()).unwrap())
}

/// A matrix of rows of such a length, of what `holds` says.
pub(super) fn matrix_of(
    dtype: Dtype,
    holds: Kind,
    c: &mut Chance,
    m: &mut Memory,
    [rows, k]: [usize; 2],
) -> Quantised {
    match format_of(holds).filter(|f| !f.affine()) {
        // Numbers up to about one.
        Some(format) => Quantised::coded((dtype, format), 118..126, c, m, [rows, k]),
        None => Quantised::with(dtype, holds.bits, c, m, [rows, k, holds.group as usize]),
    }
}

const ROWS: i64 = 64;
const BYTES: u64 = 2 * ROWS as u64;

/// A product of a row at `x` by a square matrix, stored at `results[0]`; the array in `results[1]`, if any, is added.
fn product<'a>(x: u64, matrices: &'a [Matrix], results: &'a [u64]) -> Joined<'a> {
    let format = Format::new("test", Mode::Affine, 64, 4).unwrap();
    let after = (results.len() > 1).then(added);
    Joined { after, ..Joined::alone(Some(format), Dtype::BF16, [1, ROWS], x, matrices, results) }
}

/// A chain of one product of the row at 0x1000, stored at 0x2000.
fn begun(matrices: &[Matrix]) -> Chained {
    let mut chain = Chained::new(Dtype::BF16, 132, (0x10_0000, 7));
    let j = product(0x1000, matrices, &[0x2000]);
    let stage = Stage { x: 0x1000, results: [0x2000, 0, 0], ..Stage::default() };
    chain.push(&j, stage, &[(0x1000, BYTES)], &[(0x2000, BYTES)]);
    chain
}

/// Adds a product of the row at `x` with these results, which reads `more` besides.
fn adds(chain: &mut Chained, matrices: &[Matrix], x: u64, results: &[u64], more: &[Range]) -> bool {
    let j = product(x, matrices, results);
    let mut stage = Stage { x, ..Stage::default() };
    stage.results[..results.len()].copy_from_slice(results);
    let mut reads: Vec<Range> = vec![(x, BYTES)];
    reads.extend(results[1..].iter().map(|&a| (a, BYTES)));
    reads.extend(more);
    let writes = [(results[0], BYTES)];
    let fits = chain.fits(&j, &reads, &writes);
    if fits {
        chain.add(&j, stage, &reads, &writes);
    }
    fits
}

#[test]
fn products_follow_whose_row_is_the_last_result() {
    let matrices = [Matrix { rows: ROWS, parts: [0x9000, 0xa000, 0xb000] }];
    let m = &matrices;
    let mut chain = begun(m);
    assert!(!adds(&mut chain, m, 0x1000, &[0x3000], &[]), "a row from elsewhere");
    assert!(!adds(&mut chain, m, 0x2000, &[0x3000], &[(0x2000 + BYTES - 2, 4)]), "another use of a result");
    assert!(!adds(&mut chain, m, 0x2000, &[0x1000], &[]), "memory that another product reads");
    assert!(adds(&mut chain, m, 0x2000, &[0x3000], &[(0x9000, 4096)]));
    // What is stored as words, and what reads them.
    assert_eq!((chain.stages[0].words, chain.stages[0].tag), (0x10_0000, 7));
    assert_eq!((chain.stages[1].x, chain.stages[1].x_tag), (0x10_0000, 7));
    assert_eq!((chain.stages[1].words, chain.stages[1].tag), (0, 0));
    // The first result is added to the third one, in its place.
    assert!(adds(&mut chain, m, 0x3000, &[0x2000, 0x2000], &[]));
    assert_eq!((chain.stages[2].results[1], chain.stages[2].array_tags[0]), (0x10_0000, 7));
    assert_eq!(chain.stages[2].x_tag, 8);
    assert_eq!(chain.stages[2].flags >> 16, 1);
    assert!(adds(&mut chain, m, 0x2000, &[0x4000], &[]), "the later of two results in one place");
    assert!(adds(&mut chain, m, 0x4000, &[0x5000], &[]));
    assert!(!adds(&mut chain, m, 0x5000, &[0x7000], &[]), "there is no room for a sixth");
    assert_eq!(chain.count(), 5);
}

#[test]
fn an_array_from_elsewhere_is_read_as_it_is() {
    let matrices = [Matrix { rows: ROWS, parts: [0x9000, 0xa000, 0xb000] }];
    let mut chain = begun(&matrices);
    assert!(adds(&mut chain, &matrices, 0x2000, &[0x6000, 0x6000], &[]), "stored over what is added");
    assert_eq!((chain.stages[1].results[1], chain.stages[1].array_tags[0]), (0x6000, 0));
    let mut chain = begun(&matrices);
    assert!(!adds(&mut chain, &matrices, 0x2000, &[0x6000, 0x2000 + BYTES / 2], &[]), "half of a result");
}

impl Chained {
    /// Runs its kernel by its workgroups.
    pub(super) fn run(&self, m: &mut Memory) {
        let (key, args) = self.program();
        let Source::Ptx { text, .. } = key.module(&Features::default()).source else { panic!("no PTX") };
        assert!(shared(&text) <= 48 << 10);
        Reader::read(&text).run(m, &self.told(&args), self.workgroups as usize);
    }
}

/// Every branch has its one label, for each group and for rows that end inside a batch.
#[test]
fn texts_are_whole() {
    let kinds = [Dtype::BF16, Dtype::F16];
    let of = |bits| [32, 64, 128].map(|group| Kind::codes(group, bits));
    let all = [2, 3, 4, 5, 6, 8].into_iter().flat_map(of).chain([Kind::VALUES, Kind::FLOATS]);
    for (holds, dtype) in all.flat_map(|g| kinds.map(|d| (g, d))) {
        for ragged in [false, true] {
            let row = holds.row(if ragged { 18944 } else { 4096 });
            let chain = text::Chain {
                holds,
                dtype,
                ragged,
                mix: Mix::default(),
                row,
                front: None,
                picks: None,
                summed: false,
            };
            let key = Key { chain, afters: smallvec![on(dtype, added())] };
            let Source::Ptx { text, .. } = key.module(&Features::default()).source else { panic!("no PTX") };
            let words: Vec<&str> = text.split_whitespace().collect();
            for pair in words.windows(2).filter(|w| w[0] == "bra") {
                let label = format!("{}:", pair[1].trim_end_matches(';'));
                assert_eq!(words.iter().filter(|w| **w == label).count(), 1, "{label}");
            }
            assert!(text.contains("add.rn.f32"));
            assert!(shared(&text) <= 48 << 10);
        }
    }
}

/// The same for each kind of several, one behind the other and in the middle of rows that are picked.
#[test]
fn texts_of_several_kinds_are_whole() {
    let all = [Kind::codes(64, 4), Kind::codes(128, 8), Kind::VALUES, Kind::FLOATS];
    let stored = Picked::Stored { count: 8, wide: false };
    for (n, ragged, picks) in [(2, false, None), (3, true, None), (4, true, Some(stored)), (4, false, None)] {
        for (dtype, first) in [(Dtype::BF16, 0), (Dtype::F16, 1)] {
            let parts: Vec<Part> = all.iter().cycle().skip(first).take(n).map(|&k| (k, ragged)).collect();
            let ((holds, ragged), mix) = Mix::of(&parts);
            let row = if picks.is_none() && ragged { 18944 } else { LONGEST };
            let row = parts.iter().map(|p| p.0.row(row)).max().unwrap();
            let chain = text::Chain { holds, dtype, ragged, mix, row, front: None, picks, summed: false };
            let text = chain.text(&[]);
            whole(&text, &chain);
            assert_eq!(text.matches("WALK_").count() > 0, n > 1);
            let units = text.matches("mma.sync").count();
            let codes = parts.iter().filter(|p| !p.0.values()).count();
            assert!(units >= 16 * codes, "{units} of {codes} kinds of codes");
        }
    }
}

/// A product of a row of so many elements, with nothing behind it.
fn plain<'a>(x: u64, k: usize, matrices: &'a [Matrix], results: &'a [u64]) -> Joined<'a> {
    Joined { k: k as i64, after: None, ..product(x, matrices, results) }
}

/// Adds a product to a chain, as its first or behind another.
pub(super) fn follow(chain: &mut Chained, j: &Joined) {
    let made = stage(j, Kind::of(j.format), chain.workgroups).expect("a stage");
    let (reads, writes) = ([(j.x, 2 * j.k as u64)], [(j.results[0], 2 * j.matrices[0].rows as u64)]);
    if chain.stages.is_empty() {
        chain.push(j, made, &reads, &writes);
    } else {
        assert!(chain.fits(j, &reads, &writes));
        chain.add(j, made, &reads, &writes);
    }
}

/// As the cases of the test below, by small floats.
const FLOATS: [(Dtype, Kind, [usize; 4], u32, f64); 8] = [
    (Dtype::BF16, Kind::FLOATS, [192, 128, 64, 256], 3, 1.0),
    (Dtype::BF16, Kind::FLOATS, [352, 1056, 32, 96], 5, 1.0),
    (Dtype::BF16, Kind::FLOATS, [256, 2112, 64, 2880], 8, 1.0),
    (Dtype::BF16, Kind::FLOATS, [192, 128, 64, 256], 3, 1e12),
    (Dtype::BF16, Kind::FLOATS, [64, 128, 4, 18944], 40, 1.0),
    (Dtype::F16, Kind::FLOATS, [192, 128, 64, 256], 3, 1.0),
    (Dtype::F16, Kind::FLOATS, [352, 1056, 32, 96], 5, 1.0),
    (Dtype::F16, Kind::FLOATS, [192, 128, 64, 256], 3, 1e-6),
];

/// The product behind an attention, one of its normalised result, and three of that one's: values of each against float64, groups that wait
/// for each other, rows that end inside a span and batch, more spans than one, more workgroups than tiles.
#[test]
fn chains_compute_what_their_products_do() {
    let eight = |group| Kind::codes(group, 8);
    let four = |group| Kind::codes(group, 4);
    let whole = [
        (Dtype::BF16, eight(64), [192, 128, 64, 256], 3, 1.0),
        (Dtype::BF16, eight(64), [256, 2112, 64, 320], 8, 1.0),
        (Dtype::BF16, eight(128), [256, 2176, 12, 384], 7, 1.0),
        (Dtype::BF16, eight(32), [352, 1056, 32, 96], 5, 1.0),
        (Dtype::BF16, eight(64), [192, 128, 64, 256], 3, 1e12),
        (Dtype::F16, eight(64), [256, 2112, 64, 320], 8, 1.0),
        (Dtype::F16, eight(32), [352, 1056, 32, 96], 5, 1.0),
        (Dtype::F16, eight(64), [192, 128, 64, 256], 3, 1e-6),
        (Dtype::BF16, four(64), [192, 128, 64, 256], 3, 1.0),
        (Dtype::BF16, four(64), [256, 2112, 64, 320], 8, 1.0),
        (Dtype::BF16, four(64), [2112, 64, 4, 128], 24, 1.0),
        (Dtype::BF16, four(128), [256, 2176, 12, 384], 7, 1.0),
        (Dtype::BF16, four(32), [352, 1056, 32, 96], 5, 1.0),
        (Dtype::BF16, Kind::VALUES, [192, 520, 64, 256], 3, 1.0),
        (Dtype::BF16, Kind::VALUES, [520, 2112, 12, 1032], 9, 1.0),
        // Rows of which threads bring some elements later.
        (Dtype::BF16, four(64), [64, 128, 4, 18944], 40, 1.0),
        (Dtype::BF16, eight(64), [64, 17408, 4, 64], 36, 1.0),
        (Dtype::F16, Kind::VALUES, [64, 18944, 4, 64], 40, 1.0),
        // Beyond what x may be on matrix units.
        (Dtype::BF16, four(64), [192, 128, 64, 256], 3, 1e12),
        (Dtype::F16, four(64), [192, 128, 64, 256], 3, 1.0),
        (Dtype::F16, four(64), [256, 2112, 64, 320], 8, 1.0),
        (Dtype::F16, four(128), [256, 2176, 12, 384], 7, 1.0),
        (Dtype::F16, four(32), [352, 1056, 32, 96], 5, 1.0),
        (Dtype::F16, Kind::VALUES, [192, 520, 64, 256], 3, 1.0),
        (Dtype::F16, Kind::VALUES, [520, 2112, 12, 1032], 9, 1.0),
        // Results up to some 5,000, and results that are mostly multiples of the smallest number.
        (Dtype::F16, four(64), [192, 128, 64, 256], 3, 3000.0),
        (Dtype::F16, four(64), [192, 128, 64, 256], 3, 1e-6),
    ];
    for (dtype, holds, sizes, workgroups, scale) in whole.into_iter().chain(FLOATS) {
        compare((dtype, [holds; 3]), sizes, workgroups, scale);
    }
}

/// The same of codes whose words have no whole number of them: places inside words, and rows that end inside spans.
#[test]
fn chains_of_codes_across_words() {
    for (bits, group) in [2, 3, 5, 6].into_iter().flat_map(|bits| [32, 64, 128].map(|group| (bits, group))) {
        let holds = Kind::codes(group, bits);
        let sizes = match group {
            128 => [256, 2176, 12, 384],
            64 => [256, 2112, 64, 320],
            _ => [352, 1056, 32, 96],
        };
        for (dtype, scale) in [(Dtype::BF16, 1.0), (Dtype::F16, 1.0), (Dtype::F16, 1e-6)] {
            compare((dtype, [holds; 3]), sizes, 8, scale);
        }
    }
    // Beyond what x may be on matrix units, and rows of which threads bring some elements later.
    for bits in [2, 3, 5, 6] {
        compare((Dtype::BF16, [Kind::codes(64, bits); 3]), [192, 128, 64, 256], 3, 1e12);
    }
    compare((Dtype::BF16, [Kind::codes(64, 6); 3]), [64, 128, 4, 18944], 40, 1.0);
    compare((Dtype::BF16, [Kind::codes(64, 3); 3]), [64, 128, 4, 17408], 40, 1.0);
}

/// Of products by several kinds: orders of rows, spans and lengths of groups that differ; workgroups that have units of some products only;
/// a kind that comes again; rows that end inside a span of one kind, and the longest ones.
#[test]
fn chains_may_be_by_several_kinds() {
    let (four, eight) = (|group| Kind::codes(group, 4), |group| Kind::codes(group, 8));
    let (values, floats) = (Kind::VALUES, Kind::FLOATS);
    for (kinds, sizes, workgroups, scale) in [
        ([four(64), eight(64), four(64)], [192, 128, 64, 256], 3, 1.0),
        ([four(64), eight(64), four(64)], [256, 2112, 64, 320], 8, 1.0),
        ([eight(64), four(64), eight(64)], [256, 2112, 64, 320], 8, 1.0),
        ([four(32), eight(64), four(128)], [256, 2176, 12, 384], 7, 1.0),
        ([values, four(64), eight(32)], [256, 2112, 64, 2880], 8, 1.0),
        ([values, floats, values], [352, 1056, 32, 96], 5, 1.0),
        ([four(64), values, floats], [192, 2112, 64, 256], 24, 1.0),
        ([floats, eight(64), floats], [192, 128, 64, 320], 40, 1.0),
        ([four(64), four(64), values], [64, 128, 4, 18944], 40, 1.0),
        ([four(64), values, eight(64)], [64, 128, 4, 17408], 40, 1.0),
        ([four(64), eight(64), floats], [192, 128, 64, 256], 3, 1e12),
        ([Kind::codes(64, 6), four(64), Kind::codes(64, 2)], [256, 2112, 64, 320], 8, 1.0),
        ([Kind::codes(32, 3), Kind::codes(64, 6), eight(64)], [192, 128, 64, 320], 40, 1.0),
        ([Kind::codes(64, 5), values, Kind::codes(64, 3)], [192, 128, 64, 256], 3, 1e12),
    ] {
        compare((Dtype::BF16, kinds), sizes, workgroups, scale);
        compare((Dtype::F16, kinds), sizes, workgroups, f64::min(scale, 1.0));
    }
}

/// A chain by three kinds, held against float64.
fn compare(
    (dtype, kinds): (Dtype, [Kind; 3]),
    [hidden, q, kv, inner]: [usize; 4],
    workgroups: u32,
    scale: f64,
) {
    let (mut c, mut m) = (Chance(5), Memory::default());
    let mut matrix = |m: &mut Memory, i: usize, rows, k| matrix_of(dtype, kinds[i], &mut c, m, [rows, k]);
    let (o, up) = (matrix(&mut m, 0, hidden, q), matrix(&mut m, 1, inner, hidden));
    let three = [q, kv, kv].map(|n| matrix(&mut m, 2, n, inner));
    let [x, res, w] = [(q, scale, 0.0), (hidden, f64::min(scale, 1.0), 0.0), (hidden, 0.1, 1.0)]
        .map(|(n, s, mid)| rounded_as(dtype, c.numbers(n, s, mid)));
    let [px, pres, pw] = [&x, &res, &w].map(|v| m.place(elements(dtype, v)));
    let read = |m: &Memory, at| read_as(dtype, m, at);
    let same = |what: &str, got: &[f64], want: &[f64]| same_as(dtype, what, got, want);
    let (rounded, normalised) = (|v| rounded_as(dtype, v), |x: &[f64], w: &[f64]| normalised_as(dtype, x, w));
    let plain = |x, k, m, r| Joined { dtype, ..plain(x, k, m, r) };
    let empty = |m: &mut Memory, n: usize| m.place(vec![0; 2 * n]);
    let (after, row, kept) = (empty(&mut m, hidden), empty(&mut m, inner), empty(&mut m, hidden));
    let results = [q, kv, kv].map(|n| empty(&mut m, n));
    // Every other chain ends in products with biases.
    let biases = [q, kv, kv].map(|n| rounded_as(dtype, c.numbers(n, 1.0, 0.0)));
    let places = biases.each_ref().map(|b| m.place(elements(dtype, b)));
    let biased = hidden % 3 == 0;
    let words = (m.place(vec![0; PRODUCTS + front::BYTES]), 3);
    let mut chain = Chained::new(dtype, workgroups, words);
    let formats = kinds.map(format_of);
    let one = |q: &Quantised| Matrix { rows: q.matrix.rows, parts: q.matrix.parts };
    let (m1, m2, m3) = ([one(&o)], [one(&up)], three.each_ref().map(one));
    let first = [after, pres];
    follow(
        &mut chain,
        &Joined { format: formats[0], after: Some(on(dtype, added())), ..plain(px, q, &m1, &first) },
    );
    let norm = Some((pw, 1e-6));
    let second = [row];
    follow(
        &mut chain,
        &Joined { format: formats[1], norm, kept: Some(kept), ..plain(after, hidden, &m2, &second) },
    );
    let added = if biased { &places[..] } else { &[] };
    follow(&mut chain, &Joined { format: formats[2], added, ..plain(row, inner, &m3, &results) });
    chain.run(&mut m);
    let sum = o.times(&x).iter().zip(&res).map(|(a, b)| a + b).collect();
    same("a residual", &read(&m, after), &rounded(sum));
    if scale <= 3000.0 {
        same("a normalised row", &read(&m, kept), &normalised(&read(&m, after), &w));
    }
    same("a product of it", &read(&m, row), &up.times(&read(&m, kept)));
    for ((matrix, at), bias) in three.iter().zip(results).zip(&biases) {
        let product = matrix.times(&read(&m, row));
        let sum = product.iter().zip(bias).map(|(p, b)| p + b).collect();
        same("several", &read(&m, at), &if biased { rounded(sum) } else { product });
    }
}

/// Attention as what a chain begins with, and the product of its result: by more and fewer workgroups than it has parts and features.
#[test]
fn chains_begin_with_attention() {
    for (dtype, features, heads, [n, place], masked, workgroups) in [
        (Dtype::BF16, 128, [2, 4, 4], [150, 149], false, 9),
        (Dtype::BF16, 128, [1, 6, 2], [70, 3], true, 4),
        (Dtype::BF16, 64, [2, 3, 1], [40, 39], true, 3),
        (Dtype::BF16, 64, [1, 1, 16], [300, 299], false, 17),
        (Dtype::F16, 128, [2, 4, 4], [150, 149], false, 9),
        (Dtype::F16, 64, [2, 3, 1], [40, 39], true, 3),
        (Dtype::BF16, 96, [2, 4, 4], [150, 149], true, 9),
        (Dtype::F16, 96, [1, 2, 16], [300, 7], true, 17),
    ] {
        let case = Case::one(dtype, features, heads, [n, place], masked);
        let (mut c, mut m) = (Chance(9), Memory::default());
        let mut args = case.place(&mut m);
        let k = (heads[0] * heads[1] * features) as usize;
        let o = Quantised::of(dtype, &mut c, &mut m, [136, k, 64]);
        let out = m.place(vec![0; 2 * 136]);
        let at = m.place(vec![0; PRODUCTS + front::BYTES]);
        let program = front::placed(case.p, &mut args, (at, 3));
        let mut chain = Chained::new(dtype, workgroups, (at, 3));
        let words = (args.words, args.tag);
        chain.front = Some(front::Front { program, args, made: (args.dst, 2 * k as u64), words });
        // Alone, and then with what follows, as words that no tag told before.
        chain.run(&mut m);
        case.compare(&m, &args);
        let front = chain.front.as_mut().expect("attention");
        (front.args.tag, front.words.1) = (args.tag + 9, args.tag + 9);
        let matrices = [Matrix { rows: 136, parts: o.matrix.parts }];
        let results = [out];
        let j = Joined { dtype, ..plain(args.dst, k, &matrices, &results) };
        let made = stage(&j, FOUR, workgroups).expect("a stage");
        assert!(chain.fits(&j, &[(j.x, 2 * k as u64)], &[(out, 272)]));
        chain.add(&j, made, &[], &[]);
        chain.run(&mut m);
        case.compare(&m, &args);
        let read = |at| read_as(dtype, &m, at);
        same_as(dtype, "a product of it", &read(out), &o.times(&read(args.dst)));
    }
}
