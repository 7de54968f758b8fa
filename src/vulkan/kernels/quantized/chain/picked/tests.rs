//! Tests of chains that begin with a choice: the products of the row with what it picks, their weighed sum, and one behind it.

use super::super::tests::{follow, format_of, matrix_of};
use super::super::*;
use super::made::{long, picked_stage, whole};
use crate::kernels::sort::{Followed, Selection};
use crate::vulkan::kernels::quantized::qmm_joined::{Combined, Matrix, Picks};
use crate::vulkan::kernels::quantized::trial::{
    Chance, Quantised, added, elements, gated, gated_biased, on, read_as, rounded_as, same_as,
};
use crate::vulkan::kernels::sort::choice::Choice;
use crate::vulkan::kernels::tests::ptx::Memory;

/// A row of `hidden` elements picks `count` of `matrices`, whose products have `inner` rows and are summed up with a residual; a product of the
/// sum is of `n` rows.
pub(super) struct Sizes {
    pub hidden: usize,
    pub inner: usize,
    pub count: usize,
    pub matrices: usize,
    pub n: usize,
    pub workgroups: u32,
}

/// The gated units of a row and those that it picks.
pub(super) fn units(
    dtype: Dtype,
    gate_up: &[Quantised; 2],
    tables: Option<&[Vec<f64>; 2]>,
    x: &[f64],
    ids: &[usize],
    inner: usize,
) -> Vec<f64> {
    let rounded = |v| rounded_as(dtype, v);
    let rows = |side: usize| -> Vec<f64> {
        let of = |e: usize| e * inner..(e + 1) * inner;
        let made: Vec<f64> = ids.iter().flat_map(|&e| gate_up[side].times_rows(x, of(e))).collect();
        let Some(tables) = tables else { return made };
        let table = ids.iter().flat_map(|&e| &tables[side][of(e)]);
        rounded(made.iter().zip(table).map(|(p, b)| p + b).collect())
    };
    let (gate, up) = (rows(0), rows(1));
    let sigmoid = rounded(gate.iter().map(|g| 1.0 / (1.0 + (-g).exp())).collect());
    let silu = rounded(sigmoid.iter().zip(&gate).map(|(s, g)| s * g).collect());
    rounded(silu.iter().zip(&up).map(|(g, u)| g * u).collect())
}

/// A residual and the products of what the picked ones made, weighed.
pub(super) fn summed(
    res: &[f64],
    ids: &[usize],
    weights: &[f64],
    down: &Quantised,
    table: Option<&[f64]>,
    made: &[f64],
) -> Vec<f64> {
    let (mut sum, hidden, inner) = (res.to_vec(), res.len(), made.len() / ids.len());
    for (i, (&e, w)) in ids.iter().zip(weights).enumerate() {
        let part = down.times_rows(&made[i * inner..][..inner], e * hidden..(e + 1) * hidden);
        sum.iter_mut().zip(part).for_each(|(s, p)| *s += w * p);
        let table = table.map_or(&[][..], |t| &t[e * hidden..(e + 1) * hidden]);
        sum.iter_mut().zip(table).for_each(|(s, b)| *s += w * b);
    }
    sum
}

/// A choice of so many of the largest, after a softmax, divided by their sum.
fn chosen_of(dtype: Dtype, count: usize, matrices: usize) -> Choice {
    let (from, after) = ((matrices - count) as u32, Followed::Divided);
    let how = Selection { from, count: count as u32, softmax: true, negated: false, after };
    Choice { n: matrices as u32, dtype, how }
}

fn compare(dtype: Dtype, holds: Kind, sizes: &Sizes, scale: f64) {
    compare_kinds(dtype, [holds; 3], sizes, scale);
}

/// The first matrices that are picked, those that are summed up, and the one behind are of these kinds.
fn compare_kinds(dtype: Dtype, kinds: [Kind; 3], sizes: &Sizes, scale: f64) {
    [false, true].into_iter().for_each(|biased| compare_with(dtype, kinds, sizes, scale, biased));
}

