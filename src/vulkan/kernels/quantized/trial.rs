//! What tests of texts in PTX multiply: rows and matrices by chance, in memory and as float64.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::ops::Range;

use half::f16;
use smallvec::{SmallVec, smallvec};

use super::push::Push;
use super::qmm_joined::Matrix;
use crate::core::Dtype;
use crate::kernels::elementwise::table::find;
use crate::kernels::matmul::epilogue::{After, KeptAfter, Origin};
use crate::kernels::quantized::quant::{Format, Mode, from_e8m0};
use crate::kernels::{Inst, Instr, Program as Steps, Src};
use crate::vulkan::kernels::tests::ptx::{Memory, bf16, of_bf16};

/// Numbers by chance, from -1 to 1.
pub struct Chance(pub u64);

impl Chance {
    /// The next 32 bits.
    pub fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 32) as u32
    }

    /// So many numbers around a middle, which both kinds of elements have but for the smallest.
    pub fn numbers(&mut self, n: usize, scale: f64, middle: f64) -> Vec<f64> {
        rounded((0..n).map(|_| middle + scale * (f64::from(self.word()) / 2f64.powi(31) - 1.0)).collect())
    }
}

/// Numbers as bfloat16 has them.
pub fn rounded(v: Vec<f64>) -> Vec<f64> {
    rounded_as(Dtype::BF16, v)
}

/// Numbers as elements of 16 bits have them.
pub fn rounded_as(dtype: Dtype, v: Vec<f64>) -> Vec<f64> {
    let of = |x: f64| match dtype {
        Dtype::F16 => f16::from_f64(x).to_f64(),
        _ => of_bf16(bf16(x as f32)).into(),
    };
    v.into_iter().map(of).collect()
}

/// Their bytes.
pub fn bytes(v: &[f64]) -> Vec<u8> {
    elements(Dtype::BF16, v)
}

/// Their bytes as elements of 16 bits.
pub fn elements(dtype: Dtype, v: &[f64]) -> Vec<u8> {
    let of = |x: f64| if dtype == Dtype::F16 { f16::from_f64(x).to_bits() } else { bf16(x as f32) as u16 };
    v.iter().flat_map(|&x| of(x).to_le_bytes()).collect()
}

/// A matrix of codes, or of elements, where it lies, and what it stands for.
pub struct Quantised {
    pub matrix: Matrix,
    dtype: Dtype,
    values: Vec<f64>,
}

impl Quantised {
    /// Rows of codes, their length, and codes of a group; none for elements.
    pub fn new(c: &mut Chance, m: &mut Memory, sizes: [usize; 3]) -> Quantised {
        Quantised::of(Dtype::BF16, c, m, sizes)
    }

    /// The same with factors of a dtype.
    pub fn of(dtype: Dtype, c: &mut Chance, m: &mut Memory, sizes: [usize; 3]) -> Quantised {
        Quantised::with(dtype, 4, c, m, sizes)
    }

    /// The same with codes of so many bits.
    pub fn with(
        dtype: Dtype,
        bits: u32,
        c: &mut Chance,
        m: &mut Memory,
        [rows, k, group]: [usize; 3],
    ) -> Quantised {
        if group == 0 {
            let values = c.numbers(rows * k, 0.2, 0.0);
            let parts = [m.place(elements(dtype, &values)), 0, 0];
            return Quantised { matrix: Matrix { rows: rows as i64, parts }, dtype, values };
        }
        let words = (0..(rows * k * bits as usize).div_ceil(32)).map(|_| c.word());
        let bytes: Vec<u8> = words.flat_map(|w| w.to_le_bytes()).collect();
        let small = 0.02 * 15.0 / f64::from((1 << bits) - 1);
        let [scales, biases] = [small, 0.1].map(|s| c.numbers(rows * k / group, s, 0.0));
        let code = |i: usize| {
            let (at, next) = (i * bits as usize / 8, i * bits as usize / 8 + 1);
            let two = u32::from(bytes[at]) | u32::from(*bytes.get(next).unwrap_or(&0)) << 8;
            two >> (i * bits as usize % 8) & ((1 << bits) - 1)
        };
        let value = |i: usize| f64::from(code(i)) * scales[i / group] + biases[i / group];
        let values = (0..rows * k).map(value).collect();
        let parts = [bytes, elements(dtype, &scales), elements(dtype, &biases)].map(|b| m.place(b));
        Quantised { matrix: Matrix { rows: rows as i64, parts }, dtype, values }
    }

