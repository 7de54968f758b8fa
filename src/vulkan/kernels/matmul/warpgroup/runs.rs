//! Sorted rows that meet a right matrix each, such as those of experts: tiles of rows of one matrix each, found on the device
//! (warpgroup_runs.comp), are brought into an image, and the matrices are read as they lie. Called by `gather_mm`.

use super::image::{ImageKey, Side};
use super::program::{Args, Program, ROWS, Right, STEP, Store};
use super::{TOGETHER, table};
use crate::core::{Dtype, Result};
use crate::vulkan::kernels::elem::{Defines, Push, define};
use crate::vulkan::kernels::matmul::kernel::dtype_code;
use crate::vulkan::kernels::matmul::{Operand, Problem, ceil};
use crate::vulkan::shader::pipeline::{KernelKey, Module, Source};
use crate::vulkan::{CommandEncoder, Features};

/// warpgroup_runs.comp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct TilesKey;

impl KernelKey for TilesKey {
    fn name(&self) -> String {
        "warpgroup_runs".into()
    }

    fn module(&self, _: &Features) -> Module {
        Module { source: Source::File("warpgroup_runs.comp"), ..Default::default() }
    }
}

/// warpgroup_rest.comp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct RestKey(Dtype);

impl KernelKey for RestKey {
    fn name(&self) -> String {
        format!("warpgroup_rest_{}", self.0)
    }

    fn module(&self, _: &Features) -> Module {
        let mut defines = Defines::new();
        define(&mut defines, "DTYPE", dtype_code(self.0));
        Module { source: Source::File("warpgroup_rest.comp"), defines, ..Default::default() }
    }
}

fn sides(p: &Problem) -> [Side<'_>; 2] {
    let side = |o: Operand, rows| Side { o, rows, k: p.k, batch: &[], dtype: p.dtype };
    [side(p.a.clone(), p.m), side(p.b.transposed(), p.n)]
}

/// Columns of a tile and steps of K, if a tall product of runs goes to warpgroups.
pub fn plan(enc: &CommandEncoder, p: &Problem) -> Option<(u32, u32)> {
    if !matches!(p.dtype, Dtype::F16 | Dtype::BF16) || p.has_addend() || p.fused.is_some() {
        return None;
    }
    let device = enc.device();
    let [left, right] = sides(p);
    let lies = left.form().0 && right.direct() && p.even(8) && p.n % 8 == 0;
    let plan = lies.then(|| table::runs(device.profile(), &p.product(true), p.right_matrices as u64));
    plan.flatten().filter(|_| device.warpgroups())
}

/// Tiles of so many rows, from the table with a row's matrix each: at most so many entries behind their number.
fn tiles(enc: &mut CommandEncoder, rows: (u64, u64), count: i64, tile: u32) -> Result<(u64, u64)> {
    let bytes = 16 * (count as u64 + 1);
    let found = (enc.temp(bytes as usize)?, bytes);
    // FITS: rows have 32 bits.
    let push = Push::default().u64s(&[rows.0, found.0]).u32s(&[count as u32, tile]);
    let pipeline = enc.device().pipeline(&TilesKey)?;
    enc.dispatch(&pipeline, &push, [1, 1, 1], &[rows], &[found])?;
    Ok(found)
}

