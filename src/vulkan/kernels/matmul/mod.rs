//! Batched matrix products: brings any operands into a form the kernels take (row-major or transposed, at
//! most two batch axes, 32-bit offsets inside one matrix), then follows `tune::matmul` to a kernel: NV
//! cooperative matrices, KHR cooperative matrices, portable tiles, or `gemv` where one side is at most
//! eight. K is cut into parts where the tiles alone leave the GPU idle; parts are added in a fixed order,
//! so results do not change from run to run. float32 stays true float32; halves accumulate in float32 and
//! round once.

pub(in crate::vulkan) mod epilogue;
pub(in crate::vulkan) mod fragment_probe;
pub mod gather_mm;
pub(in crate::vulkan) mod gemv;
pub mod kernel;
mod low_rank;
mod parts;
mod problem;
#[cfg(test)]
mod tests;
pub(in crate::vulkan) mod warpgroup;

use smallvec::SmallVec;

use self::epilogue::{Fused, with_block};
use self::kernel::{Kernel, MatmulKey, Push, Table, pipeline_for};
pub(in crate::vulkan) use self::problem::{Operand, Problem, REACH, reach};
use crate::bail;
use crate::core::layout::{collapse, show};
use crate::core::{Dtype, Error, Result};
use crate::kernels::elementwise::program::Program;
use crate::kernels::elementwise::table::op;
use crate::kernels::{DeviceView, Epilogue};
use crate::vulkan::CommandEncoder;
use crate::vulkan::kernels::elem::launch;
use crate::vulkan::kernels::elementwise;
use crate::vulkan::shader::pipeline::Pipeline;
use crate::vulkan::tune::gemv::GEMV;
use crate::vulkan::tune::matmul::{self as table, Choice, Shape as Product, Tier};
use crate::vulkan::tune::parts::tile as parts_tile;
use crate::vulkan::tune::short::{self, Small};
pub(in crate::vulkan) use crate::vulkan::tune::{ceil, round_up};
use std::sync::Arc;

/// `dst = a @ b` over the last two axes; batch axes are already broadcast through strides.
/// dtypes float16, bfloat16, float32, complex64; `dst` is row-major contiguous.
pub fn matmul(enc: &mut CommandEncoder, a: &DeviceView, b: &DeviceView, dst: &DeviceView) -> Result<()> {
    run(enc, None, a, b, dst, 1.0, 0.0, None)
}

/// The same, where `other` does not record it: kernels of other families that take a plain product, and say whether they did.
pub(in crate::vulkan) fn matmul_or(
    enc: &mut CommandEncoder,
    other: fn(&mut CommandEncoder, &Problem) -> Result<bool>,
    [a, b, dst]: [&DeviceView; 3],
) -> Result<()> {
    match problem(None, a, b, dst, 1.0, 0.0, None)? {
        Some(p) if short::outer(p.dtype, p.k as u64) => outer(enc, [a, b, dst]),
        Some(p) if !other(enc, &p)? => solve(enc, &p),
        _ => Ok(()),
    }
}

/// `dst[:, first..first + n] = a @ b`, of a contiguous matrix, of which those columns are written.
pub fn columns(
    enc: &mut CommandEncoder,
    a: &DeviceView,
    b: &DeviceView,
    dst: &DeviceView,
    first: i64,
) -> Result<()> {
    let (m, k, n, all) = (a.shape[0], a.shape[1], b.shape[1], dst.shape[1]);
    let fits = a.ndim() == 2 && b.shape[..] == [k, n] && dst.shape[..] == [m, all] && first + n <= all;
    if !fits || !dst.is_row_contiguous() || [a.dtype, b.dtype] != [dst.dtype; 2] {
        bail!(Value, "[matmul] Columns {first} to {} of {} are no product.", first + n, show(&dst.shape));
    }
    let (left, right) = (Operand::new(a, &[]), Operand::new(b, &[]));
    let p = Problem {
        d: dst.ptr + (first * dst.dtype.size() as i64) as u64,
        d_rs: all,
        d_batch: m * all,
        ..Problem::plain(dst.dtype, [m, n, k], [left, right], dst.range())
    };
    solve(enc, &p)
}

