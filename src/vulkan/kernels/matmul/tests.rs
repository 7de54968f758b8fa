//! Products on whichever Vulkan device is found, against float64 loops; and every shader variant through
//! the compiler. Random values have fixed seeds.

use std::sync::Arc;

use half::{bf16, f16};
use smallvec::smallvec;

use super::kernel::{Kernel, MatmulKey, Table};
use super::problem::TEST_REACH;
use super::{addmm, matmul, plain};
use crate::core::device::new_stream;
use crate::core::{Device as CoreDevice, Dtype, Layout, Storage, Stream};
use crate::kernels::elementwise::table::op;
use crate::kernels::{DeviceView, Epilogue, Inst, Instr, Program, Spread, Src};
use crate::vulkan::shader::compiler;
use crate::vulkan::tune::matmul::{TEST_TILE, Tile};
use crate::vulkan::*;

struct Rng(u64);

impl Rng {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 40) as f64 / (1u64 << 23) as f64 - 1.0
    }
}

/// Host memory of a dtype, with its values as (re, im) pairs.
struct Tensor {
    dtype: Dtype,
    layout: Layout,
    values: Vec<(f64, f64)>,
    storage: Arc<Storage>,
}

fn encode(dtype: Dtype, v: (f64, f64), out: &mut Vec<u8>) -> (f64, f64) {
    match dtype {
        Dtype::F32 => {
            out.extend((v.0 as f32).to_le_bytes());
            (f64::from(v.0 as f32), 0.0)
        }
        Dtype::F16 => {
            out.extend(f16::from_f64(v.0).to_le_bytes());
            (f16::from_f64(v.0).to_f64(), 0.0)
        }
        Dtype::BF16 => {
            out.extend(bf16::from_f64(v.0).to_le_bytes());
            (bf16::from_f64(v.0).to_f64(), 0.0)
        }
        _ => {
            out.extend((v.0 as f32).to_le_bytes());
            out.extend((v.1 as f32).to_le_bytes());
            (f64::from(v.0 as f32), f64::from(v.1 as f32))
        }
    }
}

fn decode(dtype: Dtype, b: &[u8]) -> (f64, f64) {
    let f = |b: &[u8]| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    match dtype {
        Dtype::F32 => (f(b), 0.0),
        Dtype::F16 => (f16::from_le_bytes([b[0], b[1]]).to_f64(), 0.0),
        Dtype::BF16 => (bf16::from_le_bytes([b[0], b[1]]).to_f64(), 0.0),
        _ => (f(b), f(&b[4..])),
    }
}

impl Tensor {
    /// Random elements under a layout whose span starts at zero or above.
    fn new(dtype: Dtype, layout: Layout, seed: u64) -> Tensor {
        let len = layout.span().map_or(0, |s| s.1 + 1) as usize;
        let mut rng = Rng(seed);
        Tensor::with(dtype, layout, (0..len).map(|_| (rng.unit(), rng.unit())))
    }

    fn of(dtype: Dtype, layout: Layout, values: &[f64]) -> Tensor {
        Tensor::with(dtype, layout, values.iter().map(|&v| (v, 0.0)))
    }

    fn with(dtype: Dtype, layout: Layout, values: impl Iterator<Item = (f64, f64)>) -> Tensor {
        let mut bytes = Vec::new();
        let values = values.map(|v| encode(dtype, v, &mut bytes)).collect();
        let storage = crate::memory::host_storage(bytes.len().max(1)).unwrap();
        // SAFETY: the storage was just made with room for these bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), storage.host_ptr().unwrap(), bytes.len()) };
        Tensor { dtype, layout, values, storage }
    }

    fn view(&self, enc: &mut CommandEncoder) -> DeviceView {
        let address = enc.resident(&self.storage).unwrap();
        DeviceView::new(
            address + self.layout.offset as u64 * self.dtype.size() as u64,
            self.dtype,
            &self.layout,
        )
    }

    fn at(&self, index: &[i64]) -> (f64, f64) {
        let p: i64 = index.iter().zip(&self.layout.strides).map(|(i, s)| i * s).sum();
        self.values[(p + self.layout.offset) as usize]
    }
}

