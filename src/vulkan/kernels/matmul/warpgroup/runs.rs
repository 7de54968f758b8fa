//! Sorted rows that meet a right matrix each, such as those of experts: tiles of rows of one matrix each, found on the device
//! (warpgroup_runs.comp), are brought into an image, and the matrices are read as they lie. Called by `gather_mm`.

use super::after::After;
use super::codes::{Rights, rows};
use super::image::{ImageKey, Order, Side};
use super::program::{Args, Left, Program, ROWS, Right, STEP, Store};
use super::table;
use super::text::Told;
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::vulkan::kernels::elem::{Defines, Push, define};
use crate::vulkan::kernels::matmul::kernel::dtype_code;
use crate::vulkan::kernels::matmul::{Problem, ceil};
use crate::vulkan::shader::pipeline::{KernelKey, Module, Source};
use crate::vulkan::{CommandEncoder, Features};

/// warpgroup_runs.comp, of signed picks or others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct TilesKey {
    signed: bool,
}

impl KernelKey for TilesKey {
    fn name(&self) -> String {
        "matmul_warpgroup_runs".into()
    }

    fn module(&self, _: &Features) -> Module {
        let mut defines = Defines::new();
        if self.signed {
            define(&mut defines, "SIGNED", 1);
        }
        Module { source: Source::File("warpgroup_runs.comp"), defines, ..Default::default() }
    }
}

/// warpgroup_rest.comp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct RestKey(Dtype, Left);

impl KernelKey for RestKey {
    fn name(&self) -> String {
        let codes = if self.1 == Left::Values { "" } else { "_codes" };
        format!("matmul_warpgroup_rest_{}{codes}", self.0)
    }

    fn module(&self, _: &Features) -> Module {
        let mut defines = Defines::new();
        define(&mut defines, "DTYPE", dtype_code(self.0));
        if let Left::Codes(group) = self.1 {
            define(&mut defines, "CODES", 1);
            define(&mut defines, "GROUP", group);
        }
        Module { source: Source::File("warpgroup_rest.comp"), defines, ..Default::default() }
    }
}

/// Columns of a tile and steps of K, if a tall product of rows along K, with an even result, goes to warpgroups.
pub fn plan(enc: &CommandEncoder, p: &Problem, w: &Rights) -> Option<(u32, u32)> {
    let device = enc.device();
    let half = matches!(p.dtype, Dtype::F16 | Dtype::BF16) && !p.has_addend() && p.fused.is_none();
    let small = |bytes: i64| (0..1 << 32).contains(&bytes);
    let near = small(w.step) && w.factors.is_none_or(|f| small(f.step));
    let whole = p.k % if w.factors.is_some() { 128 } else { 8 } == 0;
    let lies = half && near && whole && rows(p).form().0 && p.even(8) && p.n % 8 == 0;
    let plan =
        lies.then(|| table::runs(device.profile(), &p.product(true), w.count as u64, w.factors.is_some()));
    plan.flatten().filter(|_| device.warpgroups())
}

/// Tiles of so many rows, from the picks: at most as many as rows, behind their number.
fn tiles(
    enc: &mut CommandEncoder,
    picks: &DeviceView,
    [count, matrices]: [i64; 2],
    tile: u32,
) -> Result<(u64, u64)> {
    let bytes = 16 * (count as u64 + 1);
    let found = (enc.temp(bytes as usize)?, bytes);
    // FITS: rows and matrices have 32 bits.
    let push = Push::default().u64s(&[picks.ptr, found.0]).u32s(&[count as u32, tile, matrices as u32]);
    let pipeline = enc.device().pipeline(&TilesKey { signed: picks.dtype == Dtype::I32 })?;
    enc.dispatch(&pipeline, &push, [1, 1, 1], &[picks.range()], &[found])?;
    Ok(found)
}