/// `dst = alpha * (a @ b) + beta * c`; `c` has the shape of `dst`, with any strides. With `beta` zero `c`
/// is not read.
pub fn addmm(
    enc: &mut CommandEncoder,
    c: &DeviceView,
    a: &DeviceView,
    b: &DeviceView,
    dst: &DeviceView,
    alpha: f32,
    beta: f32,
) -> Result<()> {
    run(enc, Some(c), a, b, dst, alpha, beta, None)
}

/// What `code` computes from `a @ b`, or with an addend from `alpha * (a @ b) + beta * c`, and from `arrays`: its
/// other inputs in order, each without gaps. The inner dimension is at least one.
pub fn fused(
    enc: &mut CommandEncoder,
    addend: Option<(&DeviceView, f32, f32)>,
    a: &DeviceView,
    b: &DeviceView,
    dst: &DeviceView,
    code: &'static Epilogue,
    arrays: &[DeviceView],
) -> Result<()> {
    let fused = Fused::new(code, arrays);
    let (c, alpha, beta) = addend.map_or((None, 1.0, 0.0), |(c, alpha, beta)| (Some(c), alpha, beta));
    run(enc, c, a, b, dst, alpha, beta, Some(fused))
}

fn run(
    enc: &mut CommandEncoder,
    c: Option<&DeviceView>,
    a: &DeviceView,
    b: &DeviceView,
    dst: &DeviceView,
    alpha: f32,
    beta: f32,
    fused: Option<Fused>,
) -> Result<()> {
    let alone = c.is_none() && fused.is_none();
    match problem(c, a, b, dst, alpha, beta, fused)? {
        Some(p) if alone && short::outer(p.dtype, p.k as u64) => outer(enc, [a, b, dst]),
        Some(p) => solve(enc, &p),
        None => Ok(()),
    }
}

/// A product of K = 1 is one multiplication for each result, of elements that each row and each column has.
fn outer(enc: &mut CommandEncoder, [a, b, dst]: [&DeviceView; 3]) -> Result<()> {
    let repeated = |v: &DeviceView, axis: usize| {
        let mut v = DeviceView { shape: dst.shape.clone(), ..v.clone() };
        v.strides[axis] = 0;
        v
    };
    let last = dst.ndim() - 1;
    let program = Program::single(op("multiply"), &[dst.dtype; 2], dst.dtype);
    elementwise::run(enc, &program, &[repeated(a, last), repeated(b, last - 1)], std::slice::from_ref(dst))
}

/// The checked problem with its batch folded; none without results.
fn problem(
    c: Option<&DeviceView>,
    a: &DeviceView,
    b: &DeviceView,
    dst: &DeviceView,
    alpha: f32,
    beta: f32,
    fused: Option<Fused>,
) -> Result<Option<Problem>> {
    let op = if c.is_some() { "addmm" } else { "matmul" };
    let nd = dst.ndim();
    let dtype = fused.as_ref().map_or(dst.dtype, |f| f.code.from());
    if !matches!(dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::C64) {
        bail!(
            Value,
            "[{op}] Only float16, bfloat16, float32 and complex64 are supported on the GPU, got {dtype}."
        );
    }
    let same = |v: &DeviceView| v.dtype == dtype && v.ndim() == nd;
    if nd < 2 || !same(a) || !same(b) || !c.is_none_or(|c| same(c) && c.shape == dst.shape) {
        bail!(
            Value,
            "[{op}] Operands must agree in rank and dtype, got {} {}, {} {} for {} {}.",
            show(&a.shape),
            a.dtype,
            show(&b.shape),
            b.dtype,
            show(&dst.shape),
            dtype
        );
    }
    let (m, k, n) = (a.shape[nd - 2], a.shape[nd - 1], b.shape[nd - 1]);
    if dst.shape[nd - 2] != m || dst.shape[nd - 1] != n || b.shape[nd - 2] != k || !dst.is_row_contiguous() {
        bail!(
            Value,
            "[{op}] Shapes {} and {} do not give a contiguous {}.",
            show(&a.shape),
            show(&b.shape),
            show(&dst.shape)
        );
    }
    if dst.size() == 0 {
        return Ok(None);
    }
    let outer = &dst.shape[..nd - 2];
    let mut lists: SmallVec<[&[i64]; 3]> = [&a.strides[..nd - 2], &b.strides[..nd - 2]].into_iter().collect();
    if let Some(c) = c {
        lists.push(&c.strides[..nd - 2]);
    }
    let (batch, strides) = collapse(outer, &lists);
    let mut p = Problem {
        dtype,
        m,
        n,
        k,
        batch: batch.as_slice().into(),
        a: Operand::new(a, &strides[0]),
        b: Operand::new(b, &strides[1]),
        c: c.map(|c| Operand::new(c, &strides[2])),
        alpha,
        beta,
        d: dst.ptr,
        d_rs: n,
        d_batch: m * n,
        d_range: dst.range(),
        table: None,
        right_matrices: 1,
        fused,
    };
    if alpha == 1.0 && beta == 0.0 {
        p.c = None;
    }
    p.fold_batch();
    Ok(Some(p))
}