fn compare_with(dtype: Dtype, kinds: [Kind; 3], sizes: &Sizes, scale: f64, biased: bool) {
    let &Sizes { hidden, inner, count, matrices, n, workgroups } = sizes;
    let (mut c, mut m) = (Chance(5), Memory::default());
    let mut matrix = |m: &mut Memory, i: usize, rows, k| matrix_of(dtype, kinds[i], &mut c, m, [rows, k]);
    let gate_up = [0, 1].map(|_| matrix(&mut m, 0, matrices * inner, hidden));
    let (down, last) = (matrix(&mut m, 1, matrices * hidden, inner), matrix(&mut m, 2, n, hidden));
    let [x, res, keys] = [(hidden, scale), (hidden, 1.0), (matrices, 2.0)]
        .map(|(n, s)| rounded_as(dtype, c.numbers(n, s, 0.0)));
    let [px, pres, pkeys] = [&x, &res, &keys].map(|v| m.place(elements(dtype, v)));
    let [gates, ups, sums] =
        [inner, inner, hidden].map(|n| rounded_as(dtype, c.numbers(matrices * n, 1.0, 0.0)));
    let places_of = [&gates, &ups, &sums].map(|v| m.place(elements(dtype, v)));
    let tables = [gates, ups];
    let empty = |m: &mut Memory, n: usize| m.place(vec![0xff; 2 * n]);
    let [unit, sum, out, chosen] = [count * inner, hidden, n, count].map(|n| empty(&mut m, n));
    let places = empty(&mut m, 2 * count);
    let choice = chosen_of(dtype, count, matrices);
    let words = (m.place(vec![0; PRODUCTS + front::BYTES]), 3);
    let mut chain = Chained::new(dtype, workgroups, words);
    let args = PickArgs { keys: pkeys, places, chosen, matrices: matrices as u32, ..PickArgs::default() };
    chain.picks = Some((Picked::Chosen(choice), args));
    let formats = kinds.map(format_of);
    let picks =
        |share| Picks { indices: (places, false), count: count as i64, matrices: matrices as i64, share };
    let one = |q: &Quantised, rows: usize| Matrix { rows: rows as i64, parts: q.matrix.parts };
    let pair = gate_up.each_ref().map(|q| one(q, inner));
    let (downs, lasts) = ([one(&down, hidden)], [one(&last, n)]);
    let results = [[unit, places_of[0], places_of[1]], [sum, pres, 0], [out, 0, 0]];
    let alone = |i: usize, k: usize, x, matrices, r: &'static [u64]| {
        Joined::alone(formats[i], dtype, [1, k as i64], x, matrices, r)
    };
    let leak = |r: &[u64]| -> &'static [u64] { Box::leak(r.to_vec().into_boxed_slice()) };
    let after = Some(on(dtype, if biased { gated_biased() } else { gated() }));
    let first = Joined {
        after,
        picks: Some(picks(count as i64)),
        ..alone(0, hidden, px, &pair, leak(&results[0][..if biased { 3 } else { 1 }]))
    };
    let combined = Some(Combined { weights: chosen, each: count as i64, wide: false });
    let after = Some(on(dtype, added()));
    let (added, added_table) = (if biased { &places_of[2..] } else { &[] }, biased.then_some(&sums[..]));
    let second = Joined {
        after,
        picks: Some(picks(1)),
        combined,
        added,
        ..alone(1, inner, unit, &downs, leak(&results[1][..2]))
    };
    chain.begin_picked(&first);
    assert!(chain.follow_by_sum(&second), "{hidden} {inner}");
    follow(&mut chain, &alone(2, hidden, sum, &lasts, leak(&results[2][..1])));
    chain.run(&mut m);

    let [want_places, want_chosen] = choice.alone(elements(dtype, &keys));
    assert_eq!((m.bytes(places), m.bytes(chosen)), (&want_places[..], &want_chosen[..]));
    let ids: Vec<usize> =
        want_places.chunks(4).map(|b| u32::from_le_bytes(b.try_into().unwrap()) as usize).collect();
    let weights = read_as(dtype, &m, chosen);
    let want = units(dtype, &gate_up, biased.then_some(&tables), &x, &ids, inner);
    same_as(dtype, "gated units", &read_as(dtype, &m, unit), &want);
    let want = summed(&res, &ids, &weights, &down, added_table, &read_as(dtype, &m, unit));
    same_as(dtype, "a sum and a residual", &read_as(dtype, &m, sum), &rounded_as(dtype, want));
    // The same of what stands in memory, by kernels of their own: bits do not depend on where a chain is cut.
    let first_bits = [unit, sum].map(|at| m.bytes(at).to_vec());
    let stored = (Picked::Stored { count: count as u32, wide: false }, PickArgs { keys: 0, ..args });
    for (j, words) in [(&first, m.place(vec![0; PRODUCTS])), (&second, m.place(vec![0; PRODUCTS]))] {
        let mut chain = Chained::new(dtype, workgroups, (words, 3));
        chain.picks = Some(stored);
        chain.begin_picked(j);
        chain.run(&mut m);
    }
    assert!([unit, sum].map(|at| m.bytes(at).to_vec()) == first_bits);
    // Weights of float32 are taken as they are.
    let wide = weights.iter().flat_map(|&w| (w as f32).to_le_bytes()).collect();
    let args = PickArgs { keys: 0, chosen: m.place(wide), ..args };
    let mut chain = Chained::new(dtype, workgroups, (m.place(vec![0; PRODUCTS]), 3));
    chain.picks = Some((Picked::Stored { count: count as u32, wide: true }, args));
    chain.begin_picked(&second);
    chain.run(&mut m);
    assert!(m.bytes(sum) == first_bits[1]);
    same_as(dtype, "a product of it", &read_as(dtype, &m, out), &last.times(&read_as(dtype, &m, sum)));
}

