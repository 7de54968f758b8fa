//! Tests of the text: its values against float64.

use super::args::Args;
use super::text::Program;
use crate::core::Dtype;
use crate::vulkan::kernels::attention::Mask;
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::kernels::quantized::trial::{elements, numbers, rounded_as};
use crate::vulkan::kernels::tests::ptx::{Memory, Program as Reader};

/// Numbers between -1 and 1, as elements of a dtype.
struct Numbers(u64, Dtype);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        f64::from((self.0 >> 40) as u32) / 8_388_608.0 - 1.0
    }

    fn some(&mut self, n: usize) -> Vec<f64> {
        rounded_as(self.1, (0..n).map(|_| self.next()).collect())
    }
}

/// Sequences, heads of keys, keys, their part, and the newest one's place.
#[derive(Clone, Copy)]
pub struct Sizes {
    batch: usize,
    kv: usize,
    n: usize,
    span: usize,
    place: usize,
}

const STARTS: [i32; 3] = [5, 70_001, 0];
const BASE: f64 = 10_000.0;
const SCALE: f64 = 0.3;

/// Everything that a kernel reads.
pub struct Case {
    pub p: Program,
    s: Sizes,
    q: Vec<f64>,
    key: Vec<f64>,
    value: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    weights: [Vec<f64>; 2],
    /// Of sequences and keys.
    mask: Vec<f64>,
    sinks: Vec<f64>,
}

impl Case {
    /// One sequence, whose heads are shared so by parts of the keys.
    pub fn one(
        dtype: Dtype,
        features: u32,
        [kv, group, parts]: [u32; 3],
        [n, place]: [usize; 2],
        masked: bool,
    ) -> Case {
        let mask = if masked { Mask::Add } else { Mask::None };
        let rows = group.min(4);
        let p = Program {
            dtype,
            features,
            dims: features,
            group,
            rows,
            tiles: group.div_ceil(4),
            kv,
            parts,
            mask,
            norm: !masked,
            sinks: masked,
            ..PLAIN
        };
        let span = n.div_ceil(parts as usize).next_multiple_of(16);
        Case::new(p, Sizes { batch: 1, kv: kv as usize, n, span, place })
    }

    fn new(p: Program, s: Sizes) -> Case {
        let (d, heads) = (p.features as usize, s.kv * p.group as usize);
        let mut x = Numbers(7, p.dtype);
        let mask = match p.mask {
            Mask::Bool => x.some(s.batch * s.n).iter().map(|x| f64::from(*x > -0.5)).collect(),
            _ => x.some(s.batch * s.n).iter().map(|x| if *x > 0.8 { -3.3e38 } else { *x }).collect(),
        };
        Case {
            q: x.some(s.batch * heads * d),
            key: x.some(s.batch * s.kv * d),
            value: x.some(s.batch * s.kv * d),
            k: x.some(s.batch * s.kv * s.n * d),
            v: x.some(s.batch * s.kv * s.n * d),
            weights: [x.some(d), x.some(d)],
            sinks: x.some(heads),
            mask,
            p,
            s,
        }
    }

    /// A row as the kernel makes it ready.
    fn ready(&self, row: &[f64], weights: &[f64], start: i32) -> Vec<f64> {
        let d = row.len();
        let squares: f64 = row.iter().map(|x| x * x).sum();
        let root = 1.0 / (squares / d as f64 + 1e-5).sqrt();
        let norm = |(x, w): (&f64, &f64)| if self.p.norm { x * root * w } else { *x };
        let x = rounded_as(self.p.dtype, row.iter().zip(weights).map(norm).collect());
        let dims = self.p.dims as usize;
        let turned = |i: usize| {
            // The pair, its elements, and whether this is the first.
            let (pair, at, first) = match self.p.traditional {
                _ if i >= dims => return x[i],
                true => (i / 2, [i / 2 * 2, i / 2 * 2 + 1], i.is_multiple_of(2)),
                false => (i % (dims / 2), [i % (dims / 2), i % (dims / 2) + dims / 2], i < dims / 2),
            };
            let angle = f64::from(start as f32 * frequency(pair, dims) as f32);
            let (low, high) = (x[at[0]], x[at[1]]);
            if first {
                low * angle.cos() - high * angle.sin()
            } else {
                high * angle.cos() + low * angle.sin()
            }
        };
        rounded_as(self.p.dtype, (0..d).map(turned).collect())
    }