/// How an operand lies in memory.
#[derive(Clone, Copy, Debug)]
enum Form {
    Plain,
    Transposed,
    /// Rows with a gap, odd offset.
    Gap,
    /// Every second column, and rows backwards.
    Odd,
    /// Aligned rows with a gap.
    Wide,
}

fn layout(batch: &[i64], used: &[bool], rows: i64, cols: i64, form: Form) -> Layout {
    let (rs, cs, one, offset) = match form {
        Form::Plain => (cols, 1, rows * cols, 0),
        Form::Transposed => (1, rows, rows * cols, 0),
        Form::Gap => (cols + 3, 1, rows * (cols + 3) + 1, 5),
        Form::Odd => (-2 * cols, 2, 2 * rows * cols, 2 * cols * (rows - 1).max(0)),
        Form::Wide => ((cols + 15) / 8 * 8, 1, rows * ((cols + 15) / 8 * 8), 16),
    };
    let mut strides: Vec<i64> = vec![cs, rs];
    let mut step = one;
    for (d, u) in batch.iter().zip(used).rev() {
        strides.push(if *u { step } else { 0 });
        if *u {
            step *= d;
        }
    }
    strides.reverse();
    let shape: Vec<i64> = batch.iter().copied().chain([rows, cols]).collect();
    Layout { shape: shape.as_slice().into(), strides: strides.as_slice().into(), offset }
}

struct Case {
    dtype: Dtype,
    m: i64,
    n: i64,
    k: i64,
    batch: Vec<i64>,
    used: [Vec<bool>; 2],
    forms: [Form; 2],
    /// alpha, beta, layout of c.
    addend: Option<(f32, f32, Layout)>,
}

fn case(dtype: Dtype, m: i64, n: i64, k: i64) -> Case {
    Case {
        dtype,
        m,
        n,
        k,
        batch: vec![],
        used: [vec![], vec![]],
        forms: [Form::Plain, Form::Plain],
        addend: None,
    }
}

fn stream() -> Option<Stream> {
    crate::memory::init();
    if adapters().is_empty() {
        return None;
    }
    Some(new_stream(CoreDevice::GPU))
}

fn check(c: &Case) {
    let Some(s) = stream() else { return };
    let a = Tensor::new(c.dtype, layout(&c.batch, &c.used[0], c.m, c.k, c.forms[0]), 1);
    let b = Tensor::new(c.dtype, layout(&c.batch, &c.used[1], c.k, c.n, c.forms[1]), 2);
    let shape: Vec<i64> = c.batch.iter().copied().chain([c.m, c.n]).collect();
    let out = Layout::contiguous(&shape);
    let addend = c.addend.as_ref().map(|(x, y, l)| (*x, *y, Tensor::new(c.dtype, l.clone(), 3)));
    let result = with_encoder(s, |enc| {
        let (va, vb) = (a.view(enc), b.view(enc));
        let (storage, address) = enc.output((out.size() * c.dtype.size()).max(1))?;
        let d = DeviceView::new(address, c.dtype, &out);
        match &addend {
            Some((alpha, beta, t)) => {
                let vc = t.view(enc);
                addmm(enc, &vc, &va, &vb, &d, *alpha, *beta)?;
            }
            None => matmul(enc, &va, &vb, &d)?,
        }
        Ok(storage)
    })
    .unwrap();
    let host = result.host_ptr().unwrap();
    let label = format!("{} {}x{}x{} {:?} {:?} {:?}", c.dtype, c.m, c.n, c.k, c.batch, c.forms, c.used);
    let (eps, size) = match c.dtype {
        Dtype::F16 => (1.0 / 2048.0, 2),
        Dtype::BF16 => (1.0 / 256.0, 2),
        t => (1e-6, t.size()),
    };
    for i in 0..out.size() {
        let mut rest = i as i64;
        let mut index: Vec<i64> = vec![0; shape.len()];
        for ax in (0..shape.len()).rev() {
            index[ax] = rest % shape[ax];
            rest /= shape[ax];
        }
        // Large results are sampled.
        if out.size() > 40_000 && i % 61 != 0 && i + 300 < out.size() {
            continue;
        }
        let (row, col) = (index[shape.len() - 2], index[shape.len() - 1]);
        let outer = &index[..shape.len() - 2];
        let pick = |t: &Tensor, r: i64, q: i64| {
            let at: Vec<i64> = outer.iter().copied().chain([r, q]).collect();
            t.at(&at)
        };
        let mut sum = (0.0, 0.0);
        let mut scale = 0.0;
        for k in 0..c.k {
            let (x, y) = (pick(&a, row, k), pick(&b, k, col));
            sum = (sum.0 + x.0 * y.0 - x.1 * y.1, sum.1 + x.0 * y.1 + x.1 * y.0);
            scale += (x.0.abs() + x.1.abs()) * (y.0.abs() + y.1.abs());
        }
        if let Some((alpha, beta, t)) = &addend {
            let z = pick(t, row, col);
            let (p, q) = (f64::from(*alpha), f64::from(*beta));
            sum = (sum.0 * p + z.0 * q, sum.1 * p + z.1 * q);
            scale = scale * p.abs() + z.0.abs() * q.abs();
        }
        // SAFETY: the result has out.size() elements.
        let got = decode(c.dtype, unsafe { std::slice::from_raw_parts(host.add(i * size), size) });
        let error = (got.0 - sum.0).abs().max((got.1 - sum.1).abs());
        assert!(
            error <= eps * sum.0.abs().max(sum.1.abs()) + 1e-6 * scale + 1e-7,
            "{label} at {index:?}: {got:?}, expected {sum:?}"
        );
    }
}