/// The image of the rows, tile by tile; there are at most `most` tiles where the picks are sorted.
fn image(
    enc: &mut CommandEncoder,
    left: &Side<'_>,
    order: Order,
    found: (u64, u64),
    (tile, steps, most): (u32, u32, i64),
) -> Result<(u64, u64)> {
    let (along, ld) = left.form();
    let wide = left.o.aligned(left.dtype, ld);
    let codes = order == Order::Codes;
    let key = ImageKey { along, wide, plain: false, runs: true, codes };
    let pipeline = enc.device().pipeline(&key)?;
    let held = most as u64 * u64::from(tile * steps * STEP) * 2;
    let block = (enc.temp(held as usize)?, held);
    let numbers = [left.rows, left.k, ld, tile.into(), steps.into(), 0].map(|n| n as u32);
    let address = [found.0 as u32, (found.0 >> 32) as u32, most as u32];
    let push = Push::default().u64s(&[left.o.ptr, block.0]).u32s(&[numbers.as_slice(), &address].concat());
    let grid = [(most * i64::from(tile) / 64) as u32, steps.div_ceil(8), 1];
    enc.dispatch(&pipeline, &push, grid, &[left.o.range, found], &[block])?;
    Ok(block)
}

/// Tiles for which there is no room in the image, since picks are not sorted as was said: none at all where they are, so that this
/// is a command that nothing waits for.
fn rest(enc: &mut CommandEncoder, p: &Problem, w: &Rights, found: (u64, u64), most: i64) -> Result<()> {
    let pipeline = enc.device().pipeline(&RestKey(p.dtype, w.left()))?;
    let (f, lda) = (w.factors, rows(p).form().1);
    let [scales, biases] = f.map_or([0; 2], |f| [f.scales.0, f.biases.0]);
    let [lds, step] = f.map_or([0; 2], |f| [f.ld, f.step]);
    let numbers = [most, p.n, p.k, lda, w.ld, p.d_rs, lds, w.step, step].map(|n| n as u32);
    let push = Push::default().u64s(&[p.a.ptr, found.0, p.d, w.ptr, scales, biases]).u32s(&numbers);
    let groups = enc.device().profile().fill() as u32;
    let mut reads = w.reads();
    reads.extend([p.a.range, found]);
    // The results that it may write are noted by the command before it, which writes others.
    enc.dispatch(&pipeline, &push, [groups, 1, 1], &reads, &[])
}