/// Cuts a problem until it fits the kernels' addressing, then runs it.
fn solve(enc: &mut CommandEncoder, p: &Problem) -> Result<()> {
    let far = |s: &i64| *s < 0 || *s >= 1 << 32;
    let (operands, results) = p.reaches();
    let odd =
        |o: &Operand, r: i64, c: i64| o.form(r, c).is_none() && o.total_reach(r, c, &p.batch) >= operands;
    let c_odd = |c: &Operand| c.rs < 0 || c.cs < 0 || c.batch.iter().any(|s| *s < 0);
    let c_far = |c: &Operand| c_odd(c) && c.total_reach(p.m, p.n, &p.batch) >= operands;
    let peel = p.batch.len() > 2
        || p.batches() >= REACH
        || p.d_batch >= 1 << 32
        || p.a.batch.iter().any(far)
        || p.b.batch.iter().any(far)
        || odd(&p.a, p.m, p.k)
        || odd(&p.b, p.k, p.n)
        || p.c.as_ref().is_some_and(|c| c_far(c) || c.batch.iter().any(|s| *s >= 1 << 32));
    if peel && !p.batch.is_empty() {
        for i in 0..p.batch[0] {
            solve(enc, &p.item(i))?;
        }
        return Ok(());
    }
    let too_far = p.m * p.d_rs.max(p.n) >= results
        || p.a.reach(p.m, p.k) >= operands
        || p.b.reach(p.k, p.n) >= operands
        || p.c.as_ref().is_some_and(|c| c.reach(p.m, p.n) >= operands);
    if p.k > 1 && (p.k - 1) * p.a.cs.abs().max(p.b.rs.abs()) >= operands {
        return by_parts_of_k(enc, p);
    }
    if too_far {
        let rows = p.m >= p.n;
        let len = if rows { p.m } else { p.n };
        if len == 1 {
            bail!(Value, "[matmul] An operand of {} elements is too large for the GPU.", p.k);
        }
        let half = if len > 512 { ceil(len / 2, 256) * 256 } else { len / 2 };
        solve(enc, &p.part(rows, 0, half))?;
        return solve(enc, &p.part(rows, half, len));
    }
    if let Some(c) = p.c.as_ref().filter(|c| c_odd(c)) {
        let c = compact(enc, p.dtype, c, p.m, p.n, &p.batch, 1)?;
        return solve(enc, &Problem { c: Some(c), ..p.clone() });
    }
    if p.k == 0 {
        return scale_addend(enc, p);
    }
    let both = p.dtype != Dtype::C64;
    let small = if both { small(enc, p) } else { None };
    if both && small.is_none() && !GEMV.disabled() && gemv::pays(enc, p) {
        let p = with_block(enc, p)?;
        return gemv::run(enc, &p);
    }
    if p.a.form(p.m, p.k).is_none() {
        let a = compact(enc, p.dtype, &p.a, p.m, p.k, &p.batch, 8)?;
        return solve(enc, &Problem { a, ..p.clone() });
    }
    if p.b.form(p.k, p.n).is_none() {
        let b = compact(enc, p.dtype, &p.b, p.k, p.n, &p.batch, 8)?;
        return solve(enc, &Problem { b, ..p.clone() });
    }
    if !both {
        return complex(enc, p);
    }
    if let Some((small, together)) = small {
        let p = with_block(enc, p)?;
        return run_short(enc, &p, small, together);
    }
    by_tiles(enc, p)
}