const REAL: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::BF16];

#[test]
fn odd_sizes_of_every_dtype() {
    let sizes = [1, 2, 3, 7, 33, 64, 100, 129, 257];
    let mut rng = Rng(7);
    for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::C64] {
        for &m in &sizes {
            let mut pick = || sizes[((rng.unit() + 1.0) * 4.49) as usize];
            let (n, k) = (pick(), pick());
            check(&case(dtype, m, n, k));
            check(&case(dtype, n, m, k));
        }
    }
}

#[test]
fn operands_of_every_form() {
    let forms = [Form::Plain, Form::Transposed, Form::Gap, Form::Odd, Form::Wide];
    for dtype in [Dtype::F32, Dtype::BF16, Dtype::C64] {
        for fa in forms {
            for fb in forms {
                check(&Case { forms: [fa, fb], ..case(dtype, 40, 24, 48) });
                check(&Case { forms: [fa, fb], ..case(dtype, 33, 20, 19) });
            }
        }
    }
}

#[test]
fn large_tiles_give_the_same_products() {
    for (tile, dtype) in [
        (Tile { bm: 128, bn: 128, bk: 16, threads: 256, unroll: 1 }, Dtype::F32),
        (Tile { bm: 128, bn: 128, bk: 16, threads: 256, unroll: 1 }, Dtype::F16),
        (Tile { bm: 64, bn: 64, bk: 16, threads: 256, unroll: 1 }, Dtype::F32),
        (Tile { bm: 64, bn: 64, bk: 16, threads: 256, unroll: 1 }, Dtype::BF16),
        (Tile { bm: 32, bn: 32, bk: 32, threads: 64, unroll: 1 }, Dtype::F32),
        (Tile { bm: 32, bn: 32, bk: 32, threads: 64, unroll: 1 }, Dtype::BF16),
    ] {
        TEST_TILE.set(Some(tile));
        check(&case(dtype, 150, 140, 72));
        check(&Case { forms: [Form::Transposed, Form::Transposed], ..case(dtype, 130, 136, 40) });
        check(&Case { forms: [Form::Gap, Form::Plain], ..case(dtype, 131, 129, 33) });
        TEST_TILE.set(None);
    }
}

