//! Tests of the texts: their values against float64.

use super::*;
use crate::vulkan::kernels::quantized::trial::{Chance, elements, read_as, rounded_as, same_as};
use crate::vulkan::kernels::tests::ptx::{Memory, Program as Reader};

/// One side: rows of K elements as numbers, and how they lie in memory, `gap` elements apart where they end, two batch axes.
struct Matrices {
    numbers: Vec<f64>,
    at: u64,
    ld: u32,
    batch: [u32; 2],
}

/// The products of a batch of [inner, outer] matrices.
struct Case {
    dtype: Dtype,
    along: [bool; 2],
    warps: Warps,
    sizes: [usize; 3],
    batch: [usize; 2],
}

impl Case {
    /// `shared`: one matrix for all of the inner axis.
    fn side(&self, c: &mut Chance, m: &mut Memory, [rows, along]: [usize; 2], shared: bool) -> Matrices {
        let k = self.sizes[2];
        let (lines, length) = if along == 1 { (rows, k) } else { (k, rows) };
        let ld = length.next_multiple_of(8) + 8;
        let inner = if shared { 1 } else { self.batch[0] };
        let all = inner * self.batch[1];
        let numbers = rounded_as(self.dtype, c.numbers(all * rows * k, 1.0, 0.0));
        // What lies between rows is not read as their end.
        let mut lies = vec![f64::NAN; all * lines * ld];
        for (i, &v) in numbers.iter().enumerate() {
            let (matrix, row, depth) = (i / (rows * k), i / k % rows, i % k);
            let (line, place) = if along == 1 { (row, depth) } else { (depth, row) };
            lies[(matrix * lines + line) * ld + place] = v;
        }
        let step = (lines * ld) as u32;
        let batch = if shared { [0, step] } else { [step, step * inner as u32] };
        Matrices { numbers, at: m.place(elements(self.dtype, &lies)), ld: ld as u32, batch }
    }

    fn run(&self) {
        let [m, n, k] = self.sizes;
        let (mut c, mut memory) = (Chance(m as u64 * 31 + k as u64), Memory::default());
        let a = self.side(&mut c, &mut memory, [m, self.along[0].into()], false);
        let b = self.side(&mut c, &mut memory, [n, self.along[1].into()], true);
        let (ldd, all) = (n + 8, self.batch[0] * self.batch[1]);
        let d = memory.place(elements(self.dtype, &vec![7.0; all * m * ldd]));
        let program = Program { dtype: self.dtype, along: self.along, warps: self.warps };
        let tile = program.tile();
        let tiles = [m.div_ceil(tile[0] as usize), n.div_ceil(tile[1] as usize)];
        let args = Args {
            a: a.at,
            b: b.at,
            d,
            rows: m as u32,
            columns: n as u32,
            k: k as u32,
            lda: a.ld,
            ldb: b.ld,
            ldd: ldd as u32,
            across: tiles[1] as u32,
            nb0: self.batch[0] as u32,
            a_batch: a.batch,
            b_batch: b.batch,
            d_batch: (m * ldd) as u32,
            batches: all as u32,
        };
        let deep = all.div_ceil(self.warps.products as usize);
        Reader::read(&program.text()).run_grid(&mut memory, args.bytes(), [tiles[0] * tiles[1], 1, deep]);
        let got = read_as(self.dtype, &memory, d);
        for i in 0..all {
            let [x, y] = [&a.numbers[i * m * k..], &b.numbers[i / self.batch[0] * n * k..]];
            for row in 0..m {
                let dot = |column: usize| (0..k).map(|e| x[row * k + e] * y[column * k + e]).sum::<f64>();
                let want: Vec<f64> = (0..n).map(dot).collect();
                let line = &got[(i * m + row) * ldd..][..ldd];
                same_as(self.dtype, &format!("{:?} {:?} {row}", self.along, self.sizes), &line[..n], &want);
                assert!(line[n..].iter().all(|&v| v == 7.0), "what is behind a row stays");
            }
        }
    }
}

/// Both elements, all ways that operands lie, whole and ragged tiles, K that ends inside a chunk, batches whose right matrix is shared.
#[test]
fn products_of_short_k() {
    let each = [[true, true], [true, false], [false, true], [false, false]];
    for (dtype, along) in [Dtype::BF16, Dtype::F16].into_iter().flat_map(|d| each.map(|a| (d, a))) {
        for (sizes, batch) in [([128, 128, 64], [1, 1]), ([140, 136, 40], [1, 1]), ([36, 24, 8], [2, 3])] {
            Case { dtype, along, warps: Warps::ONE, sizes, batch }.run();
        }
    }
}

/// Several products of a workgroup, the last of which lacks some.
#[test]
fn products_of_a_workgroup() {
    let each = [[true, true], [true, false], [false, true], [false, false]];
    for (dtype, along) in [Dtype::BF16, Dtype::F16].into_iter().flat_map(|d| each.map(|a| (d, a))) {
        for (sizes, batch) in [([64, 64, 64], [3, 2]), ([60, 56, 24], [1, 3])] {
            Case { dtype, along, warps: Warps::FOUR, sizes, batch }.run();
        }
        Case { dtype, along, warps: Warps::EIGHT, sizes: [28, 32, 40], batch: [3, 3] }.run();
    }
}

/// Where elements across K lie without gaps, K is of any length; rows along it are of any number.
#[test]
fn odd_sizes() {
    let dtype = Dtype::BF16;
    for k in [1, 7, 33, 51] {
        Case { dtype, warps: Warps::ONE, along: [false, false], sizes: [68, 72, k], batch: [1, 1] }.run();
    }
    for m in [1, 3, 129] {
        Case { dtype, warps: Warps::ONE, along: [true, false], sizes: [m, 72, 24], batch: [1, 1] }.run();
    }
}

#[test]
fn arguments_lie_as_the_text_reads_them() {
    assert_eq!(size_of::<Args>(), 80);
    assert_eq!([offset_of!(Args, rows), offset_of!(Args, a_batch), offset_of!(Args, d_batch)], [24, 56, 72]);
}