/// A product by the matrix units of the device, or by plain tiles; both operands are in a form.
fn by_tiles(enc: &mut CommandEncoder, p: &Problem) -> Result<()> {
    if low_rank::run(enc, p)? {
        return Ok(());
    }
    if let Some(plan) = warpgroup::plan(enc, p) {
        let p = with_block(enc, p)?;
        return match warpgroup::run(enc, &p, plan) {
            Err(Error::OutOfMemory { .. }) => tiled(enc, &p),
            done => done,
        };
    }
    let alone = Product { batch: 1, ..p.product(false) };
    let parts = parts_tile(enc.device().profile(), &alone).filter(|_| p.kind() == Table::None);
    if parts.is_some() && !p.batch.is_empty() {
        return (0..p.batch[0]).try_for_each(|i| solve(enc, &p.item(i)));
    }
    let p = with_block(enc, p)?;
    match parts {
        Some(tile) => parts::run(enc, &p, tile),
        None => tiled(enc, &p),
    }
}

/// The layout for many rows of short products, and whether all meet one right matrix.
fn small(enc: &CommandEncoder, p: &Problem) -> Option<(Small, bool)> {
    let together = p.b.batch.iter().zip(&p.batch).all(|(&s, &d)| s == 0 || d == 1);
    let shape = p.product(false);
    let small = short::small(enc.device().profile(), &shape, together)?;
    (p.kind() == Table::None).then_some((small, together))
}

/// Products whose rows a thread makes each.
fn run_short(enc: &mut CommandEncoder, p: &Problem, small: Small, together: bool) -> Result<()> {
    let [(ta, lda), (tb, ldb)] = p.forms();
    let (addmm, fused) = (p.has_addend(), p.epilogue());
    let key = MatmulKey { addmm, fused, ta, tb, ..plain(Kernel::Small { small, together }, p.dtype) };
    let pipeline = enc.device().pipeline(&key)?;
    // FITS: `short::small` asks for fewer rows than 2^32.
    let push = Push {
        lda: lda as u32,
        ldb: ldb as u32,
        k_split: p.batches() as u32,
        flags: u32::from(p.even(4)),
        ..p.push()
    };
    let work = 2.0 * (p.m * p.n * p.k * p.batches()) as f64;
    enc.describe(work, &[p.batches(), p.m, p.n, p.k]);
    let groups = ceil(p.m * p.batches(), 256) as u64;
    launch(enc, &pipeline, push, groups, 1, 1, &p.reads(), &[p.d_range])
}

/// A product whose operands lead too far along K, as the sum of two: the first one is rounded, and added to the second.
fn by_parts_of_k(enc: &mut CommandEncoder, p: &Problem) -> Result<()> {
    let half = if p.k > 512 { ceil(p.k / 2, 256) * 256 } else { p.k / 2 };
    let mut first = Problem { fused: None, ..p.inner(0, half) };
    if p.fused.is_some() {
        let bytes = (p.batches() * p.m * p.n) as usize * p.dtype.size();
        let ptr = enc.temp(bytes.next_multiple_of(16))?;
        (first.d, first.d_rs, first.d_batch, first.d_range) = (ptr, p.n, p.m * p.n, (ptr, bytes as u64));
    }
    solve(enc, &first)?;
    let mut batch: SmallVec<[i64; 4]> = SmallVec::from_elem(0, p.batch.len());
    let mut step = first.d_batch;
    for (stride, len) in batch.iter_mut().zip(&p.batch).rev() {
        *stride = step;
        step *= len;
    }
    let sum = Operand { ptr: first.d, rs: first.d_rs, cs: 1, batch, range: first.d_range };
    solve(enc, &Problem { c: Some(sum), beta: 1.0, ..p.inner(half, p.k) })
}

