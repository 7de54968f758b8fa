//! Tests of chains that choose amid their products.

use super::super::tests::{follow, format_of, matrix_of};
use super::super::*;
use super::tests::{Sizes, summed, units};
use crate::kernels::sort::{Followed, Selection};
use crate::vulkan::kernels::quantized::qmm_joined::{Combined, Matrix, Picks};
use crate::vulkan::kernels::quantized::trial::{
    Chance, Quantised, added, elements, gated, on, read_as, rounded_as, same_as,
};
use crate::vulkan::kernels::sort::choice::{Choice, Chosen};
use crate::vulkan::kernels::tests::ptx::Memory;

/// Codes of four bits throughout.
const FOUR: Kinds = [Kind::codes(64, 4); 4];

/// What the product before is by, the router, the first matrices that are picked, and those that are summed up.
type Kinds = [Kind; 4];

/// A chain of the product before, the router of the normalised row, the choice, what it picks, the sum of it, and the product behind; without
/// the last two, and with nothing behind the choice.
fn within((dtype, kinds): (Dtype, Kinds), sizes: &Sizes, stages: usize) {
    let &Sizes { hidden, inner, count, matrices, n, workgroups } = sizes;
    let (mut c, mut m) = (Chance(11), Memory::default());
    let mut matrix = |m: &mut Memory, i: usize, rows, k| matrix_of(dtype, kinds[i], &mut c, m, [rows, k]);
    let (o, router) = (matrix(&mut m, 0, hidden, 128), matrix(&mut m, 1, matrices, hidden));
    let gate_up = [0, 1].map(|_| matrix(&mut m, 2, matrices * inner, hidden));
    let (down, last) = (matrix(&mut m, 3, matrices * hidden, inner), matrix(&mut m, 0, n, hidden));
    let [x, res, w] = [(128, 1.0, 0.0), (hidden, 1.0, 0.0), (hidden, 0.1, 1.0)]
        .map(|(n, s, mid)| rounded_as(dtype, c.numbers(n, s, mid)));
    let [px, pres, pw] = [&x, &res, &w].map(|v| m.place(elements(dtype, v)));
    let lengths = [hidden, hidden, matrices, count * inner, hidden, n, count, 2 * count];
    let [h, kept, keys, unit, sum, out, chosen, places] = lengths.map(|n| m.place(vec![0xff; 2 * n]));
    let (softmax, after) = (true, Followed::Divided);
    let how =
        Selection { from: (matrices - count) as u32, count: count as u32, softmax, negated: false, after };
    let choice = Choice { n: matrices as u32, dtype, how };
    let mut chain = Chained::new(dtype, workgroups, (m.place(vec![0; PRODUCTS + front::BYTES]), 3));
    let formats = kinds.map(format_of);
    let one = |q: &Quantised, rows: usize| [Matrix { rows: rows as i64, parts: q.matrix.parts }];
    let picks = |share| {
        Some(Picks { indices: (places, false), count: count as i64, matrices: matrices as i64, share })
    };
    let [os, routers, downs, lasts] =
        [one(&o, hidden), one(&router, matrices), one(&down, hidden), one(&last, n)];
    let pair = gate_up.each_ref().map(|q| Matrix { rows: inner as i64, parts: q.matrix.parts });
    let results = [[h, pres], [keys, 0], [unit, 0], [sum, h], [out, 0]];
    let [ro, rr, ru, rs, rl] =
        [&results[0][..], &results[1][..1], &results[2][..1], &results[3], &results[4][..1]];
    let alone =
        |i: usize, k: usize, x, matrices, r| Joined::alone(formats[i], dtype, [1, k as i64], x, matrices, r);
    let [sums, gates] = [added(), gated()].map(|a| Some(on(dtype, a)));
    follow(&mut chain, &Joined { after: sums, ..alone(0, 128, px, &os, ro) });
    let norm = Some((pw, 1e-6));
    follow(&mut chain, &Joined { norm, kept: Some(kept), ..alone(1, hidden, h, &routers, rr) });
    let held = Chosen::of(choice, [keys, places, chosen]);
    assert!(chain.chooses(&held));
    chain.choose(&held);
    if stages > 2 {
        let first = Joined { after: gates, picks: picks(count as i64), ..alone(2, hidden, kept, &pair, ru) };
        chain.follow_by_picks(&first);
    }
    if stages > 3 {
        let combined = Some(Combined { weights: chosen, each: count as i64, wide: false });
        let second = Joined { after: sums, picks: picks(1), combined, ..alone(3, inner, unit, &downs, rs) };
        assert!(chain.follow_by_sum(&second));
        follow(&mut chain, &alone(0, hidden, sum, &lasts, rl));
    }
    chain.run(&mut m);
    let read = |at| read_as(dtype, &m, at);
    same_as(dtype, "logits", &read(keys), &router.times(&read(kept)));
    let [want_places, want_chosen] = choice.alone(m.bytes(keys).to_vec());
    assert_eq!((m.bytes(places), m.bytes(chosen)), (&want_places[..], &want_chosen[..]));
    let ids: Vec<usize> =
        want_places.chunks(4).map(|b| u32::from_le_bytes(b.try_into().unwrap()) as usize).collect();
    if stages > 2 {
        same_as(dtype, "gated units", &read(unit), &units(dtype, &gate_up, None, &read(kept), &ids, inner));
    }
    if stages > 3 {
        let want = summed(&read(h), &ids, &read(chosen), &down, None, &read(unit));
        same_as(dtype, "a sum and a residual", &read(sum), &rounded_as(dtype, want));
        same_as(dtype, "a product of it", &read(out), &last.times(&read(sum)));
    }
}

#[test]
fn a_chain_may_choose_amid_its_products() {
    for (hidden, inner, count, matrices, n, workgroups) in
        [(256, 128, 4, 12, 64, 3), (1024, 192, 3, 36, 136, 7), (192, 64, 2, 60, 8, 20)]
    {
        let sizes = Sizes { hidden, inner, count, matrices, n, workgroups };
        for stages in [5, 3, 2] {
            within((Dtype::BF16, FOUR), &sizes, stages);
        }
        within((Dtype::F16, FOUR), &sizes, 5);
    }
}

/// Routers of eight bits, or of elements, amid codes of four; products around experts of small floats; more bits for what is summed up.
#[test]
fn the_router_may_be_of_another_kind_than_what_it_picks() {
    let (four, eight) = (|group| Kind::codes(group, 4), Kind::codes(64, 8));
    for (hidden, inner, count, matrices, n, workgroups) in
        [(256, 128, 4, 12, 64, 3), (1024, 256, 3, 36, 136, 7), (384, 128, 2, 60, 8, 20)]
    {
        let sizes = Sizes { hidden, inner, count, matrices, n, workgroups };
        for kinds in [
            [four(64), eight, four(64), four(64)],
            [four(32), eight, four(32), four(32)],
            [four(128), eight, four(128), four(128)],
            [four(64), Kind::VALUES, four(64), four(64)],
            [four(64), eight, Kind::FLOATS, Kind::FLOATS],
            [Kind::VALUES, Kind::VALUES, Kind::FLOATS, Kind::FLOATS],
            [four(64), eight, four(64), eight],
            [eight, Kind::VALUES, four(32), Kind::FLOATS],
        ] {
            within((Dtype::BF16, kinds), &sizes, 5);
            if hidden == 256 {
                [3, 2].into_iter().for_each(|stages| within((Dtype::BF16, kinds), &sizes, stages));
                within((Dtype::F16, kinds), &sizes, 5);
            }
        }
    }
}
