//! Tests of the text: what it chooses is what sorting would, and the numbers are those of float64.

use super::{Choice, Chosen, Told};
use crate::core::Dtype;
use crate::kernels::sort::{Followed, Selection};
use crate::vulkan::kernels::matmul::warpgroup::text::Told as _;
use crate::vulkan::kernels::quantized::trial::{Chance, elements, numbers, rounded_as};
use crate::vulkan::kernels::tests::ptx::{Memory, Program};

/// The places of a row and its numbers, by a sort.
fn wanted(c: &Choice, row: &[f64]) -> (Vec<u32>, Vec<f64>) {
    let rounded = |v: Vec<f64>| rounded_as(c.dtype, v);
    let numbers = if c.how.softmax { rounded(softmax(row)) } else { row.to_vec() };
    let sign = if c.how.negated { -1.0 } else { 1.0 };
    let mut order: Vec<usize> = (0..row.len()).collect();
    let key = |i: usize| (numbers[i].is_nan(), if numbers[i].is_nan() { 0.0 } else { sign * numbers[i] });
    order.sort_by(|&a, &b| key(a).partial_cmp(&key(b)).unwrap().then(a.cmp(&b)));
    let chosen = &order[c.how.from as usize..][..c.how.count as usize];
    let taken: Vec<f64> = chosen.iter().map(|&i| numbers[i]).collect();
    let after = match c.how.after {
        // Steps are for the shader.
        Followed::Nothing | Followed::Steps => taken,
        Followed::Divided => {
            let sum = rounded(vec![taken.iter().sum()])[0];
            rounded(taken.iter().map(|t| t / sum).collect())
        }
        Followed::Softmax => rounded(softmax(&taken)),
    };
    (chosen.iter().map(|&i| i as u32).collect(), after)
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let e: Vec<f64> = row.iter().map(|x| (x - top).exp()).collect();
    let sum: f64 = e.iter().sum();
    e.iter().map(|x| x / sum).collect()
}

impl Chosen {
    /// A choice from the row at the first address, with places and numbers at the others.
    pub fn of(choice: Choice, [keys, places, chosen]: [u64; 3]) -> Chosen {
        Chosen { choice, told: Told { keys, places, chosen, rows: 1 } }
    }
}

impl Choice {
    /// The bytes of places and numbers that the kernel by itself makes of rows.
    pub fn alone(&self, rows: Vec<u8>) -> [Vec<u8>; 2] {
        let (count, n) = (self.how.count as usize, self.n as usize);
        let (many, mut memory) = (rows.len() / 2 / n, Memory::default());
        let told = Told {
            keys: memory.place(rows),
            places: memory.place(vec![0xff; 4 * count * many]),
            chosen: memory.place(vec![0xff; 2 * count * many]),
            rows: many as u64,
        };
        Program::read(&self.text()).run(&mut memory, told.bytes(), many);
        [told.places, told.chosen].map(|at| memory.bytes(at).to_vec())
    }
}

fn compare(c: Choice, rows: &[Vec<f64>]) {
    let count = c.how.count as usize;
    let rows: Vec<Vec<f64>> = rows.iter().map(|r| rounded_as(c.dtype, r.clone())).collect();
    let [places, chosen] = c.alone(elements(c.dtype, &rows.concat()));
    let places: Vec<u32> = places.chunks(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect();
    let numbers = numbers(c.dtype, &chosen);
    for (i, row) in rows.iter().enumerate() {
        let (want, values) = wanted(&c, row);
        assert_eq!(places[i * count..][..count], want, "{c:?} {row:?}");
        for (got, want) in numbers[i * count..][..count].iter().zip(values) {
            let close =
                (got - want).abs() <= want.abs() / 100.0 || got.is_nan() && want.is_nan() || *got == want;
            assert!(close, "{c:?}: {got} for {want}");
        }
    }
}

/// Both ends of the order, either sign, with and without a softmax before and behind.
#[test]
fn it_chooses_as_sorting_does() {
    let mut chance = Chance(3);
    for dtype in [Dtype::BF16, Dtype::F16] {
        for (n, count) in [(128, 8), (60, 4), (33, 32), (256, 6), (8, 2), (160, 1)] {
            for after in [Followed::Nothing, Followed::Divided, Followed::Softmax] {
                for (softmax, negated, last) in
                    [(true, false, true), (false, false, true), (false, true, false), (true, true, false)]
                {
                    let from = if last { n - count } else { 0 };
                    let how = Selection { from, count, softmax, negated, after };
                    let rows: Vec<Vec<f64>> = (0..3).map(|_| chance.numbers(n as usize, 2.0, 0.1)).collect();
                    compare(Choice { n, dtype, how }, &rows);
                }
            }
        }
    }
}

/// Equal elements are in the order of their places, zeros are equal, numbers that are none come last.
#[test]
fn equal_elements_and_numbers_that_are_none() {
    let mut row = vec![0.0, -0.0, 1.0, 1.0, f64::INFINITY, f64::NEG_INFINITY, 1.0, -2.0];
    row.extend(vec![0.5; 60]);
    let mut none = row.clone();
    (none[3], none[40]) = (f64::NAN, f64::NAN);
    for dtype in [Dtype::BF16, Dtype::F16] {
        for (negated, last) in [(false, true), (true, false), (false, false)] {
            let how = Selection {
                from: if last { 68 - 12 } else { 0 },
                count: 12,
                softmax: false,
                negated,
                after: Followed::Nothing,
            };
            compare(Choice { n: 68, dtype, how }, &[row.clone(), none.clone()]);
        }
        let how = Selection { from: 60, count: 8, softmax: true, negated: false, after: Followed::Divided };
        compare(Choice { n: 68, dtype, how }, &[vec![2.0; 68], vec![f64::NAN; 68], vec![-300.0; 68]]);
    }
}