/// The image of the rows, tile by tile; there are at most `most` tiles where the picks are sorted.
fn image(
    enc: &mut CommandEncoder,
    left: &Side<'_>,
    found: (u64, u64),
    (tile, steps, most): (u32, u32, i64),
) -> Result<(u64, u64)> {
    let (along, ld) = left.form();
    let wide = left.o.aligned(left.dtype, ld);
    let key = ImageKey { along, wide, plain: false, natural: false, runs: true };
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
fn rest(
    enc: &mut CommandEncoder,
    p: &Problem,
    [left, right]: [&Side<'_>; 2],
    found: (u64, u64),
    most: i64,
) -> Result<()> {
    let pipeline = enc.device().pipeline(&RestKey(p.dtype))?;
    let numbers = [most, p.n, p.k, left.form().1, right.form().1, p.d_rs].map(|n| n as u32);
    let push = Push::default().u64s(&[left.o.ptr, found.0, p.d]).u32s(&numbers);
    let groups = enc.device().profile().fill() as u32;
    // The results that it may write are noted by the command behind it.
    enc.dispatch(&pipeline, &push, [groups, 1, 1], &[left.o.range, p.b.range, found], &[])
}

/// One tall product, whose rows' matrices the table of `p` has.
pub fn run(enc: &mut CommandEncoder, p: &Problem, (columns, steps): (u32, u32)) -> Result<()> {
    let Some((_, rows)) = p.table else { return Ok(()) };
    let [left, right] = sides(p);
    let most = ceil(p.m, columns.into()) + p.right_matrices.min(p.m);
    let found = tiles(enc, rows, p.m, columns)?;
    let block = image(enc, &left, found, (columns, steps, most))?;
    let pipeline = enc.device().pipeline(&Program {
        dtype: p.dtype,
        columns,
        right: Right::Runs,
        store: Store::Columns,
    })?;
    let tiles = ceil(p.n, ROWS.into()) as u32;
    // FITS: `gather_mm` asked for fewer.
    let args = Args {
        left: 0,
        right: block.0,
        out: p.d,
        image: found.0,
        rows: p.n as u32,
        columns: 0,
        k: p.k as u32,
        lda: right.form().1 as u32,
        ldd: p.d_rs as u32,
        steps,
        all_steps: steps,
        tiles: [tiles, most as u32],
        together: TOGETHER,
        nb0: 1,
        left_batch: [0; 2],
        right_batch: [0; 2],
        out_batch: 0,
        ldb: 0,
        unused: 0,
    };
    enc.describe(2.0 * (p.m * p.n * p.k) as f64, &[1, p.m, p.n, p.k]);
    let reads = [p.b.range, block, found];
    enc.dispatch(&pipeline, args.bytes(), [tiles, (most as u32).min(65_535), 1], &reads, &[p.d_range])?;
    rest(enc, p, [&left, &right], found, most)
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::super::super::problem::Problem;
    use super::super::tests::{copied, host};
    use super::*;
    use crate::core::Device;
    use crate::core::device::new_stream;
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
            let address = |r: i64| pw + (picks[r as usize] * n * k * 2) as u64;
            let table: Vec<u8> = (0..m)
                .flat_map(|r| [address(r) as u32, (address(r) >> 32) as u32, 0, 0])
                .flat_map(u32::to_ne_bytes)
                .collect();
            let rows = (enc.params(&table)?, table.len() as u64);
            let (out, d) = enc.output((m * n * 2) as usize)?;
            let operand =
                |ptr, rs, cs, bytes| Operand { ptr, rs, cs, batch: smallvec![], range: (ptr, bytes) };
            let p = Problem {
                dtype: Dtype::F16,
                m,
                n,
                k,
                batch: smallvec![],
                a: operand(px, k, 1, (m * k * 2) as u64),
                b: operand(pw, 1, k, (matrices * n * k * 2) as u64),
                c: None,
                alpha: 1.0,
                beta: 0.0,
                d,
                d_rs: n,
                d_batch: m * n,
                d_range: (d, (m * n * 2) as u64),
                table: None,
                right_matrices: matrices,
                fused: None,
            };
            let [left, right] = sides(&p);
            let found = tiles(enc, rows, m, columns)?;
            let block = image(enc, &left, found, (columns, steps, 20))?;
            // As if there were room for three tiles.
            rest(enc, &p, [&left, &right], found, 3)?;
            sizes = [found.1 as usize, block.1 as usize];
            Ok((copied(enc, found.0, sizes[0])?, copied(enc, block.0, sizes[1])?, out))
        })
        .unwrap();
        let table = words(&results.0, sizes[0] / 2);
        let entry = |t: usize| {
            [2, 3].map(|i| u32::from(table[8 * t + 2 * i]) | u32::from(table[8 * t + 2 * i + 1]) << 16)
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