pub(in crate::vulkan) fn plain(kernel: Kernel, dtype: Dtype) -> MatmulKey {
    MatmulKey {
        kernel,
        dtype,
        wide: false,
        whole: false,
        addmm: false,
        partial: false,
        ta: false,
        tb: false,
        table: Table::None,
        fused: None,
        gather: None,
    }
}

/// Row-major scratch copy of an operand with rows padded by zeros to a multiple of `pad` elements.
/// Batch axes of stride zero stay so.
pub(in crate::vulkan) fn compact(
    enc: &mut CommandEncoder,
    dtype: Dtype,
    o: &Operand,
    rows: i64,
    cols: i64,
    batch: &[i64],
    pad: i64,
) -> Result<Operand> {
    let ld = round_up(cols, pad);
    let len = |i: usize| match (batch.iter().rev().nth(i), o.batch.iter().rev().nth(i)) {
        (Some(&d), Some(&s)) if s != 0 => d,
        _ => 1,
    };
    let stride = |i: usize| o.batch.iter().rev().nth(i).copied().unwrap_or(0);
    let (n0, n1) = (len(0), len(1));
    let bytes = (n0 * n1 * rows * ld) as usize * dtype.size();
    let scratch = enc.temp(bytes.next_multiple_of(16))?;
    // Address of the lowest element, and how far the first one lies above it.
    let steps = [(rows, o.rs), (cols, o.cs), (n0, stride(0)), (n1, stride(1))];
    let below: i64 = steps.iter().map(|&(d, s)| if s < 0 { (d - 1) * -s } else { 0 }).sum();
    let push = Push {
        c: o.ptr.wrapping_add_signed(-below * dtype.size() as i64),
        d: scratch,
        m: rows as u32,
        n: cols as u32,
        d_rs: ld as u32,
        d_b: (rows * ld) as u32,
        c_rs: o.rs as u32,
        c_cs: o.cs as u32,
        c_b: [stride(0) as u32, stride(1) as u32],
        nb0: n0 as u32,
        flags: below as u32,
        ..Push::default()
    };
    let pipeline = enc.device().pipeline(&plain(Kernel::Copy { scale: false }, dtype))?;
    let range = (scratch, bytes as u64);
    launch(enc, &pipeline, push, ceil(rows * ld, 256) as u64, 1, n0 * n1, &[o.range], &[range])?;
    let mut strides: SmallVec<[i64; 4]> = SmallVec::from_elem(0, o.batch.len());
    let mut step = rows * ld;
    for (s, (&d, &old)) in strides.iter_mut().zip(batch.iter().zip(&o.batch)).rev() {
        if old != 0 {
            *s = step;
            step *= d;
        }
    }
    Ok(Operand { ptr: scratch, rs: ld, cs: 1, batch: strides, range })
}

/// A product over nothing: zeros, or `beta * c`.
fn scale_addend(enc: &mut CommandEncoder, p: &Problem) -> Result<()> {
    let (rows, cols) = (p.m, p.n);
    let Some(c) = p.c.as_ref().filter(|_| p.beta != 0.0) else {
        // The result of one problem is contiguous unless it was cut, which K = 0 never needs for zeros.
        return zeros(enc, p);
    };
    if p.dtype == Dtype::C64 {
        return complex(enc, p);
    }
    let push = Push { c: c.ptr, d_rs: cols as u32, ..p.push() };
    if p.d_rs != cols {
        bail!(Value, "[addmm] A result of {rows} rows with K = 0 is too large for the GPU.");
    }
    let pipeline = enc.device().pipeline(&plain(Kernel::Copy { scale: true }, p.dtype))?;
    let groups = ceil(rows * cols, 256) as u64;
    launch(enc, &pipeline, push, groups, 1, p.batches(), &[c.range], &[p.d_range])
}