    /// The same of any format; scales that are bytes are from some on.
    pub fn coded(
        (dtype, format): (Dtype, Format),
        scales: Range<u32>,
        c: &mut Chance,
        m: &mut Memory,
        [rows, k]: [usize; 2],
    ) -> Quantised {
        let group = format.group as usize;
        if format.affine() {
            return Quantised::with(dtype, format.bits, c, m, [rows, k, group]);
        }
        let each = 8 / format.bits as usize;
        let made: Vec<u8> = (0..rows * k / each).map(|_| c.word() as u8).collect();
        // Codes that are numbers.
        let number = |b: u8| if format.bits == 8 && b & 0x7f == 0x7f { b & 0xf0 } else { b };
        let codes: Vec<u8> = made.into_iter().map(number).collect();
        let len = scales.end - scales.start;
        let factors: Vec<u8> = (0..rows * k / group).map(|_| (scales.start + c.word() % len) as u8).collect();
        let code = |i: usize| match format.mode {
            Mode::Mxfp8 => e4m3(codes[i]),
            _ => e2m1(codes[i / 2] >> (4 * (i % 2)) & 15),
        };
        let scale = |b: u8| if format.mode == Mode::Nvfp4 { e4m3(b) } else { from_e8m0(b).into() };
        let values = (0..rows * k).map(|i| code(i) * scale(factors[i / group])).collect();
        let parts = [m.place(codes), m.place(factors), 0];
        Quantised { matrix: Matrix { rows: rows as i64, parts }, dtype, values }
    }

    /// The product with a row, rounded.
    pub fn times(&self, x: &[f64]) -> Vec<f64> {
        self.times_rows(x, 0..self.values.len() / x.len())
    }

    /// That of some rows of codes.
    pub fn times_rows(&self, x: &[f64], rows: Range<usize>) -> Vec<f64> {
        let of_row = |row: &[f64]| row.iter().zip(x).map(|(w, x)| w * x).sum();
        rounded_as(
            self.dtype,
            self.values.chunks(x.len()).skip(rows.start).take(rows.len()).map(of_row).collect(),
        )
    }
}

/// A number of E2M1.
fn e2m1(bits: u8) -> f64 {
    let sizes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    sizes[usize::from(bits & 7)] * if bits & 8 == 0 { 1.0 } else { -1.0 }
}

/// One of E4M3.
fn e4m3(bits: u8) -> f64 {
    let (e, m) = (i32::from(bits >> 3 & 15), f64::from(bits & 7));
    let size = if e == 0 { m / 512.0 } else { (1.0 + m / 8.0) * 2f64.powi(e - 7) };
    let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
    if bits & 0x7f == 0x7f { f64::NAN } else { sign * size }
}

/// The numbers at an address.
pub fn read(m: &Memory, at: u64) -> Vec<f64> {
    read_as(Dtype::BF16, m, at)
}

/// Those of a dtype.
pub fn read_as(dtype: Dtype, m: &Memory, at: u64) -> Vec<f64> {
    numbers(dtype, m.bytes(at))
}

/// Elements of 16 bits as numbers.
pub fn numbers(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    let element = |b: &[u8]| match u16::from_le_bytes([b[0], b[1]]) {
        bits if dtype == Dtype::F16 => f16::from_bits(bits).into(),
        bits => of_bf16(bits.into()).into(),
    };
    bytes.chunks(2).map(element).collect()
}

/// A row that is normalised, with an epsilon of 1e-6.
pub fn normalised(row: &[f64], weights: &[f64]) -> Vec<f64> {
    normalised_as(Dtype::BF16, row, weights)
}

/// The same of elements of a dtype.
pub fn normalised_as(dtype: Dtype, row: &[f64], weights: &[f64]) -> Vec<f64> {
    let root = (row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64 + 1e-6).sqrt();
    rounded_as(dtype, row.iter().zip(weights).map(|(x, w)| x / root * w).collect())
}

/// Within two roundings of the largest.
pub fn same(what: &str, got: &[f64], want: &[f64]) {
    same_as(Dtype::BF16, what, got, want);
}

/// The same of elements of a dtype.
pub fn same_as(dtype: Dtype, what: &str, got: &[f64], want: &[f64]) {
    let part = if dtype == Dtype::F16 { 512.0 } else { 64.0 };
    let largest = want.iter().fold(0.0, |a: f64, x| a.max(x.abs()));
    for (i, (a, b)) in got.iter().zip(want).enumerate() {
        assert!(a == b || (a - b).abs() <= largest / part, "{what} {i}: {a}, not {b}");
    }
}