#[test]
fn float32_products_of_two_parts() {
    use crate::vulkan::tune::parts::TEST_TILE;
    let tile = |bm, bn, bk, threads, unroll| Tile { bm, bn, bk, threads, unroll };
    for tile in [tile(64, 64, 32, 128, 1), tile(64, 64, 32, 64, 1), tile(64, 128, 16, 128, 1)] {
        TEST_TILE.set(Some(tile));
        let dtype = Dtype::F32;
        check(&case(dtype, 40, 33, 50));
        check(&Case { forms: [Form::Transposed, Form::Plain], ..case(dtype, 66, 40, 37) });
        check(&Case { forms: [Form::Plain, Form::Transposed], ..case(dtype, 33, 72, 64) });
        check(&Case { forms: [Form::Odd, Form::Gap], ..case(dtype, 20, 36, 160) });
        let bias = Layout { shape: smallvec![2, 40, 36], strides: smallvec![0, 0, 1], offset: 0 };
        let used = [vec![true], vec![false]];
        let addend = Some((0.5, 2.0, bias));
        check(&Case {
            batch: vec![2],
            used,
            addend,
            forms: [Form::Odd, Form::Plain],
            ..case(dtype, 40, 36, 48)
        });
        TEST_TILE.set(None);
    }
}

/// A product by two parts whose left side has some numbers in (row, k), and by plain arithmetic.
fn by_parts_and_plainly([m, n, k]: [i64; 3], odd: &[(i64, i64, f64)]) -> Option<[Vec<f64>; 2]> {
    use crate::vulkan::tune::parts::TEST_TILE;
    let s = stream()?;
    let mut rng = Rng(5);
    let mut left: Vec<f64> = (0..m * k).map(|_| rng.unit()).collect();
    for &(row, at, v) in odd {
        left[(row * k + at) as usize] = v;
    }
    let right: Vec<f64> = (0..k * n).map(|_| rng.unit()).collect();
    let a = Tensor::of(Dtype::F32, Layout::contiguous(&[m, k]), &left);
    let b = Tensor::of(Dtype::F32, Layout::contiguous(&[k, n]), &right);
    let out = Layout::contiguous(&[m, n]);
    let tile = Tile { bm: 64, bn: 64, bk: 32, threads: 128, unroll: 1 };
    Some([Some(tile), None].map(|tile| {
        TEST_TILE.set(tile);
        let result = with_encoder(s, |enc| {
            let (va, vb) = (a.view(enc), b.view(enc));
            let (storage, address) = enc.output(out.size() * 4)?;
            matmul(enc, &va, &vb, &DeviceView::new(address, Dtype::F32, &out))?;
            Ok(storage)
        });
        TEST_TILE.set(None);
        let host = result.unwrap().host_ptr().unwrap();
        // SAFETY: the result has so many elements.
        let bytes = unsafe { std::slice::from_raw_parts(host, out.size() * 4) };
        bytes.chunks(4).map(|b| decode(Dtype::F32, b).0).collect()
    }))
}

#[test]
fn float32_rows_that_parts_do_not_hold_take_their_block_along() {
    let far = [(3, 5, f64::INFINITY), (3, 9, 1.0), (40, 89, 2f64.powi(-40)), (130, 7, 2f64.powi(100))];
    let (m, n) = (135, 66);
    let Some([got, plain]) = by_parts_and_plainly([m, n, 90], &far) else { return };
    let same = |(x, y): &(&f64, &f64)| x == y || x.is_nan() && y.is_nan();
    for (row, (x, y)) in got.chunks(n as usize).zip(plain.chunks(n as usize)).enumerate() {
        let equal = x.iter().zip(y).filter(same).count() as i64;
        // A block in between has sums of its own.
        assert!(if (64..128).contains(&row) { equal < n } else { equal == n }, "row {row}: {equal}");
        assert!(x.iter().zip(y).all(|p| same(&p) || (p.0 - p.1).abs() < 1e-5), "row {row}");
    }
    // Numbers of several stretches of K, which the plain kernel sums in parts.
    let far = [(0, 2099, f64::NAN), (64, 2090, 1e30), (128, 1, -1e-30)];
    let Some([got, plain]) = by_parts_and_plainly([m, n, 2100], &far) else { return };
    let near = |p: (&f64, &f64)| (p.0 - p.1).abs() <= 1e-4 * (1.0 + p.1.abs()) || same(&p);
    assert!(got.iter().zip(&plain).all(near));
}

