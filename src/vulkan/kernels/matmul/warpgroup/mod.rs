//! Products on the warpgroups of NVIDIA's sm_90a, in PTX: the only way to their full rate, twice that of Vulkan's matrices. One
//! operand is brought into an image first (a pass that is short beside the product), the other is read where its rows lie along K,
//! else copied so. Vulkan's kernels are the twins: MLX_VK_DISABLE=matmul_warpgroup. Called by `matmul`.

mod after;
pub mod codes;
pub mod conv;
mod decode;
mod image;
mod input;
mod program;
pub mod runs;
mod stores;
mod taps;
#[cfg(test)]
mod tests;
pub(in crate::vulkan) mod text;

use self::after::{Addend, After, AfterArgs};
use self::image::Image;
pub(in crate::vulkan) use self::image::{Order, Side};
pub(in crate::vulkan) use self::program::STEP;
use self::program::{Args, DEPTH, Left, Program, ROWS, Right, Store};
use self::text::Told;
use smallvec::SmallVec;

use super::{Operand, Problem, Table, add_parts, ceil, scratch_sums};
use crate::core::{Dtype, Result};
use crate::vulkan::shader::pipeline::{KernelKey, Module, Source};
use crate::vulkan::tune::warpgroup::{self as table, Plan, Sides, TOGETHER};
use crate::vulkan::{CommandEncoder, Features};

impl KernelKey for Program {
    fn name(&self) -> String {
        let how = match self.store {
            Store::Rows => "rows",
            Store::Columns => "columns",
            Store::SumRows => "sum_rows",
            Store::SumColumns => "sum_columns",
        };
        let from = match self.right {
            Right::Image => String::new(),
            Right::Across => "across_".into(),
            Right::Runs => "runs_".into(),
            Right::Input(axes) => format!("conv{axes}_"),
        };
        let left = match self.left {
            Left::Values => String::new(),
            Left::Codes(group) => format!("q4g{group}_"),
            Left::Input(axes) => format!("conv{axes}_"),
        };
        format!(
            "matmul_warpgroup_{}_{left}{ROWS}x{}_{from}{how}{}",
            self.dtype,
            self.columns,
            self.after.name()
        )
    }

    fn module(&self, _: &Features) -> Module {
        Module { source: Source::Ptx { text: self.text(), threads: self.threads() }, ..Default::default() }
    }
}

fn sides(p: &Problem) -> [Side<'_>; 2] {
    let side = |o: Operand, rows| Side { o, rows, k: p.k, batch: &p.batch, dtype: p.dtype };
    [side(p.a.clone(), p.m), side(p.b.transposed(), p.n)]
}

/// Elements from matrix to matrix, along the inner and the outer batch axis.
fn strides(o: &Operand) -> [u32; 2] {
    // FITS: `solve`, or whoever calls, cut what does not fit 32 bits.
    [0, 1].map(|i| o.batch.iter().rev().nth(i).copied().unwrap_or(0) as u32)
}

/// Whether sums go to memory first: something follows them that the kernel does not do, or rows of the result are odd.
fn by_sums(p: &Problem) -> bool {
    after::addend(p).is_none() || p.fused.is_some() || !p.even(8) || p.n % 8 != 0
}

/// Scratch for the sums of all parts of so many tiles (two sides, products of a batch), and zeros to count them by; what is written
/// there.
fn room(
    enc: &mut CommandEncoder,
    told: &mut AfterArgs,
    columns: u32,
    tiles: [u32; 3],
    parts: u32,
) -> Result<SmallVec<[(u64, u64); 3]>> {
    let mut writes = SmallVec::new();
    if parts > 1 {
        // The plan bounds tiles whose parts are joined.
        let tiles: u32 = tiles.iter().product();
        let bytes = after::tile_bytes(columns) * u64::from(tiles * parts);
        told.sums = enc.temp(bytes as usize)?;
        told.counters = enc.counters(tiles as usize)?;
        writes.extend([(told.sums, bytes), (told.counters, 4 * u64::from(tiles))]);
    }
    Ok(writes)
}