/// Rows by matrices as programs of few rows are told of them, and what is added to the results of the first.
pub struct FewRows {
    dtype: Dtype,
    pub chance: Chance,
    pub memory: Memory,
    pub push: Push,
    pub rows: Vec<Vec<f64>>,
    added: Vec<f64>,
    matrices: Vec<Quantised>,
}

impl FewRows {
    /// Rows, their length, codes of a group or none, and rows of matrices, of a dtype.
    pub fn of(dtype: Dtype, seed: u64, [m, k, group]: [usize; 3], lengths: [u32; 3]) -> FewRows {
        let made = |c: &mut Chance, memory: &mut Memory, n| Quantised::of(dtype, c, memory, [n, k, group]);
        FewRows::made(dtype, seed, [m, k], lengths, made)
    }

    /// The same of codes of a format.
    pub fn coded(dtype: Dtype, format: Format, [m, k]: [usize; 2], lengths: [u32; 3]) -> FewRows {
        // Values of a few hundredths and less.
        let scales = if format.mode == Mode::Nvfp4 { 0x02..0x18 } else { 116..122 };
        let made = |c: &mut Chance, memory: &mut Memory, n| {
            Quantised::coded((dtype, format), scales.clone(), c, memory, [n, k])
        };
        FewRows::made(dtype, 11, [m, k], lengths, made)
    }

    fn made(
        dtype: Dtype,
        seed: u64,
        [m, k]: [usize; 2],
        lengths: [u32; 3],
        made: impl Fn(&mut Chance, &mut Memory, usize) -> Quantised,
    ) -> FewRows {
        let (mut chance, mut memory) = (Chance(seed), Memory::default());
        let there = || lengths.iter().filter(|&&n| n > 0);
        let matrices: Vec<Quantised> = there().map(|&n| made(&mut chance, &mut memory, n as usize)).collect();
        let x = chance.numbers(m * k, 1.0, 0.0);
        let added = chance.numbers(m * lengths[0] as usize, 1.0, 0.0);
        let mut push = Push { x: memory.place(elements(dtype, &x)), rows: m as u32, ..Push::default() };
        for (i, (q, n)) in matrices.iter().zip(there()).enumerate() {
            (push.parts[0][i], push.parts[1][i], push.parts[2][i]) = q.matrix.parts.into();
            push.parts[3][i] = memory.place(vec![0; 2 * m * *n as usize]);
        }
        if matrices.len() == 1 {
            push.parts[3][1] = memory.place(elements(dtype, &added));
        }
        let rows = x.chunks(k).map(<[f64]>::to_vec).collect();
        FewRows { dtype, chance, memory, push, rows, added, matrices }
    }

    /// Makes the rows so many times as large.
    pub fn enlarge(&mut self, times: f64) {
        self.rows.iter_mut().flatten().for_each(|x| *x *= times);
        self.push.x = self.memory.place(elements(self.dtype, &self.rows.concat()));
    }

    /// Holds the results against float64: one matrix' with what is added, two at once with a gated unit, or each by itself.
    pub fn compare(&self, after: bool) {
        let rounded = |v| rounded_as(self.dtype, v);
        let same = |what: &str, got: &[f64], want: &[f64]| same_as(self.dtype, what, got, want);
        let products =
            |q: &Quantised| -> Vec<f64> { self.rows.iter().flat_map(|row| q.times(row)).collect() };
        let got = |i: usize| read_as(self.dtype, &self.memory, self.push.parts[3][i]);
        match &self.matrices[..] {
            [first] if after => {
                let sum = products(first).iter().zip(&self.added).map(|(a, b)| a + b).collect();
                same("a residual", &got(0), &rounded(sum));
            }
            [gate, up] if after => {
                let gate = products(gate);
                let gates = rounded(gate.iter().map(|g| 1.0 / (1.0 + (-g).exp())).collect());
                let unit = rounded(gates.iter().zip(&gate).map(|(s, g)| s * g).collect());
                let gated = unit.iter().zip(products(up)).map(|(g, u)| g * u).collect();
                same("a gated unit", &got(0), &rounded(gated));
            }
            all => all.iter().enumerate().for_each(|(i, q)| same("several", &got(i), &products(q))),
        }
    }
}

/// An instruction on bfloat16.
pub fn instr(name: &str, args: &[Src]) -> Instr {
    Instr { op: Inst::Op(find(name).unwrap()), args: args.into(), dtype: Dtype::BF16 }
}

/// The same steps on elements of a dtype.
pub fn on(dtype: Dtype, after: KeptAfter) -> KeptAfter {
    let mut program = after.program.clone();
    program.inputs.iter_mut().for_each(|d| *d = dtype);
    program.instrs.iter_mut().for_each(|i| i.dtype = dtype);
    After { program, inputs: after.inputs.clone() }.kept().unwrap()
}