#[test]
fn batches_broadcast_through_zero_strides() {
    for dtype in [Dtype::F32, Dtype::BF16, Dtype::C64] {
        for used in [
            [vec![true], vec![true]],
            [vec![true], vec![false]],
            [vec![false], vec![true]],
            [vec![false], vec![false]],
        ] {
            for (m, n, k) in [(20, 17, 24), (1, 40, 24), (40, 1, 24), (3, 64, 16)] {
                check(&Case { batch: vec![5], used: used.clone(), ..case(dtype, m, n, k) });
            }
        }
        for used in
            [[vec![true, false, true], vec![true, true, true]], [vec![true; 3], vec![false, true, false]]]
        {
            for forms in [[Form::Plain; 2], [Form::Odd, Form::Gap]] {
                check(&Case { batch: vec![2, 3, 2], used: used.clone(), forms, ..case(dtype, 12, 10, 9) });
            }
        }
    }
}

#[test]
fn sums_over_long_axes_are_cut_and_added() {
    for dtype in REAL {
        check(&case(dtype, 40, 40, 3000));
        check(&case(dtype, 12, 12, 9001));
        check(&Case { batch: vec![2], used: [vec![true], vec![true]], ..case(dtype, 33, 9, 2048) });
    }
}

#[test]
fn products_beyond_the_reach_are_cut() {
    let (p, t) = (Form::Plain, Form::Transposed);
    let bias = |n: i64| Layout { shape: smallvec![40, n], strides: smallvec![0, 1], offset: 0 };
    for reach in [300, 700, 1500] {
        TEST_REACH.set(Some(reach));
        // Halves round the sums of the parts of K, which float32 does not show.
        for (dtype, forms) in
            [(Dtype::F32, [[p, p], [t, p], [p, t], [t, t]]), (Dtype::C64, [[p, p], [t, t], [t, p], [p, t]])]
        {
            for forms in forms {
                check(&Case { forms, ..case(dtype, 40, 24, 48) });
                check(&Case { forms, addend: Some((0.5, 2.0, bias(24))), ..case(dtype, 40, 24, 48) });
                let used = [vec![true], vec![true]];
                check(&Case { forms, batch: vec![3], used, ..case(dtype, 33, 20, 19) });
            }
        }
        check(&Case { forms: [p, t], ..case(Dtype::BF16, 70, 50, 16) });
        TEST_REACH.set(None);
    }
}

#[test]
fn vectors_in_both_orientations() {
    for dtype in REAL {
        for (m, n, k) in [
            (1, 1, 5),
            (1, 300, 128),
            (300, 1, 128),
            (2, 500, 64),
            (5, 70, 100),
            (8, 264, 512),
            (264, 7, 33),
            (1, 6, 20_000),
            (1, 2000, 1000),
        ] {
            for forms in [
                [Form::Plain, Form::Plain],
                [Form::Plain, Form::Transposed],
                [Form::Transposed, Form::Plain],
                [Form::Gap, Form::Gap],
                [Form::Wide, Form::Wide],
                [Form::Odd, Form::Odd],
            ] {
                check(&Case { forms, ..case(dtype, m, n, k) });
            }
        }
    }
}

#[test]
fn addends_of_every_form() {
    for dtype in [Dtype::F32, Dtype::F16, Dtype::C64] {
        for (m, n, k) in [(33, 40, 20), (1, 50, 64), (50, 3, 64), (40, 40, 2500), (6, 7, 0)] {
            let full = layout(&[], &[], m, n, Form::Plain);
            let odd = layout(&[], &[], m, n, Form::Odd);
            let row = Layout { strides: (&[0, 1i64][..]).into(), ..full.clone() };
            let col = Layout { strides: (&[1, 0i64][..]).into(), ..full.clone() };
            let one = Layout { strides: (&[0, 0i64][..]).into(), ..full.clone() };
            for l in [full, odd, row, col, one] {
                for (alpha, beta) in [(1.0, 1.0), (0.5, -2.0), (2.0, 0.0)] {
                    check(&Case { addend: Some((alpha, beta, l.clone())), ..case(dtype, m, n, k) });
                }
            }
        }
        let c = Layout { shape: (&[3, 9, 10i64][..]).into(), strides: (&[0, 0, 1i64][..]).into(), offset: 1 };
        let used = [vec![true], vec![false]];
        check(&Case { batch: vec![3], used, addend: Some((1.0, 0.5, c)), ..case(dtype, 9, 10, 12) });
    }
}

