//! Products with at most eight rows or columns: bound by reading the matrix once, so both orientations read
//! it in 16-byte chunks and keep several in flight. Seen from here every product is y = W x with up to eight
//! vectors x; W lies with K contiguous (gemv_rows) or with the results contiguous (gemv_cols). Called by
//! `matmul`.

use std::sync::OnceLock;

use super::kernel::{Kernel, MatmulKey, Push};
use super::{Operand, Problem, add_parts, ceil, compact, launch, round_up, scratch_sums};
use crate::core::{Result, env};
use crate::vulkan::CommandEncoder;
use crate::vulkan::matmul_table::FILL;

/// Most vectors that the kernels multiply at once.
pub(in crate::vulkan) const MAX_VECTORS: i64 = 8;

/// How gemv_rows is laid out: threads a row, rows a thread, chunks in flight. MLX_VK_GEMV=THREADSxROWSxUNROLL
/// overrides the choice.
/// A software driver gets the shortest code, since it compiles slower than it runs.
fn layout_of_rows(software: bool, rows: i64, chunks: i64, batches: i64, vectors: u32) -> (u32, u32, u32) {
    static FORCED: OnceLock<Option<(u32, u32, u32)>> = OnceLock::new();
    let read = || match env::sizes("MLX_VK_GEMV")?[..] {
        [threads, rows, unroll] => Some((threads, rows, unroll)),
        _ => None,
    };
    if let Some(forced) = FORCED.get_or_init(read) {
        return *forced;
    }
    if software {
        return (8, 1, 1);
    }
    let threads: u32 = match chunks {
        0..=16 => 8,
        512.. if rows * batches < 2048 => 256,
        // In GB/s on an H200, rows of 4096 bfloat16: 3450 (16384 rows) and 3441 (4096), against 3179 and less
        // with 32 threads a row.
        256.. if vectors == 1 => return (128, 1, 2),
        _ => 32,
    };
    let teams = i64::from(256 / threads);
    let fills = |r: i64| ceil(rows, teams * r) * batches >= 2 * FILL as i64 - 32;
    let most = if vectors > 2 { 2 } else { 4 };
    let r = [4, 2].into_iter().find(|&r| r <= most && fills(r)).unwrap_or(1);
    (threads, r as u32, if r == 4 { 2 } else { 4 })
}

/// Parts of K so that `groups` workgroups become enough, none shorter than `least`.
fn parts(groups: i64, wanted: i64, k: i64, least: i64, step: i64) -> (u32, u32) {
    let whole = groups * 2 > wanted || env::disabled("matmul_split");
    let parts = if whole { 1 } else { (wanted / groups.max(1)).min(k / least).clamp(1, 64) };
    let len = round_up(ceil(k, parts), step);
    let splits = ceil(k, len).max(1);
    (len as u32, splits as u32)
}

/// Whether the operands of a product by index can be read where they lie.
pub(in crate::vulkan) fn suits(p: &Problem) -> bool {
    let (x, vectors) = if p.m < p.n { (p.a.clone(), p.m) } else { (p.b.turned(), p.n) };
    p.m.min(p.n) <= MAX_VECTORS && (x.cs == 1 || p.k == 1) && (x.rs >= 0 || vectors == 1)
}

pub(in crate::vulkan) fn run(enc: &mut CommandEncoder, p: &Problem) -> Result<()> {
    // The side with more results gives the matrix.
    let swap = p.m < p.n;
    let (mut w, mut x, rows, vectors) =
        if swap { (p.b.turned(), p.a.clone(), p.n, p.m) } else { (p.a.clone(), p.b.turned(), p.m, p.n) };
    let dtype = p.dtype;
    let vector = 16 / dtype.size() as i64;
    // Axes of length one have free strides.
    let free = |o: &mut Operand, rows: i64| {
        if p.k == 1 {
            o.cs = 1;
        }
        if rows == 1 {
            o.rs = round_up(p.k, 8);
        }
    };
    free(&mut w, rows);
    free(&mut x, vectors);
    if rows == 1 && w.cs != 1 {
        w.rs = 1;
    }
    if !(w.cs == 1 && w.rs >= 0 || w.rs == 1 && w.cs >= 0) {
        w = compact(enc, dtype, &w, rows, p.k, &p.batch, 8)?;
    }
    let by_rows = w.cs == 1 && w.rs >= 0;
    let wide_w = w.aligned(dtype, if by_rows { w.rs } else { w.cs });
    let bad_x = x.cs != 1 || x.rs < 0 || (by_rows && wide_w && !x.aligned(dtype, x.rs));
    if bad_x && p.table.is_none() {
        x = compact(enc, dtype, &x, vectors, p.k, &p.batch, 8)?;
    }
    let wide = wide_w && (!by_rows || x.aligned(dtype, x.rs));
    let held = (vectors as u32).next_power_of_two();

    let view = Problem { m: rows, n: vectors, a: w.clone(), b: x.clone(), ..p.clone() };
    let mut push = view.push();
    push.lda = if by_rows { w.rs } else { w.cs } as u32;
    push.ldb = x.rs as u32;
    if swap {
        push.flags |= 2;
        (push.d_rs, push.d_cs) = (1, p.d_rs as u32);
        std::mem::swap(&mut push.c_rs, &mut push.c_cs);
    }
    let batches = p.batches();
    let software = enc.device().features().software;
    let (kernel, groups, (k_split, splits)) = if by_rows {
        let (threads, r, unroll) = layout_of_rows(software, rows, p.k / vector, batches, held);
        let groups = ceil(rows, i64::from(256 / threads * r));
        let step = i64::from(threads) * vector;
        let cut = parts(groups * batches, FILL as i64, p.k, step * 8, step);
        (Kernel::Rows { threads, rows: r, unroll, vectors: held }, groups, cut)
    } else {
        let slices = if rows <= 16 * vector { 32 } else { 8 };
        let groups = ceil(rows, 256 / slices * vector);
        let cut = parts(groups * batches, 4 * FILL as i64, p.k, slices * 8, slices * 4);
        (Kernel::Cols { slices: slices as u32, vectors: held }, groups, cut)
    };
    let partial = splits > 1;
    let addmm = p.has_addend() && !partial;
    let key = MatmulKey {
        kernel,
        dtype,
        wide,
        addmm,
        partial,
        ta: false,
        tb: false,
        table: p.kind(),
        fused: p.epilogue().filter(|_| !partial),
        gather: None,
    };
    let pipeline = enc.device().pipeline(&key)?;
    push.k_split = k_split;
    let work = 2.0 * p.m as f64 * p.n as f64 * p.k as f64 * batches as f64;
    enc.describe(work, &[batches, p.m, p.n, p.k]);
    if !partial {
        return launch(enc, &pipeline, push, groups as u64, 1, batches, &view.reads(), &[p.d_range]);
    }
    let sums = scratch_sums(enc, rows * vectors * batches, splits)?;
    let first = Push { d: sums.0, ..push };
    launch(enc, &pipeline, first, groups as u64, splits, batches, &view.reads(), &[sums])?;
    add_parts(enc, &view, push, sums, splits)
}
