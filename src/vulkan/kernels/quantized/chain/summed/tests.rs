//! Tests of chains whose rows are sums.

use super::super::tests::{follow, format_of, matrix_of};
use super::super::*;
use super::Sum;
use crate::vulkan::kernels::quantized::qmm_joined::Matrix;
use crate::vulkan::kernels::quantized::trial::{
    Chance, Quantised, elements, gated, normalised_as, on, read_as, rounded_as, same_as,
};
use crate::vulkan::kernels::tests::ptx::Memory;

/// Adds the sum of a normalised result and another row.
fn add_up(chain: &mut Chained, [x, weight, other, to]: [u64; 4], k: usize) -> bool {
    let range = |at| (at, 2 * k as u64);
    let sum = Sum { x: range(x), weight: range(weight), eps: 1e-6, other: range(other), to: range(to) };
    let fits = chain.sums_up(&sum);
    if fits {
        chain.sum_up(&sum);
    }
    fits
}

/// The product behind an attention, added to a row; a gated unit of the normalised sum, the product behind it, added to that sum, and a
/// product of the normalised new one: `stages` of these four, an open sum behind the first or third.
fn layer(dtype: Dtype, kinds: [Kind; 4], [hidden, q, inner]: [usize; 3], workgroups: u32, stages: usize) {
    let (mut c, mut m) = (Chance(13), Memory::default());
    let mut matrix = |m: &mut Memory, i: usize, rows, k| matrix_of(dtype, kinds[i], &mut c, m, [rows, k]);
    let o = matrix(&mut m, 0, hidden, q);
    let gate_up = [0, 1].map(|_| matrix(&mut m, 1, inner, hidden));
    let (down, last) = (matrix(&mut m, 2, hidden, inner), matrix(&mut m, 3, q, hidden));
    let x = rounded_as(dtype, c.numbers(q, 1.0, 0.0));
    let res = rounded_as(dtype, c.numbers(hidden, 4.0, 0.0));
    let w = [0, 1, 2, 3].map(|_| rounded_as(dtype, c.numbers(hidden, 0.1, 1.0)));
    let [px, pres] = [&x, &res].map(|v| m.place(elements(dtype, v)));
    let pw = w.each_ref().map(|v| m.place(elements(dtype, v)));
    let [made, h, kept, unit, behind, sum, normed, out] =
        [hidden, hidden, hidden, inner, hidden, hidden, hidden, q].map(|n| m.place(vec![0xff; 2 * n]));
    let mut chain = Chained::new(dtype, workgroups, (m.place(vec![0; PRODUCTS + front::BYTES]), 3));
    let one = |q: &Quantised| [Matrix { rows: q.matrix.rows, parts: q.matrix.parts }];
    let pair = gate_up.each_ref().map(|q| Matrix { rows: q.matrix.rows, parts: q.matrix.parts });
    let (os, downs, lasts) = (one(&o), one(&down), one(&last));
    let formats = kinds.map(format_of);
    let [ro, ru, rd, rl] = [[made], [unit], [behind], [out]];
    let alone =
        |i: usize, k: usize, x, matrices, r| Joined::alone(formats[i], dtype, [1, k as i64], x, matrices, r);
    follow(&mut chain, &alone(0, q, px, &os, &ro));
    assert!(!add_up(&mut chain, [px, pw[0], pres, h], hidden), "a row from elsewhere");
    assert!(!add_up(&mut chain, [made, pw[0], made, h], hidden), "added to a result of the chain");
    assert!(!add_up(&mut chain, [made, pw[0], pres, px], hidden), "over what others read");
    assert!(add_up(&mut chain, [made, pw[0], pres, h], hidden));
    assert!(!add_up(&mut chain, [h, pw[0], pres, sum], hidden), "a sum of a sum");
    if stages > 1 {
        let plain = alone(1, hidden, h, &pair, &ru);
        assert!(!chain.fits(&plain, &[(h, 2 * hidden as u64)], &[]), "a sum that is not normalised");
        let after = Some(on(dtype, gated()));
        follow(&mut chain, &Joined { after, norm: Some((pw[1], 1e-6)), kept: Some(kept), ..plain });
        follow(&mut chain, &alone(2, inner, unit, &downs, &rd));
        assert!(add_up(&mut chain, [behind, pw[2], h, sum], hidden));
    }
    if stages > 3 {
        let norm = Some((pw[3], 1e-6));
        follow(&mut chain, &Joined { norm, kept: Some(normed), ..alone(3, hidden, sum, &lasts, &rl) });
        assert_eq!(chain.count(), 4);
    }
    chain.run(&mut m);
    let read = |at| read_as(dtype, &m, at);
    let same = |what: &str, got: &[f64], want: &[f64]| same_as(dtype, what, got, want);
    let added = |x: &[f64], w: &[f64], other: &[f64]| {
        let sums = normalised_as(dtype, x, w).iter().zip(other).map(|(a, b)| a + b).collect();
        rounded_as(dtype, sums)
    };
    same("a result", &read(made), &o.times(&x));
    same("a sum", &read(h), &added(&read(made), &w[0], &res));
    if stages > 1 {
        same("a normalised sum", &read(kept), &normalised_as(dtype, &read(h), &w[1]));
        same("a product of a unit", &read(behind), &down.times(&read(unit)));
        same("a sum with the one before", &read(sum), &added(&read(behind), &w[2], &read(h)));
    }
    if stages > 3 {
        same("the next row", &read(normed), &normalised_as(dtype, &read(sum), &w[3]));
        same("a product of it", &read(out), &last.times(&read(normed)));
    }
}

#[test]
fn rows_are_sums_of_normalised_results() {
    let four = |group| Kind::codes(group, 4);
    for (kinds, sizes, workgroups) in [
        ([four(64); 4], [256, 128, 192], 3),
        ([four(64); 4], [1088, 128, 64], 24),
        ([four(32); 4], [352, 96, 160], 7),
        ([Kind::codes(64, 8); 4], [320, 256, 128], 9),
        ([Kind::codes(64, 6); 4], [320, 256, 128], 9),
        ([Kind::VALUES; 4], [520, 128, 72], 5),
        ([four(64), Kind::codes(64, 8), four(64), Kind::VALUES], [256, 128, 192], 30),
        ([Kind::FLOATS, four(64), Kind::VALUES, four(64)], [320, 192, 128], 11),
        // Longer ones than a thread brings at once.
        ([four(64); 4], [4160, 64, 64], 131),
    ] {
        for stages in [4, 3, 1] {
            layer(Dtype::BF16, kinds, sizes, workgroups, stages);
        }
        layer(Dtype::F16, kinds, sizes, workgroups, 4);
    }
}