#[test]
fn products_over_nothing_are_zero() {
    for dtype in [Dtype::F32, Dtype::F16, Dtype::C64] {
        check(&case(dtype, 5, 7, 0));
        check(&case(dtype, 0, 7, 3));
        check(&Case { batch: vec![3], used: [vec![true], vec![true]], ..case(dtype, 4, 1, 0) });
    }
}

#[test]
fn many_small_products() {
    check(&Case { batch: vec![70_000], used: [vec![true], vec![true]], ..case(Dtype::F32, 2, 2, 2) });
}

#[test]
fn results_do_not_change_from_run_to_run() {
    let Some(s) = stream() else { return };
    let a = Tensor::new(Dtype::F32, Layout::contiguous(&[40, 5000]), 11);
    let b = Tensor::new(Dtype::F32, Layout::contiguous(&[5000, 40]), 12);
    let once = || {
        let st = with_encoder(s, |enc| {
            let (va, vb) = (a.view(enc), b.view(enc));
            let (storage, address) = enc.output(6400)?;
            matmul(enc, &va, &vb, &DeviceView::new(address, Dtype::F32, &Layout::contiguous(&[40, 40])))?;
            Ok(storage)
        })
        .unwrap();
        // SAFETY: the result has 6400 bytes.
        unsafe { std::slice::from_raw_parts(st.host_ptr().unwrap(), 6400) }.to_vec()
    };
    assert_eq!(once(), once());
}

#[test]
fn integers_are_refused() {
    let Some(s) = stream() else { return };
    let l = Layout::contiguous(&[2, 2]);
    let v = DeviceView::new(64, Dtype::I32, &l);
    let e = with_encoder(s, |enc| matmul(enc, &v, &v, &v)).unwrap_err();
    assert!(e.to_string().starts_with("[matmul]"), "{e}");
}

/// `erf(x + columns) * whole + single`, where the last two are of other dtypes.
fn epilogue(dtype: Dtype, to: Dtype) -> &'static Epilogue {
    let step = |name: &str, args: &[Src]| Instr { op: Inst::Op(op(name)), args: args.into(), dtype };
    let cast = |from: Src, dtype: Dtype| Instr { op: Inst::Cast, args: smallvec![from], dtype };
    let program = Program {
        inputs: smallvec![dtype, dtype, Dtype::U8, Dtype::F32],
        instrs: smallvec![
            step("add", &[Src::Input(1), Src::Input(0)]),
            step("erf", &[Src::Reg(0)]),
            cast(Src::Input(2), dtype),
            step("multiply", &[Src::Reg(1), Src::Reg(2)]),
            cast(Src::Input(3), dtype),
            step("add", &[Src::Reg(3), Src::Reg(4)]),
            cast(Src::Reg(5), to),
        ],
        outputs: smallvec![6],
    };
    let spread = smallvec![Spread::Columns, Spread::Whole, Spread::Single];
    let e = Epilogue { program, product: 0, spread };
    assert!(e.suits());
    e.kept()
}

/// Kernels that need no matrix instructions, and those that do.
fn every_kernel() -> (Vec<Kernel>, Vec<Kernel>) {
    let t = |bm, bn, bk, threads| Tile { bm, bn, bk, threads, unroll: 2 };
    let once = |bm, bn, bk, threads| Tile { unroll: 1, ..t(bm, bn, bk, threads) };
    let mut kernels = vec![Kernel::Reduce, Kernel::Copy { scale: false }, Kernel::Copy { scale: true }];
    for vectors in [1, 8] {
        kernels.push(Kernel::Rows { threads: 32, rows: 2, unroll: 4, vectors });
        kernels.push(Kernel::Rows { threads: 256, rows: 1, unroll: 4, vectors });
        kernels.push(Kernel::Rows { threads: 8, rows: 1, unroll: 4, vectors });
        kernels.push(Kernel::Cols { slices: 8, vectors });
    }
    kernels.push(Kernel::Tiled { tile: t(64, 64, 16, 256) });
    let matrices = vec![
        Kernel::Khr { tile: t(128, 128, 32, 256) },
        Kernel::Khr { tile: once(64, 64, 32, 128) },
        Kernel::Khr { tile: once(128, 128, 64, 128) },
        Kernel::Khr { tile: once(64, 128, 64, 128) },
        Kernel::Khr { tile: once(32, 64, 64, 64) },
        Kernel::Nv2 { tile: t(128, 128, 32, 128), d8: true, dims: None },
        Kernel::Nv2 { tile: t(128, 256, 64, 256), d8: false, dims: None },
        Kernel::Nv2 { tile: t(128, 128, 32, 128), d8: true, dims: Some([8192; 7]) },
    ];
    (kernels, matrices)
}