/// Zeros through the copy kernel, from rows without columns.
pub(in crate::vulkan) fn zeros(enc: &mut CommandEncoder, p: &Problem) -> Result<()> {
    let mut push = p.push();
    (push.n, push.c, push.c_rs, push.c_cs, push.nb0) = (0, p.d, 0, 0, 1);
    let pipeline = enc.device().pipeline(&plain(Kernel::Copy { scale: false }, p.dtype))?;
    let groups = ceil(p.m * p.d_rs, 256) as u64;
    launch(enc, &pipeline, push, groups, 1, p.batches(), &[], &[p.d_range])
}

fn complex(enc: &mut CommandEncoder, p: &Problem) -> Result<()> {
    let [(ta, lda), (tb, ldb)] = p.forms();
    let key = MatmulKey { addmm: p.has_addend(), ta, tb, ..plain(Kernel::Complex, p.dtype) };
    let pipeline = enc.device().pipeline(&key)?;
    let push = Push { lda: lda as u32, ldb: ldb as u32, ..p.push() };
    let groups = (ceil(p.m, 16) * ceil(p.n, 16)) as u64;
    let work = 8.0 * p.m as f64 * p.n as f64 * p.k as f64 * p.batches() as f64;
    enc.describe(work, &[p.batches(), p.m, p.n, p.k]);
    launch(enc, &pipeline, push, groups, 1, p.batches(), &p.reads(), &[p.d_range])
}

/// The product with K contiguous and padded with zeros in both operands, so that the padding adds nothing; operands
/// that are `whole` already stay where K is.
fn padded(enc: &mut CommandEncoder, p: &Problem, whole_a: bool, whole_b: bool) -> Result<Problem> {
    let mut padded = p.clone();
    if !whole_a || p.k % 8 != 0 {
        padded.a = compact(enc, p.dtype, &p.a, p.m, p.k, &p.batch, 8)?;
    }
    if !whole_b || p.k % 8 != 0 {
        padded.b = compact(enc, p.dtype, &p.b.transposed(), p.n, p.k, &p.batch, 8)?.transposed();
    }
    padded.k = round_up(p.k, 8);
    Ok(padded)
}

pub(in crate::vulkan) fn tiled(enc: &mut CommandEncoder, p: &Problem) -> Result<()> {
    let [(ta, lda), (tb, ldb)] = p.forms();
    let wide_a = p.a.aligned(p.dtype, lda);
    let wide_b = p.b.aligned(p.dtype, ldb);
    let whole_a = wide_a && (if ta { p.m } else { p.k }) % 8 == 0;
    let whole_b = wide_b && (if tb { p.k } else { p.n }) % 8 == 0;
    let kind = p.kind();
    // A part of K may begin anywhere, and so may a run of rows: neither may be the contiguous axis then.
    let free = match kind {
        Table::Segments => ta && !tb,
        Table::Runs => !ta,
        Table::None | Table::Gather => true,
    };
    let aligned = whole_a && whole_b && free && (p.k % 8 == 0 || kind == Table::Segments);
    let device = enc.device();
    let mut choice = match kind {
        Table::Runs => table::choose_flat(device.profile(), &p.product(aligned), p.run_length()),
        Table::None | Table::Gather | Table::Segments => table::choose(device.profile(), &p.product(aligned)),
    };
    if matches!(kind, Table::Runs | Table::Segments) {
        (choice.k_split, choice.splits) = (p.k as u32, 1);
    }
    let work = 2.0 * p.m as f64 * p.n as f64 * p.k as f64 * p.batches() as f64;
    if kind == Table::None
        && !aligned
        && table::pads(device.profile(), work)
        && table::choose(device.profile(), &p.product(true)).tier != Tier::Tiled
    {
        let padded = padded(enc, p, whole_a, whole_b)?;
        return tiled(enc, &padded);
    }
    let Choice { tier, tile, k_split, splits } = choice;
    let partial = splits > 1;
    let vector = 16 / p.dtype.size() as i64;
    let kernel = match tier {
        Tier::Nv2 => Kernel::Nv2 { tile, d8: p.even(vector), dims: None },
        Tier::Khr => Kernel::Khr { tile },
        Tier::Tiled => Kernel::Tiled { tile },
    };
    let general = MatmulKey {
        kernel,
        dtype: p.dtype,
        wide: wide_a && wide_b && free,
        whole: aligned && tier == Tier::Khr,
        addmm: p.has_addend() && !partial,
        partial,
        ta,
        tb,
        table: kind,
        fused: p.epilogue().filter(|_| !partial),
        gather: None,
    };
    // Dimensions of runs and segments change with the indices.
    let special = table::specialises(device.profile(), work) && matches!(kind, Table::None | Table::Gather);
    let pipeline = if let (Kernel::Nv2 { d8, .. }, true) = (kernel, special) {
        let dims = [p.m, p.n, p.k, lda, ldb, p.d_rs, i64::from(k_split)].map(|v| v as u32);
        let special = MatmulKey { kernel: Kernel::Nv2 { tile, d8, dims: Some(dims) }, ..general };
        pipeline_for(device, &general, special)?
    } else {
        device.pipeline(&general)?
    };
    let push = Push { lda: lda as u32, ldb: ldb as u32, k_split, flags: u32::from(p.even(4)), ..p.push() };
    let groups = table::tiles(&p.product(aligned), tile);
    enc.describe(work, &[p.batches(), p.m, p.n, p.k]);
    launch_parts(enc, p, &pipeline, [push, p.push()], groups, splits)
}

