//! Decoders for wide vectors and for tiles against the codecs, bit for bit, and both units of tiles against float64.

use gemm::Parallelism;

use super::qmm::{Matrix, Out};
use super::quant::{Codec, UNIT, by_codec, dealt};
use super::tiled::{Right, Source, lines, nibbles, product};
use super::wide;
use crate::core::Dtype;
use crate::cpu::matmul::tiles::{TILE, Unit, unit};
use crate::cpu::runtime::elem::Brain;
use crate::cpu::runtime::pool::SendPtr;
use crate::cpu::runtime::simd::{bf16_to_f32, f32_to_bf16};
use crate::cpu::runtime::testing::Rng;
use crate::kernels::quantized::quant::{Format, Mode};

fn words(rng: &mut Rng, count: usize) -> Vec<u32> {
    (0..count).map(|_| rng.next() as u32).collect()
}

/// Values of a row in their order.
fn decoded<C: Codec>(words: &[u32]) -> Vec<f32> {
    let mut out = Vec::new();
    for unit in words.chunks(C::BITS) {
        let mut q = [0.0; UNIT];
        // SAFETY: the words of one unit.
        unsafe { C::unit(unit.as_ptr(), &mut q) };
        out.extend(q);
    }
    out
}

fn formats() -> Vec<Format> {
    let affine = [1, 2, 3, 4, 5, 6, 8].map(|bits| (Mode::Affine, 64, bits));
    let floats = [(Mode::Mxfp4, 32, 4), (Mode::Mxfp8, 32, 8), (Mode::Nvfp4, 16, 4)];
    let all = affine.into_iter().chain(floats);
    all.map(|(mode, group, bits)| Format::new("test", mode, group, bits).unwrap()).collect()
}

fn check_lines<C: Codec>() {
    const UNITS: usize = 3;
    let w = words(&mut Rng(3), UNITS * C::BITS);
    let ones = [1.0f32; 2 * UNITS];
    let mut to = vec![0u16; UNITS * 2 * TILE];
    // SAFETY: the words, factors and lines of three units.
    unsafe { lines::<C>(w.as_ptr(), ones.as_ptr(), to.as_mut_ptr(), UNITS) };
    for (i, v) in decoded::<C>(&w).into_iter().enumerate() {
        let got = bf16_to_f32(to[i / UNIT * 2 * TILE + dealt(i % UNIT)]);
        assert!(got.to_bits() == v.to_bits() || got.is_nan() && v.is_nan(), "{} bits at {i}", C::BITS);
    }
    if C::BITS == 4 && unit().is_some() {
        let mut fast = vec![0u16; UNITS * 2 * TILE];
        // SAFETY: as above; the machine has tiles.
        unsafe { nibbles::<C>(w.as_ptr(), UNITS * 4, 1, fast.as_mut_ptr(), UNITS) };
        assert_eq!(fast, to);
    }
}

#[test]
fn lines_hold_the_values_of_codecs() {
    for f in formats() {
        by_codec!(f, check_lines());
    }
}

/// A matrix of such rows, whose numbers live in the vectors.
struct Held {
    f: Format,
    words: Vec<u32>,
    scales: Vec<u8>,
    biases: Vec<u8>,
    k: usize,
}

impl Held {
    fn new(f: Format, rows: usize, k: usize) -> Held {
        let mut rng = Rng(u64::from(f.bits) + 17);
        let groups = rows * f.groups(k);
        let bf = |rng: &mut Rng, low: f64| f32_to_bf16((rng.unit() + low) as f32).to_le_bytes();
        let scales = match f.mode {
            Mode::Affine => (0..groups).flat_map(|_| bf(&mut rng, 0.5)).collect(),
            Mode::Nvfp4 => (0..groups).map(|_| 0x30 + (rng.next() % 16) as u8).collect(),
            Mode::Mxfp4 | Mode::Mxfp8 => (0..groups).map(|_| 120 + (rng.next() % 8) as u8).collect(),
        };
        let biases = (0..groups).flat_map(|_| bf(&mut rng, -4.0)).collect();
        let mut words = words(&mut rng, rows * f.words(k));
        if f.mode == Mode::Mxfp8 {
            // No NaN among the codes.
            words.iter_mut().for_each(|w| *w &= 0xbfbf_bfbf);
        }
        Held { f, words, scales, biases, k }
    }

    fn matrix(&self) -> Matrix {
        Matrix {
            f: self.f,
            codes: self.words.as_ptr(),
            scales: self.scales.as_ptr(),
            biases: self.f.affine().then_some(self.biases.as_ptr()),
            dtype: if self.f.affine() { Dtype::BF16 } else { Dtype::U8 },
            words: self.f.words(self.k),
            groups: self.f.groups(self.k),
        }
    }

