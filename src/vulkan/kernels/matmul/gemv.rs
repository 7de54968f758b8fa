//! Products with at most eight rows or columns: bound by reading the matrix once, so both orientations read
//! it in 16-byte chunks and keep several in flight. Seen from here every product is y = W x with up to eight
//! vectors x; W lies with K contiguous (gemv_rows) or with the results contiguous (gemv_cols). Called by
//! `matmul`.

use super::kernel::{Kernel, MatmulKey};
use super::{Operand, Problem, ceil, compact, launch_parts, round_up};
use crate::core::Result;
use crate::vulkan::CommandEncoder;
use crate::vulkan::tune::gemv as table;

/// Whether the operands of a product by index can be read where they lie.
pub(in crate::vulkan) fn suits(p: &Problem) -> bool {
    let (x, vectors) = if p.m < p.n { (p.a.clone(), p.m) } else { (p.b.transposed(), p.n) };
    p.m.min(p.n) <= table::VECTORS && (x.cs == 1 || p.k == 1) && (x.rs >= 0 || vectors == 1)
}

/// Whether a product is faster so than in tiles.
pub(in crate::vulkan) fn pays(enc: &CommandEncoder, p: &Problem) -> bool {
    let (k_step, rows) = if p.m < p.n { (p.b.rs, p.n) } else { (p.a.cs, p.m) };
    let bytes = (rows * p.k) as u64 * p.dtype.size() as u64;
    let matrix =
        table::Matrix { dtype: p.dtype, bytes, by_rows: k_step <= 1 || p.k == 1, batches: p.batches() };
    table::takes(enc.device().profile(), p.m.min(p.n), matrix)
}

pub(in crate::vulkan) fn run(enc: &mut CommandEncoder, p: &Problem) -> Result<()> {
    // The side with more results gives the matrix.
    let swap = p.m < p.n;
    let (mut w, mut x, rows, vectors) = if swap {
        (p.b.transposed(), p.a.clone(), p.n, p.m)
    } else {
        (p.a.clone(), p.b.transposed(), p.m, p.n)
    };
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
    let profile = enc.device().profile();
    let (kernel, groups, (k_split, splits)) = if by_rows {
        let c = table::by_rows(profile, rows, p.k, vector, batches, held);
        let groups = ceil(rows, i64::from(256 / c.threads * c.rows));
        let kernel = Kernel::Rows { threads: c.threads, rows: c.rows, unroll: c.unroll, vectors: held };
        (kernel, groups, (c.k_split, c.splits))
    } else {
        let c = table::by_columns(profile, rows, p.k, vector, batches);
        let groups = ceil(rows, i64::from(256 / c.slices) * vector);
        (Kernel::Cols { slices: c.slices, vectors: held }, groups, (c.k_split, c.splits))
    };
    let partial = splits > 1;
    let addmm = p.has_addend() && !partial;
    let key = MatmulKey {
        kernel,
        dtype,
        wide,
        whole: false,
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
    launch_parts(enc, &view, &pipeline, [push; 2], groups as u64, splits)
}