/// How a product goes to warpgroups, if it does; both operands are in a form.
pub fn plan(enc: &CommandEncoder, p: &Problem) -> Option<Plan> {
    if p.kind() != Table::None || p.batch.len() > 2 || !matches!(p.dtype, Dtype::F16 | Dtype::BF16) {
        return None;
    }
    let device = enc.device();
    let [left, right] = sides(p);
    let what = Sides {
        direct: [left.direct(), right.direct()],
        across: [left.across(), right.across()],
        matrices: [left.matrices(), right.matrices()].map(|n| n as u64),
        sums: by_sums(p),
    };
    table::plan(device.profile(), &p.product(true), &what).filter(|_| device.warpgroups())
}

/// One product, or a batch of them.
pub fn run(enc: &mut CommandEncoder, p: &Problem, plan: Plan) -> Result<()> {
    let Plan { turned, columns, steps, all_steps, parts, .. } = plan;
    let [left, right] = sides(p);
    let (near, far) = if turned { (&right, &left) } else { (&left, &right) };
    let rows = near.rows_of_k(enc)?;
    let across = far.across();
    let image = match across {
        true => Image { ptr: far.o.ptr, matrix: 2, range: far.o.range },
        false => far.image(enc, columns, all_steps, Order::Dealt)?,
    };
    let right = if across { Right::Across } else { Right::Image };
    let sums = by_sums(p);
    let addend = if sums { Addend::None } else { after::addend(p).unwrap_or_default() };
    let store = match (sums, turned) {
        (false, false) => Store::Rows,
        (false, true) => Store::Columns,
        (true, false) => Store::SumRows,
        (true, true) => Store::SumColumns,
    };
    let after = After { joined: parts > 1 && !sums, addend };
    let program = Program { dtype: p.dtype, columns, left: Left::Values, right, store, after };
    let pipeline = enc.device().pipeline(&program)?;
    let out = if sums { scratch_sums(enc, p.m * p.n * p.batches(), parts)? } else { p.d_range };
    let (_, lda) = rows.form(near.rows, near.k).unwrap_or((false, 0));
    let tiles = [ceil(near.rows, ROWS.into()), ceil(far.rows, columns.into())].map(|n| n as u32);
    debug_assert_eq!(all_steps * STEP % DEPTH, 0);
    let mut told = if addend == Addend::None { AfterArgs::default() } else { after::addend_args(p) };
    let all = [tiles[0], tiles[1], p.batches() as u32];
    let mut writes = room(enc, &mut told, columns, all, if after.joined { parts } else { 1 })?;
    writes.push(out);
    let mut reads: SmallVec<[(u64, u64); 3]> = SmallVec::from_slice(&[rows.range, image.range]);
    reads.extend(p.c.iter().filter(|_| addend != Addend::None).map(|c| c.range));
    // FITS: `solve` cut what does not fit 32 bits.
    let args = Args {
        left: rows.ptr,
        right: image.ptr,
        out: if sums { out.0 } else { p.d },
        image: image.matrix,
        rows: near.rows as u32,
        columns: far.rows as u32,
        k: p.k as u32,
        lda: lda as u32,
        ldd: (if sums { p.n } else { p.d_rs }) as u32,
        steps,
        all_steps,
        tiles,
        together: TOGETHER,
        nb0: p.batch.last().copied().unwrap_or(1) as u32,
        left_batch: strides(&rows),
        right_batch: if across { strides(&far.o) } else { far.steps(1) },
        out_batch: (if sums { p.m * p.n } else { p.d_batch }) as u32,
        ldb: far.form().1 as u32,
        after: told,
        ..Args::default()
    };
    enc.describe(2.0 * (p.m * p.n * p.k * p.batches()) as f64, &[p.batches(), p.m, p.n, p.k]);
    let grid = [tiles[0] * tiles[1], parts, p.batches() as u32];
    enc.dispatch(&pipeline, args.bytes(), grid, &reads, &writes)?;
    if sums {
        add_parts(enc, p, p.push(), out, parts)?;
    }
    Ok(())
}