/// Products with a table of matrices, runs or segments.
fn with_tables(kernels: &[Kernel], matrices: &[Kernel], keys: &mut Vec<MatmulKey>) {
    for table in [Table::Gather, Table::Runs, Table::Segments] {
        let vectors = kernels.iter().filter(|k| matches!(k, Kernel::Rows { .. } | Kernel::Cols { .. }));
        let tiles = kernels.iter().filter(|k| matches!(k, Kernel::Tiled { .. })).chain(matrices);
        let all: Vec<&Kernel> =
            if table == Table::Gather { tiles.chain(vectors).collect() } else { tiles.collect() };
        for &&kernel in &all {
            let (ta, partial) = (table == Table::Segments, table == Table::Gather);
            let whole = matches!(kernel, Kernel::Khr { .. });
            keys.push(MatmulKey { wide: true, whole, partial, ta, table, ..plain(kernel, Dtype::BF16) });
        }
    }
}

/// Products by orders of the operands, what is added, and parts of K.
fn by_form(kernels: &[Kernel], matrices: &[Kernel], keys: &mut Vec<MatmulKey>) {
    for (addmm, partial) in [(false, false), (true, false), (false, true)] {
        for (ta, tb) in [(false, false), (false, true), (true, false), (true, true)] {
            for &kernel in matrices {
                for dtype in [Dtype::F16, Dtype::BF16] {
                    keys.push(MatmulKey { wide: true, addmm, partial, ta, tb, ..plain(kernel, dtype) });
                    if matches!(kernel, Kernel::Khr { .. }) {
                        let key = MatmulKey { addmm, partial, ta, tb, ..plain(kernel, dtype) };
                        keys.extend([key, MatmulKey { wide: true, whole: true, ..key }]);
                    }
                }
            }
            keys.push(MatmulKey { addmm, partial, ta, tb, ..plain(Kernel::Complex, Dtype::C64) });
        }
        for &kernel in kernels {
            for dtype in REAL {
                for wide in [false, true] {
                    keys.push(MatmulKey {
                        wide,
                        addmm,
                        partial,
                        ta: false,
                        tb: true,
                        ..plain(kernel, dtype)
                    });
                }
            }
        }
    }
}

#[test]
fn every_variant_compiles() {
    let f = Features {
        subgroup_size: 32,
        min_subgroup_size: 32,
        max_subgroup_size: 32,
        subgroup_arithmetic: true,
        ..Default::default()
    };
    let (kernels, matrices) = every_kernel();
    let mut keys = Vec::new();
    with_tables(&kernels, &matrices, &mut keys);
    by_form(&kernels, &matrices, &mut keys);
    for &kernel in kernels.iter().chain(&matrices) {
        for (dtype, to) in [(Dtype::F16, Dtype::F16), (Dtype::BF16, Dtype::BF16), (Dtype::BF16, Dtype::F32)] {
            for addmm in [false, true] {
                if !matches!(kernel, Kernel::Copy { .. }) {
                    let wide = matches!(kernel, Kernel::Nv2 { .. } | Kernel::Khr { .. });
                    keys.push(MatmulKey {
                        addmm,
                        wide,
                        whole: matches!(kernel, Kernel::Khr { .. }),
                        fused: Some(epilogue(dtype, to)),
                        ..plain(kernel, dtype)
                    });
                }
            }
        }
    }
    for key in keys {
        let words = compiler::spirv(&key.name(), &key.module(&f)).unwrap();
        assert_eq!(words[0], 0x0723_0203, "{}", key.name());
    }
}