/// One tall product: each row meets the matrix that it picks.
pub fn run(
    enc: &mut CommandEncoder,
    p: &Problem,
    w: &Rights,
    picks: &DeviceView,
    (columns, steps): (u32, u32),
) -> Result<()> {
    let most = ceil(p.m, columns.into()) + w.count.min(p.m);
    let found = tiles(enc, picks, [p.m, w.count], columns)?;
    let block = image(enc, &rows(p), w.order(), found, (columns, steps, most))?;
    let program = Program {
        dtype: p.dtype,
        columns,
        left: w.left(),
        right: Right::Runs,
        store: Store::Columns,
        after: After::default(),
    };
    let pipeline = enc.device().pipeline(&program)?;
    let tiles = ceil(p.n, ROWS.into()) as u32;
    // FITS: whoever calls asked for fewer.
    let args = Args {
        right: block.0,
        out: p.d,
        image: found.0,
        rows: p.n as u32,
        k: p.k as u32,
        ldd: p.d_rs as u32,
        steps,
        all_steps: steps,
        tiles: [tiles, most as u32],
        ..w.args()
    };
    enc.describe(2.0 * (p.m * p.n * p.k) as f64, &[1, p.m, p.n, p.k]);
    let mut reads = w.reads();
    reads.extend([block, found]);
    enc.dispatch(&pipeline, args.bytes(), [tiles, (most as u32).min(65_535), 1], &reads, &[p.d_range])?;
    rest(enc, p, w, found, most)
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::super::tests::{copied, host};
    use super::*;
    use crate::core::device::new_stream;
    use crate::core::{Device, Layout};
    use crate::vulkan::kernels::matmul::Operand;
    use crate::vulkan::{adapters, with_encoder};

    /// Small whole numbers in float16, whose sums are exact.
    fn small(i: usize) -> u16 {
        half::f16::from_f32((i * 7 % 9) as f32 - 4.0).to_bits()
    }

    fn there() -> bool {
        crate::memory::init();
        !adapters().is_empty()
    }

    fn words(s: &crate::core::Storage, n: usize) -> Vec<u16> {
        // SAFETY: the storage holds so many.
        unsafe { std::slice::from_raw_parts(s.host_ptr().unwrap().cast::<u16>(), n) }.to_vec()
    }

    fn value(bits: u16) -> f64 {
        half::f16::from_bits(bits).to_f64()
    }

    /// The product of `k` numbers of x from `a` on and of a matrix from `b` on.
    fn sum(k: i64, a: i64, b: i64) -> f64 {
        (0..k).map(|j| value(small((a + j) as usize)) * value(small((b + j) as usize))).sum()
    }

    #[test]
    fn tiles_cover_the_rows_of_each_matrix_and_the_rest_is_computed() {
        if !there() {
            return;
        }
        let (m, n, k, matrices, columns, steps) = (700i64, 16i64, 40i64, 6i64, 64u32, 8);
        // Runs of one row, of a tile, of a tile and one, of many; one matrix has none, one has two runs.
        let picks: Vec<i64> = (0..m)
            .map(|r| [0, 1, 3, 2, 5, 2][[1, 65, 130, 500, 699].iter().filter(|&&b| r >= b).count()])
            .collect();
        let (x, w) = (host((m * k) as usize, small), host((matrices * n * k) as usize, small));
        let mut sizes = [0; 2];
        let results = with_encoder(new_stream(Device::GPU), |enc| {
            let (px, pw) = (enc.resident(&x)?, enc.resident(&w)?);
            let bytes: Vec<u8> = picks.iter().flat_map(|&p| (p as u32).to_ne_bytes()).collect();
            let view = DeviceView::new(enc.params(&bytes)?, Dtype::U32, &Layout::contiguous(&[m]));
            let (out, d) = enc.output((m * n * 2) as usize)?;
            let operand =
                |ptr, rs, cs, bytes| Operand { ptr, rs, cs, batch: smallvec![], range: (ptr, bytes) };
            let (x_bytes, w_bytes) = ((m * k * 2) as u64, (matrices * n * k * 2) as u64);
            let sides = [operand(px, k, 1, x_bytes), operand(pw, 1, k, w_bytes)];
            let p = Problem::plain(Dtype::F16, [m, n, k], sides, (d, (m * n * 2) as u64));
            let rights =
                Rights { ptr: pw, range: p.b.range, step: n * k * 2, ld: k, count: matrices, factors: None };
            let found = tiles(enc, &view, [m, matrices], columns)?;
            let block = image(enc, &rows(&p), Order::Dealt, found, (columns, steps, 20))?;
            // As if there were room for three tiles.
            rest(enc, &p, &rights, found, 3)?;
            sizes = [found.1 as usize, block.1 as usize];
            Ok((copied(enc, found.0, sizes[0])?, copied(enc, block.0, sizes[1])?, out))
        })
        .unwrap();
        let table = words(&results.0, sizes[0] / 2);
        let entry = |t: usize| {
            [1, 2].map(|i| u32::from(table[8 * t + 2 * i]) | u32::from(table[8 * t + 2 * i + 1]) << 16)
        };
        let mut wanted = Vec::new();
        for (start, end) in [(0, 1), (1, 65), (65, 130), (130, 500), (500, 699), (699, 700)] {
            wanted.extend((start..end).step_by(64).map(|r: u32| [r, 64.min(end - r)]));
        }
        assert_eq!(usize::from(table[0]), wanted.len());
        assert_eq!((1..=wanted.len()).map(entry).collect::<Vec<_>>(), wanted);
        // Every tile of the image has its rows, and zeros behind them.
        let image = words(&results.1, sizes[1] / 2);
        for (t, &[first, count]) in wanted.iter().enumerate() {
            for r in 0..columns {
                let at = |step: u32, half: u32, e: u32| {
                    image
                        [((t as u32 * steps + step) * columns * 16 + half * columns * 8 + r * 8 + e) as usize]
                };
                let got: Vec<u16> =
                    (0..64).map(|k| at(k / 32 * 2 + k % 8 / 4, k % 4 / 2, k % 32 / 8 * 2 + k % 2)).collect();
                let at = |j: i64| small(((i64::from(first + r)) * k + j) as usize);
                let want: Vec<u16> = (0..64).map(|j| if r < count && j < k { at(j) } else { 0 }).collect();
                assert_eq!(got, want, "tile {t} row {r}");
            }
        }
        let out = words(&results.2, (m * n) as usize);
        let picked = |r: i64| picks[r as usize] * n * k;
        for (r, c) in (i64::from(wanted[3][0])..m).flat_map(|r| (0..n).map(move |c| (r, c))) {
            assert_eq!(
                value(out[(r * n + c) as usize]),
                sum(k, r * k, picked(r) + c * k),
                "row {r}, column {c}"
            );
        }
    }
}