    /// Weights of a row.
    fn row<C: Codec>(&self, row: usize) -> Vec<f64> {
        let (m, mut held) = (self.matrix(), [Vec::new(), Vec::new()]);
        // SAFETY: the row is there.
        unsafe { m.factors(row, 0, m.groups, &mut held) };
        let mut padded = self.words[row * m.words..][..m.words].to_vec();
        padded.resize(m.words.next_multiple_of(C::BITS), 0);
        let group = self.f.group as usize;
        let values = decoded::<C>(&padded).into_iter().take(self.k).enumerate();
        values
            .map(|(i, v)| f64::from(v) * f64::from(held[0][i / group]) + f64::from(held[1][i / group]))
            .collect()
    }
}

fn close<C: Codec>(w: &Held, x: &[u16], rows: usize, n: usize, got: &[f32], what: &str) {
    for j in 0..n {
        let row = w.row::<C>(j);
        for i in 0..rows {
            let terms = row.iter().zip(&x[i * w.k..][..w.k]).map(|(w, &x)| w * f64::from(bf16_to_f32(x)));
            let (want, size) = terms.fold((0.0, 0.0), |(s, a), t| (s + t, a + t.abs()));
            let error = (f64::from(got[i * n + j]) - want).abs();
            assert!(error <= 1e-5 * size, "{what} {:?} at {i}, {j}: {} {want}", w.f, got[i * n + j]);
        }
    }
}

fn numbers(count: usize) -> Vec<u16> {
    let mut rng = Rng(29);
    (0..count).map(|_| f32_to_bf16((rng.unit() * 2.0 - 1.0) as f32)).collect()
}

fn check_tiles<C: Codec>(f: Format, best: Unit) {
    let (n, k) = (45, 3 * 128 + f.group as usize);
    let w = Held::new(f, n, k);
    for rows in [1, 16, 35, 70] {
        let x = numbers(rows * k);
        let source = Source { ptr: x.as_ptr().cast::<Brain>(), row: k as isize, col: 1, count: rows, k };
        for unit in [best, Unit::Pairs] {
            let mut got = vec![0.0f32; rows * n];
            let out = Out { dtype: Dtype::F32, ptr: SendPtr::new(got.as_mut_ptr().cast()) };
            // SAFETY: the numbers are there, and the machine has tiles.
            let right =
                unsafe { Right::new::<C, Brain>(source, f.group as usize, Parallelism::None) }.unwrap();
            product::<C>(&right, &w.matrix(), n, out, unit, Parallelism::None);
            close::<C>(&w, &x, rows, n, &got, &format!("{unit:?}"));
        }
    }
}

#[test]
fn both_units_multiply_every_format() {
    if let Some(best) = unit() {
        for f in formats() {
            by_codec!(f, check_tiles(f, best));
        }
    }
}

fn check_wide<C: Codec>(f: Format) {
    let (n, k) = (11, 5 * 128 + f.group as usize);
    let w = Held::new(f, n, k);
    let m = w.matrix();
    let codes = wide::Codes {
        format: f,
        words: m.codes,
        scales: m.scales,
        biases: m.biases.unwrap_or(std::ptr::null()),
        dtype: m.dtype,
        count: m.words,
        groups: m.groups,
    };
    for rows in 1..=4 {
        let x = numbers(rows * k);
        let floats: Vec<f32> = x.iter().map(|&x| bf16_to_f32(x)).collect();
        let dealt = wide::Dealt::new(f, &floats, k, k, rows);
        let mut got = vec![0.0f32; rows * n];
        for (from, to) in [(0, 6), (6, 7), (7, n)] {
            // SAFETY: the rows are there, and the format is taken.
            unsafe {
                wide::products(&codes, &dealt, (0, rows), (from, to), |i, j, y| {
                    if i < rows {
                        got[i * n + j] = y;
                    }
                });
            }
        }
        close::<C>(&w, &x, rows, n, &got, "wide");
    }
    // A single one among zeros picks a weight, without a rounding but that of the bias.
    for at in [0, 1, 77, k - 1] {
        let mut x = vec![0.0f32; k];
        x[at] = 1.0;
        let dealt = wide::Dealt::new(f, &x, k, k, 1);
        // SAFETY: as above.
        unsafe {
            wide::products(&codes, &dealt, (0, 1), (0, n), |_, j, y| {
                assert_eq!(y, w.row::<C>(j)[at] as f32, "{f:?} at {j}, {at}");
            });
        }
    }
}

#[test]
fn wide_vectors_multiply_the_formats_they_take() {
    for f in formats().into_iter().filter(|&f| wide::takes(f)) {
        by_codec!(f, check_wide(f));
    }
}