/// Spans that end with a matrix, within one, and that have several, for each group; more workgroups than tiles.
#[test]
fn chains_of_picks_compute_what_their_products_do() {
    for (hidden, inner, count, matrices, n, workgroups) in [
        (256, 128, 4, 9, 64, 3),
        (1024, 192, 3, 5, 136, 7),
        (2048, 768, 8, 20, 64, 16),
        (384, 2112, 2, 4, 8, 9),
        (128, 64, 1, 3, 4, 40),
    ] {
        for (dtype, holds) in [
            (Dtype::BF16, Kind::codes(64, 4)),
            (Dtype::F16, Kind::codes(64, 4)),
            (Dtype::BF16, Kind::codes(32, 4)),
            (Dtype::BF16, Kind::codes(128, 4)),
            (Dtype::BF16, Kind::codes(64, 8)),
            (Dtype::F16, Kind::codes(32, 8)),
            (Dtype::BF16, Kind::codes(128, 8)),
            (Dtype::BF16, Kind::FLOATS),
            (Dtype::F16, Kind::FLOATS),
            (Dtype::BF16, Kind::codes(64, 6)),
            (Dtype::F16, Kind::codes(64, 5)),
            (Dtype::BF16, Kind::codes(32, 3)),
            (Dtype::BF16, Kind::codes(128, 2)),
        ] {
            // The reader of programs takes a while.
            let short = [4, 8].contains(&holds.bits) || inner < 256;
            if short && inner % holds.group as usize == 0 && hidden % holds.group as usize == 0 {
                compare(dtype, holds, &Sizes { hidden, inner, count, matrices, n, workgroups }, 1.0);
            }
        }
    }
    // Rows of gpt-oss, which end within a span.
    let sizes = Sizes { hidden: 2880, inner: 288, count: 4, matrices: 5, n: 64, workgroups: 9 };
    compare(Dtype::BF16, Kind::FLOATS, &sizes, 1.0);
    // Beyond what x may be on matrix units.
    for holds in [Kind::codes(64, 4), Kind::codes(64, 8), Kind::codes(64, 3), Kind::FLOATS] {
        let sizes = Sizes { hidden: 256, inner: 128, count: 4, matrices: 9, n: 64, workgroups: 3 };
        compare(Dtype::BF16, holds, &sizes, 1e12);
    }
}

#[test]
fn picked_products_may_be_of_several_kinds() {
    let (four, eight) = (Kind::codes(64, 4), Kind::codes(64, 8));
    let sizes = Sizes { hidden: 1024, inner: 192, count: 3, matrices: 5, n: 136, workgroups: 7 };
    for kinds in [
        [four, eight, four],
        [eight, four, Kind::VALUES],
        [Kind::FLOATS, Kind::FLOATS, Kind::VALUES],
        [Kind::FLOATS, eight, Kind::codes(32, 4)],
        [Kind::codes(64, 6), four, Kind::codes(64, 5)],
    ] {
        compare_kinds(Dtype::BF16, kinds, &sizes, 1.0);
        compare_kinds(Dtype::F16, kinds, &sizes, 1.0);
    }
}

impl Chained {
    /// Begins with the product by what is picked.
    pub(super) fn begin_picked(&mut self, j: &Joined) {
        let count = j.picks.expect("picks").count;
        let matrices = long(j, count);
        let whole = whole(j, count, &matrices);
        let (made, kind) = picked_stage(j, &whole, Kind::of(j.format), self.workgroups).expect("a stage");
        let written = (j.results[0], 2 * whole.matrices[0].rows as u64);
        self.push(&whole, made, &[(j.x, 2 * whole.k as u64)], &[written]);
        self.mark(kind);
    }

    /// Adds the product by what was chosen amid the others.
    pub(super) fn follow_by_picks(&mut self, j: &Joined) {
        let picks = j.picks.expect("picks");
        let matrices = long(j, picks.count);
        let whole = whole(j, picks.count, &matrices);
        let made = picked_stage(j, &whole, Kind::of(j.format), self.workgroups).expect("a stage");
        let writes = [(j.results[0], 2 * whole.matrices[0].rows as u64)];
        let reads = [(j.x, 2 * j.k as u64), (picks.indices.0, 4 * picks.count as u64)];
        assert!(self.picks(&whole, &picks, &reads, &writes));
        self.add_picks(&whole, made, &reads, &writes);
    }

    /// Adds the sum of what they make, if it fits; whether it did.
    pub(super) fn follow_by_sum(&mut self, j: &Joined) -> bool {
        let (picks, c) = (j.picks.expect("picks"), j.combined.expect("a sum"));
        let (reads, writes) =
            ([(j.x, 2 * (picks.count * j.k) as u64)], [(j.results[0], 2 * j.rows() as u64)]);
        let matrices = long(j, picks.count);
        let whole = whole(j, picks.count, &matrices);
        let made = picked_stage(j, &whole, Kind::of(j.format), self.workgroups).expect("a stage");
        let fits = self.sums(&whole, &picks, c, &reads, &writes);
        self.add_sum(&whole, c, made, &reads, &writes);
        fits
    }
}