/// What follows products, or the first of them.
pub fn after(instrs: SmallVec<[Instr; 1]>, inputs: SmallVec<[Origin; 4]>) -> KeptAfter {
    let outputs = smallvec![instrs.len() as u8 - 1];
    let program = Steps { inputs: smallvec![Dtype::BF16; inputs.len()], instrs, outputs };
    After { program, inputs }.kept().unwrap()
}

/// The sigmoid of a product, times it and another.
pub fn gated() -> KeptAfter {
    let (a, b, r0, r1) = (Src::Input(0), Src::Input(1), Src::Reg(0), Src::Reg(1));
    let instrs = smallvec![instr("sigmoid", &[a]), instr("multiply", &[a, r0]), instr("multiply", &[r1, b]),];
    after(instrs, smallvec![Origin::Product(0), Origin::Product(1)])
}

/// The same of products and what belongs to their matrices.
pub fn gated_biased() -> KeptAfter {
    let (input, reg) = (Src::Input, Src::Reg);
    let instrs = smallvec![
        instr("add", &[input(0), input(2)]),
        instr("add", &[input(3), input(1)]),
        instr("sigmoid", &[reg(0)]),
        instr("multiply", &[reg(0), reg(2)]),
        instr("multiply", &[reg(3), reg(1)]),
    ];
    let [products, tables] = [[0, 1].map(Origin::Product), [0, 1].map(Origin::Picked)];
    after(instrs, products.into_iter().chain(tables).collect())
}

/// As many steps as texts of few rows know, the first of a product, the last one with another.
pub fn long() -> KeptAfter {
    let mut instrs: SmallVec<[Instr; 1]> = smallvec![instr("tanh", &[Src::Input(0)])];
    (0..10).for_each(|i| instrs.push(instr("add", &[Src::Reg(i), Src::Input(0)])));
    instrs.push(instr("multiply", &[Src::Reg(10), Src::Input(1)]));
    after(instrs, smallvec![Origin::Product(0), Origin::Product(1)])
}

/// An array that is added to a product.
pub fn added() -> KeptAfter {
    let instrs = smallvec![instr("add", &[Src::Input(1), Src::Input(0)])];
    after(instrs, smallvec![Origin::Product(0), Origin::Array(0)])
}

/// Names that a text declares as registers: with how many of them, where they are counted.
fn registers(text: &str) -> HashMap<String, Option<u32>> {
    let lines = text.lines().filter_map(|l| l.strip_prefix(".reg ").and_then(|l| l.split_once(' ')));
    let names = lines.flat_map(|(_, names)| names.trim_end_matches(';').split(','));
    let one = |name: &str| match name.split_once('<') {
        Some((name, n)) => (name.to_string(), Some(n.trim_end_matches('>').parse().unwrap())),
        None => (name.to_string(), None),
    };
    names.map(one).collect()
}

/// Bytes of shared memory that a text declares, each piece behind what the alignment of the last one leaves.
pub fn shared(text: &str) -> usize {
    let pieces = text.lines().filter_map(|l| l.strip_prefix(".shared .align "));
    pieces.fold(0, |at, piece| {
        let (align, rest) = piece.split_once(' ').unwrap();
        let (_, size) = rest.trim_end_matches("];").split_once('[').unwrap();
        at.next_multiple_of(align.parse::<usize>().unwrap()) + size.parse::<usize>().unwrap()
    })
}

/// A text goes to places that it has, each of them once, to registers that it declares, and declares no more shared memory than a program
/// in PTX may have.
pub fn whole(text: &str, what: &dyn Debug) {
    assert!(shared(text) <= 48 << 10, "{} bytes of {what:?}", shared(text));
    let labels: Vec<&str> = text.lines().filter_map(|l| l.strip_suffix(':')).collect();
    let known: HashSet<&str> = labels.iter().copied().collect();
    assert_eq!(known.len(), labels.len(), "{what:?}");
    let jumps = text.split("bra ").skip(1).map(|t| t.split(';').next().unwrap());
    jumps.for_each(|to| assert!(known.contains(to), "{to} of {what:?}"));
    let declared = registers(text);
    // Names of instructions have dots.
    let names = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    for name in names.filter(|n| !n.contains('.')) {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        if let (Some(&Some(n)), Ok(i)) = (declared.get(stem), name[stem.len()..].parse::<u32>()) {
            assert!(i < n, "{name} of {what:?}");
        }
    }
}