    /// The newest key of a line, all of its keys and values, and the result of a head.
    fn wanted(&self, batch: usize, head: usize) -> (Vec<f64>, Vec<f64>) {
        let (d, s) = (self.p.features as usize, self.s);
        let line = batch * s.kv + head / self.p.group as usize;
        let row = |x: &[f64], i: usize| x[i * d..][..d].to_vec();
        let start = STARTS[batch];
        let q =
            self.ready(&row(&self.q, batch * s.kv * self.p.group as usize + head), &self.weights[0], start);
        let newest = self.ready(&row(&self.key, line), &self.weights[1], start);
        let at = |x: &[f64], newest: &[f64], j: usize| {
            if j == s.place { newest.to_vec() } else { row(x, line * s.n + j) }
        };
        let value = row(&self.value, line);
        let scores: Vec<f64> = (0..s.n)
            .map(|j| {
                let score: f64 =
                    q.iter().zip(&at(&self.k, &newest, j)).map(|(a, b)| a * b).sum::<f64>() * SCALE;
                let m = self.mask[batch * s.n + j];
                match self.p.mask {
                    Mask::Bool if m == 0.0 => -3e38,
                    Mask::Add if m < -2e38 => -3e38,
                    Mask::Add => score + m,
                    _ => score,
                }
            })
            .collect();
        let sink = if self.p.sinks { self.sinks[head] } else { f64::NEG_INFINITY };
        let most = scores.iter().copied().fold(sink, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
        let total = weights.iter().sum::<f64>() + (sink - most).exp();
        let mut out = vec![0.0; d];
        for (j, w) in weights.iter().enumerate() {
            out.iter_mut().zip(at(&self.v, &value, j)).for_each(|(o, v)| *o += w / total * v);
        }
        (newest, out)
    }

    /// Places everything, and tells where.
    pub fn place(&self, m: &mut Memory) -> Args {
        let (p, s) = (self.p, self.s);
        let (d, heads) = (p.features as usize, s.kv * p.group as usize);
        let bytes = |x: &[f64]| elements(p.dtype, x);
        let dims = p.dims as usize;
        let angles: Vec<u8> = (0..dims / 2).flat_map(|i| (frequency(i, dims) as f32).to_le_bytes()).collect();
        let starts: Vec<u8> = STARTS.iter().flat_map(|x| x.to_le_bytes()).collect();
        let mask = match p.mask {
            Mask::Bool => self.mask.iter().map(|x| *x as u8).collect(),
            _ => bytes(&self.mask),
        };
        let element = if p.mask == Mask::Bool { 1 } else { 2 };
        // What lies at the newest one's place is nothing.
        let noisy = |x: &[f64]| {
            let mut x = x.to_vec();
            for line in 0..s.batch * s.kv {
                x[(line * s.n + s.place) * d..][..d].fill(f64::NAN);
            }
            bytes(&x)
        };
        let row = 2 * d as u32;
        let parts = s.batch * heads * p.parts as usize;
        Args {
            q: m.place(bytes(&self.q)),
            key: m.place(bytes(&self.key)),
            value: m.place(bytes(&self.value)),
            k: m.place(noisy(&self.k)),
            v: m.place(noisy(&self.v)),
            q_weight: m.place(bytes(&self.weights[0])),
            k_weight: m.place(bytes(&self.weights[1])),
            table: m.place(angles),
            starts: m.place(starts),
            mask: m.place(mask),
            sinks: m.place(bytes(&self.sinks)),
            dst: m.place(vec![0; s.batch * heads * d * 2]),
            parts: m.place(vec![0xff; 4 * d * parts]),
            heads: m.place(vec![0xff; 8 * parts]),
            counters: m.place(vec![0; 4 * s.batch * s.kv * p.tiles as usize]),
            q_steps: [heads as u32 * row, row],
            key_steps: [s.kv as u32 * row, row],
            value_steps: [s.kv as u32 * row, row],
            k_steps: [(s.kv * s.n) as u32 * row, s.n as u32 * row, row],
            v_steps: [(s.kv * s.n) as u32 * row, s.n as u32 * row, row],
            m_steps: [s.n as u32 * element, 0, element],
            lines: s.kv as u32,
            n: s.n as u32,
            place: s.place as u32,
            span: s.span as u32,
            table_step: 1,
            start: 0,
            start_step: 1,
            sink_step: 1,
            pace: 1.0,
            sign: 1.0,
            scale: SCALE as f32,
            eps: 1e-5,
            words: 0,
            tag: 0,
        }
    }

    fn run(&self) {
        let (p, s) = (self.p, self.s);
        let mut m = Memory::default();
        let args = self.place(&mut m);
        let grid = [(p.parts * p.tiles) as usize, s.kv, s.batch];
        Reader::read(&p.text()).run_grid(&mut m, args.bytes(), grid);
        self.compare(&m, &args);
        assert!(m.bytes(args.counters).iter().all(|&b| b == 0));
    }

    /// Holds results, and the newest keys and values, against float64.
    pub fn compare(&self, m: &Memory, args: &Args) {
        let (p, s) = (self.p, self.s);
        let (d, heads) = (p.features as usize, s.kv * p.group as usize);
        let stored = |at: u64, i: usize| -> Vec<f64> { numbers(p.dtype, &m.bytes(at)[2 * i * d..][..2 * d]) };
        let part = if p.dtype == Dtype::F16 { 0.001 } else { 0.006 };
        let near = |got: &[f64], wanted: &[f64], what: &str| {
            for (i, (a, b)) in got.iter().zip(wanted).enumerate() {
                assert!((a - b).abs() <= part * b.abs() + 2e-4, "{p:?} {what} {i}: {a} {b}");
            }
        };
        for (batch, head) in (0..s.batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
            let (newest, out) = self.wanted(batch, head);
            near(&stored(args.dst, batch * heads + head), &out, &format!("result of {batch}, {head}"));
            let line = batch * s.kv + head / p.group as usize;
            near(&stored(args.k, line * s.n + s.place), &newest, "the newest key");
            near(&stored(args.v, line * s.n + s.place), &self.value[line * d..][..d], "the newest value");
        }
    }
}

fn frequency(pair: usize, d: usize) -> f64 {
    BASE.powf(-2.0 * pair as f64 / d as f64)
}

const PLAIN: Program = Program {
    dtype: Dtype::BF16,
    features: 128,
    dims: 128,
    traditional: false,
    group: 4,
    rows: 4,
    tiles: 1,
    parts: 1,
    norm: true,
    waves: false,
    mask: Mask::Bool,
    sinks: false,
    kv: 2,
    front: None,
};

#[test]
fn texts_compute_what_attention_is() {
    let sizes = Sizes { batch: 3, kv: 2, n: 300, span: 304, place: 299 };
    Case::new(PLAIN, sizes).run();
    let half = Program { dtype: Dtype::F16, ..PLAIN };
    Case::new(half, sizes).run();
    // Parts, one of which has no keys; a place amid others; odd heads.
    let parts = Sizes { batch: 2, n: 97, span: 32, place: 40, ..sizes };
    let p = Program { parts: 4, group: 3, rows: 3, mask: Mask::Add, sinks: true, norm: false, ..PLAIN };
    Case::new(p, parts).run();
    Case::new(Program { dtype: Dtype::F16, ..p }, parts).run();
    Case::new(Program { parts: 4, mask: Mask::None, ..half }, parts).run();
    Case::new(Program { parts: 4, group: 1, rows: 1, mask: Mask::None, ..PLAIN }, parts).run();
}

#[test]
fn short_heads_and_many_of_them() {
    let sizes = Sizes { batch: 2, kv: 1, n: 150, span: 80, place: 149 };
    let p = Program { features: 64, dims: 64, group: 12, rows: 8, tiles: 2, parts: 2, sinks: true, ..PLAIN };
    Case::new(p, sizes).run();
    Case::new(
        Program { features: 64, dims: 64, parts: 1, group: 7, rows: 7, ..PLAIN },
        Sizes { span: 160, ..sizes },
    )
    .run();
}

/// Of 96 features, which registers and shared memory have as 128: all turned, a part, neighbours; parts of the keys, all masks, a place in
/// the last row of memory.
#[test]
fn heads_of_ninety_six() {
    let sizes = Sizes { batch: 2, kv: 2, n: 97, span: 112, place: 40 };
    let p = Program { features: 96, dims: 96, norm: false, ..PLAIN };
    for (dims, traditional) in [(96, false), (64, false), (48, false), (16, false), (96, true), (24, true)] {
        Case::new(Program { dims, traditional, ..p }, sizes).run();
    }
    let parts = Sizes { batch: 3, kv: 1, n: 300, span: 80, place: 299 };
    let several = Program { parts: 4, group: 11, rows: 8, tiles: 2, sinks: true, mask: Mask::Add, ..p };
    Case::new(several, parts).run();
    let alone = Program { dtype: Dtype::F16, group: 1, rows: 1, mask: Mask::None, ..p };
    Case::new(alone, Sizes { span: 304, ..parts }).run();
}

/// A part of a head, neighbours, both; one sequence that a chain begins with takes the same text.
#[test]
fn some_features_or_neighbours_are_turned() {
    let sizes = Sizes { batch: 2, kv: 2, n: 97, span: 112, place: 40 };
    for (dims, traditional) in
        [(64, false), (32, false), (16, false), (128, true), (64, true), (24, true), (96, false), (80, false)]
    {
        Case::new(Program { dims, traditional, ..PLAIN }, sizes).run();
        let p = Program { features: 64, dims: dims.min(64), traditional, norm: false, ..PLAIN };
        Case::new(Program { dtype: Dtype::F16, ..p }, sizes).run();
    }
}