/// Runs a kernel of a product over `groups` tiles and `splits` parts of K; several write their sums into scratch, and are
/// added from there, by the second of the blocks.
pub(in crate::vulkan) fn launch_parts(
    enc: &mut CommandEncoder,
    p: &Problem,
    pipeline: &Arc<Pipeline>,
    [push, add]: [Push; 2],
    groups: u64,
    splits: u32,
) -> Result<()> {
    if splits == 1 {
        return launch(enc, pipeline, push, groups, 1, p.batches(), &p.reads(), &[p.d_range]);
    }
    let sums = scratch_sums(enc, p.m * p.n * p.batches(), splits)?;
    let first = Push { d: sums.0, ..push };
    launch(enc, pipeline, first, groups, splits, p.batches(), &p.reads(), &[sums])?;
    add_parts(enc, p, add, sums, splits)
}

/// Scratch for the float32 sums of `splits` parts of `size` results.
pub(in crate::vulkan) fn scratch_sums(
    enc: &mut CommandEncoder,
    size: i64,
    splits: u32,
) -> Result<(u64, u64)> {
    let bytes = size as usize * splits as usize * 4;
    Ok((enc.temp(bytes)?, bytes as u64))
}

/// Adds the parts in order into the result; `push` describes the result and the addend.
pub(in crate::vulkan) fn add_parts(
    enc: &mut CommandEncoder,
    p: &Problem,
    push: Push,
    sums: (u64, u64),
    splits: u32,
) -> Result<()> {
    let key = MatmulKey { addmm: p.has_addend(), fused: p.epilogue(), ..plain(Kernel::Reduce, p.dtype) };
    let mut reads: SmallVec<[(u64, u64); 2]> = SmallVec::from_slice(&[sums]);
    reads.extend(p.c.as_ref().map(|c| c.range));
    reads.extend(p.fused_reads());
    add_sums(enc, &key, push, splits, p.batches(), &reads, p.d_range)
}

/// Adds `splits` float32 sums of each result, of which the first range of `reads` has those of the first part.
pub(in crate::vulkan) fn add_sums(
    enc: &mut CommandEncoder,
    key: &MatmulKey,
    push: Push,
    splits: u32,
    batches: i64,
    reads: &[(u64, u64)],
    write: (u64, u64),
) -> Result<()> {
    let push = Push { a: reads[0].0, k_split: splits, ..push };
    let pipeline = enc.device().pipeline(key)?;
    let groups = (u64::from(push.m) * u64::from(push.n)).div_ceil(256);
    launch(enc, &pipeline, push, groups, 1, batches, reads, &[write])
}
